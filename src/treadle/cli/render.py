"""Say in lines what happens in a run; pure. Knows nothing of terminals or of where lines go."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from treadle.model.json import JsonObject, JsonValue
from treadle.model.message import Message, parts_of
from treadle.model.question import Verdict
from treadle.model.text import truncate
from treadle.model.turn import (
    CompactionFinished,
    ContextAssembled,
    Notice,
    PartValue,
    QuestionOpened,
    QuestionResolved,
    RunEvent,
    Usage,
)

MAX_CHARS: Final = 100
"""Characters of a tool's arguments or title in a line."""

LONG_S: Final = 0.1
"""Seconds from which a tool's time is worth showing."""

_FAILED: Final = frozenset({"failed", "blocked"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line; the symbol says what kind of thing it tells."""

    symbol: str
    text: str


def progress_lines(event: RunEvent) -> list[Line]:
    """Return what a watching person should read of an event; most events say nothing."""
    match event:
        case ContextAssembled(decision="rebase" | "extend"):
            return [Line(symbol="·", text=_context_line(event))]
        case PartValue(kind="tool"):
            return _tool_lines(event.value)
        case PartValue(kind="progress", value=value) if isinstance(value.get("text"), str):
            return [Line(symbol="·", text=_short(str(value["text"])))]
        case QuestionOpened(question=question):
            return [Line(symbol="!", text=f"asked: {_short(question.title)}")]
        case QuestionResolved(answer=answer):
            allowed = answer.verdict in {Verdict.APPROVED, Verdict.ANSWERED}
            reason = f" ({answer.reason})" if answer.reason else ""
            text = f"{answer.verdict.value} by {answer.by}{reason}"
            return [Line(symbol="✓" if allowed else "✗", text=text)]
        case CompactionFinished():
            symbol = "✓" if event.state == "done" else "!"
            return [Line(symbol=symbol, text=f"compaction by {event.owner}: {event.state}")]
        case Notice():
            step = f" {event.next_step}" if event.next_step else ""
            return [Line(symbol="!", text=f"{event.text}{step} [{event.code}]")]
    return []


def _context_line(event: ContextAssembled) -> str:
    reason = f": {event.reason}" if event.reason else ""
    return f"context {event.decision} by engine {event.engine_id}{reason}"


def _tool_lines(value: JsonObject) -> list[Line]:
    status, label = str(value.get("status") or ""), _tool_label(value)
    if status == "completed":
        return [Line(symbol="✓", text=label + _ending(value))]
    if status in _FAILED:
        return [Line(symbol="✗", text=f"{label}  {status}{_ending(value)}")]
    return [Line(symbol="▸", text=label)]


def _tool_label(value: JsonObject) -> str:
    """Return what a tool does, in a line: its command, or its name and what it was given."""
    command = value.get("command")
    if isinstance(command, str) and command:
        return _short(command)
    name = str(value.get("name") or "tool")
    given = next((value[key] for key in ("arguments", "query", "paths") if value.get(key)), None)
    if given is None:
        return _short(name)
    return _short(
        f"{name} {given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)}"
    )


def _ending(value: JsonObject) -> str:
    parts = []
    code = value.get("exit_code")
    if isinstance(code, int):
        parts.append(f"exit {code}")
    duration = value.get("duration_s")
    if isinstance(duration, int | float) and duration >= LONG_S:
        parts.append(f"{duration:.1f} s")
    return f"  {'  '.join(parts)}" if parts else ""


def _short(text: str) -> str:
    return truncate(" ".join(text.split()), MAX_CHARS, "…")


def usage_text(usage: Usage | None) -> str:
    """Return the tokens of a run in words; empty where none were reported."""
    if usage is None:
        return ""
    cached = f" ({usage.cache_read:,} cached)" if usage.cache_read is not None else ""
    window = f" · window {usage.total / usage.window:.0%}" if usage.window and usage.total else ""
    return f"{input_tokens(usage):,} in{cached} · {usage.output:,} out{window}"


def input_tokens(usage: Usage) -> int:
    """Return all input tokens, cached ones included."""
    return usage.input + (usage.cache_read or 0) + (usage.cache_write or 0)


def usage_json(usage: Usage | None) -> dict[str, JsonValue] | None:
    """Return the tokens of a run as `run --json` prints them."""
    if usage is None:
        return None
    return {
        "input": input_tokens(usage),
        "cached": usage.cache_read,
        "output": usage.output,
        "reasoning": usage.reasoning,
        "window": usage.window,
    }


def value_lines(value: JsonValue, indent: int = 0) -> list[str]:
    """Return any JSON value as indented `name: value` lines, for reports whose shape may grow."""
    pad = "  " * indent
    if isinstance(value, Mapping):
        lines = []
        for name, part in value.items():
            lines += _named(str(name), part, indent)
        return lines
    if isinstance(value, list | tuple):
        lines = []
        for part in value:
            inner = value_lines(part, indent + 1)
            if inner:
                lines += [f"{pad}- {inner[0].strip()}", *inner[1:]]
        return lines
    return [f"{pad}{_scalar(value)}"]


def _named(name: str, value: JsonValue, indent: int) -> list[str]:
    pad, label = "  " * indent, name.replace("_", " ")
    if isinstance(value, Mapping | list | tuple):
        return [f"{pad}{label}:", *value_lines(value, indent + 1)] if value else []
    return [f"{pad}{label}: {_scalar(value)}"]


def _scalar(value: JsonValue) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case _:
            return str(value)


def toml_text(value: JsonValue) -> str:
    """Return a setting's value as the configuration writes it; what is not set is `not set`."""
    match value:
        case None:
            return "not set"
        case bool():
            return str(value).lower()
        case str():
            return json.dumps(value, ensure_ascii=False)
        case list() | tuple():
            return "[" + ", ".join(toml_text(part) for part in value) + "]"
        case Mapping():
            inside = ", ".join(f"{name} = {toml_text(part)}" for name, part in value.items())
            return f"{{ {inside} }}" if inside else "{}"
        case _:
            return f"{value:g}" if isinstance(value, float) else str(value)


def entry_text(message: Message) -> str:
    """Return a message for reading: its texts, and one line for each other part."""
    return "\n".join(_part_text(part) for part in parts_of(message))


def _part_text(part: JsonObject) -> str:
    match part.get("type"):
        case "text":
            return str(part.get("text") or "")
        case "thinking":
            return f"(thinking) {part.get('thinking') or ''}"
        case "toolCall":
            arguments = json.dumps(part.get("arguments"), ensure_ascii=False)
            return f"(calls {part.get('name')} with {arguments})"
        case "toolResult":
            content = part.get("content")
            inner = content if isinstance(content, list | tuple) else [content]
            texts = [
                str(one.get("text") or f"({one.get('type')})")
                if isinstance(one, Mapping)
                else str(one)
                for one in inner
            ]
            failed = " failed" if part.get("isError") else ""
            return f"(result of {part.get('toolName')}{failed}) " + "\n".join(texts)
        case kind:
            return f"({kind})"
