"""Find out which tool calls a person's text asks for, and with which arguments.

Pure. Knows nothing of calls that were made already.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from treadle.model.json import JsonObject, JsonValue
from treadle.offline.tools import Offered, Property


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A call that the text asks for."""

    tool: Offered
    arguments: JsonObject | str
    """An object, or the text of a free-form tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A tool that the text asks for by name and that is not offered."""

    name: str


_NAME = r"[`'\"“]?(?P<{0}>[A-Za-z][\w.:/-]*\w)[`'\"”]?"
_ASK = re.compile(
    r"(?i)\b(?:"
    r"(?:run|execute)\s+(?:the\s+)?(?:shell\s+)?(?:command\s+)?`(?P<command>[^`\n]+)`"
    r"|(?:search|check|query)\s+(?:(?:your|the|my)\s+)?memory\s+(?:for|about)\s+(?P<memory>\S)"
    r"|(?:use|call|invoke|run)\s+(?:(?:the|your|my)\s+)?tool\s+"
    + _NAME.format("tool")
    + r"|(?:use|call|invoke|run)\s+(?:(?:the|your|my)\s+)?"
    + _NAME.format("plain")
    + r"(?:\s+tool\b)?"
    r")"
)
_NOT_AN_ASK = re.compile(
    r"(?i)\A\s*(?:how|what|why|when|where|which|who|whose|do|does|did|should|is|are|was|were)\b"
)
_WITH = re.compile(r"(?i)\s*[,:]?\s*(?:tool\s+)?(?:with|for|on|about|to\s+find)?\s*:?\s*")
_END = re.compile(
    r"(?i)\s+(?:and\s+then|then)\b|,?\s+and\s+(?:use|call|run|invoke|search|check|tell|say)\b"
    r"|[;\n]|[.!?](?=\s|\Z)|\Z"
)
_PAIR = re.compile(r"""(\w+)\s*=\s*("(?:[^"\\]|\\.)*"|'[^']*'|`[^`]*`|[^\s,]+)""")
_QUOTES = {'"': '"', "'": "'", "`": "`", "“": "”", "«": "»"}

_SHELLS = ("exec_command", "shell_command", "shell", "local_shell")
_MEMORIES = ("memory_search", "recall_search", "search_memory", "recall", "memory")


def find_asks(text: str, offered: Sequence[Offered]) -> list[Ask | Missing]:
    """List the asked calls in the order of the text; a question *about* a tool asks for none.

    Understood: `use the tool X with …`, `call X with …`, ``run `cmd` ``, and `search your memory
    for …`.
    What follows is a JSON object, `key=value` pairs, or a text for the tool's first text argument.
    """
    if _NOT_AN_ASK.match(text):
        return []
    return list(_asks(text, offered))


def _asks(text: str, offered: Sequence[Offered]) -> Iterator[Ask | Missing]:
    for found in _ASK.finditer(text):
        if command := found["command"]:
            shell = _first(offered, _SHELLS)
            yield _shell_ask(shell, command) if shell else Missing(name="exec_command")
        elif found["memory"]:
            memory = _first(offered, _MEMORIES) or _memory_like(offered)
            subject = text[found.start("memory") :]
            yield _ask(memory, subject) if memory else Missing(name="memory_search")
        elif name := found["tool"] or found["plain"]:
            tool = _called(offered, name)
            if tool is not None:
                yield _ask(tool, text[found.end() :])
            elif found["tool"]:
                yield Missing(name=name)


def _called(offered: Sequence[Offered], name: str) -> Offered | None:
    return next((tool for tool in offered if tool.is_called(name)), None)


def _first(offered: Sequence[Offered], names: Sequence[str]) -> Offered | None:
    return next((tool for name in names if (tool := _called(offered, name))), None)


def _memory_like(offered: Sequence[Offered]) -> Offered | None:
    words = ("memory_search", "recall", "memory")
    return next((t for word in words for t in offered if word in t.path.lower()), None)


def _shell_ask(tool: Offered, command: str) -> Ask:
    names = [p.name for p in tool.properties]
    key = next((k for k in ("cmd", "command") if k in names), "cmd")
    kind = next((p.kind for p in tool.properties if p.name == key), "string")
    argument: JsonValue = ["bash", "-lc", command] if kind == "array" else command
    return Ask(tool=tool, arguments={key: argument})


def _ask(tool: Offered, rest: str) -> Ask:
    rest = rest[_with_end(rest) :]
    if tool.freeform:
        return Ask(tool=tool, arguments=_unquoted(rest.strip()))
    given = _json_object(rest)
    if given is not None:
        return Ask(tool=tool, arguments=given)
    said = rest if rest[:1] in _QUOTES else rest[: _end_of(rest)]
    pairs = {key: _unquoted(value) for key, value in _PAIR.findall(said[: _end_of(said)])}
    if pairs:
        kinds = {p.name: p.kind for p in tool.properties}
        values = {key: _typed(value, kinds.get(key, "string")) for key, value in pairs.items()}
        return Ask(tool=tool, arguments=values)
    words = _unquoted(said.strip())
    target = _text_property(tool.properties)
    return Ask(tool=tool, arguments={target: words} if target and words else {})


def _with_end(rest: str) -> int:
    found = _WITH.match(rest)
    return found.end() if found else 0


def _end_of(rest: str) -> int:
    found = _END.search(rest)
    return found.start() if found else len(rest)


def _json_object(rest: str) -> JsonObject | None:
    bare = rest.lstrip("`")
    if not bare.startswith("{"):
        return None
    try:
        value, _ = json.JSONDecoder().raw_decode(bare)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _unquoted(value: str) -> str:
    closing = _QUOTES.get(value[:1])
    if closing and (end := value.find(closing, 1)) > 0:
        return value[1:end]
    return value


def _typed(value: str, kind: str) -> JsonValue:
    if kind in {"integer", "number", "boolean", "array", "object"}:
        try:
            typed: JsonValue = json.loads(value)
        except (ValueError, RecursionError):
            return value
        return typed
    return value


def _text_property(properties: Sequence[Property]) -> str | None:
    return next((p.name for p in properties if p.kind == "string"), None)
