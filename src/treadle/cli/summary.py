"""What `run --json` and `--jsonl` print of a run: one object at its end, or an envelope an event.

Pure: gathers events and gives JSON. `docs/cli.md` describes both shapes.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Final

from treadle.cli.render import usage_json
from treadle.model.ids import SessionKey
from treadle.model.json import JsonObject, JsonValue
from treadle.model.turn import (
    CompactionFinished,
    ContextAssembled,
    EntryCommitted,
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
    event_data,
)

VERSION: Final = 1
"""Of both shapes; a change that breaks a reader raises it."""


class Summary:
    """Gathers the events of one run."""

    def __init__(self, session_key: SessionKey, *, structured: bool = False) -> None:
        self._key = session_key
        self._structured = structured
        self._session_id: str | None = None
        self._entries: list[JsonValue] = []
        self._questions: dict[str, dict[str, JsonValue]] = {}
        self._context: dict[str, JsonValue] | None = None
        self._compactions: list[JsonValue] = []
        self._warnings: list[JsonValue] = []
        self._finished: RunFinished | None = None

    @property
    def session_key(self) -> SessionKey:
        """The session's key."""
        return self._key

    @property
    def stored_entries(self) -> int:
        """How many entries the run added to the transcript."""
        return len(self._entries)

    def add(self, event: RunEvent) -> None:
        """Take the next event."""
        match event:
            case RunStarted():
                self._session_id = event.session_id
            case EntryCommitted():
                self._entries.append(event.entry.id)
            case QuestionOpened(question=question):
                self._questions[question.id] = {
                    "id": question.id,
                    "kind": question.kind.value,
                    "outcome": None,
                }
            case QuestionResolved(answer=answer):
                opened = self._questions.setdefault(
                    answer.question_id, {"id": answer.question_id, "kind": None}
                )
                opened["outcome"] = answer.verdict.value
            case ContextAssembled():
                self._context = context_json(event)
            case CompactionFinished():
                self._compactions.append({"owner": event.owner, "state": event.state})
            case Notice():
                self._warnings.append({"code": event.code, "text": event.text})
            case RunFinished():
                self._finished = event

    def take_report(self, report: JsonObject) -> None:
        """Take the stored report of the run: its tokens are counted once the turn is over."""
        if self._context is not None:
            for name in ("counted", "same_start"):
                self._context[name] = report.get(name)

    def to_json(self, *, timed_out: bool = False) -> dict[str, JsonValue]:
        """Return the object; the run must be over."""
        finished = self._finished
        assert finished is not None
        outcome = Outcome.TIMED_OUT if timed_out else finished.outcome
        return {
            "v": VERSION,
            "session": self._session_id,
            "session_key": self._key,
            "run": finished.run_id,
            "outcome": outcome.value,
            "text": finished.text,
            "structured": structured_from(finished.text) if self._structured else None,
            "entries": self._entries,
            "questions": list(self._questions.values()),
            "usage": usage_json(finished.usage),
            "context": self._context,
            "compactions": self._compactions,
            "warnings": self._warnings,
            "error": finished.error,
            "ms": round(finished.duration_s * 1000),
        }


def context_json(event: ContextAssembled) -> dict[str, JsonValue]:
    """Return who chose the context and what that came to."""
    report = event.report
    return {
        "engine": event.engine_id,
        "decision": event.decision,
        "reason": event.reason,
        "counted": report.get("counted"),
        "same_start": report.get("same_start"),
    }


def structured_from(text: str) -> JsonValue:
    """Return an answer that was asked for as JSON; None if it is none."""
    try:
        value: JsonValue = json.loads(text)
    except ValueError:
        return None
    return value


class Envelopes:
    """Numbers the events of one output: durable ones from 1, others by the last durable one."""

    def __init__(self, session_key: SessionKey) -> None:
        self._stream: str = session_key
        self._turn: str | None = None
        self._seq = 0

    def envelope(self, event: RunEvent, now: float) -> dict[str, JsonValue]:
        """Return the event in its envelope; `now` is in Unix seconds."""
        if isinstance(event, RunStarted):
            self._stream = event.session_id
        if isinstance(event, TurnStarted):
            self._turn = event.turn_id
        data = event_data(event)
        run_id = data.pop("run_id")
        return {
            "v": VERSION,
            "stream": self._stream,
            "epoch": 1,
            **self._place(event),
            "type": event.type,
            "ts": _time(now),
            "run": run_id,
            "turn": self._turn,
            "data": data,
        }

    def _place(self, event: RunEvent) -> JsonObject:
        if isinstance(event, PartDelta | PartValue):
            return {"base": self._seq}
        self._seq += 1
        return {"seq": self._seq}


def _time(now: float) -> str:
    text = datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
