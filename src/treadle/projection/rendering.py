"""Write messages as plain text: bodies, shapes of tool calls, redacted results, safe delimiters.

Knows nothing of the block that the text stands in, nor of Responses items. Equal messages give
equal bytes: keys are sorted, ids and times of ours never appear. Source: spec D-09, D-14…D-25.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Final

from treadle.model.json import JsonObject, JsonValue
from treadle.model.message import Message
from treadle.model.text import (
    CIRCULAR,
    MAX_DEPTH,
    TOO_DEEP,
    redact,
    redact_value,
    truncate,
    without_surrogates,
)

CONTEXT_TAG: Final = "conversation_context"
"""Name of the tags round the block (spec D-02)."""

REQUEST_HEADING: Final = "Current user request:"
"""The line in front of the prompt (spec D-02)."""

IMAGE_OMITTED: Final = "[image omitted]"
NON_TEXT: Final = "[non-text content omitted]"
PART_TRUNCATED: Final = "\n[truncated {dropped} chars]"
"""The line that ends a part which was cut (spec D-45)."""

CALL_PARTS: Final = frozenset({"toolCall", "tool_use"})
RESULT_PARTS: Final = frozenset({"toolResult", "tool_result"})
_METADATA: Final = ("type", "name", "id", "callId", "toolCallId", "toolUseId")
"""The text fields of a call or result that are shown, in this order (spec D-20)."""


def rendered_message(message: Message, max_part_chars: int) -> str:
    """Return label line and body; empty if the body is. Source: spec D-09, D-10."""
    body = rendered_body(message.content, max_part_chars)
    if not body:
        return ""
    return neutralised(f"[{_one_line(message.role)}]\n{body}")


def rendered_body(content: JsonValue, max_part_chars: int) -> str:
    """Return the content as text, parts joined by LF and empty ones dropped. Source: spec D-14."""
    match content:
        case None:
            return ""
        case str() as text:
            return _text(text, max_part_chars)
        case list() | tuple() as parts:
            rendered = (rendered_part(part, max_part_chars) for part in parts)
            return "\n".join(text for text in rendered if text).strip()
        case _:
            return NON_TEXT


def rendered_part(part: JsonValue, max_part_chars: int) -> str:
    """Return one part as text. Source: spec D-15…D-21, D-45."""
    if not isinstance(part, Mapping):
        return ""
    kind = part.get("type")
    match kind:
        case "text":
            text = part.get("text")
            return _text(text, max_part_chars) if isinstance(text, str) else ""
        case "image":
            return IMAGE_OMITTED
        case str() if kind in CALL_PARTS:
            return truncate(tool_call_text(part), max_part_chars, PART_TRUNCATED)
        case str() if kind in RESULT_PARTS:
            return truncate(tool_result_text(part), max_part_chars, PART_TRUNCATED)
        case str() if kind:
            return placeholder(kind)
        case _:
            return NON_TEXT


def placeholder(kind: str) -> str:
    """Return what stands in place of a part that is no text. Source: spec D-16."""
    return f"[{_one_line(kind)} content omitted]"


def tool_call_text(part: JsonObject) -> str:
    """Return label line, names and ids, and the input's shape, never its values.

    Source: spec D-17, D-19, D-20, D-23.
    """
    given = part["input"] if "input" in part else part.get("arguments")
    shown = {**_metadata(part), "inputShape": shape_of(given)}
    return _labelled("tool call", _text_field(part, "name"), shown)


def tool_result_text(part: JsonObject) -> str:
    """Return label line, names and ids, and everything else redacted. Source: spec D-18, D-21."""
    others = {key: part[key] for key in sorted(part) if key not in _METADATA}
    redacted = redact_value(others)
    rest = redacted if isinstance(redacted, Mapping) else {}
    call_id = _text_field(part, "toolCallId") or _text_field(part, "toolUseId")
    return _labelled("tool result", call_id, {**_metadata(part), **_sorted_object(rest)})


def clean_value(value: JsonValue) -> JsonValue:
    """Return the value with every text and key such that JSON and UTF-8 take it (RS12)."""
    match value:
        case str():
            return without_surrogates(value)
        case Mapping():
            return {without_surrogates(key): clean_value(part) for key, part in value.items()}
        case list() | tuple():
            return [clean_value(part) for part in value]
        case _:
            return value


def shape_of(value: JsonValue) -> JsonValue:
    """Return keys and nesting with each leaf as its type, keys sorted. Source: spec D-20, D-22."""
    return _shape(value, ())


def _shape(value: JsonValue, ancestors: tuple[int, ...]) -> JsonValue:
    match value:
        case None:
            return None
        case bool():
            return "[boolean]"
        case int() | float():
            return "[number]"
        case str():
            return "[string]"
    if id(value) in ancestors:
        return CIRCULAR
    if len(ancestors) >= MAX_DEPTH:
        return TOO_DEEP
    inside = (*ancestors, id(value))
    if isinstance(value, Mapping):
        return {redact(key): _shape(value[key], inside) for key in sorted(value)}
    return [_shape(part, inside) for part in value]


def neutralised(text: str) -> str:
    """Return text in which nothing can be taken for the block's own delimiters.

    A `<` that opens the context tag or its closing tag becomes `&lt;`, also in other case, in full
    width or with blanks inside; a line that is the request heading gets one leading space. Text
    without these keeps its exact bytes. Source: spec D-25.
    """
    letters = _letters(text)
    if _TAG_LETTERS in letters:
        text = _without_tags(text)
    if _HEADING_LETTERS not in letters:
        return text
    return "\n".join(f" {line}" if is_request_heading(line) else line for line in text.split("\n"))


_NO_LETTERS: Final = re.compile(r"\W+")


def _letters(text: str) -> str:
    """Return the text's letters in plain form: a quick look that misses no delimiter."""
    return _NO_LETTERS.sub("", unicodedata.normalize("NFKD", text).casefold())


