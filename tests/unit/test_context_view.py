"""`context show`: every decision of the planner and every change of a thread, in words."""

from __future__ import annotations

import io
import re

import pytest

from treadle.cli.context_view import report_json, show_report
from treadle.cli.output import Output
from treadle.contract.store import ContextReport
from treadle.model.ids import RunId, SessionId
from treadle.model.json import JsonObject, JsonValue
from treadle.model.message import user_message
from treadle.projection.bootstrap import BootstrapReason
from treadle.projection.context_report import ReportInput, context_report, decision_name
from treadle.projection.history import (
    LEFT,
    Continue,
    Extend,
    Plan,
    PromptCarrier,
    Reason,
    Rebase,
    Seed,
    explain,
)
from treadle.tokens import EstimateCounter

CODE = re.compile(r"[a-z]+-[a-z]+(?:-[a-z]+)+|\b[A-Z]+_[A-Z]+\b")
"""What a code of ours looks like: no word for a person."""

KINDS: dict[str, type[Plan]] = {
    "continue": Continue,
    "extend": Extend,
    "rebase": Rebase,
    "seed": Seed,
    "prompt": PromptCarrier,
}


def of_kind(kind: str, reason: Reason, detail: str = "") -> Plan:
    match kind:
        case "continue":
            return Continue(reason=reason, detail=detail)
        case "extend":
            return Extend(from_index=4, reason=reason, detail=detail)
        case "rebase":
            return Rebase(reason=reason, detail=detail)
        case "seed":
            return Seed(reason=reason, detail=detail)
        case _:
            return PromptCarrier(reason=reason, fresh_thread=True, cause=reason, detail=detail)


def reported(plan: Plan, **more: JsonValue) -> ContextReport:
    report: JsonObject = context_report(
        ReportInput(
            engine_id="eng",
            plan=plan,
            same_count=7,
            new=[user_message("new one")],
            prompt="go on",
        ),
        EstimateCounter(),
    )
    return ContextReport(
        run_id=RunId("run_1"),
        session_id=SessionId("ses_1"),
        number=3,
        created_at=1.0,
        report={**report, **more},
    )


def shown(report: ContextReport) -> str:
    out = io.StringIO()
    show_report(Output(out=out, err=io.StringIO(), width=10_000), report)
    return out.getvalue()


@pytest.mark.parametrize("reason", Reason)
@pytest.mark.parametrize("kind", KINDS)
def test_every_decision_and_reason_is_shown_in_words_and_as_a_code(
    kind: str, reason: Reason
) -> None:
    """Issue 3, item 6; spec D-51: the sentence for a person, the stable code for a script."""
    plan = of_kind(kind, reason)
    assert decision_name(plan) == kind
    report = reported(plan)
    text = shown(report)
    assert f"why: {explain(plan)}\n" in text
    assert f"decision {kind} ({reason.value})" in text
    assert not CODE.search(explain(plan))
    said = report_json(report)["report"]
    assert isinstance(said, dict)
    assert (said["decision"], said["reason_code"]) == (kind, reason.value)
    assert said["reason"] == explain(plan)


def test_every_reason_has_a_sentence_of_its_own() -> None:
    """Issue 3, item 6."""
    sentences = {explain(Continue(reason=reason)) for reason in Reason}
    assert len(sentences) == len(Reason)
    assert all(sentence.endswith(".") for sentence in sentences)


@pytest.mark.parametrize("detail", [*(one.value for one in BootstrapReason), LEFT])
def test_details_of_an_epoch_are_told_in_words(detail: str) -> None:
    """Spec D-31, D-33, D-36: the code stays in the plan, the person reads why."""
    said = explain(Rebase(reason=Reason.BOOTSTRAP_EPOCH, detail=detail))
    assert not CODE.search(said)
    assert f"({detail})" not in said


def test_a_detail_that_is_no_code_is_told_as_it_is() -> None:
    """Spec F-19, D-40: why a thread cannot go on."""
    said = explain(Rebase(reason=Reason.THREAD_UNFIT, detail="another model provider was chosen"))
    assert said.endswith("The thread cannot go on. (another model provider was chosen)")


def test_a_change_of_thread_names_both_and_what_went_into_the_new_one() -> None:
    """Issue 3, item 6: a rotation is told with its reason."""
    text = shown(
        reported(Rebase(reason=Reason.TOOLS_CHANGED), thread="thr-2", previous_thread="thr-1")
    )
    assert "thread: thr-2, a fresh one in place of thr-1\n" in text
    assert "put into a fresh thread: 1 message, 3 tokens\n" in text
    assert "The dynamic tools changed" in text


def test_a_quiet_turn_says_what_was_held_and_that_nothing_was_new() -> None:
    """Ours."""
    report = reported(
        Continue(reason=Reason.EQUAL),
        thread="thr-1",
        previous_thread=None,
        new={"messages": 0, "tokens": 0},
    )
    text = shown(report)
    assert "thread: thr-1\n" in text
    assert "held by the thread already: 7 messages\n" in text
    assert "put into the thread: nothing\n" in text
    assert "left out" not in text


def test_what_was_out_of_the_ordinary_is_told() -> None:
    """Ours: a failed assemble, changed instructions, a native compaction, what was left out."""
    text = shown(
        reported(
            PromptCarrier(reason=Reason.DAMPENED),
            assemble_failed="ValueError: no",
            addition_changed=True,
            native_compactions=2,
            outside={"messages": 1_200, "why": "seed budget", "newest": []},
            reported={"input": 1_000, "cached": 400, "output": 20},
        )
    )
    assert "sent as text before the prompt: 1 message" in text
    assert "the engine gave no context: ValueError: no\n" in text
    assert "the engine's instructions changed" in text
    assert "Codex compacted its history in this turn: 2 times\n" in text
    assert "left out, the oldest first: 1,200 messages\n" in text
    assert "tokens reported: 1,000 in (400 cached) · 20 out\n" in text
