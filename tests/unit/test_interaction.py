"""Questions of Codex and their refusals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from treadle.interaction.policy import REASONS, settle
from treadle.interaction.translate import (
    QUESTION_METHODS,
    Refusal,
    is_question,
    question_from_request,
    refusal_for,
    refusal_of,
    thread_of,
    turn_of,
)
from treadle.model.question import QuestionKind, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    kind: QuestionKind
    refusal: dict[str, Any]


CASES = {
    "item/commandExecution/requestApproval": Case(
        kind=QuestionKind.COMMAND, refusal={"decision": "decline"}
    ),
    "item/fileChange/requestApproval": Case(
        kind=QuestionKind.FILE_CHANGE, refusal={"decision": "decline"}
    ),
    "item/permissions/requestApproval": Case(
        kind=QuestionKind.PERMISSIONS, refusal={"permissions": {}, "scope": "turn"}
    ),
    "mcpServer/elicitation/request": Case(
        kind=QuestionKind.ELICITATION, refusal={"action": "decline", "content": None}
    ),
    "item/tool/requestUserInput": Case(kind=QuestionKind.USER_INPUT, refusal={"answers": {}}),
    "execCommandApproval": Case(kind=QuestionKind.COMMAND, refusal={"decision": "denied"}),
    "applyPatchApproval": Case(kind=QuestionKind.FILE_CHANGE, refusal={"decision": "denied"}),
}


def test_the_table_is_whole() -> None:
    assert set(QUESTION_METHODS) == set(CASES)


@pytest.mark.parametrize("method", CASES)
def test_every_question_has_its_documented_refusal(method: str) -> None:
    """Decision 27; spec M-04, M-05, M-06, M-29, M-43."""
    params: dict[str, Any] = {
        "threadId": "thr_1",
        "turnId": "turn_1",
        "itemId": "call_1",
        "startedAtMs": 5,
    }
    question = question_from_request(method, {**params, "command": "rm -rf /"}, 0)
    assert question.kind is CASES[method].kind
    assert (question.thread_id, question.turn_id, question.item_id) == (
        "thr_1",
        "turn_1",
        "call_1",
    )
    assert question.shown == {"command": "rm -rf /"}, "whole, and without the ids"
    assert refusal_for(method) == CASES[method].refusal
    assert refusal_of(method) == Refusal(result=CASES[method].refusal)
    answer = settle(question)
    assert answer.verdict is Verdict.REFUSED_BY_POLICY
    assert (answer.question_id, answer.by) == (question.id, "policy")
    assert answer.reason == REASONS[question.kind]


def test_request_id_zero_is_an_id_like_any_other() -> None:
    """Reliability F3: the first server request has id 0."""
    ids = {
        question_from_request("execCommandApproval", {"conversationId": "t"}, request_id).id
        for request_id in (0, "0", 1, "")
    }
    assert len(ids) == 4


def test_the_same_request_is_the_same_question() -> None:
    params = {"threadId": "thr_1", "turnId": "turn_1"}
    first, again = (
        question_from_request("item/tool/requestUserInput", params, 3).id for _ in range(2)
    )
    assert first == again


def test_an_unknown_request_is_shown_and_refused_as_an_error() -> None:
    """Decision 27."""
    question = question_from_request("item/newThing/ask", {"threadId": "t", "x": 1}, 4)
    assert question.kind is QuestionKind.UNKNOWN
    assert "'item/newThing/ask'" in question.title
    assert refusal_of("item/newThing/ask").error_code == -32601
    assert not is_question("item/tool/call")
    with pytest.raises(KeyError):
        refusal_for("item/newThing/ask")


def test_malformed_parameters_are_refused_like_any() -> None:
    """Fail closed: nothing in them changes the refusal."""
    question = question_from_request(
        "item/commandExecution/requestApproval",
        {"threadId": 7, "turnId": None, "itemId": [], "command": "\ud800"},
        0,
    )
    assert (question.thread_id, question.turn_id, question.item_id) == ("", None, None)
    assert question.shown == {"command": "\ufffd"}


def test_a_thread_has_two_names() -> None:
    """Spec M-01."""
    assert thread_of({"conversationId": "c"}) == "c"
    assert thread_of({"threadId": "t", "conversationId": "c"}) == "t"
    assert thread_of({}) is None
    assert turn_of({"turnId": None}) is None


def test_no_refusal_can_be_taken_for_consent() -> None:
    for method in QUESTION_METHODS:
        words = str(refusal_for(method))
        assert "accept" not in words
        assert "approved" not in words
