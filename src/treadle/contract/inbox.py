"""The durable inbox: messages that were accepted, and what became of each.

A stored row is the acknowledgement (S1). It reaches exactly one final state, whatever is killed on
the way: answered, failed, cancelled, or unknown. Knows nothing of SQL, of turns, or of who sends.
Source: reliability section 1, INV-1…INV-3, INV-6, INV-9, INV-10.

| state | what happens | next |
|---|---|---|
| accepted | its run begins | running |
| accepted | its sender takes it back before that | cancelled |
| accepted | it is refused for good before its run begins | failed |
| accepted | a later run finds what became of its turn | answered, failed, cancelled, unknown |
| running | the run ends | answered, failed, cancelled, unknown |
| running | its run begins once more, in a later process | running |
| running | the run ends and nothing of it reached the thread | accepted |
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from treadle.model.errors import MessageConflict
from treadle.model.ids import RunId, SessionId, SessionKey
from treadle.model.json import JsonObject, digest
from treadle.model.turn import Outcome


class MessageState(StrEnum):
    """How far a message got."""

    ACCEPTED = "accepted"
    """Stored; its run has not begun, or will begin again."""

    RUNNING = "running"
    ANSWERED = "answered"
    FAILED = "failed"
    """The sender was told why; nothing of it will be tried again."""

    CANCELLED = "cancelled"
    UNKNOWN = "unknown"
    """Cut off in the middle: what was done last nobody can know, and it is not done again."""


FINAL: Final = frozenset({
    MessageState.ANSWERED,
    MessageState.FAILED,
    MessageState.CANCELLED,
    MessageState.UNKNOWN,
})

NEXT: Final[dict[MessageState, frozenset[MessageState]]] = {
    MessageState.ACCEPTED: FINAL | {MessageState.RUNNING},
    MessageState.RUNNING: FINAL | {MessageState.RUNNING, MessageState.ACCEPTED},
    **dict.fromkeys(FINAL, frozenset()),
}
"""The states that may follow each; from a final one none."""


def state_after(outcome: Outcome, *, replay_safe: bool) -> MessageState:
    """Return the final state of a message whose run ended so. Pure.

    A lost run that provably did nothing has failed; any other lost one is unknown (INV-9).
    """
    match outcome:
        case Outcome.COMPLETED:
            return MessageState.ANSWERED
        case Outcome.STOPPED:
            return MessageState.CANCELLED
        case Outcome.CLIENT_LOST:
            return MessageState.FAILED if replay_safe else MessageState.UNKNOWN
        case Outcome.FAILED | Outcome.TIMED_OUT:
            return MessageState.FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMessage:
    """A message that is to be accepted."""

    session_key: SessionKey
    client_message_id: str
    """The sender's. The same id again in a session is the same message (INV-2)."""

    run_id: RunId
    request: JsonObject
    """All that its run needs to know."""

    place: int = 0
    """How many messages of the session stand before it; for those who watch."""

    @property
    def request_hash(self) -> str:
        """Of what was asked, to tell a repeated message from another one under its id."""
        return digest(self.request)


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxMessage:
    """A message as it is stored."""

    seq: int
    """Order of acceptance over all sessions."""

    session_key: SessionKey
    client_message_id: str
    run_id: RunId
    session_id: SessionId | None
    """The generation that its run began in."""

    state: MessageState
    attempts: int
    """How often its run began."""

    accepted_at: float
    """Unix seconds."""

    request_hash: str
    request: JsonObject
    outcome: JsonObject | None
    """What its sender is told: the data of `run.finished`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """The end of a message, written with the entries of its turn (S10) or alone."""

    run_id: RunId
    state: MessageState
    outcome: JsonObject
    reason: str = ""
    """Why it is no answer, in one sentence; empty for one."""

    def __post_init__(self) -> None:
        """Refuse a state that is no end."""
        if self.state not in FINAL:
            raise ValueError(f"{self.state.value!r} is no final state of a message")


class Inbox(Protocol):
    """Accepted messages; that a run begins is written with its claim (`TranscriptStore.claim`)."""

    async def accept(self, message: NewMessage) -> InboxMessage:
        """Store it; durable when this returns (S1).

        A message that is known already comes back as it is stored, with its own `run_id`. Raises:
        MessageConflict for another text or other options under a known id, StoreFull. Cancel:
        stored whole or not at all.
        """

    async def requeue(self, run_id: RunId) -> None:
        """Note that its run ended before anything of it reached the thread; it waits again."""

    async def settle(self, settlement: Settlement) -> bool:
        """Write its end; False, and nothing is changed, where it had one (INV-6)."""

    async def unfinished(self) -> tuple[InboxMessage, ...]:
        """Return all messages without an end in order of acceptance."""

    def unfinished_of(self, session_key: SessionKey) -> tuple[InboxMessage, ...]:
        """Return those of one session; a short read."""

    def find(self, session_key: SessionKey, client_message_id: str) -> InboxMessage | None:
        """Return the message that a sender gave this id, or None; a short read."""


def message_conflict(session_key: str, client_message_id: str) -> MessageConflict:
    """Return the error for another message under an id that is taken (INV-2)."""
    return MessageConflict(
        f"message id {client_message_id!r} of session {session_key!r} names another message;"
        " this one was not accepted",
        next_step="Send it under an id of its own.",
        session=session_key,
        client_message_id=client_message_id,
    )
