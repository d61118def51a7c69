"""A turn as it is told: events, answer, counts, faults (spec area G, K-18, S-09)."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.model.ids import RunId, ThreadId, TurnId
from treadle.model.json import JsonObject, JsonValue
from treadle.model.turn import (
    CompactionFinished,
    CompactionStarted,
    ContextReported,
    Notice,
    PartDelta,
    PartValue,
    RunEvent,
    TurnStarted,
    Usage,
)
from treadle.projection.fault import turn_fault
from treadle.projection.items import TurnProjection, TurnScope
from treadle.projection.usage import last_call_usage, prompt_cache, usage_from_wire

RUN, THREAD, TURN = RunId("run"), ThreadId("thread"), TurnId("turn")
OURS: JsonObject = {"threadId": THREAD, "turnId": TURN}


def projection(*, owns: bool = False, safe: frozenset[str] = frozenset()) -> TurnProjection:
    turn = TurnProjection(
        TurnScope(
            run_id=RUN,
            thread_id=THREAD,
            model="m",
            model_provider="p",
            engine_owns_compaction=owns,
            replay_safe_tools=safe,
        )
    )
    turn.expect(TURN)
    return turn


def item(kind: str, name: str, **fields: JsonValue) -> JsonObject:
    return {"type": kind, "id": name, **fields}


def started(turn: TurnProjection, what: JsonObject) -> tuple[RunEvent, ...]:
    return turn.feed("item/started", {**OURS, "item": what})


def completed(turn: TurnProjection, what: JsonObject) -> tuple[RunEvent, ...]:
    return turn.feed("item/completed", {**OURS, "item": what})


def said(turn: TurnProjection, name: str, text: str, **fields: JsonValue) -> tuple[RunEvent, ...]:
    return completed(turn, item("agentMessage", name, text=text, **fields))


def ended(turn: TurnProjection, status: str = "completed", **fields: JsonValue) -> None:
    turn.feed(
        "turn/completed",
        {"threadId": THREAD, "turn": {"id": TURN, "status": status, "items": [], **fields}},
    )


@pytest.mark.parametrize(
    "params", [{"threadId": "other", "turnId": TURN}, {"threadId": THREAD, "turnId": "other"}, {}]
)
def test_other_threads_and_turns_are_ignored(params: JsonObject) -> None:
    """Spec G-02, G-16."""
    turn = projection()
    assert turn.feed("item/started", {**params, "item": item("plan", "p")}) == ()
    turn.feed("turn/completed", {**params, "turn": {"id": "other", "status": "completed"}})
    assert turn.items.lifecycle.started_count == 0
    assert turn.end is None


def test_hooks_and_warnings_need_no_turn() -> None:
    """Spec G-02, G-22."""
    turn = projection()
    hook: JsonObject = {"id": "h", "eventName": "stop", "status": "running"}
    told = turn.feed("hook/started", {"threadId": THREAD, "turnId": None, "run": hook})
    assert told == (
        PartValue(
            run_id=RUN,
            part=told[0].part,  # type: ignore[union-attr]  # compared below
            kind="progress",
            value={
                "stream": "codex_app_server.hook",
                "phase": "started",
                "event": "stop",
                "status": "running",
            },
        ),
    )
    (warned,) = turn.feed("guardianWarning", {"threadId": THREAD, "message": "careful"})
    assert warned == Notice(run_id=RUN, code="codex.guardian", text="careful")


def test_what_comes_before_the_turn_id_is_known_is_looked_at_then() -> None:
    """Ours: `turn/started` may overtake the answer to `turn/start`."""
    turn = TurnProjection(TurnScope(run_id=RUN, thread_id=THREAD))
    assert turn.feed("turn/started", {"threadId": THREAD, "turn": {"id": TURN}}) == ()
    assert turn.feed("turn/started", {"threadId": THREAD, "turn": {"id": "before"}}) == ()
    assert turn.expect(TURN) == (TurnStarted(run_id=RUN, thread_id=THREAD, turn_id=TURN),)
    assert turn.expect(TURN) == ()
    with pytest.raises(ValueError, match="other"):
        turn.expect(TurnId("other"))


def test_deltas_append_and_the_completed_text_wins() -> None:
    """Spec G-05."""
    turn = projection()
    started(turn, item("agentMessage", "a", text=""))
    deltas = [
        turn.feed("item/agentMessage/delta", {**OURS, "itemId": "a", "delta": text})
        for text in ("he", "llo")
    ]
    assert [(one.at, one.text) for (one,) in deltas if isinstance(one, PartDelta)] == [
        (0, "he"),
        (2, "llo"),
    ]
    assert turn.items.final_text == "hello"
    (rest,) = said(turn, "a", "hello!")
    assert isinstance(rest, PartDelta)
    assert (rest.at, rest.text) == (5, "!")
    (whole,) = said(turn, "a", "other")
    assert isinstance(whole, PartDelta)
    assert (whole.at, whole.text) == (0, "other")
    assert said(turn, "a", "") == ()
    assert turn.items.final_text == ""


def test_late_deltas_of_a_finished_message_change_nothing() -> None:
    """Spec G-05."""
    turn = projection()
    said(turn, "a", "done")
    assert turn.feed("item/agentMessage/delta", {**OURS, "itemId": "a", "delta": "x"}) == ()
    assert turn.items.final_text == "done"


def test_commentary_is_progress() -> None:
    """Spec G-05."""
    turn = projection()
    started(turn, item("agentMessage", "a", text="", phase="commentary"))
    assert turn.feed("item/agentMessage/delta", {**OURS, "itemId": "a", "delta": "x"}) == ()
    (told,) = said(turn, "a", "looking", phase="commentary")
    assert isinstance(told, PartValue)
    assert told.kind == "progress"
    assert turn.items.final_text == ""
    assert turn.items.assistant_texts == ()


COMMAND = item("commandExecution", "c1", command="ls", cwd="/w", status="inProgress")


def test_native_work_after_an_answer_makes_it_none() -> None:
    """Spec G-06."""
    turn = projection()
    said(turn, "a", "I will look.")
    started(turn, COMMAND)
    assert turn.items.final_text == ""
    said(turn, "b", "Found it.")
    assert turn.items.final_text == "Found it."
    assert turn.items.assistant_texts == ("I will look.", "Found it.")


def test_a_silent_token_replaces_no_answer() -> None:
    """Spec G-06."""
    turn = projection()
    said(turn, "a", "answer")
    said(turn, "b", " NO_REPLY ")
    assert turn.items.final_text == "answer"
    silent = projection()
    said(silent, "b", "NO_REPLY")
    assert silent.items.final_text == "NO_REPLY"
    assert silent.items.assistant_texts == ()


@dataclass(frozen=True)
class Shown:
    item: JsonObject
    name: str
    kind: str
    status: str
    audit: str


SHOWN = (
    Shown(COMMAND, "bash", "command", "running", "running"),
    Shown(item("fileChange", "f", changes=[], status="declined"), "apply_patch", "patch",
          "blocked", "blocked"),
    Shown(item("webSearch", "w", query="q"), "web_search", "search", "completed", "unknown"),
    Shown(item("mcpToolCall", "m", server="s", tool="t", status="failed"), "s.t", "tool",
          "failed", "failed"),
    Shown(item("dynamicToolCall", "d", tool="recall", status="odd"), "recall", "tool",
          "completed", "unknown"),
)  # fmt: skip


@pytest.mark.parametrize("case", SHOWN, ids=lambda case: case.name)
def test_tools_are_named_and_judged(case: Shown) -> None:
    """Spec G-08, G-09, G-10, G-23."""
    turn = projection()
    (told,) = started(turn, case.item)
    assert isinstance(told, PartValue)
    assert told.value["name"] == case.name
    assert told.value["kind"] == case.kind
    assert told.value["status"] == case.status
    assert told.value["phase"] == "started"
    (meta,) = turn.items.tool_metas
    assert meta["status"] == case.audit


def test_arguments_shown_to_watchers_are_redacted() -> None:
    """INV-22."""
    secret: JsonValue = {"api_key": "sk-abcdefghijklmnopqrst"}
    (told,) = started(projection(), item("dynamicToolCall", "d", tool="t", arguments=secret))
    assert "sk-abc" not in repr(told)


def test_compaction_is_told_and_counted_once() -> None:
    """Spec G-19, G-20, G-21."""
    turn = projection(owns=True)
    what = item("contextCompaction", "k")
    (begun,) = started(turn, what)
    assert isinstance(begun, CompactionStarted)
    assert begun.owner == "codex"
    assert begun.details == {
        "backend": "codex-app-server",
        "threadId": THREAD,
        "turnId": TURN,
        "itemId": "k",
        "ownsCompaction": True,
        "phase": "start",
    }
    (done,) = completed(turn, what)
    assert isinstance(done, CompactionFinished)
    assert done.details["compactedCount"] == -1
    assert done.details["completed"] is True
    assert completed(turn, what) == ()
    assert started(turn, what) == ()
    assert turn.items.lifecycle.compaction_count == 1
    assert "ownsCompaction" not in started(projection(), what)[0].details  # type: ignore[union-attr]


USAGE: JsonObject = {
    "last": {
        "inputTokens": 1000,
        "cachedInputTokens": 400,
        "cacheWriteInputTokens": 100,
        "outputTokens": 20,
        "reasoningOutputTokens": 5,
        "totalTokens": 1020,
    },
    "modelContextWindow": 258_400,
}


def test_usage_is_that_of_the_last_response() -> None:
    """Spec G-13, G-15."""
    turn = projection()
    (told,) = turn.feed("thread/tokenUsage/updated", {**OURS, "tokenUsage": USAGE})
    expected = Usage(
        input=500, output=20, cache_read=400, cache_write=100, reasoning=5, total=1020,
        window=258_400,
    )  # fmt: skip
    assert told == ContextReported(run_id=RUN, usage=expected)
    assert turn.feed("thread/tokenUsage/updated", {**OURS, "tokenUsage": {"last": {}}}) == ()
    assert turn.usage is not None
    assert turn.usage.usage == expected
    assert turn.usage.context_tokens == 1020


def test_unreported_numbers_stay_unknown() -> None:
    """Spec G-14, G-15, G-28."""
    reading = usage_from_wire({"tokenUsage": {"last": {"inputTokens": 9, "outputTokens": 1}}})
    assert reading is not None
    assert reading.usage == Usage(input=9, output=1, total=10)
    assert reading.context_tokens is None
    assert prompt_cache(reading.usage, model="m", observed_at=1.0) is None
    assert last_call_usage(reading.usage).cache_read is None
    odd: JsonObject = {**USAGE, "last": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2,
                                         "cachedInputTokens": 5}}  # fmt: skip
    inconsistent = usage_from_wire({"tokenUsage": odd})
    assert inconsistent is not None
    assert inconsistent.usage.input == 0
    assert inconsistent.context_tokens is None
    cache = prompt_cache(inconsistent.usage, model="m", observed_at=1.0)
    assert cache is not None
    assert (cache.read, cache.write) == (5, None)


@pytest.mark.parametrize(
    "usage", [None, 1, {}, {"last": None}, {"last": {"inputTokens": -1, "outputTokens": True}}]
)
def test_malformed_usage_is_no_usage(usage: JsonValue) -> None:
    """Spec G-13."""
    assert usage_from_wire({"tokenUsage": usage}) is None


def test_a_failed_turn_tells_its_error() -> None:
    """Spec G-16."""
    turn = projection()
    limits: JsonObject = {"primary": {"usedPercent": 100, "windowDurationMins": 300}}
    turn.feed("account/rateLimits/updated", {"rateLimits": limits})
    error: JsonObject = {"message": "out", "codexErrorInfo": "usageLimitExceeded"}
    ended(turn, "failed", error=error)
    assert turn.end is not None
    assert turn.end.status == "failed"
    assert turn.error == turn.end.error
    assert turn.error is not None
    assert turn.error["code"] == "codex.usage_limit"
    assert turn.error["message"] == "out Used: 100 % of the 300 minute window."


def test_a_failed_turn_without_words_gets_a_default() -> None:
    """Spec G-16."""
    turn = projection()
    ended(turn, "failed", error=None)
    assert turn.error is not None
    assert turn.error["code"] == "turn.failed"
    assert turn.error["message"]


@pytest.mark.parametrize(
    ("info", "code"),
    [
        ("contextWindowExceeded", "turn.context_overflow"),
        ({"responseStreamDisconnected": {"httpStatusCode": None}}, "codex.model_stream_lost"),
        ({"responseStreamDisconnected": {"httpStatusCode": 401}}, "codex_not_signed_in"),
        ({"httpConnectionFailed": {}}, "codex.model_unreachable"),
        ("other", "turn.failed"),
        (None, "turn.failed"),
        (7, "turn.failed"),
    ],
)
def test_faults_by_codex_own_code(info: JsonValue, code: str) -> None:
    """Spec G-16; facts section 11."""
    fault = turn_fault({"message": "m sk-abcdefghijklmnopqrst", "codexErrorInfo": info})
    assert fault["code"] == code
    assert "sk-abc" not in str(fault["message"])


def test_a_retried_error_is_no_error() -> None:
    """Spec G-17."""
    turn = projection()
    error: JsonObject = {"message": "Reconnecting... 1/1"}
    (told,) = turn.feed("error", {**OURS, "error": error, "willRetry": True})
    assert told == Notice(run_id=RUN, code="model.retrying", text="Reconnecting... 1/1")
    assert turn.error is None
    turn.feed("error", {**OURS, "error": error, "willRetry": False})
    assert turn.error is not None
    ended(turn)
    assert turn.end is not None
    assert turn.end.error is None


def test_missed_items_are_replayed_once() -> None:
    """Spec G-18."""
    turn = projection()
    said(turn, "a", "whole")
    turn.feed("item/agentMessage/delta", {**OURS, "itemId": "b", "delta": "par"})
    final = [
        item("agentMessage", "a", text="doubled"),
        item("agentMessage", "b", text="partial no more"),
    ]
    ended(turn, items=final)
    assert turn.items.assistant_texts == ("whole", "partial no more")
    assert turn.items.lifecycle.completed_count == 2


@pytest.mark.parametrize(
    "turn_field", [None, [], {}, {"id": TURN}, {"id": TURN, "status": "inProgress"}]
)
def test_malformed_completions_do_not_end_the_turn(turn_field: JsonValue) -> None:
    """Spec G-26."""
    turn = projection()
    assert turn.feed("turn/completed", {**OURS, "turn": turn_field}) == ()
    assert turn.end is None


def test_an_end_of_an_unknown_kind_is_a_failure_that_says_so() -> None:
    """Spec G-16.

    A-18: the turn is over; an unknown word is never a success, nor a wait for ever.
    """
    turn = projection()
    ended(turn, "evaporated")
    assert turn.end is not None
    assert turn.end.status == "failed"
    assert turn.error is not None
    assert "evaporated" in str(turn.error["message"])
    assert turn.unknown == {"turn status evaporated": 1}


def test_nothing_counts_after_the_end() -> None:
    """Spec G-02."""
    turn = projection()
    ended(turn)
    assert said(turn, "a", "late") == ()
    assert turn.items.final_text == ""


def test_rerouting_changes_who_answers() -> None:
    """Spec G-25."""
    turn = projection()
    (told,) = turn.feed("model/rerouted", {**OURS, "fromModel": "m", "toModel": "n"})
    assert isinstance(told, Notice)
    assert turn.model == "n"
    turn.feed("rawResponseItem/completed", {**OURS, "item": raw_message("x")})
    (entry,) = turn.snapshot()
    assert entry.meta["model"] == "n"


def raw_message(text: str) -> JsonObject:
    return {
        "type": "message",
        "role": "assistant",
        "id": f"msg_{text}",
        "content": [{"type": "output_text", "text": text}],
    }


def test_reasoning_plan_and_output_stream() -> None:
    """Spec G-04."""
    turn = projection()
    params: JsonObject = {**OURS, "itemId": "r"}
    method = "item/reasoning/summaryTextDelta"
    turn.feed(method, {**params, "delta": "one", "summaryIndex": 0})
    (second,) = turn.feed(method, {**params, "delta": "two", "summaryIndex": 1})
    assert isinstance(second, PartDelta)
    assert (second.kind, second.at, second.text) == ("reasoning", 3, "\n\ntwo")
    assert completed(turn, item("reasoning", "r", summary=["one", "two"])) == ()
    (output,) = turn.feed(
        "item/commandExecution/outputDelta", {**OURS, "itemId": "c", "delta": "hi\n"}
    )
    assert isinstance(output, PartDelta)
    assert output.kind == "output"
    (steps,) = turn.feed("turn/plan/updated", {**OURS, "plan": [{"step": "a"}]})
    assert isinstance(steps, PartValue)
    assert steps.value["steps"] == [{"step": "a"}]
    (plan,) = completed(turn, item("plan", "p", text="# Plan"))
    assert isinstance(plan, PartValue)
    (progress,) = turn.feed("item/mcpToolCall/progress", {**OURS, "itemId": "m", "message": "50"})
    assert isinstance(progress, PartValue)


@dataclass(frozen=True)
class Risk:
    name: str
    item: JsonObject
    side_effect: bool


RISKS = (
    Risk("command", COMMAND, True),
    Risk("blocked command", item("commandExecution", "c", status="declined"), False),
    Risk("patch", item("fileChange", "f", changes=[]), True),
    Risk("unsafe tool", item("dynamicToolCall", "d", tool="send"), True),
    Risk("safe tool", item("dynamicToolCall", "d", tool="recall"), False),
    Risk("reading server", item("mcpToolCall", "m", readOnlyHint=True), False),
    Risk("server", item("mcpToolCall", "m"), True),
    Risk("search", item("webSearch", "w", query="q"), False),
    Risk("unheard of", item("teleport", "t"), True),
    Risk("thought", item("reasoning", "r", summary=[]), False),
)


@pytest.mark.parametrize("case", RISKS, ids=lambda case: case.name)
def test_side_effects_and_replay(case: Risk) -> None:
    """Spec K-18, S-09: only a turn in which nothing was said or done may be sent again."""
    turn = projection(safe=frozenset({"recall"}))
    assert turn.items.replay_safe
    completed(turn, case.item)
    assert turn.items.had_potential_side_effects is case.side_effect
    assert turn.items.replay_safe is (case.name == "thought")


def test_open_items_and_words_forbid_a_replay() -> None:
    """Spec S-09."""
    turn = projection()
    started(turn, item("reasoning", "r", summary=[]))
    assert not turn.items.replay_safe
    spoken = projection()
    said(spoken, "a", "hi")
    assert not spoken.items.replay_safe
    assert not spoken.items.had_potential_side_effects


def test_unknown_things_are_counted() -> None:
    """Style 27."""
    turn = projection()
    turn.feed("item/whatever", OURS)
    started(turn, item("teleport", "t"))
    assert turn.unknown == {"item/whatever": 1, "item teleport": 1}


WORDS = st.sampled_from(
    ["item/started", "item/completed", "turn/completed", "error", "rawResponseItem/completed",
     "thread/tokenUsage/updated", "item/agentMessage/delta", "hook/started", "model/rerouted",
     "turn/plan/updated", "warning", "item/mcpToolCall/progress"]
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["a", "agentMessage", ""]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["item", "id", "type", "text", "turn", "status", "error", "delta",
                             "itemId", "content", "message", "tokenUsage", "last"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)  # fmt: skip


FIELDS = st.sampled_from([
    "item",
    "turn",
    "error",
    "delta",
    "itemId",
    "run",
    "toModel",
    "plan",
    "message",
    "tokenUsage",
])


@given(st.lists(st.tuples(WORDS, st.dictionaries(FIELDS, JSON)), max_size=8))
def test_no_notification_breaks_the_projection(
    told: list[tuple[str, dict[str, JsonValue]]],
) -> None:
    """Spec G-26: whatever comes, it is taken, and a snapshot can be made."""
    turn = projection()
    for method, params in told:
        turn.feed(method, {**OURS, **params})
    keys = [entry.key for entry in turn.snapshot(completed=False)]
    assert len(set(keys)) == len(keys)
