"""The engine calls round one turn: order, arguments, and what a failure does not do."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from treadle.config import Deadlines
from treadle.contract.engine import (
    AfterTurnParams,
    AssembleParams,
    BootstrapParams,
    EngineInfo,
    IngestParams,
    LastCallUsage,
    MaintainParams,
    PromptCache,
)
from treadle.engines.answers import engine_info
from treadle.engines.guard import GuardedEngine
from treadle.engines.legacy import LegacyEngine
from treadle.foreign import Abort, ForeignCalls
from treadle.harness import lifecycle
from treadle.harness.lifecycle import (
    FinalizeOutcome,
    LifecycleCall,
    MaintainOutcome,
    TurnEnd,
    TurnMessages,
)
from treadle.harness.settings import Surroundings, mode_of, reason_code, runtime_settings
from treadle.harness.views import MessageView, visible_count
from treadle.model.ids import SessionId, SessionKey
from treadle.model.message import Message, assistant_message, text_of, user_message
from treadle.model.turn import Usage
from treadle.observe import emit
from treadle.testing.engine import BreakingEngine, RecordingEngine

pytestmark = pytest.mark.anyio

CALL = LifecycleCall(
    session_id=SessionId("ses_1"),
    session_key=SessionKey("agent:main:main"),
    harness_id="codex",
    model="gpt-x",
    cwd="/w",
    workspace_dir="/workspace",
    agent_dir="/agent",
    token_budget=1000,
    attempt=1,
    is_heartbeat=True,
)
HISTORY = (user_message("one"), assistant_message("two"))
TURN = (user_message("three"), assistant_message("four"))
GOOD = TurnEnd()


@pytest.fixture
async def foreign() -> AsyncIterator[ForeignCalls]:
    async with ForeignCalls(emit, close_within_s=0.05) as calls:
        yield calls


@pytest.fixture
def events(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, logger="treadle")
    return caplog


def named(records: list[logging.LogRecord]) -> list[str]:
    return [record.__dict__["event"] for record in records if "event" in record.__dict__]


def guard(engine: Any, foreign: ForeignCalls) -> GuardedEngine:
    return GuardedEngine(
        engine,
        engine_info("e", engine),
        foreign=foreign,
        deadlines=Deadlines(),
    )


async def whole_turn(
    engine: GuardedEngine, *, end: TurnEnd = GOOD, had_transcript: bool = True
) -> tuple[FinalizeOutcome, MaintainOutcome]:
    call = lifecycle.with_settings(CALL, engine)
    await lifecycle.bootstrap(engine, call, had_transcript=had_transcript, messages=HISTORY)
    await lifecycle.assemble(
        engine, call, messages=HISTORY, available_tools=frozenset({"t"}), prompt="three"
    )
    finalized = await lifecycle.finalize(
        engine,
        call,
        messages=TurnMessages(history=HISTORY, turn=TURN, snapshot=HISTORY + TURN),
        pre_prompt_message_count=2,
        end=end,
    )
    maintained = await lifecycle.maintain(engine, call, reason="turn", end=end, finalized=finalized)
    return finalized, maintained


async def test_calls_come_in_the_fixed_order_with_what_each_is_due(foreign: ForeignCalls) -> None:
    """Spec C-01, B-08, B-09, B-10, B-14, B-16, I-04, I-05, I-08."""
    recording = RecordingEngine()
    finalized, maintained = await whole_turn(guard(recording, foreign))
    assert recording.operations == ["bootstrap", "maintain", "assemble", "after_turn", "maintain"]
    first, upkeep, second, third, last = (call.params for call in recording.calls)
    assert isinstance(first, BootstrapParams)
    assert isinstance(upkeep, MaintainParams)
    assert upkeep.reason == "bootstrap"
    assert isinstance(second, AssembleParams)
    assert (second.prompt, second.available_tools, second.token_budget, second.model) == (
        "three",
        frozenset({"t"}),
        1000,
        "gpt-x",
    )
    assert recording.calls[2].messages == HISTORY
    assert isinstance(third, AfterTurnParams)
    assert (third.pre_prompt_message_count, third.is_heartbeat, third.token_budget) == (
        2,
        True,
        1000,
    )
    assert recording.calls[3].messages == HISTORY + TURN
    assert isinstance(last, MaintainParams)
    assert last.reason == "turn"
    assert last.runtime_settings is third.runtime_settings, "the same object (B-32)"
    assert all(
        call.params and call.params.session_key == CALL.session_key for call in recording.calls
    )
    assert finalized == FinalizeOutcome(succeeded=True, called="after_turn", handed_over=2)
    assert maintained.result is not None


async def test_legacy_is_never_called(foreign: ForeignCalls) -> None:
    """Spec A-20, A-21, I-12."""
    recording = RecordingEngine(info=EngineInfo(id="legacy", name="x"))
    finalized, maintained = await whole_turn(guard(recording, foreign))
    assert recording.calls == []
    assert finalized == FinalizeOutcome(succeeded=True)
    assert maintained == MaintainOutcome(skipped="nothing to ask")
    await whole_turn(guard(LegacyEngine(), foreign))


async def test_bootstrap_is_skipped_on_a_first_run_and_assembly_is_not(
    foreign: ForeignCalls,
) -> None:
    """Spec C-08."""
    recording = RecordingEngine()
    await whole_turn(guard(recording, foreign), had_transcript=False)
    assert recording.operations == ["assemble", "after_turn", "maintain"]


async def test_bootstrap_maintenance_runs_without_a_bootstrap_method(foreign: ForeignCalls) -> None:
    """Spec B-09."""
    recording = RecordingEngine(has_bootstrap=False)
    await whole_turn(guard(recording, foreign))
    assert recording.operations == ["maintain", "assemble", "after_turn", "maintain"]


@pytest.mark.parametrize(
    ("takes", "operations", "messages"),
    [
        ("after_turn", ["after_turn"], [HISTORY + TURN]),
        ("ingest_batch", ["ingest_batch"], [TURN]),
        ("ingest", ["ingest", "ingest"], [TURN[:1], TURN[1:]]),
    ],
)
async def test_a_turn_is_handed_over_once_by_the_best_method(
    takes: Any,
    operations: list[str],
    messages: list[tuple[Message, ...]],
    foreign: ForeignCalls,
) -> None:
    """Spec I-04, I-05, I-21."""
    recording = RecordingEngine(takes=takes, has_bootstrap=False, has_maintain=False)
    finalized, _ = await whole_turn(guard(recording, foreign))
    assert recording.operations == ["assemble", *operations]
    assert [call.messages for call in recording.calls[1:]] == messages
    assert finalized.handed_over == 2


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (TurnEnd(prompt_error=True), "prompt error"),
        (TurnEnd(aborted=True), "aborted"),
        (TurnEnd(yield_aborted=True), "yield aborted"),
    ],
)
async def test_a_bad_turn_is_handed_over_but_not_maintained(
    end: TurnEnd, reason: str, foreign: ForeignCalls, events: pytest.LogCaptureFixture
) -> None:
    """Spec S3, I-08, I-09, I-10, I-19."""
    recording = RecordingEngine(has_bootstrap=False)
    finalized, maintained = await whole_turn(guard(recording, foreign), end=end)
    assert finalized.succeeded
    assert recording.operations == ["maintain", "assemble", "after_turn"]
    assert maintained == MaintainOutcome(skipped=reason)
    skipped = [e for e in events.records if e.__dict__.get("event") == "engine.maintenance_skipped"]
    assert [e.__dict__["fields"]["reason"] for e in skipped] == [reason]


async def test_finalizing_bad_turns_can_be_switched_off(foreign: ForeignCalls) -> None:
    """Spec S3."""
    recording = RecordingEngine()
    outcome = await lifecycle.finalize(
        guard(recording, foreign),
        CALL,
        messages=TurnMessages(history=HISTORY, turn=TURN),
        pre_prompt_message_count=2,
        end=TurnEnd(aborted=True),
        finalize_on_failure=False,
    )
    assert (outcome.succeeded, recording.calls) == (True, [])


async def test_a_stopped_run_still_hands_its_turn_over(foreign: ForeignCalls) -> None:
    """Spec S3: the raised signal of the run must not cut this off."""
    recording = RecordingEngine()
    stopped = Abort()
    stopped.set("stopped by the person")
    engine = guard(recording, foreign)
    call = replace(CALL, abort=stopped)
    assembled = await lifecycle.assemble(
        engine, call, messages=HISTORY, available_tools=frozenset(), prompt="p"
    )
    assert assembled.failed == lifecycle.ABORTED
    outcome = await lifecycle.finalize(
        engine,
        call,
        messages=TurnMessages(history=HISTORY, turn=TURN),
        pre_prompt_message_count=2,
        end=TurnEnd(aborted=True),
    )
    assert outcome.called == "after_turn"
    assert recording.calls[-1].messages == HISTORY + TURN


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """Where an engine throws, what is still asked, and the one warning."""

    on: str
    then: list[str]
    warning: str


FAILING = {
    "bootstrap (S-01)": Failing(
        on="bootstrap",
        then=["bootstrap", "assemble", "after_turn", "maintain"],
        warning="engine.bootstrap_failed",
    ),
    "assemble (S-02, B-47)": Failing(
        on="assemble",
        then=["bootstrap", "maintain", "assemble", "after_turn", "maintain"],
        warning="engine.assemble_failed",
    ),
    "after_turn (S-05)": Failing(
        on="after_turn",
        then=["bootstrap", "maintain", "assemble", "after_turn"],
        warning="engine.finalize_failed",
    ),
}


@pytest.mark.parametrize("case", FAILING.values(), ids=FAILING.keys())
async def test_a_failure_is_one_warning_and_the_turn_goes_on(
    case: Failing, foreign: ForeignCalls, events: pytest.LogCaptureFixture
) -> None:
    """Spec S-01, S-02, S-05, I-07, B-47."""
    engine = BreakingEngine("throws", on=case.on)
    asked: list[str] = []
    answer = engine._answer

    def noting(operation: str, good: object) -> object:
        asked.append(operation)
        return answer(operation, good)

    engine._answer = noting  # type: ignore[method-assign] # the kit's own engine, to see the order
    await whole_turn(guard(engine, foreign))
    assert asked == case.then
    warnings = [e for e in events.records if e.levelno >= logging.WARNING]
    assert named(warnings) == [case.warning]
    assert "abcdef123456" not in str(warnings[0].__dict__["fields"]), "redacted (S-02)"


async def test_maintenance_that_throws_is_a_warning(
    foreign: ForeignCalls, events: pytest.LogCaptureFixture
) -> None:
    """Spec I-15, S-06."""
    engine = guard(BreakingEngine("throws", on="maintain", calls=frozenset({2})), foreign)
    finalized, maintained = await whole_turn(engine)
    assert finalized.succeeded
    assert maintained.failed
    assert named([e for e in events.records if e.levelno >= logging.WARNING]) == [
        "engine.maintenance_failed"
    ]


async def test_one_failing_ingest_does_not_stop_the_others(foreign: ForeignCalls) -> None:
    """Spec I-07."""

    class Refusing(RecordingEngine):
        def ingest(self, params: IngestParams) -> Any:
            super().ingest(params)
            if params.message.role == "user":
                raise ValueError("no users")
            return {"ingested": True}

    engine = Refusing(takes="ingest", has_bootstrap=False)
    finalized, maintained = await whole_turn(guard(engine, foreign))
    assert engine.operations == ["maintain", "assemble", "ingest", "ingest"]
    assert (finalized.succeeded, finalized.handed_over) == (False, 1)
    assert maintained.skipped == "finalization failed"


async def test_nothing_new_is_no_ingest_call(foreign: ForeignCalls) -> None:
    """Spec I-05."""
    recording = RecordingEngine(takes="ingest_batch")
    outcome = await lifecycle.finalize(
        guard(recording, foreign),
        CALL,
        messages=TurnMessages(history=HISTORY, turn=(), snapshot=HISTORY),
        pre_prompt_message_count=2,
        end=GOOD,
    )
    assert (outcome.succeeded, recording.calls) == (True, [])


@pytest.mark.parametrize(
    "messages",
    [
        TurnMessages(history=HISTORY, turn=TURN, snapshot=HISTORY, mirrored=False),
        TurnMessages(history=HISTORY, turn=TURN),
    ],
    ids=["not written", "not read again"],
)
async def test_fallback_data_is_handed_over_where_the_mirror_failed(
    messages: TurnMessages, foreign: ForeignCalls, events: pytest.LogCaptureFixture
) -> None:
    """Spec I-01, I-02, I-03, S-04."""
    recording = RecordingEngine(takes="ingest_batch")
    outcome = await lifecycle.finalize(
        guard(recording, foreign),
        CALL,
        messages=messages,
        pre_prompt_message_count=2,
        end=GOOD,
    )
    assert outcome.handed_over == 2
    assert recording.calls[0].messages == TURN
    (failed,) = [e for e in events.records if e.__dict__.get("event") == "mirror.failed"]
    assert failed.__dict__["fields"]["reason"] == "fallback data is ingested"


async def test_host_only_messages_are_neither_shown_nor_counted(foreign: ForeignCalls) -> None:
    """Spec B-13, I-06."""
    hidden = replace(user_message("runtime context"), host_only=True)
    recording = RecordingEngine()
    await lifecycle.finalize(
        guard(recording, foreign),
        CALL,
        messages=TurnMessages(history=(), turn=(), snapshot=(hidden, *HISTORY, hidden, *TURN)),
        pre_prompt_message_count=3,
        end=GOOD,
    )
    params = recording.calls[0].params
    assert isinstance(params, AfterTurnParams)
    assert params.pre_prompt_message_count == 2
    assert recording.calls[0].messages == HISTORY + TURN


async def test_what_an_engine_does_to_a_message_stays_with_it(foreign: ForeignCalls) -> None:
    """Spec B-13."""

    class Mutating(RecordingEngine):
        def assemble(self, params: AssembleParams) -> Any:
            for message in params.messages:
                content: Any = message.content
                content[0]["text"] = "changed"
            return super().assemble(params)

    before = (user_message("one"), assistant_message("two"))
    await lifecycle.assemble(
        guard(Mutating(), foreign), CALL, messages=before, available_tools=frozenset(), prompt="p"
    )
    assert before == HISTORY


async def test_events_name_ids_and_counts_and_never_texts(
    foreign: ForeignCalls, events: pytest.LogCaptureFixture
) -> None:
    """Spec T-01, T-02, T-03."""
    await whole_turn(guard(RecordingEngine(addition="secret plan"), foreign))
    assert [e for e in named(events.records) if e.startswith("engine.")] == [
        "engine.bootstrap_started",
        "engine.bootstrap_completed",
        "engine.assemble_applied",
        "engine.finalize_completed",
    ]
    (applied,) = [e for e in events.records if e.__dict__["event"] == "engine.assemble_applied"]
    fields = applied.__dict__["fields"]
    assert fields["engineId"] == "recording"
    assert fields["sessionId"] == "ses_1"
    assert fields["assembledMessageCount"] == 2
    assert fields["hasSystemPromptAddition"] is True
    logged = str([e.__dict__.get("fields") for e in events.records])
    for said in ("secret plan", "three", *map(text_of, HISTORY)):
        assert f"'{said}'" not in logged


def test_a_blank_session_key_becomes_the_session_id() -> None:
    """Spec C-05."""
    assert lifecycle.effective_key("agent:a:b", SessionId("ses_1")) == "agent:a:b"
    assert lifecycle.effective_key(" ", SessionId("ses_1")) == "ses_1"
    assert lifecycle.effective_key(None, SessionId("ses_1")) == "ses_1"


def test_unreported_usage_is_absent_and_never_zero() -> None:
    """Spec I-13, I-22, B-33."""
    bare = lifecycle.runtime_context_from_usage(CALL, None, observed_at=1.0)
    assert (bare.last_call_usage, bare.prompt_cache, bare.current_token_count) == (None, None, None)
    assert (bare.cwd, bare.token_budget, bare.agent_harness_id) == ("/w", 1000, "codex")
    assert (bare.workspace_dir, bare.agent_dir, bare.attempt) == ("/workspace", "/agent", 1)
    used = lifecycle.runtime_context_from_usage(
        CALL, Usage(input=5, output=2, cache_read=3, total=10), observed_at=9.0
    )
    assert used.last_call_usage == LastCallUsage(input=5, output=2, total=10, cache_read=3)
    assert used.prompt_cache == PromptCache(model="gpt-x", observed_at=9.0, read=3)
    without = lifecycle.runtime_context_from_usage(
        CALL, Usage(input=5, output=2, total=7), observed_at=9.0
    )
    assert without.prompt_cache is None
    assert used.current_token_count == 10


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (None, None),
        (" ", None),
        ("request timed out after rate limit", "provider_timeout"),
        ("HTTP 429", "rate_limited"),
        ("context too long", "context_overflow"),
        ("runtime gone", "runtime_unavailable"),
        ("primary unavailable", "provider_unavailable"),
        ("rate_limited", "rate_limited"),
        ("cosmic ray", "unknown"),
    ],
)
def test_reasons_are_classified_by_the_first_match(text: str | None, code: str | None) -> None:
    """Spec B-31."""
    assert reason_code(text) == code


@pytest.mark.parametrize(
    ("run", "mode"),
    [
        (Surroundings(), "normal"),
        (Surroundings(requested_model="a", resolved_model="a"), "normal"),
        (Surroundings(requested_model="a", resolved_model="b"), "fallback"),
        (Surroundings(fallback_reason="429"), "fallback"),
        (Surroundings(fallback_reason="429", degraded_reason="x"), "degraded"),
        (Surroundings(degraded_reason="x", mode="normal"), "normal"),
    ],
)
def test_the_mode_follows_from_the_reasons(run: Surroundings, mode: str) -> None:
    """Spec B-29."""
    assert mode_of(run) == mode


@pytest.mark.parametrize(
    ("selected", "source"), [("legacy", "default"), ("window", "configured"), (None, "unknown")]
)
def test_unknown_settings_are_null_and_never_absent(selected: str | None, source: str) -> None:
    """Spec B-28, B-30."""
    assert runtime_settings(Surroundings(selected_engine=selected)) == {
        "schemaVersion": 1,
        "runtime": {"host": "openclaw", "mode": "normal", "harnessId": None, "runtimeId": None},
        "model": {"requested": None, "resolved": None, "provider": None, "family": None},
        "contextEngineSelection": {"selectedId": selected, "source": source},
        "executionHost": {"id": None, "label": None},
        "limits": {"promptTokenBudget": None, "maxOutputTokens": None},
        "diagnostics": {"fallbackReason": None, "degradedReason": None},
    }


def test_a_view_is_its_parts_one_after_the_other() -> None:
    view: Sequence[Message] = MessageView(HISTORY, (), TURN)
    whole: tuple[Message, ...] = HISTORY + TURN
    assert list(view) == list(whole)
    assert list(reversed(view)) == list(reversed(whole))
    for cut in (slice(1, 3), slice(-1, None), slice(None, None, 2), slice(3, 1), slice(9, 12)):
        assert tuple(view[cut]) == whole[cut]
    assert view[-1] == TURN[-1]
    with pytest.raises(IndexError):
        view[4]
    assert visible_count(whole, 3) == 3
