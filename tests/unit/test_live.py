"""The picture of a session's open turn, for who was not there from the beginning."""

from __future__ import annotations

from typing import Any

from treadle.model.ids import ItemId, RunId, SessionId, SessionKey, ThreadId, TurnId
from treadle.model.question import Answer, Question, QuestionId, QuestionKind, Verdict
from treadle.model.turn import (
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
)
from treadle.runtime.live import Live

RUN = RunId("r_1")
STARTED = RunStarted(
    run_id=RUN, session_key=SessionKey("agent:main:x"), session_id=SessionId("ses_1")
)
TURN = TurnStarted(run_id=RUN, thread_id=ThreadId("th"), turn_id=TurnId("tu"))
FINISHED = RunFinished(
    run_id=RUN, outcome=Outcome.COMPLETED, text="", error=None, replay_safe=True, partial=False,
    usage=None, duration_s=0.0,
)  # fmt: skip


def delta(at: int, text: str) -> PartDelta:
    return PartDelta(run_id=RUN, part=ItemId("m"), kind="text", at=at, text=text)


def live(*events: RunEvent) -> Live:
    found = Live()
    for event in events:
        found.take(event)
    return found


def only_run(found: Live) -> dict[str, Any]:
    runs: Any = found.to_json()["runs"]
    [run] = runs
    return dict(run)


def test_open_parts_are_told_whole_and_repeated_text_does_not_double() -> None:
    """Cursor rule 5."""
    found = live(STARTED, TURN, delta(0, "He"), delta(2, "llo"), delta(2, "llo"), delta(4, "o!"))
    assert found.to_json() == {
        "runs": [
            {
                "run": "r_1",
                "turn": "tu",
                "parts": [{"part": "m", "kind": "text", "text": "Hello!"}],
                "questions": [],
            }
        ]
    }
    assert found.turn_of(RUN) == "tu"


def test_a_value_is_told_as_it_is_last() -> None:
    """Ours."""
    values = [PartValue(run_id=RUN, part=ItemId("t"), kind="tool", value={"n": n}) for n in (1, 2)]
    assert only_run(live(STARTED, *values))["parts"] == [
        {"part": "t", "kind": "tool", "value": {"n": 2}}
    ]


def test_only_open_questions_are_told() -> None:
    """Ours."""
    asked = [
        QuestionOpened(
            run_id=RUN,
            question=Question(
                id=QuestionId(name), kind=QuestionKind.COMMAND, thread_id=ThreadId("th"),
                turn_id=None, item_id=None, title=name,
            ),
        )
        for name in ("one", "two")
    ]  # fmt: skip
    answer = Answer(question_id=QuestionId("one"), verdict=Verdict.DENIED, by="policy")
    run = only_run(live(STARTED, *asked, QuestionResolved(run_id=RUN, answer=answer)))
    [left] = run["questions"]
    assert left["id"] == "two"


def test_nothing_is_left_of_a_finished_run() -> None:
    """Ours: what is over stands in the transcript."""
    over = live(STARTED, delta(0, "text"), FINISHED, delta(4, "late"))
    assert not over
    assert over.to_json() == {"runs": []}
    assert not live(Notice(run_id=RUN, code="x", text="of a run that never started"))
