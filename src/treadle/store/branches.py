"""Sessions as wholes: another generation, a way back, a way aside, an end; each one transaction.

Knows nothing of runs, engines or threads beyond removing a binding. Entries are neither moved nor
copied: a generation that keeps some of them gets a branch that leaves the branch where the last of
them lies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from treadle.clock import Clock, Ids
from treadle.contract.events import GLOBAL_STREAM
from treadle.contract.lives import LifeStore, Place, Turnover, session_busy
from treadle.contract.store import Binding, OpenTurn, SessionRecord
from treadle.model.errors import InvalidCut, NotFound, SessionExists
from treadle.model.ids import EntryId, SessionId, SessionKey, StreamId
from treadle.model.json import JsonValue
from treadle.model.message import TOOL_RESULT, EntryKind, Message, NewEntry, call_ids
from treadle.model.session import Origin
from treadle.store.driver import Connection, Driver, Row
from treadle.store.events import SqlEvents
from treadle.store.rows import decoded, prepared
from treadle.store.sessions import (
    SESSION_PREFIX,
    Fork,
    NewGeneration,
    add_generation,
    existing_session,
    tell_of_session,
)
from treadle.store.snapshot import Segment, segments_of
from treadle.store.threads import clear_binding, read_binding
from treadle.store.transcript import Appender

T = TypeVar("T")

UNSETTLED: Final = (
    "The session went on without this turn before it was known what became of it. Whether a tool"
    " did something is unknown."
)

DELETED: Final = "deleted:"
"""Begins the key under which a deleted session is kept; no key that anybody can give does."""


class SqlLives(LifeStore):
    """`LifeStore` over a driver."""

    def __init__(self, driver: Driver, events: SqlEvents, *, clock: Clock, ids: Ids) -> None:
        self._driver = driver
        self._events = events
        self._clock = clock
        self._ids = ids

    async def reset(self, key: SessionKey) -> Turnover:
        """See `LifeStore`."""

        def change(connection: Connection) -> Turnover:
            before = existing_session(connection, key)
            return self._turned_over(connection, before, "reset", Fork(), before.entry_count)

        return await self._written(change, key)

    async def rewind(self, key: SessionKey, to: Place) -> Turnover:
        """See `LifeStore`."""

        def change(connection: Connection) -> Turnover:
            before = existing_session(connection, key)
            active = _active_path(connection, before.id)
            last = _place(connection, before, active, to)
            left = before.entry_count - _shared(active, _path_to(connection, last))
            if left == 0 and last.depth + 1 == before.entry_count:
                return Turnover(before=before, after=before)
            fork = _fork_after(connection, last)
            return self._turned_over(connection, before, "rewind", fork, left)

        return await self._written(change, key)

    async def branch(
        self, key: SessionKey, new_key: SessionKey, *, at: Place | None = None
    ) -> SessionRecord:
        """See `LifeStore`."""

        def change(connection: Connection) -> SessionRecord:
            source = existing_session(connection, key)
            if connection.one("session_by_key", key=new_key) is not None:
                raise _exists(new_key)
            fork = Fork()
            if source.entry_count > 0 or at is not None:
                active = _active_path(connection, source.id)
                place = source.entry_count - 1 if at is None else at
                fork = _fork_after(connection, _place(connection, source, active, place))
            session_id, now = self._ids.new(SESSION_PREFIX), self._clock.now()
            connection.run("copy_session", key=key, new_key=new_key, session_id=session_id, now=now)
            new = NewGeneration(
                key=new_key, session_id=session_id, number=1, origin="branch", fork=fork
            )
            add_generation(connection, new, now)
            made = existing_session(connection, new_key)
            tell_of_session(self._events, connection, "session.created", made)
            tell_of_session(
                self._events,
                connection,
                "session.branched",
                source,
                to_key=new_key,
                entry_id=fork.head,
            )
            return made

        return await self._written(change, key, new_key)

    async def delete(self, key: SessionKey) -> Turnover:
        """See `LifeStore`."""

        def change(connection: Connection) -> Turnover:
            before = existing_session(connection, key)
            given_up = self._ended(connection, before)
            names = {"key": key, "new_key": f"{DELETED}{before.id}"}
            connection.run("set_aside_session", key=key)
            connection.run(
                "add_deleted_session", session_id=before.id, now=self._clock.now(), **names
            )
            for move in ("move_generations", "move_inbox", "move_deliveries"):
                connection.run(move, **names)
            connection.run("drop_session", key=key)
            connection.run("drop_events", stream=key)
            connection.run("renew_stream", stream=key)
            tell_of_session(self._events, connection, "session.deleted", before)
            return Turnover(
                before=before, after=None, given_up=given_up, left_behind=before.entry_count
            )

        return await self._written(change, key)

    def _turned_over(
        self, connection: Connection, before: SessionRecord, origin: Origin, fork: Fork, left: int
    ) -> Turnover:
        given_up = self._ended(connection, before)
        session_id, now = self._ids.new(SESSION_PREFIX), self._clock.now()
        number = before.generation + 1
        new = NewGeneration(
            key=before.key, session_id=session_id, number=number, origin=origin, fork=fork
        )
        add_generation(connection, new, now)
        connection.run(
            "activate_generation", key=before.key, session_id=session_id, generation=number
        )
        connection.run("touch_session", key=before.key, now=now)
        after = existing_session(connection, before.key)
        connection.run("renew_stream", stream=before.key)
        tell_of_session(
            self._events,
            connection,
            "session.reset" if origin == "reset" else "session.rewound",
            after,
            previous_id=before.id,
            entry_id=fork.head,
            left_behind=left,
            binding="dropped" if given_up is not None else "none",
        )
        return Turnover(before=before, after=after, given_up=given_up, left_behind=left)

    async def _written(self, job: Callable[[Connection], T], *keys: SessionKey) -> T:
        try:
            return await self._driver.write(job)
        finally:
            self._events.told(*map(StreamId, keys), GLOBAL_STREAM)

    def _ended(self, connection: Connection, ended: SessionRecord) -> Binding | None:
        """End a generation: nobody may write it any more, and no thread is bound to it."""
        row = connection.one("open_messages", key=ended.key)
        if row is not None and row[0] > 0:
            raise session_busy(ended.key, row[0])
        session_id, now = ended.id, self._clock.now()
        connection.run("fence_generation", session_id=session_id, now=now)
        binding = read_binding(connection, session_id)
        if binding is None:
            return None
        if binding.open_turn is not None:
            notice = _unsettled(binding.open_turn)
            Appender(connection, session_id, self._ids, now).add(prepared([notice]))
        clear_binding(connection, session_id, binding.thread_id, now)
        return binding


def _unsettled(turn: OpenTurn) -> NewEntry:
    """Return the entry that says that nobody will find out what became of a turn (INV-1)."""
    return NewEntry(
        key=f"treadle:run:{turn.run_id}:unknown",
        message=Message(role="notice", content=[{"type": "text", "text": UNSETTLED}]),
        kind=EntryKind.NOTICE,
        run_id=turn.run_id,
        meta={"notice": "unknown"},
    )


# ---------------------------------------------------------------------------------------- places


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placed:
    """An entry and where it lies."""

    id: EntryId
    branch: int
    depth: int
    run_id: str | None
    turn_id: str | None
    message: Message
    session_key: str


def _placed(row: Row) -> _Placed:
    content: JsonValue = decoded(row[6])
    return _Placed(
        id=EntryId(row[0]),
        branch=row[1],
        depth=row[2],
        run_id=row[3],
        turn_id=row[4],
        message=Message(role=row[5], content=content),
        session_key=row[7],
    )


def _active_path(connection: Connection, session_id: SessionId) -> tuple[Segment, ...]:
    return segments_of(connection.rows("branch_path", session_id=session_id))


def _path_to(connection: Connection, last: _Placed) -> list[Segment]:
    """Return the path that ends with an entry."""
    path = segments_of(connection.rows("path_of_branch", branch=last.branch))
    stop = last.depth + 1
    return [
        replace(part, stop_depth=min(part.stop_depth, stop))
        for part in path
        if part.start_depth < stop
    ]


def _place(
    connection: Connection, session: SessionRecord, active: Sequence[Segment], where: Place
) -> _Placed:
    """Find an entry behind which the session may be cut. Raises: NotFound, InvalidCut."""
    if isinstance(where, int):
        found = _at_depth(connection, active, where)
        if found is None:
            there = f"0 to {session.entry_count - 1}" if session.entry_count else "none yet"
            raise _no_entry(session, f"number {where}", f"its entries are {there}")
    else:
        row = connection.one("entry_place", id=where)
        found = None if row is None else _placed(row)
        if found is None or not (_holds(active, found) or found.session_key == session.key):
            raise _no_entry(session, repr(where), "it is not among its entries")
    _check_cut(connection, session, found)
    return found


def _at_depth(connection: Connection, active: Sequence[Segment], depth: int) -> _Placed | None:
    for part in active:
        if part.start_depth <= depth < part.stop_depth:
            row = connection.one("entry_place_in", branch=part.branch, depth=depth)
            return None if row is None else _placed(row)
    return None


def _holds(path: Sequence[Segment], entry: _Placed) -> bool:
    return any(
        part.branch == entry.branch and part.start_depth <= entry.depth < part.stop_depth
        for part in path
    )


def _shared(active: Sequence[Segment], to: Sequence[Segment]) -> int:
    """Return how many entries two paths have in common, from the first one on."""
    common = 0
    for one, other in zip(active, to, strict=False):
        if one.branch != other.branch:
            break
        common = min(one.stop_depth, other.stop_depth)
        if one.stop_depth != other.stop_depth:
            break
    return common


def _check_cut(connection: Connection, session: SessionRecord, last: _Placed) -> None:
    """Pass if no turn and no call is parted from its end. Raises: InvalidCut."""
    row = connection.one("entry_place_in", branch=last.branch, depth=last.depth + 1)
    if row is None or not _goes_on(last, _placed(row)):
        return
    hint = "Name the last entry of a turn."
    span = connection.one("run_span", branch=last.branch, run_id=last.run_id)
    if span is not None and span[0] is not None:
        ends = [str(depth) for depth in (span[0] - 1, span[1]) if depth >= 0]
        hint = f"Cut behind entry {' or '.join(ends)}."
    raise InvalidCut(
        f"session {session.key!r} cannot be cut behind entry {last.depth}:"
        " the turn goes on with the next one; nothing was changed",
        next_step=hint,
        session_key=session.key,
        entry_id=last.id,
        depth=last.depth,
    )


def _goes_on(last: _Placed, following: _Placed) -> bool:
    """Whether what follows belongs to the turn of the last one, or answers a call of it."""
    same_run = last.run_id is not None and last.run_id == following.run_id
    same_turn = last.turn_id is not None and last.turn_id == following.turn_id
    answers = following.message.role == TOOL_RESULT or bool(call_ids(last.message))
    return same_run or same_turn or answers


def _fork_after(connection: Connection, last: _Placed) -> Fork:
    row = connection.one("positions_up_to", branch=last.branch, depth=last.depth)
    assert row is not None, "the query always answers"
    return Fork(parent=last.branch, depth=last.depth + 1, position=row[0], head=last.id)


# ---------------------------------------------------------------------------------------- errors


def _no_entry(session: SessionRecord, what: str, found: str) -> NotFound:
    return NotFound(
        f"session {session.key!r} has no entry {what}: {found}",
        next_step=f"treadle sessions show {session.key} numbers them.",
        session_key=session.key,
    )


def _exists(key: SessionKey) -> SessionExists:
    return SessionExists(
        f"there is a session {key!r} already; nothing was changed",
        next_step="Choose another name.",
        session_key=key,
    )
