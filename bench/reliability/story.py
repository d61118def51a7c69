"""The clean history into which faults are planted, told as a right product would leave it.

Two sessions over two gateways, the first of which was killed with its codex while two messages were
under way: one left nothing on its thread and is tried again, of the other a tool had run, so that
its outcome is unknown. Knows nothing of the rules.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from bench.reliability.history import (
    Acked,
    Asked,
    BindingRow,
    CommitRow,
    Database,
    Decoy,
    DeliveryRow,
    EngineCall,
    EntryRow,
    Fault,
    FaultKind,
    History,
    InboxRow,
    Noticed,
    Process,
    Received,
    Sent,
    Shown,
    Snapshot,
    Told,
)

GATEWAYS: Final = (100, 200)
CODEX: Final = (101, 201)
KILLED_AT: Final = 300
"""The first gateway and its codex end here; the second one serves from 310 on."""


class Story:
    """Writes down what a right product does, message by message."""

    def __init__(self) -> None:
        self.lists: dict[str, list[Any]] = {
            name: [] for name in History.__dataclass_fields__ if name not in _SINGLE
        }
        self.rows: dict[str, list[Any]] = {
            name: [] for name in ("inbox", "entries", "commits", "deliveries", "bindings")
        }
        self._heads: dict[str, int] = {}

    def say(self, session: str, message: str, at: int) -> None:
        """The client sends a message and is told that it is accepted."""
        seq = len(self.rows["inbox"]) + 1
        place = {"session": session, "client_id": f"c-{message}"}
        self.lists["sent"].append(Sent(at=at, t=at / 10, message=message, **place))
        self.lists["acked"].append(Acked(at=at + 1, t=at / 10, run_id=f"run-{message}", **place))
        self.rows["inbox"].append(
            InboxRow(seq=seq, run_id=f"run-{message}", state="answered", **place)
        )

    def ask(self, session: str, message: str, at: int, codex: int, turn: str = "") -> None:
        """The engine assembles and the model is asked."""
        self.lists["engine"].append(
            EngineCall(at=at, call="assemble", session=session, message=message)
        )
        held = [mark for entry in self.entries_of(session) for mark in entry.marks]
        marks = tuple(dict.fromkeys([*held, f"m:{message}"]))
        asked = Asked(
            at=at + 1,
            message=message,
            thread_id=f"thread-{session}",
            turn_id=turn or f"turn-{message}",
            process=codex,
            marks=marks,
        )
        self.lists["asked"].append(asked)
        if not turn:
            self._entry(session, message, "user", f"m:{message}", "")

    def end(self, session: str, message: str, at: int, turn: str = "") -> None:
        """The answer is stored, committed, delivered and told."""
        turn = turn or f"turn-{message}"
        run = f"run-{message}"
        self.lists["effects"].append(message)
        self._entry(session, message, "tool", "", turn)
        reply = self._entry(session, message, "assistant", f"r:{message}", turn)
        for effect in (True, False):  # it is called again with the same key: no effect any more
            self.lists["engine"].append(
                EngineCall(
                    at=at + 1 - effect,
                    call="commit",
                    session=session,
                    message=message,
                    key=f"key-{message}",
                    payload_hash=f"hash-{message}",
                    effect=effect,
                )
            )
        self.rows["commits"].append(
            CommitRow(
                seq=len(self.rows["commits"]) + 1,
                session=session,
                run_id=run,
                key=f"key-{message}",
                state="committed",
            )
        )
        self.rows["deliveries"].append(
            DeliveryRow(
                id=f"delivery-{message}",
                run_id=run,
                destination="desk",
                reply=f"reply-{message}",
                state="done",
                entry_id=reply.id,
            )
        )
        self.lists["shown"].append(Shown(at=at + 2, destination="desk", reply=f"reply-{message}"))
        self.lists["told"].append(
            Told(at=at + 3, t=(at + 3) / 10, session=session, run_id=run, state="answered")
        )
        self._heads[session] = self._heads.get(session, 0) + 1
        self.lists["received"].append(
            Received(
                at=at + 3, subscription="all", stream=session, epoch=1, seq=self._heads[session]
            )
        )
        self.look(session, at + 4)

    def look(self, session: str, at: int) -> None:
        """The client is shown the transcript."""
        entries = tuple(f"{one.id} {one.content_hash}" for one in self.entries_of(session))
        self.lists["snapshots"].append(
            Snapshot(at=at, session=session, session_id=f"{session}-1", entries=entries)
        )

    def entries_of(self, session: str) -> list[EntryRow]:
        """The transcript as it stands."""
        return [entry for entry in self.rows["entries"] if entry.session == session]

    def lose(self, session: str, message: str, at: int) -> None:
        """Whether a tool did more is not known: an entry says so, and the client is told."""
        run_id = f"run-{message}"
        self.lists["effects"].append(message)
        self._entry(session, message, "tool", "", f"turn-{message}")
        self._entry(session, message, "notice", "", "")
        at_row = next(n for n, row in enumerate(self.rows["inbox"]) if row.run_id == run_id)
        self.rows["inbox"][at_row] = replace(self.rows["inbox"][at_row], state="unknown")
        self.lists["noticed"].append(Noticed(at=at, session=session, run_id=run_id))
        told = Told(at=at + 1, t=at / 10, session=session, run_id=run_id, state="unknown")
        self.lists["told"].append(told)
        self.look(session, at + 2)

    def _entry(self, session: str, message: str, role: str, mark: str, turn: str) -> EntryRow:
        depth = len(self.entries_of(session))
        entry = EntryRow(
            session=session,
            session_id=f"{session}-1",
            depth=depth,
            id=f"{session}-entry-{depth}",
            key=f"{message}-{role}-{turn}",
            kind="notice" if role == "notice" else "message",
            role=role,
            content_hash=f"hash-{depth}",
            run_id=f"run-{message}",
            turn_id=turn,
            marks=(mark,) if mark else (),
        )
        self.rows["entries"].append(entry)
        return entry

    def history(self) -> History:
        """What everybody wrote down."""
        lists: dict[str, Any] = {name: tuple(values) for name, values in self.lists.items()}
        rows: dict[str, Any] = {name: tuple(values) for name, values in self.rows.items()}
        return History(seed=0, ended_at=900, ended_t=90.0, database=Database(**rows), **lists)


_SINGLE: Final = frozenset({"seed", "ended_at", "ended_t", "database"})


def clean_history() -> History:
    """Return what a product that keeps its promises may leave behind."""
    story = Story()
    first, second = GATEWAYS
    story.lists["processes"] += [
        Process(
            kind="gateway",
            pid=first,
            started_at=1,
            ready_at=5,
            ready_t=0.5,
            ended_at=KILLED_AT,
            ended_t=30.0,
        ),
        Process(kind="codex", pid=CODEX[0], started_at=10, ended_at=301, gateway=first),
        Process(
            kind="gateway",
            pid=second,
            started_at=302,
            ready_at=310,
            ready_t=31.0,
            ended_at=890,
            ended_t=89.0,
        ),
        Process(kind="codex", pid=CODEX[1], started_at=320, ended_at=891, gateway=second),
    ]
    story.lists["faults"] += [
        _kill("kill_gateway", first),
        _kill("kill_codex", CODEX[0]),
        Fault(kind="damaged", at=303, t=30.1, until_at=304, until_t=30.2, before="h", after="h"),
    ]
    story.lists["decoys"].append(Decoy(pid=999, command="codex app-server", alive=True))
    story.rows["bindings"] += [
        BindingRow(session=session, thread_id=f"thread-{session}") for session in ("a", "b")
    ]
    story.say("a", "a1", 20)
    story.say("b", "b1", 25)
    story.say("a", "a2", 30)
    story.ask("a", "a1", 40, CODEX[0])
    story.ask("b", "b1", 42, CODEX[0])
    story.end("a", "a1", 50)
    story.end("b", "b1", 60)
    story.say("b", "b2", 90)
    story.ask("a", "a2", 100, CODEX[0])
    story.ask("b", "b2", 105, CODEX[0])
    story.say("a", "a3", 110)
    # The kill. Of a2 the thread shows nothing but the message: it is tried again. A tool of b2 ran.
    story.lose("b", "b2", 330)
    story.ask("a", "a2", 340, CODEX[1], turn="turn-a2-again")
    story.end("a", "a2", 350, turn="turn-a2-again")
    story.ask("a", "a3", 360, CODEX[1])
    story.end("a", "a3", 370)
    story.say("b", "b3", 380)
    story.ask("b", "b3", 390, CODEX[1])
    story.end("b", "b3", 400)
    return story.history()


def _kill(kind: FaultKind, process: int) -> Fault:
    at, t = KILLED_AT - 1, 29.9
    return Fault(kind=kind, at=at, t=t, until_at=at, until_t=t, process=process)
