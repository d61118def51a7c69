"""Events and values as lines."""

from __future__ import annotations

import pytest

from treadle.cli.options import EFFORTS
from treadle.cli.render import (
    Line,
    entry_text,
    progress_lines,
    toml_text,
    usage_json,
    usage_text,
    value_lines,
)
from treadle.cli.summary import Envelopes, Summary
from treadle.config.records import EFFORT
from treadle.model.ids import EngineId, ItemId, RunId, SessionId, SessionKey, ThreadId, TurnId
from treadle.model.json import JsonObject, JsonValue
from treadle.model.message import Message, tool_call_part, tool_result_message, user_message
from treadle.model.question import Answer, Question, QuestionId, QuestionKind, Verdict
from treadle.model.turn import (
    CompactionFinished,
    ContextAssembled,
    Notice,
    Outcome,
    PartDelta,
    PartValue,
    QuestionOpened,
    QuestionResolved,
    RunEvent,
    RunFinished,
    RunStarted,
    TurnStarted,
    Usage,
)

RUN = RunId("r_1")
KEY = SessionKey("agent:main:main")
STARTED = RunStarted(run_id=RUN, session_key=KEY, session_id=SessionId("ses_1"))
TURN = TurnStarted(run_id=RUN, thread_id=ThreadId("t"), turn_id=TurnId("turn_1"))
DELTA = PartDelta(run_id=RUN, part=ItemId("i"), kind="text", at=0, text="Hi")
USAGE = Usage(input=100, output=7, cache_read=900, total=1007, window=2000)
FINISHED = RunFinished(
    run_id=RUN,
    outcome=Outcome.COMPLETED,
    text='{"a": 1}',
    error=None,
    replay_safe=False,
    partial=False,
    usage=USAGE,
    duration_s=1.5,
)


def tool(**value: JsonValue) -> PartValue:
    return PartValue(run_id=RUN, part=ItemId("i"), kind="tool", value=value)


def context(decision: str) -> ContextAssembled:
    return ContextAssembled(
        run_id=RUN, engine_id=EngineId("window"), decision=decision, reason="why", report={}
    )


QUESTION = Question(
    id=QuestionId("q"),
    kind=QuestionKind.COMMAND,
    thread_id=ThreadId("t"),
    turn_id=None,
    item_id=None,
    title="run\nrm -rf build",
)
REFUSED = Answer(
    question_id=QuestionId("q"), verdict=Verdict.REFUSED_BY_POLICY, by="policy", reason="read only"
)


@pytest.mark.parametrize(
    ("event", "lines"),
    [
        (STARTED, []),
        (DELTA, []),
        (context("continue"), []),
        (context("rebase"), [("·", "context rebase by engine window: why")]),
        (tool(name="exec_command", command="ls", status="running"), [("▸", "ls")]),
        (
            tool(name="x", command="ls", status="completed", exit_code=0, duration_s=1.26),
            [("✓", "ls  exit 0  1.3 s")],
        ),
        (
            tool(name="x", command="ls", status="failed", exit_code=2),
            [("✗", "ls  failed  exit 2")],
        ),
        (tool(name="f", arguments={"a": 1}, status="completed"), [("✓", 'f {"a": 1}')]),
        (tool(), [("▸", "tool")]),
        (
            QuestionOpened(run_id=RUN, question=QUESTION),
            [("!", "asked: run rm -rf build")],
        ),
        (
            QuestionResolved(run_id=RUN, answer=REFUSED),
            [("✗", "refused_by_policy by policy (read only)")],
        ),
        (
            CompactionFinished(run_id=RUN, owner="codex", item_id=None),
            [("✓", "compaction by codex: done")],
        ),
        (
            Notice(run_id=RUN, code="a.b", text="Look.", next_step="Do."),
            [("!", "Look. Do. [a.b]")],
        ),
    ],
)
def test_event_is_told_in_these_lines(event: RunEvent, lines: list[tuple[str, str]]) -> None:
    """Ours."""
    assert progress_lines(event) == [Line(symbol=s, text=t) for s, t in lines]


