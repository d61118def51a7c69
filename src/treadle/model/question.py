"""Questions that a turn asks of people, and their answers.

Knows nothing of who is asked, of deadlines that run, or of Codex's words for decisions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

from treadle.model.ids import ItemId, ThreadId, TurnId
from treadle.model.json import JsonObject

QuestionId = NewType("QuestionId", str)
"""Our id of a question; Codex's own request id is kept beside it."""


class QuestionKind(StrEnum):
    """What is asked for."""

    COMMAND = "command_approval"
    FILE_CHANGE = "file_change_approval"
    PERMISSIONS = "permissions_approval"
    ELICITATION = "elicitation"
    USER_INPUT = "user_input"
    UNKNOWN = "unknown"
    """A request that this version does not know; it is refused and shown."""


class Verdict(StrEnum):
    """How a question ended. Only `APPROVED` ever allows anything."""

    APPROVED = "approved"
    DENIED = "denied"
    ANSWERED = "answered"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    REFUSED_BY_POLICY = "refused_by_policy"
    """Nobody was asked: the policy in force has no route to a person (decision 27)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question. `shown` is what a person has to see to decide, whole and unshortened."""

    id: QuestionId
    kind: QuestionKind
    thread_id: ThreadId
    turn_id: TurnId | None
    item_id: ItemId | None
    title: str
    shown: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How a question was settled: silence, a timeout or an unknown word is never `APPROVED`."""

    question_id: QuestionId
    verdict: Verdict
    by: str
    """`policy`, `codex` (it withdrew the question), or who answered."""

    reason: str = ""
