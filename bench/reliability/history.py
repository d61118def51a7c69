"""What everybody wrote down of one run under faults. Pure records, which JSON can hold.

Each log is its keeper's own: the client's, the model's, the engine's, the channel's, the fault
maker's, and, read afterwards, the database and the processes. `at` is the number that the one log
server gave to a line: the order of things, whoever wrote them. `t` is its time in seconds of a
monotonic clock, for the few promises that are about time.

A *message* here is the nonce of a message: the same in the client's text (`«m:…»`), the model's
answer (`«r:…»`) and its side effect (`e:…`). Knows nothing of what is right.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

MARK: Final = re.compile(r"«([mr]):([0-9a-z-]+)»")
"""A message or the answer to one, wherever it stands in a text."""


def marks_in(text: str) -> tuple[str, ...]:
    """Return the marks of a text in order, as `m:NONCE` or `r:NONCE`."""
    return tuple(f"{kind}:{nonce}" for kind, nonce in MARK.findall(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The client is about to write a message, for the first time or again."""

    at: int
    t: float
    session: str
    message: str
    client_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Acked:
    """The client read that a message is accepted."""

    at: int
    t: float
    session: str
    client_id: str
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelAsked:
    """The client asked to stop the run of a message."""

    at: int
    session: str
    client_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The client read how a run ended."""

    at: int
    t: float
    session: str
    run_id: str
    state: str
    """A final state of the inbox."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noticed:
    """The client read a notice about a run."""

    at: int
    session: str
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The entries of a session as the client was shown them."""

    at: int
    session: str
    session_id: str
    """The generation; a reset begins another one."""

    entries: tuple[str, ...]
    """Id and hash of each, `ID HASH`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A numbered event that the client was sent on one subscription."""

    at: int
    subscription: str
    stream: str
    epoch: int
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A model request."""

    at: int
    message: str
    """The newest message in its input; empty if there is none."""

    thread_id: str
    turn_id: str
    process: int
    """The codex process that sent it; 0 if it was gone when the request had been read."""

    marks: tuple[str, ...]
    """All of its input, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCall:
    """A call that the context engine took note of in a log of its own, before it answered."""

    at: int
    call: Literal["assemble", "commit"]
    session: str
    message: str
    key: str = ""
    payload_hash: str = ""
    effect: bool = False
    """Whether the engine's own records changed by it: a commit that it had not seen before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What the channel's own process took and showed."""

    at: int
    destination: str
    reply: str
    """What makes it the same reply."""


FaultKind = Literal[
    "kill_gateway",
    "kill_codex",
    "stop_gateway",
    "stop_codex",
    "model_refuses",
    "model_cuts",
    "model_limits",
    "model_slow",
    "disk_full",
    "locked",
    "damaged",
    "engine_hangs",
    "engine_throws",
    "client_stalls",
    "channel_down",
]

KILLS: Final[frozenset[FaultKind]] = frozenset({"kill_gateway", "kill_codex"})
IN_PLACE: Final[frozenset[FaultKind]] = frozenset({
    "engine_hangs",
    "engine_throws",
    "client_stalls",
    "channel_down",
})
"""Faults of one session or peer, in spite of which the others have to go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What was done to the run, and until when."""

    kind: FaultKind
    at: int
    t: float
    until_at: int
    until_t: float
    session: str = ""
    """The only session it may hinder; empty where it is the whole world's."""

    process: int = 0
    before: str = ""
    after: str = ""
    """Hashes of the store's files, where a damaged one was given to a start: before and after."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """The life of a gateway or a codex process."""

    kind: Literal["gateway", "codex"]
    pid: int
    started_at: int
    ended_at: int
    """When its end was seen; beyond every other number if it was not."""

    ready_at: int = 0
    """From when on a gateway served; 0 if it never did."""

    ready_t: float = 0.0
    ended_t: float = 0.0
    gateway: int = 0
    """Of a codex process: the gateway that started it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """A process that was found once everything had been shut down."""

    pid: int
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoy:
    """A process that looks like one of ours and is none."""

    pid: int
    command: str
    alive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxRow:
    """A row of the inbox."""

    seq: int
    session: str
    client_id: str
    run_id: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryRow:
    """An entry on the active path of a session, of any generation."""

    session: str
    session_id: str
    depth: int
    id: str
    key: str
    kind: str
    role: str
    content_hash: str
    run_id: str = ""
    turn_id: str = ""
    marks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRow:
    """A row of the engine's outbox."""

    seq: int
    session: str
    run_id: str
    key: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRow:
    """A row of the deliveries."""

    id: str
    run_id: str
    destination: str
    reply: str
    state: str
    entry_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingRow:
    """Which thread holds the current generation of a session."""

    session: str
    thread_id: str
    """Empty once cleared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """What the store held after everything had come to rest."""

    inbox: tuple[InboxRow, ...] = ()
    entries: tuple[EntryRow, ...] = ()
    commits: tuple[CommitRow, ...] = ()
    deliveries: tuple[DeliveryRow, ...] = ()
    bindings: tuple[BindingRow, ...] = ()
    faults: tuple[str, ...] = ()
    """What SQLite's whole check and the store's own one found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """One run, each list in order of `at`."""

    seed: int = 0
    ended_at: int = 0
    ended_t: float = 0.0
    sent: tuple[Sent, ...] = ()
    acked: tuple[Acked, ...] = ()
    cancels: tuple[CancelAsked, ...] = ()
    told: tuple[Told, ...] = ()
    noticed: tuple[Noticed, ...] = ()
    snapshots: tuple[Snapshot, ...] = ()
    received: tuple[Received, ...] = ()
    asked: tuple[Asked, ...] = ()
    engine: tuple[EngineCall, ...] = ()
    effects: tuple[str, ...] = ()
    """Messages whose side effect happened, one for each time."""

    shown: tuple[Shown, ...] = ()
    faults: tuple[Fault, ...] = ()
    processes: tuple[Process, ...] = ()
    left: tuple[Left, ...] = ()
    decoys: tuple[Decoy, ...] = ()
    database: Database = Database()


def history_to_json(history: History) -> bytes:
    """Return the history as JSON, to be checked again later."""
    return msgspec.json.encode(history)


def history_from_json(data: bytes) -> History:
    """Return the history that was written. Raises: msgspec.DecodeError."""
    return msgspec.json.decode(data, type=History)
