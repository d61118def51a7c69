"""Show what the model was given in one turn. Knows the report's names, not how it was made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from treadle.cli.output import Output
from treadle.cli.render import value_lines
from treadle.contract.store import ContextReport
from treadle.model.json import JsonObject, JsonValue


def report_json(report: ContextReport) -> dict[str, JsonValue]:
    """Return a report as `context show --json` prints it."""
    return {
        "turn": report.number,
        "run": report.run_id,
        "session": report.session_id,
        "created_at": report.created_at,
        "report": report.report,
    }


def show_report(output: Output, report: ContextReport) -> None:
    """Print a report for a person: why first, then thread and messages, then what else is known."""
    when = datetime.fromtimestamp(report.created_at).astimezone().isoformat(" ", "seconds")
    output.heading(f"turn {report.number} · {when} · run {report.run_id}")
    rest = dict(report.report)
    engine, decision = rest.pop("engine", "?"), str(rest.pop("decision", "?"))
    output.ours(f"engine {engine} · decision {decision} ({rest.pop('reason_code', '?')})")
    if reason := rest.pop("reason", ""):
        output.ours(f"why: {reason}")
    for line in _told(rest, decision):
        output.ours(line)
    for line in value_lines(rest):
        output.ours(line)


def _told(rest: dict[str, JsonValue], decision: str) -> Iterator[str]:
    """Yield what is told in sentences, and take it out of the rest."""
    if thread := rest.pop("thread", None):
        before = rest.pop("previous_thread", None)
        yield f"thread: {thread}" + (f", a fresh one in place of {before}" if before else "")
    same, new = _counts(rest.pop("same_start", None)), _counts(rest.pop("new", None))
    if same.messages:
        yield f"held by the thread already: {same}"
    yield f"{_PUT.get(decision, 'put into the thread')}: {new}"
    if left_out := _counts(rest.get("outside")).messages:
        yield f"left out, the oldest first: {left_out:,} messages"
    else:
        rest.pop("outside", None)
    if failed := rest.pop("assemble_failed", None):
        yield f"the engine gave no context: {failed}"
    if rest.pop("addition_changed", False):
        yield "the engine's instructions changed: the thread was told that these replace the old"
    if compactions := rest.pop("native_compactions", 0):
        yield f"Codex compacted its history in this turn: {compactions} times"
    reported = rest.pop("reported", None)
    if isinstance(reported, Mapping):
        yield f"tokens reported: {_reported(reported)}"


_PUT: Final = {
    "prompt": "sent as text before the prompt",
    "rebase": "put into a fresh thread",
    "seed": "put into a fresh thread",
}
"""What the new messages of a decision are called."""


@dataclass(frozen=True, slots=True)
class _Counts:
    messages: int
    tokens: int | None

    def __str__(self) -> str:
        if not self.messages:
            return "nothing"
        noun = "message" if self.messages == 1 else "messages"
        tokens = f", {self.tokens:,} tokens" if self.tokens is not None else ""
        return f"{self.messages:,} {noun}{tokens}"


def _counts(value: JsonValue) -> _Counts:
    fields = value if isinstance(value, Mapping) else {}
    messages, tokens = fields.get("messages"), fields.get("tokens")
    return _Counts(
        messages if isinstance(messages, int) else 0, tokens if isinstance(tokens, int) else None
    )


def _reported(reported: JsonObject) -> str:
    """Return the reported tokens; `input` is all of it, the cached part included."""
    given, cached, out = (reported.get(name) for name in ("input", "cached", "output"))
    known = f"{given:,} in" if isinstance(given, int) else "unknown in"
    of_cache = f" ({cached:,} cached)" if isinstance(cached, int) else ""
    return f"{known}{of_cache}" + (f" · {out:,} out" if isinstance(out, int) else "")
