"""Decide whether a question may be asked of anybody at all.

Pure. Until approvals exist nobody can be asked: every question is refused, which Codex takes as
"not run", and the turn goes on (decision 27, reliability F3). Silence, a timeout or an unknown word
is never consent. Knows nothing of Codex's words.
"""

from __future__ import annotations

from typing import Final, Literal

from treadle.model.question import Answer, Question, QuestionKind, Verdict

Route = Literal["none"]
"""Who can be asked; `none` is the only one of this version."""

REASONS: Final = {
    QuestionKind.COMMAND: "this version runs commands in a read-only sandbox and asks nobody",
    QuestionKind.FILE_CHANGE: "this version runs read-only and asks nobody",
    QuestionKind.PERMISSIONS: "this version grants no further permissions",
    QuestionKind.ELICITATION: "this version does not pass on what a tool server asks",
    QuestionKind.USER_INPUT: "this version cannot ask the person in the middle of a turn",
    QuestionKind.UNKNOWN: "this version does not know this request",
}
"""Why each kind is refused, for the person who watches."""


def settle(question: Question, route: Route = "none") -> Answer:
    """Return the answer of the policy; with nobody to ask it is a refusal."""
    assert route == "none"
    return Answer(
        question_id=question.id,
        verdict=Verdict.REFUSED_BY_POLICY,
        by="policy",
        reason=REASONS[question.kind],
    )
