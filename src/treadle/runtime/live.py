"""What goes on in a session right now: open parts, questions, runs. Pure.

The picture that a watcher is given who was not there from the beginning. Knows nothing of who
watches.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from treadle.model.ids import ItemId, RunId, TurnId
from treadle.model.json import JsonObject, JsonValue
from treadle.model.question import QuestionId
from treadle.model.turn import (
    PartDelta,
    PartValue,
    QuestionOpened,
    QuestionResolved,
    RunEvent,
    RunFinished,
    RunStarted,
    TurnStarted,
    event_data,
)


@dataclass(slots=True)
class _Part:
    kind: str
    pieces: list[str] = field(default_factory=list)
    length: int = 0
    value: JsonObject | None = None

    def to_json(self, part: ItemId) -> dict[str, JsonValue]:
        if self.value is not None:
            return {"part": part, "kind": self.kind, "value": self.value}
        return {"part": part, "kind": self.kind, "text": "".join(self.pieces)}


@dataclass(slots=True)
class _Run:
    turn_id: TurnId | None = None
    parts: dict[ItemId, _Part] = field(default_factory=dict)
    questions: dict[QuestionId, JsonValue] = field(default_factory=dict)

    def to_json(self, run_id: RunId) -> dict[str, JsonValue]:
        return {
            "run": run_id,
            "turn": self.turn_id,
            "parts": [part.to_json(name) for name, part in self.parts.items()],
            "questions": list(self.questions.values()),
        }


class Live:
    """The runs of one session that are not over."""

    def __init__(self) -> None:
        self._runs: dict[RunId, _Run] = {}

    def __bool__(self) -> bool:
        """Whether anything goes on."""
        return bool(self._runs)

    def turn_of(self, run_id: RunId) -> TurnId | None:
        """Return the turn that a run is in, if it is in one."""
        run = self._runs.get(run_id)
        return None if run is None else run.turn_id

    def take(self, event: RunEvent) -> None:
        """Take the next event of a run."""
        match event:
            case RunStarted():
                self._runs[event.run_id] = _Run()
            case RunFinished():
                self._runs.pop(event.run_id, None)
            case _ if (run := self._runs.get(event.run_id)) is not None:
                _into(run, event)

    def to_json(self) -> dict[str, JsonValue]:
        """Return the data of `turn.snapshot`: every run with its open parts, texts whole."""
        return {"runs": [run.to_json(run_id) for run_id, run in self._runs.items()]}


def _into(run: _Run, event: RunEvent) -> None:
    match event:
        case TurnStarted():
            run.turn_id = event.turn_id
        case PartDelta():
            part = run.parts.setdefault(event.part, _Part(kind=event.kind))
            fresh = event.text[max(0, part.length - event.at) :]
            part.pieces.append(fresh)
            part.length += len(fresh)
        case PartValue():
            part = run.parts.setdefault(event.part, _Part(kind=event.kind))
            part.kind, part.value = event.kind, event.value
        case QuestionOpened(question=question):
            run.questions[question.id] = event_data(event)["question"]
        case QuestionResolved(answer=answer):
            run.questions.pop(answer.question_id, None)
        case _:
            return