_TAG_LETTERS: Final = _letters(CONTEXT_TAG)
_HEADING_LETTERS: Final = _letters(REQUEST_HEADING)


def is_request_heading(line: str) -> bool:
    """Whether a line is, or looks like, the heading in front of the request."""
    if len(line) > 4 * len(REQUEST_HEADING) or line[:1].isspace():
        return False
    return _plain(line.rstrip()) == _plain(REQUEST_HEADING)


def _without_tags(text: str) -> str:
    pieces: list[str] = []
    start = 0
    for found in _OPENERS.finditer(text):
        if _opens_tag(text, found.end()):
            pieces += (text[start : found.start()], "&lt;")
            start = found.end()
    return "".join([*pieces, text[start:]]) if pieces else text


_OPENERS: Final = re.compile("[<＜﹤]")
_SLASHES: Final = frozenset("/／")


def _opens_tag(text: str, at: int) -> bool:
    """Whether the tag's name follows, after blanks and at most one slash."""
    expected = iter(CONTEXT_TAG)
    wanted = next(expected)
    slash_seen = False
    for index in range(at, len(text)):
        char = text[index]
        if _is_blank(char):
            continue
        if not slash_seen and wanted is CONTEXT_TAG[0] and char in _SLASHES:
            slash_seen = True
            continue
        if _plain(char) != wanted:
            return False
        following = next(expected, None)
        if following is None:
            return not _continues_name(text[index + 1 : index + 2])
        wanted = following
    return False


def _is_blank(char: str) -> bool:
    return char.isspace() or unicodedata.category(char) in {"Cf", "Mn", "Cc"}


def _continues_name(char: str) -> bool:
    return char.isalnum() or char in {"_", "-", "＿"}


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _text(text: str, limit: int) -> str:
    return truncate(without_surrogates(text).strip(), limit, PART_TRUNCATED)


def _metadata(part: JsonObject) -> JsonObject:
    found = ((key, _text_field(part, key)) for key in _METADATA)
    return {key: value for key, value in found if value}


def _text_field(part: JsonObject, key: str) -> str:
    value = part.get(key)
    return redact(value) if isinstance(value, str) and value.strip() else ""


def _labelled(label: str, name: str, shown: JsonObject) -> str:
    first = f"{label}: {_one_line(name)}" if name else label
    text = json.dumps(shown, indent=2, ensure_ascii=False)
    return without_surrogates(f"{first}\n{text}")


def _sorted_object(value: JsonObject) -> JsonObject:
    return {key: _sorted_value(value[key]) for key in sorted(value)}


def _sorted_value(value: JsonValue) -> JsonValue:
    if isinstance(value, Mapping):
        return _sorted_object(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_sorted_value(part) for part in value]
    return value


def _one_line(text: str) -> str:
    return " ".join(without_surrogates(text).split())
