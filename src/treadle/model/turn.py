"""A turn's outcome and usage, and the events that every face watches.

Knows nothing of where events go. Event names are those of the page and of `--jsonl` (docs/cli.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

import msgspec

from treadle.model.ids import EngineId, ItemId, RunId, SessionId, SessionKey, ThreadId, TurnId
from treadle.model.json import JsonObject, JsonValue
from treadle.model.message import Entry
from treadle.model.question import Answer, Question


class Outcome(StrEnum):
    """How a run ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"
    """Interrupted by a person or by a caller."""

    TIMED_OUT = "timed_out"
    CLIENT_LOST = "client_lost"
    """The app-server went away; what it did last may be unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one model response (spec G-13).

    A number that was not reported is None, never zero (G-14, G-28).
    """

    input: int
    """Input tokens that were neither read from nor written to a cache."""

    output: int
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    total: int = 0
    window: int | None = None
    """The model's context window as the app-server reports it, in tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageAccepted:
    """The message is stored: from here on it reaches an end, whatever happens (INV-1)."""

    type: ClassVar[str] = "message.accepted"
    run_id: RunId
    client_message_id: str
    place: int = 0
    """How many messages of the session stand before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSent:
    """The message went to Codex."""

    type: ClassVar[str] = "message.sent"
    run_id: RunId
    client_message_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFailed:
    """The message has no answer, or not a whole one, and will not be tried again."""

    type: ClassVar[str] = "message.failed"
    run_id: RunId
    client_message_id: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageCancelled:
    """The message was taken back, or its run was stopped."""

    type: ClassVar[str] = "message.cancelled"
    run_id: RunId
    client_message_id: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageUnconfirmed:
    """The message's run was cut off: what it did last is unknown, and is not done again."""

    type: ClassVar[str] = "message.unconfirmed"
    run_id: RunId
    client_message_id: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """A run was admitted and owns its session."""

    type: ClassVar[str] = "run.started"
    run_id: RunId
    session_key: SessionKey
    session_id: SessionId
    trigger: str = "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextAssembled:
    """What the model is about to be given was decided; `report` is what `context show` prints."""

    type: ClassVar[str] = "context.assembled"
    run_id: RunId
    engine_id: EngineId
    decision: str
    """`continue`, `extend`, `rebase`, `seed` or `prompt`."""

    reason: str
    report: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadChanged:
    """The session is bound to another native thread than before."""

    type: ClassVar[str] = "thread.changed"
    run_id: RunId
    previous: ThreadId | None
    thread_id: ThreadId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStarted:
    """Codex accepted the turn."""

    type: ClassVar[str] = "turn.started"
    run_id: RunId
    thread_id: ThreadId
    turn_id: TurnId


@dataclass(frozen=True, slots=True, kw_only=True)
class PartDelta:
    """More text of a part that is being written.

    `at` is its offset in characters, so a repeated one cannot double.
    """

    type: ClassVar[str] = "part.delta"
    run_id: RunId
    part: ItemId
    kind: str
    """`text`, `reasoning` or `output`."""

    at: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartValue:
    """The newest state of a part that is not text.

    A tool at work, a plan, a diff. The last one wins.
    """

    type: ClassVar[str] = "part.value"
    run_id: RunId
    part: ItemId
    kind: str
    """`tool`, `plan`, `diff` or `progress`."""

    value: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryCommitted:
    """An entry stands in the transcript."""

    type: ClassVar[str] = "entry.committed"
    run_id: RunId
    entry: Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionOpened:
    """Codex asks for something."""

    type: ClassVar[str] = "question.opened"
    run_id: RunId
    question: Question


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionResolved:
    """A question was settled."""

    type: ClassVar[str] = "question.resolved"
    run_id: RunId
    answer: Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextReported:
    """The tokens that one model response used, as reported."""

    type: ClassVar[str] = "context.reported"
    run_id: RunId
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionStarted:
    """A compaction began; `owner` is `codex` or `engine`."""

    type: ClassVar[str] = "compaction.started"
    run_id: RunId
    owner: str
    item_id: ItemId | None
    details: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionFinished:
    """A compaction ended."""

    type: ClassVar[str] = "compaction.finished"
    run_id: RunId
    owner: str
    item_id: ItemId | None
    state: str = "done"
    details: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something a person should know that did not stop the turn; `code` is stable."""

    type: ClassVar[str] = "notice"
    run_id: RunId
    code: str
    text: str
    next_step: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished:
    """The run is over; nothing of it follows."""

    type: ClassVar[str] = "run.finished"
    run_id: RunId
    outcome: Outcome
    text: str
    """The final answer, or what there was of it; empty if nothing was said."""

    error: JsonObject | None
    """`{code, message, next_step, retry}` of the error that ended it."""

    replay_safe: bool
    partial: bool
    usage: Usage | None
    duration_s: float


RunEvent = (
    MessageAccepted
    | MessageSent
    | MessageFailed
    | MessageCancelled
    | MessageUnconfirmed
    | RunStarted
    | ContextAssembled
    | ThreadChanged
    | TurnStarted
    | PartDelta
    | PartValue
    | EntryCommitted
    | QuestionOpened
    | QuestionResolved
    | ContextReported
    | CompactionStarted
    | CompactionFinished
    | Notice
    | RunFinished
)
"""What happens in a run, in order; the last one is always `RunFinished`."""


def event_data(event: RunEvent) -> dict[str, JsonValue]:
    """Return the event's fields as JSON in snake_case.

    Raw items left out; its name is `event.type`.
    """
    if isinstance(event, EntryCommitted):
        return {"run_id": event.run_id, "entry": entry_data(event.entry)}
    data: dict[str, JsonValue] = msgspec.to_builtins(event)
    return data


def entry_data(entry: Entry) -> dict[str, JsonValue]:
    """Return an entry as JSON without its raw items."""
    return {
        "id": entry.id,
        "kind": entry.kind.value,
        "role": entry.message.role,
        "content": entry.message.content,
        "depth": entry.depth,
        "position": entry.position,
        "parent": entry.parent,
        "thread_id": entry.thread_id,
        "turn_id": entry.turn_id,
        "run_id": entry.run_id,
        "created_at": entry.created_at,
        "meta": dict(entry.meta),
    }
