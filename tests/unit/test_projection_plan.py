"""The planner, bootstrap decisions, seeding and instructions (spec D-30…D-40, D-51…D-58, E)."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.contract.engine import ContextProjection, EngineInfo
from treadle.contract.store import Holding
from treadle.model.message import (
    Message,
    assistant_message,
    tool_call_part,
    tool_result_message,
    user_message,
)
from treadle.projection.bootstrap import (
    BootstrapDecision,
    BootstrapInput,
    BootstrapReason,
    BootstrapRequest,
    bootstrap_request,
    decide_bootstrap,
    engine_record,
    leaves_bootstrap,
    policy_fingerprint,
    without_projection,
)
from treadle.projection.history import (
    Continue,
    Extend,
    Plan,
    PlanInput,
    PromptCarrier,
    Reason,
    Rebase,
    Seed,
    chain_of,
    explain,
    held_by_messages,
    holding_of,
    not_held,
    plan,
    successive_rebases_after,
)
from treadle.projection.instructions import (
    BaseSections,
    Supersede,
    Unchanged,
    Withdraw,
    addition_of,
    base_sections,
    compose,
    instructions_plan,
    superseding_item,
    text_hash,
)
from treadle.projection.seed import left_out_note, seed_selection, units_of
from treadle.protocol.responses import item_role, item_text

HASHES = st.lists(st.sampled_from(["a", "b", "c"]), max_size=8)

BASE = PlanInput(
    holding=holding_of(["a", "b"]), wanted=("a", "b"), thread_exists=True, engine_active=True
)
COMPACTED = replace(
    BASE, native_compactions=1, owns_compaction=True, wanted_tokens=100, window=1000
)
PROJECT = BootstrapDecision(project=True, reason=BootstrapReason.PROJECTION_MISMATCH)
HELD = BootstrapDecision(project=False, reason=BootstrapReason.MATCHING)


def test_chain_is_the_documented_hash() -> None:
    """Decision 12: `chain(n) = SHA-256(chain(n-1) + hash(n))`, `chain(0)` is empty."""
    assert chain_of([]) == ""
    assert holding_of([]) == Holding()
    a = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
    assert chain_of(["a"]) == a
    assert chain_of(["a", "b"]) == sha256(f"{a}b".encode()).hexdigest()


@given(HASHES, HASHES)
def test_plan_laws(held: list[str], wanted: list[str]) -> None:
    """Spec D-51, D-52, D-54: equal continues, a strict prefix extends, all else rebases."""
    given_input = replace(BASE, holding=holding_of(held), wanted=tuple(wanted))
    done = plan(given_input)
    if held == wanted:
        assert done == Continue(reason=Reason.EQUAL)
    elif wanted[: len(held)] == held:
        assert done == Extend(from_index=len(held))
    else:
        assert done == Rebase(reason=Reason.REPLACED)
    assert plan(given_input) == done


CASES: tuple[tuple[str, PlanInput, Plan], ...] = (
    ("no thread", replace(BASE, thread_exists=False), Seed()),
    ("no thread, nothing to say", replace(BASE, thread_exists=False, wanted=()), Seed()),
    ("no thread, legacy", replace(BASE, thread_exists=False, engine_active=False), Seed()),
    (
        "no thread, no injection",
        replace(BASE, thread_exists=False, supports_inject=False),
        PromptCarrier(reason=Reason.NO_INJECTION, fresh_thread=True, cause=Reason.NEW_THREAD),
    ),
    (
        "legacy never looks at the list",
        replace(BASE, engine_active=False, wanted=("x",), holding_known=False),
        Continue(reason=Reason.LEGACY),
    ),
    (
        "legacy after a native compaction",
        replace(BASE, engine_active=False, native_compactions=3, wanted=("x",)),
        Continue(reason=Reason.LEGACY),
    ),
    (
        "assemble failed",
        replace(BASE, assemble_failed=True, wanted=("x",), holding_known=False),
        Continue(reason=Reason.ASSEMBLE_FAILED),
    ),
    ("prompt mode", replace(BASE, mode="prompt"), PromptCarrier(reason=Reason.MODE_PROMPT)),
    (
        "no injection",
        replace(BASE, mode="history", supports_inject=False),
        PromptCarrier(reason=Reason.NO_INJECTION),
    ),
    ("unknown", replace(BASE, holding_known=False), Rebase(reason=Reason.HOLDING_UNKNOWN)),
    (
        "unknown and pinned",
        replace(BASE, holding_known=False, pinned=True),
        PromptCarrier(reason=Reason.HOLDING_UNKNOWN),
    ),
    ("pinned, equal", replace(BASE, pinned=True), Continue(reason=Reason.EQUAL)),
    (
        "pinned, longer",
        replace(BASE, pinned=True, wanted=("a", "b", "c")),
        Extend(from_index=2),
    ),
    (
        "pinned, replaced",
        replace(BASE, pinned=True, wanted=("x", "b")),
        PromptCarrier(reason=Reason.PINNED),
    ),
    (
        "pinned, tools changed",
        replace(BASE, pinned=True, tools_compatible=False),
        Continue(reason=Reason.EQUAL),
    ),
    ("tools changed", replace(BASE, tools_compatible=False), Rebase(reason=Reason.TOOLS_CHANGED)),
    (
        "tools changed, legacy",
        replace(BASE, tools_compatible=False, engine_active=False),
        Rebase(reason=Reason.TOOLS_CHANGED),
    ),
    (
        "thread gone",
        replace(BASE, unfit_because="no rollout"),
        Rebase(reason=Reason.THREAD_UNFIT, detail="no rollout"),
    ),
    (
        "dampened",
        replace(BASE, wanted=("x",), successive_rebases=3),
        PromptCarrier(reason=Reason.DAMPENED),
    ),
    (
        "third rebase",
        replace(BASE, wanted=("x",), successive_rebases=2),
        Rebase(reason=Reason.REPLACED),
    ),
    ("dampened no more", replace(BASE, successive_rebases=3), Continue(reason=Reason.EQUAL)),
    ("compacted, owner, fits", COMPACTED, Rebase(reason=Reason.COMPACTED)),
    (
        "compacted, owner, once only",
        replace(COMPACTED, rebased_for_compaction=True),
        Continue(reason=Reason.EQUAL),
    ),
    (
        "compacted, owner, too much",
        replace(COMPACTED, wanted_tokens=601, wanted=("x",)),
        Continue(reason=Reason.NEEDS_SMALLER_CONTEXT),
    ),
    (
        "compacted, owner, too much, longer",
        replace(COMPACTED, wanted_tokens=601, wanted=("a", "b", "c")),
        Extend(from_index=2, reason=Reason.NEEDS_SMALLER_CONTEXT),
    ),
    (
        "compacted, window unknown",
        replace(COMPACTED, window=None),
        Continue(reason=Reason.NEEDS_SMALLER_CONTEXT),
    ),
    (
        "compacted, not the owner",
        replace(COMPACTED, owns_compaction=False),
        Continue(reason=Reason.EQUAL),
    ),
    (
        "bootstrap held",
        replace(BASE, bootstrap=HELD, wanted=("x", "y")),
        Continue(reason=Reason.BOOTSTRAP_HELD, detail="matching-thread-bootstrap-binding"),
    ),
    (
        "bootstrap epoch changed",
        replace(BASE, bootstrap=PROJECT),
        Rebase(reason=Reason.BOOTSTRAP_EPOCH, detail="projection-mismatch"),
    ),
    (
        "bootstrap by prompt",
        replace(BASE, bootstrap=PROJECT, mode="prompt"),
        PromptCarrier(
            reason=Reason.MODE_PROMPT,
            fresh_thread=True,
            cause=Reason.BOOTSTRAP_EPOCH,
            detail="projection-mismatch",
        ),
    ),
    (
        "bootstrap, pinned",
        replace(BASE, bootstrap=PROJECT, pinned=True),
        PromptCarrier(reason=Reason.PINNED, detail="projection-mismatch"),
    ),
    (
        "bootstrap left",
        replace(BASE, leaves_bootstrap=True),
        Rebase(reason=Reason.BOOTSTRAP_EPOCH, detail="left"),
    ),
    (
        "bootstrap held and pinned",
        replace(BASE, bootstrap=HELD, pinned=True),
        Continue(reason=Reason.BOOTSTRAP_HELD, detail="matching-thread-bootstrap-binding"),
    ),
    (
        "bootstrap held, thread gone",
        replace(BASE, bootstrap=HELD, unfit_because="gone"),
        Rebase(reason=Reason.THREAD_UNFIT, detail="gone"),
    ),
    (
        "bootstrap left by legacy",
        replace(BASE, leaves_bootstrap=True, engine_active=False),
        Continue(reason=Reason.LEGACY),
    ),
    (
        "legacy, said elsewhere",
        replace(BASE, engine_active=False, said_elsewhere=True),
        Extend(from_index=2, reason=Reason.SAID_ELSEWHERE),
    ),
    (
        "legacy, said elsewhere, pinned",
        replace(BASE, engine_active=False, said_elsewhere=True, pinned=True),
        Extend(from_index=2, reason=Reason.SAID_ELSEWHERE),
    ),
    (
        "legacy, said elsewhere, prompt mode",
        replace(BASE, engine_active=False, said_elsewhere=True, mode="prompt"),
        PromptCarrier(reason=Reason.SAID_ELSEWHERE),
    ),
    (
        "legacy, said elsewhere, unknown",  # a part of it may be there already
        replace(BASE, engine_active=False, said_elsewhere=True, holding_known=False),
        PromptCarrier(reason=Reason.SAID_ELSEWHERE),
    ),
    (
        "bootstrap held, said elsewhere",
        replace(BASE, bootstrap=HELD, said_elsewhere=True),
        Extend(from_index=2, reason=Reason.SAID_ELSEWHERE),
    ),
    (
        "bootstrap epoch changed, said elsewhere",
        replace(BASE, bootstrap=PROJECT, said_elsewhere=True),
        Rebase(reason=Reason.BOOTSTRAP_EPOCH, detail="projection-mismatch"),
    ),
    (
        "an engine that compares does not care where it was said",
        replace(BASE, wanted=("a", "b", "c"), said_elsewhere=True),
        Extend(from_index=2),
    ),
    (
        "transient",
        replace(BASE, thread_exists=False, transient=True),
        Seed(reason=Reason.TRANSIENT),
    ),
    (
        "transient, legacy",
        replace(BASE, thread_exists=False, transient=True, engine_active=False),
        Seed(reason=Reason.TRANSIENT),
    ),
    (
        "transient, bootstrap",
        replace(BASE, thread_exists=False, transient=True, bootstrap=PROJECT),
        Seed(reason=Reason.TRANSIENT),
    ),
    (
        "transient, no injection",
        replace(BASE, thread_exists=False, transient=True, supports_inject=False),
        PromptCarrier(reason=Reason.NO_INJECTION, fresh_thread=True, cause=Reason.TRANSIENT),
    ),
    (
        "bootstrap held, holding unknown",
        replace(BASE, bootstrap=HELD, holding_known=False),
        Rebase(reason=Reason.HOLDING_UNKNOWN),
    ),
)


@pytest.mark.parametrize(
    ("given_input", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_plans(given_input: PlanInput, expected: Plan) -> None:
    """Spec D-27, D-31, D-33, D-36, D-37, D-39, D-54…D-58, F-11, F-13, F-23; decisions 3, 4."""
    assert plan(given_input) == expected
    assert explain(expected)


def test_changing_memory_costs_four_threads_at_most() -> None:
    """Spec D-54: 20 turns with another recalled message in front of each."""
    threads, successive, held, thread_exists = 0, 0, list[str](), False
    carried_by_prompt = 0
    for turn in range(20):
        wanted = (f"memory {turn}", *(f"said {n}" for n in range(turn)))
        done = plan(
            replace(
                BASE,
                thread_exists=thread_exists,
                holding=holding_of(held),
                wanted=wanted,
                successive_rebases=successive,
            )
        )
        if isinstance(done, Seed | Rebase):
            threads, held, thread_exists = threads + 1, list(wanted), True
        else:
            assert isinstance(done, PromptCarrier)
            carried_by_prompt += 1
            assert f"memory {turn}" in {wanted[at] for at in not_held(wanted, held)}
        successive = successive_rebases_after(done, successive)
        held.append(f"said {turn}")
    assert threads <= 4
    assert carried_by_prompt == 20 - threads


@given(HASHES, HASHES)
def test_what_is_not_held_and_what_is_cover_the_wanted(wanted: list[str], held: list[str]) -> None:
    """Spec D-54."""
    missing = not_held(wanted, held)
    kept = [one for at, one in enumerate(wanted) if at not in missing]
    for one in set(kept):
        assert kept.count(one) <= held.count(one)
    assert held_by_messages([user_message("x")])[0].content_hash == user_message("x").content_hash


def test_every_reason_has_a_sentence() -> None:
    """Ours."""
    for reason in Reason:
        assert explain(Continue(reason=reason)).endswith((
            ".",
            "less.",
            "steady, its context goes as text.",
        ))


# ------------------------------------------------------------------------------- bootstrap

INFO = EngineInfo(id="eng", name="Engine", version="1")
FINGERPRINT = policy_fingerprint(INFO, citations_mode=None, projection_max_chars=None)
RECORD = engine_record("eng", FINGERPRINT, BootstrapRequest(epoch="e1", fingerprint="f"))


def test_engine_record_has_the_documented_shape() -> None:
    """Spec D-34."""
    assert RECORD == {
        "schemaVersion": 1,
        "engineId": "eng",
        "policyFingerprint": FINGERPRINT,
        "projection": {
            "schemaVersion": 1,
            "mode": "thread_bootstrap",
            "epoch": "e1",
            "fingerprint": "f",
        },
    }
    assert without_projection(RECORD) == engine_record("eng", FINGERPRINT, None)


def test_policy_fingerprint_covers_what_makes_a_context() -> None:
    """Spec D-34, D-35."""
    others = {
        policy_fingerprint(replace(INFO, id="x"), citations_mode=None, projection_max_chars=None),
        policy_fingerprint(
            replace(INFO, version="2"), citations_mode=None, projection_max_chars=None
        ),
        policy_fingerprint(
            replace(INFO, owns_compaction=True), citations_mode=None, projection_max_chars=None
        ),
        policy_fingerprint(
            replace(INFO, turn_maintenance_mode="background"),
            citations_mode=None,
            projection_max_chars=None,
        ),
        policy_fingerprint(INFO, citations_mode="on", projection_max_chars=None),
        policy_fingerprint(INFO, citations_mode=None, projection_max_chars=9),
        FINGERPRINT,
    }
    assert len(others) == 7
    assert (
        policy_fingerprint(
            replace(INFO, name="Other"), citations_mode=None, projection_max_chars=None
        )
        == FINGERPRINT
    )


BOOTSTRAPS = (
    (BootstrapInput(has_thread=False, bound=RECORD, wanted=RECORD), "missing-thread-binding"),
    (BootstrapInput(has_thread=True, bound=None, wanted=RECORD), "missing-projection-binding"),
    (
        BootstrapInput(has_thread=True, bound=without_projection(RECORD), wanted=RECORD),
        "missing-projection-binding",
    ),
    (
        BootstrapInput(
            has_thread=True,
            bound={**RECORD, "engineId": "x"},
            wanted=RECORD,
            tools_compatible=False,
        ),
        "context-engine-binding-mismatch",
    ),
    (
        BootstrapInput(has_thread=True, bound=RECORD, wanted=RECORD, tools_compatible=False),
        "dynamic-tools-mismatch",
    ),
    (
        BootstrapInput(
            has_thread=True,
            bound=RECORD,
            wanted=engine_record("eng", FINGERPRINT, BootstrapRequest(epoch="e2")),
        ),
        "projection-mismatch",
    ),
    (
        BootstrapInput(has_thread=True, bound=RECORD, wanted=RECORD),
        "matching-thread-bootstrap-binding",
    ),
)


@pytest.mark.parametrize(("given_input", "reason"), BOOTSTRAPS)
def test_bootstrap_reasons(given_input: BootstrapInput, reason: str) -> None:
    """Spec D-31, D-32."""
    decision = decide_bootstrap(given_input)
    assert decision.reason.value == reason
    assert decision.project is (reason != "matching-thread-bootstrap-binding")


def test_a_blank_epoch_falls_back_with_a_warning() -> None:
    """Spec D-30, D-36."""
    asked = ContextProjection(mode="thread_bootstrap", epoch=" ")
    request, warning = bootstrap_request(asked)
    assert request is None
    assert warning is not None
    assert bootstrap_request(ContextProjection()) == (None, None)
    trimmed = ContextProjection(mode="thread_bootstrap", epoch=" e ", fingerprint=" ")
    assert bootstrap_request(trimmed) == (BootstrapRequest(epoch="e"), None)
    assert leaves_bootstrap(RECORD, None)
    assert not leaves_bootstrap(without_projection(RECORD), None)
    assert not leaves_bootstrap(RECORD, BootstrapRequest(epoch="e"))


# ------------------------------------------------------------------------------------ seed


def turn(n: int) -> list[Message]:
    return [
        user_message(f"q{n}"),
        Message(role="assistant", content=[tool_call_part(f"c{n}", "t", {})]),
        tool_result_message(f"c{n}", "t", "r", is_error=False),
        assistant_message(f"a{n}"),
    ]


def test_newest_whole_turns_are_kept_behind_a_note() -> None:
    """Decision 5."""
    messages = [message for n in range(10) for message in turn(n)]
    units = units_of(messages)
    assert seed_selection(units, 13, lambda _: 1) == (units[-3:], 28)
    assert seed_selection(units, 12, lambda _: 1) == (units[-2:], 32)  # the note costs one
    assert seed_selection(units, 40, lambda _: 1) == (units, 0)
    assert seed_selection(units, 40, lambda _: 1, unread_older=5) == (units[1:], 9)
    assert "28 older messages" in left_out_note(28)


def test_a_result_in_a_later_turn_joins_both_turns() -> None:
    """Decision 5: a call with its result is never parted."""
    call = Message(role="assistant", content=[tool_call_part("c", "t", {})])
    result = tool_result_message("c", "t", "r", is_error=False)
    messages = [
        user_message("1"), call, user_message("2"), result, user_message("3"),
    ]  # fmt: skip
    assert [len(unit) for unit in units_of(messages)] == [4, 1]


@given(
    st.lists(st.sampled_from(["user", "assistant", "call", "result"]), max_size=20),
    st.integers(0, 20),
)
def test_seeding_keeps_a_fitting_tail_and_parts_no_pair(kinds: list[str], budget: int) -> None:
    """Decision 5."""
    messages: list[Message] = []
    for at, kind in enumerate(kinds):
        match kind:
            case "call":
                part = tool_call_part(f"c{at % 3}", "t", {})
                messages.append(Message(role="assistant", content=[part]))
            case "result":
                messages.append(tool_result_message(f"c{at % 3}", "t", "r", is_error=False))
            case role:
                messages.append(Message(role=role, content=str(at)))
    units = units_of(messages)
    assert [message for unit in units for message in unit] == messages
    kept, left_out = seed_selection(units, budget, lambda _: 1)
    assert left_out + sum(len(unit) for unit in kept) == len(messages)
    size = sum(len(unit) for unit in kept) + (1 if left_out else 0)
    assert size <= budget or not kept


# ---------------------------------------------------------------------------- instructions


def test_sections_are_joined_by_one_empty_line() -> None:
    """Spec E-02, S5."""
    assert compose(["base", " ", None, "\nmiddle\n", "addition"]) == "base\n\nmiddle\n\naddition"


def test_base_sections_follow_the_documented_order() -> None:
    """Spec E-01, E-03, E-04, E-05, D-03, decision 11."""
    text = compose(
        base_sections(
            BaseSections(
                deferred_tools=frozenset({"b", "a"}), guidance=("guide",), extra="operator"
            )
        )
    )
    marks = ["Treadle", "a, b", "conversation_context", "final answer is sent", "guide", "operator"]
    places = [text.index(mark) for mark in marks]
    assert places == sorted(places)
    rules = {compose(base_sections(BaseSections(reply_rule=rule))) for rule in (
        "message_tool_only", "message_tool", "final_answer")}  # fmt: skip
    assert len(rules) == 3


def test_the_reply_rule_says_who_sends_the_final_answer() -> None:
    """Spec E-05: not by itself; the final answer, the tool for others; the final answer alone."""
    by_tool, both, plain = (
        compose(base_sections(BaseSections(reply_rule=rule)))
        for rule in ("message_tool_only", "message_tool", "final_answer")
    )
    assert "final answer is not sent" in by_tool
    assert "use the message tool" in " ".join(by_tool.split())
    assert "final answer is sent to the person" in both
    assert "message tool only to reach somebody else or to send files" in " ".join(both.split())
    assert "final answer is sent to the person" in plain
    assert "message tool" not in plain


def test_changed_addition_supersedes_and_a_removed_one_is_withdrawn() -> None:
    """Spec E-15, decision 6."""
    first = text_hash("A")
    assert instructions_plan(first, " A ", fresh_thread=False) == Unchanged()
    assert instructions_plan(first, "B", fresh_thread=False) == Supersede(addition="B")
    assert instructions_plan(first, None, fresh_thread=False) == Withdraw()
    assert instructions_plan(first, "B", fresh_thread=True) == Unchanged()
    assert instructions_plan(text_hash(None), "  ", fresh_thread=False) == Unchanged()


def test_superseding_item_is_a_whole_developer_message() -> None:
    """Spec E-15: long additions are not cut."""
    long = "rule " * 5000
    item = superseding_item(long, given_hash=text_hash("A"), sequence=1)
    assert item_role(item) == "developer"
    assert "superseded" in item_text(item)
    assert long.strip() in item_text(item)
    assert "withdrawn" in item_text(superseding_item(None, given_hash=text_hash("A"), sequence=2))
    fresh = superseding_item("B", given_hash=text_hash(None), sequence=1)
    assert "superseded" not in item_text(fresh)


def test_an_addition_is_read_back_from_its_item() -> None:
    """Spec E-15: a thread that is found after a crash tells what it was given."""
    for addition, given_hash in (("B\n\nC", text_hash("A")), ("B", text_hash(None)), ("", "x")):
        assert (
            addition_of(superseding_item(addition, given_hash=given_hash, sequence=1)) == addition
        )


def test_ids_of_instructions_depend_on_text_and_sequence() -> None:
    """Spec D-52."""
    one = superseding_item("B", given_hash="x", sequence=1)
    assert one == superseding_item("B", given_hash="x", sequence=1)
    assert one["id"] != superseding_item("B", given_hash="x", sequence=2)["id"]
    assert one["id"] != superseding_item("C", given_hash="x", sequence=1)["id"]
