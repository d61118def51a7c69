"""The engine outbox: accepted turns on their way to a context engine that commits them.

A row is written with the turn's first entry and moves in the transaction that stores the rest, so
that no accepted turn is without one. The table of its states is pure:

    none      turn admitted for an engine        → ADMITTED
    ADMITTED  turn accepted, engine commits      → READY; BLOCKED where its range cannot be sent
    ADMITTED  turn accepted, engine does not     → ACCEPTED
    ADMITTED  turn failed, or recovery dropped it → no row
    ACCEPTED  handed over, or not, or restarted  → SETTLED (never replayed, spec B-48)
    READY     `committed` or `duplicate`         → COMMITTED
    READY     failed                             → READY; BLOCKED at the last attempt
    READY     unreadable, or another payload     → BLOCKED (never sent, INV-8)

BLOCKED, COMMITTED and SETTLED are ends. Knows nothing of SQL or of how engines are called. Source:
spec B-34…B-38, B-48; INV-7, INV-8; durability points S5, S10, S11.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from treadle.model.ids import EngineId, EntryId, RunId, SessionId, SessionKey
from treadle.model.json import digest
from treadle.model.message import Message

MAX_MESSAGES: Final = 20_000
"""Messages in one commit; a longer turn is blocked (spec B-38: events)."""

MAX_BYTES: Final = 8 * 1024 * 1024
"""Bytes of the contents of one commit, as stored (spec B-38)."""

DRAIN_MOST: Final = 16
"""Commits that one drain makes before a run (spec B-37)."""

MAX_ATTEMPTS: Final = 10
"""Failed attempts after which a commit is blocked: an engine that never takes a turn must not keep
a session without its engine for ever (reliability, fault matrix)."""

INTERRUPTED: Final = "Treadle stopped while the turn was handed over; it is not handed over again"
"""Reason of a row of an engine that does not commit, where nobody saw the result."""


class CommitState(StrEnum):
    """How far a turn got."""

    ADMITTED = "admitted"
    ACCEPTED = "accepted"
    READY = "ready"
    BLOCKED = "blocked"
    COMMITTED = "committed"
    SETTLED = "settled"


PENDING: Final = CommitState.READY
"""The one state in which a turn waits for its engine, and keeps the next one from it (B-38)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """A turn that begins under an engine; stored with the user's entry (S5)."""

    run_id: RunId
    engine_id: EngineId
    """The id under which the engine is registered."""

    commits: bool
    """Whether the engine commits durably."""

    prompt_key: str
    """Key of the user's entry, which is stored in the same transaction."""

    is_heartbeat: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """What a commit would send."""

    message_count: int
    size_bytes: int

    @property
    def fault(self) -> str | None:
        """Why it is too much for one commit, or None."""
        if self.message_count > MAX_MESSAGES:
            return f"the turn has {self.message_count:,} messages, more than {MAX_MESSAGES:,}"
        if self.size_bytes > MAX_BYTES:
            return f"the turn has {self.size_bytes:,} bytes, more than {MAX_BYTES:,}"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The turn ended well and is stored; `measure` None means that its range cannot be read."""

    commits: bool
    measure: Measure | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """The turn ended badly, or nobody went on with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The engine has the turn: `committed` now, or before (`duplicate`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The engine did not answer, or not so; `attempts` counts this one."""

    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsendable:
    """The entries are not those any more that were accepted, or cannot be read."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOver:
    """An engine that does not commit was told, or was not: either way it is over."""


CommitEvent = Accepted | Dropped | Answered | Failed | Unsendable | HandedOver


class NoSuchStep(Exception):
    """The table has no such row: a bug of the caller's."""


def step(state: CommitState, event: CommitEvent) -> CommitState | None:
    """Return the next state, None where the row goes. Raises: NoSuchStep."""
    match state, event:
        case CommitState.ADMITTED, Accepted(commits=False):
            return CommitState.ACCEPTED
        case CommitState.ADMITTED, Accepted(measure=measure):
            fits = measure is not None and measure.fault is None
            return CommitState.READY if fits else CommitState.BLOCKED
        case CommitState.ADMITTED, Dropped():
            return None
        case CommitState.ACCEPTED, HandedOver():
            return CommitState.SETTLED
        case CommitState.READY, Answered():
            return CommitState.COMMITTED
        case CommitState.READY, Failed(attempts=attempts):
            return CommitState.READY if attempts < MAX_ATTEMPTS else CommitState.BLOCKED
        case CommitState.READY, Unsendable():
            return CommitState.BLOCKED
        case _:
            raise NoSuchStep(f"{state.value} takes no {type(event).__name__}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Advancement:
    """One row: a turn of an engine's."""

    seq: int
    """Order of acceptance within a session, and over all."""

    session_key: SessionKey
    session_id: SessionId
    run_id: RunId
    engine_id: EngineId
    key: str
    """The `advancementKey`: one for a run of a generation, for ever (spec B-19, INV-7)."""

    state: CommitState
    commits: bool
    is_heartbeat: bool
    first: EntryId
    """The admitted entry of the user's."""

    last: EntryId | None = None
    """The entry that ended the turn, once it is accepted."""

    payload_hash: str | None = None
    attempts: int = 0
    changed_at: float = 0.0
    """Unix seconds."""

    reason: str | None = None
    """Of the last failure, safe to show."""


def advancement_key(session_id: SessionId, run_id: RunId) -> str:
    """Return the key of a run's turn: the same however often the run is taken up again."""
    return f"{session_id}:{run_id}"


def payload_hash(key: str, entries: Sequence[tuple[EntryId, str]], *, is_heartbeat: bool) -> str:
    """Return the hash of what a commit sends: each entry's id with its content hash (INV-8)."""
    return digest({"key": key, "entries": entries, "is_heartbeat": is_heartbeat})


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """Where the prefix ends that a run's engine may read, once its entry is stored (spec B-35)."""

    position: int | None = None
    """Messages before the admitted entry; None: it is not stored yet, so there is no limit."""

    fault: str | None = None
    """Why the prefix cannot be had: the entry is missing, was rewritten, or was crossed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxHealth:
    """What waits, and what never will go out; the newest rows of each are named."""

    pending_count: int = 0
    blocked_count: int = 0
    named: tuple[Advancement, ...] = ()


class EngineOutbox(Protocol):
    """The rows, and what becomes of them. All raise StoreError.

    Rows are made and accepted by the transcript, in its own transactions.
    """

    def of_run(self, session_id: SessionId, run_id: RunId) -> Advancement | None:
        """Return the row of a run, or None; a short read."""

    def fence(self, session_id: SessionId, run_id: RunId) -> Fence:
        """Return where the run's engine has to stop reading; a short read."""

    def pending(
        self, session_key: SessionKey, engine_id: EngineId, *, limit: int = DRAIN_MOST + 1
    ) -> tuple[Advancement, ...]:
        """Return what waits for this engine in all generations of the session, oldest first."""

    async def messages(self, row: Advancement) -> tuple[Message, ...] | Unsendable:
        """Return the turn's messages, read anew from the transcript, oldest first.

        Where they are not those that were accepted, byte for byte, say so (INV-8).
        """

    async def answered(self, row: Advancement) -> None:
        """Store that the engine has the turn; durable (S11)."""

    async def failed(self, row: Advancement, reason: str) -> CommitState:
        """Count a failed attempt and return the state it leads to."""

    async def block(self, row: Advancement, why: Unsendable) -> None:
        """Store that the turn can't go out; durable."""

    async def handed_over(
        self, session_id: SessionId, run_id: RunId, *, reason: str | None = None
    ) -> None:
        """Settle the row of an engine that does not commit; none is no error.

        A power cut may undo it, and then the next opening settles it.
        """

    async def settle_interrupted(self) -> int:
        """Settle what an earlier process left half handed over, and return how many; at opening."""

    def health(self, *, limit: int = 20) -> OutboxHealth:
        """Return what is pending and blocked; a short read."""
