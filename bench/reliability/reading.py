"""Read afterwards what a run left: the store, the engine's commits, the log. Decides nothing.

The store is read with plain SQL, as somebody else would: no code of Treadle's stands between its
tables and the checker.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import apsw
import msgspec

from bench.reliability.history import (
    KILLS,
    Acked,
    Asked,
    BindingRow,
    CancelAsked,
    CommitRow,
    Database,
    Decoy,
    DeliveryRow,
    EngineCall,
    EntryRow,
    Fault,
    History,
    InboxRow,
    Left,
    Noticed,
    Process,
    Received,
    Sent,
    Shown,
    Snapshot,
    Told,
    marks_in,
)

T = TypeVar("T")
Line = dict[str, Any]

NEVER: Final = 2**62
"""The number of an end that nobody saw."""


def read_log(path: Path) -> list[Line]:
    """Return the lines of the log server, in order."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def read_store(path: Path, faults: Iterable[str] = ()) -> Database:
    """Return the tables that the rules look at; `faults` are what the store's own check found."""
    raw = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return Database(
            inbox=tuple(_inbox(raw)),
            entries=tuple(_entries(raw)),
            commits=tuple(_commits(raw)),
            deliveries=tuple(_deliveries(raw)),
            bindings=tuple(_bindings(raw)),
            faults=(*_integrity(raw), *faults),
        )
    finally:
        raw.close()


def _integrity(raw: apsw.Connection) -> list[str]:
    found = [str(row[0]) for row in raw.execute("PRAGMA integrity_check(20)")]
    return [] if found == ["ok"] else found


def _inbox(raw: apsw.Connection) -> Iterator[InboxRow]:
    for seq, session, client_id, run_id, state in raw.execute(
        "SELECT seq, session_key, client_message_id, run_id, state FROM inbox ORDER BY seq"
    ):
        yield InboxRow(seq=seq, session=session, client_id=client_id, run_id=run_id, state=state)


def _entries(raw: apsw.Connection) -> Iterator[EntryRow]:
    """Yield the entries on the active branch of each generation and on those above it."""
    rows = raw.execute(
        """
        WITH RECURSIVE path (session_id, branch, stop) AS (
          SELECT session_id, branch, 1 << 60 FROM generations
          UNION ALL
          SELECT p.session_id, b.parent, min(p.stop, b.fork_depth)
          FROM path p JOIN branches b ON b.branch = p.branch WHERE b.parent IS NOT NULL
        )
        SELECT g.session_key, p.session_id, e.depth, e.id, e.key, e.kind, e.role, e.content_hash,
          e.run_id, e.turn_id, e.content
        FROM path p
        JOIN entries e ON e.branch = p.branch AND e.depth < p.stop
        JOIN generations g ON g.session_id = p.session_id
        ORDER BY p.session_id, e.depth
        """
    )
    for (
        session,
        session_id,
        depth,
        entry_id,
        key,
        kind,
        role,
        digest,
        run_id,
        turn_id,
        text,
    ) in rows:
        yield EntryRow(
            session=session,
            session_id=session_id,
            depth=depth,
            id=entry_id,
            key=key,
            kind=kind,
            role=role,
            content_hash=digest,
            run_id=run_id or "",
            turn_id=turn_id or "",
            marks=marks_in(json.dumps(json.loads(text), ensure_ascii=False)),
        )


def _commits(raw: apsw.Connection) -> Iterator[CommitRow]:
    for seq, session, run_id, key, state in raw.execute(
        "SELECT o.seq, g.session_key, o.run_id, o.advancement_key, o.state FROM engine_outbox o"
        " JOIN generations g ON g.session_id = o.session_id ORDER BY o.seq"
    ):
        yield CommitRow(seq=seq, session=session, run_id=run_id, key=key, state=state)


def _deliveries(raw: apsw.Connection) -> Iterator[DeliveryRow]:
    for row_id, run_id, destination, state, entry_id in raw.execute(
        "SELECT id, run_id, destination, state, entry_id FROM deliveries ORDER BY seq"
    ):
        yield DeliveryRow(
            id=row_id,
            run_id=run_id,
            destination=destination,
            reply=row_id,
            state=state,
            entry_id=entry_id or "",
        )


def _bindings(raw: apsw.Connection) -> Iterator[BindingRow]:
    for session, thread_id in raw.execute(
        "SELECT s.key, b.thread_id FROM sessions s JOIN bindings b ON b.session_id = s.session_id"
    ):
        yield BindingRow(session=session, thread_id=thread_id or "")


def read_effects(path: Path) -> frozenset[str]:
    """Return the keys of the commits that the engine's own database holds."""
    if not path.exists():
        return frozenset()
    raw = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return frozenset(str(row[0]) for row in raw.execute("SELECT key FROM commits"))
    finally:
        raw.close()