def test_usage_counts_cached_input_as_input() -> None:
    """Ours; spec G-13: what was not reported is not zero."""
    assert usage_text(USAGE) == "1,000 in (900 cached) · 7 out · window 50%"
    assert usage_text(Usage(input=5, output=1)) == "5 in · 1 out"
    assert usage_text(None) == ""
    assert usage_json(None) is None
    assert usage_json(Usage(input=5, output=1)) == {
        "input": 5,
        "cached": None,
        "output": 1,
        "reasoning": None,
        "window": None,
    }


def test_any_value_can_be_shown_as_lines() -> None:
    """Ours: a report may grow without this room knowing."""
    value: JsonObject = {
        "decision": "rebase",
        "by_kind": {"tool_results": 24870, "you": 12},
        "empty": [],
        "injected": [{"role": "user", "tokens": 3}, "note"],
        "kept": False,
        "cause": None,
    }
    assert value_lines(value) == [
        "decision: rebase",
        "by kind:",
        "  tool results: 24,870",
        "  you: 12",
        "injected:",
        "  - role: user",
        "    tokens: 3",
        "  - note",
        "kept: no",
        "cause: -",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "not set"),
        (True, "true"),
        (3, "3"),
        (2.5, "2.5"),
        ('a"b', '"a\\"b"'),
        (["x", 1], '["x", 1]'),
        ({"a": False}, "{ a = false }"),
        ({}, "{}"),
    ],
)
def test_setting_is_written_as_the_configuration_writes_it(value: JsonValue, text: str) -> None:
    """Ours."""
    assert toml_text(value) == text


def test_message_is_shown_with_its_calls_and_results() -> None:
    """Ours."""
    call = Message(role="assistant", content=[tool_call_part("c", "f", {"a": 1})])
    assert entry_text(user_message("Hello")) == "Hello"
    assert entry_text(call) == '(calls f with {"a": 1})'
    assert (
        entry_text(tool_result_message("c", "f", "42", is_error=True)) == "(result of f failed) 42"
    )
    assert entry_text(Message(role="user", content=[{"type": "image"}])) == "(image)"


def test_summary_holds_what_a_script_asks_for() -> None:
    """Ours: the shape of `run --json`."""
    summary = Summary(KEY, structured=True)
    opened = QuestionOpened(run_id=RUN, question=QUESTION)
    answered = QuestionResolved(run_id=RUN, answer=REFUSED)
    for event in (STARTED, context("rebase"), TURN, opened, answered, DELTA, FINISHED):
        summary.add(event)

    assert summary.to_json() == {
        "v": 1,
        "session": "ses_1",
        "session_key": KEY,
        "run": "r_1",
        "outcome": "completed",
        "text": '{"a": 1}',
        "structured": {"a": 1},
        "entries": [],
        "questions": [{"id": "q", "kind": "command_approval", "outcome": "refused_by_policy"}],
        "usage": usage_json(USAGE),
        "context": {
            "engine": "window",
            "decision": "rebase",
            "reason": "why",
            "counted": None,
            "same_start": None,
        },
        "compactions": [],
        "warnings": [],
        "error": None,
        "ms": 1500,
    }


def test_envelopes_number_durable_events_and_base_others_on_them() -> None:
    """Ours: the envelope of the page's events."""
    envelopes = Envelopes(KEY)
    made = [envelopes.envelope(event, 0.0) for event in (STARTED, DELTA, TURN, FINISHED)]

    assert [(e.get("seq"), e.get("base"), e["type"]) for e in made] == [
        (1, None, "run.started"),
        (None, 1, "part.delta"),
        (2, None, "turn.started"),
        (3, None, "run.finished"),
    ]
    assert made[1] == {
        "v": 1,
        "stream": "ses_1",
        "epoch": 1,
        "base": 1,
        "type": "part.delta",
        "ts": "1970-01-01T00:00:00.000Z",
        "run": "r_1",
        "turn": None,
        "data": {"part": "i", "kind": "text", "at": 0, "text": "Hi"},
    }
    assert made[3]["turn"] == "turn_1"


def test_efforts_of_the_command_line_are_those_of_the_configuration() -> None:
    """Ours: written twice so that the help imports no configuration."""
    assert EFFORT.words == EFFORTS