def history_from(
    lines: list[Line],
    database: Database,
    committed: frozenset[str],
    *,
    seed: int,
    left: Iterable[Left] = (),
    decoys: Iterable[Decoy] = (),
) -> History:
    """Put together what was written down. Raises: ValueError for a commit that no call made."""
    said: defaultdict[tuple[str, str], list[Line]] = defaultdict(list)
    for line in lines:
        said[line["who"], line["what"]].append(line)
    last: Line = lines[-1] if lines else {"at": 0, "t": 0.0}
    return History(
        seed=seed,
        ended_at=last["at"],
        ended_t=last["t"],
        sent=_all(Sent, said["client", "sent"]),
        acked=_all(Acked, said["client", "acked"]),
        cancels=_all(CancelAsked, said["client", "cancel"]),
        told=_all(Told, said["client", "told"]),
        noticed=_all(Noticed, said["client", "noticed"]),
        snapshots=_all(Snapshot, said["client", "snapshot"]),
        received=_all(Received, said["client", "received"]),
        asked=_all(Asked, said["model", "asked"]),
        engine=_engine_calls(said, committed),
        effects=_effects([*said["command", "effect"], *said["engine", "effect"]]),
        shown=_all(Shown, said["channel", "shown"]),
        faults=_faults(said["nemesis", "began"], said["nemesis", "ended"]),
        processes=_processes(said),
        left=tuple(left),
        decoys=tuple(decoys),
        database=database,
    )


def _all(kind: type[T], lines: list[Line]) -> tuple[T, ...]:
    """Return lines as records of a kind; what a line says beside its fields is dropped."""
    return tuple(msgspec.convert(line, kind) for line in lines)


def _engine_calls(
    said: dict[tuple[str, str], list[Line]], committed: frozenset[str]
) -> tuple[EngineCall, ...]:
    """Return the calls; the first one with a key that the database holds had the effect.

    A later call of that key may have been the one that inserted it, where the first was killed
    before; the order of a session's commits is the same either way.
    """
    calls = [
        EngineCall(at=line["at"], call="assemble", session=line["session"], message=line["message"])
        for line in said["engine", "assemble"]
    ]
    waiting = set(committed)
    for line in said["engine", "commit"]:
        effect = line["key"] in waiting
        waiting.discard(line["key"])
        fields = {name: line[name] for name in ("session", "message", "key", "payload_hash")}
        calls.append(EngineCall(at=line["at"], call="commit", effect=effect, **fields))
    if waiting:
        raise ValueError(f"the engine holds commits that nobody called for: {sorted(waiting)}")
    return tuple(sorted(calls, key=lambda call: call.at))


def _effects(lines: list[Line]) -> tuple[str, ...]:
    return tuple(line["text"].removeprefix("e:") for line in lines)


def _faults(began: list[Line], ended: list[Line]) -> tuple[Fault, ...]:
    """Join the two lines of each fault by its number; one that never ended lasts to the end."""
    ends = {line["number"]: line for line in ended}
    found = []
    for line in began:
        momentary = line["kind"] in KILLS
        end = ends.get(line["number"], line if momentary else {"at": NEVER, "t": float(NEVER)})
        found.append(
            Fault(
                kind=line["kind"],
                at=line["at"],
                t=line["t"],
                until_at=end["at"],
                until_t=end["t"],
                session=line.get("session", ""),
                process=line.get("process", 0),
                before=end.get("before", ""),
                after=end.get("after", ""),
            )
        )
    return tuple(found)


def _processes(said: dict[tuple[str, str], list[Line]]) -> tuple[Process, ...]:
    """Join beginnings and ends by pid: each end belongs to the newest life before it."""
    found = []
    for kind in ("gateway", "codex"):
        ends = said[kind, "ended"]
        for line in said[kind, "started"]:
            pid, begun = line["pid"], line["at"]
            end = next((one for one in ends if one["pid"] == pid and one["at"] > begun), None)
            until = NEVER if end is None else end["at"]
            ready = next(
                (
                    one
                    for one in said[kind, "ready"]
                    if one["pid"] == pid and begun < one["at"] < until
                ),
                None,
            )
            found.append(
                Process(
                    kind=kind,
                    pid=pid,
                    started_at=begun,
                    ended_at=until,
                    ended_t=0.0 if end is None else end["t"],
                    ready_at=0 if ready is None else ready["at"],
                    ready_t=0.0 if ready is None else ready["t"],
                    gateway=line.get("gateway", 0),
                )
            )
    return tuple(sorted(found, key=lambda one: one.started_at))
