"""What a scripted model answers: parts of a reply, how a stream ends, and short builders for both.

Knows nothing of HTTP or of when an answer is given.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import anyio

from treadle.model.json import JsonObject, JsonValue
from treadle.offline import sse

Ending = Literal["completed", "incomplete", "failed", "cut", "hang"]
"""How a stream ends; `cut` drops the connection, `hang` waits until somebody leaves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """An assistant message, streamed as `chunks`."""

    chunks: tuple[str, ...]
    phase: str | None = None
    item_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasoning:
    """A reasoning item with an optional streamed summary and encrypted payload."""

    summary: tuple[str, ...] = ()
    encrypted: str | None = None
    item_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A finished Responses output item; a missing `id`, or `call_id` of a call, is filled in."""

    item: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Sleep before the next part. A `Gate` is better: it needs no time."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Hold the stream until `event` is set; `reached` tells the test that the stream got here."""

    event: anyio.Event
    reached: anyio.Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """One server-sent event, sent verbatim."""

    event: JsonObject


Part = Text | Reasoning | Item | Pause | Gate | Raw


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts that the final event reports."""

    input: int = 100
    cached: int = 0
    output: int = 10
    reasoning: int = 0

    def to_json(self) -> sse.Event:
        """Return the counts in the shape that the Responses API uses."""
        return sse.usage_json(
            input_tokens=self.input,
            cached_tokens=self.cached,
            output_tokens=self.output,
            reasoning_tokens=self.reasoning,
        )


@dataclass(frozen=True, slots=True)
class HttpError:
    """A plain HTTP error in place of a stream."""

    status: int
    body: JsonValue = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One streamed model response: its parts, then how the stream ends."""

    parts: tuple[Part, ...] = ()
    usage: Usage = Usage()
    ending: Ending = "completed"
    error: JsonObject = field(default_factory=dict)
    """`{code, message}` of `failed`, `{reason}` of `incomplete`."""

    headers: Mapping[str, str] = field(default_factory=dict)


Answer = Reply | HttpError


def reply(
    *parts: Part | str, usage: Usage | None = None, headers: Mapping[str, str] | None = None
) -> Reply:
    """Build a completed reply; bare strings become assistant messages."""
    built = tuple(text(part) if isinstance(part, str) else part for part in parts)
    return Reply(parts=built, usage=usage or Usage(), headers=headers or {})


def text(*chunks: str, phase: str | None = None, item_id: str | None = None) -> Text:
    """Build an assistant message that is streamed in the given chunks."""
    return Text(chunks=chunks, phase=phase, item_id=item_id)


def reasoning(*summary: str, encrypted: str | None = "ENCRYPTED") -> Reasoning:
    """Build a reasoning item."""
    return Reasoning(summary=summary, encrypted=encrypted)


def call(
    name: str, arguments: JsonValue, *, namespace: str | None = None, call_id: str | None = None
) -> Item:
    """Build a `function_call`; a string is sent as it is, all else as its JSON text."""
    written = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return _call("function_call", call_id, namespace, name=name, arguments=written)


def custom_call(
    name: str, input_text: str, *, namespace: str | None = None, call_id: str | None = None
) -> Item:
    """Build a `custom_tool_call` (free-form input: `apply_patch`, code mode's `exec`)."""
    return _call("custom_tool_call", call_id, namespace, name=name, input=input_text)


def tool_search(query: str, *, limit: int | None = None, call_id: str | None = None) -> Item:
    """Build a client-executed `tool_search_call`, which loads deferred tools."""
    arguments: dict[str, JsonValue] = {"query": query}
    if limit is not None:
        arguments["limit"] = limit
    return _call("tool_search_call", call_id, None, execution="client", arguments=arguments)


def failed(code: str, message: str, *parts: Part) -> Reply:
    """Build a stream that ends in `response.failed`, e.g. code `context_length_exceeded`."""
    return Reply(parts=parts, ending="failed", error={"code": code, "message": message})


def cut(*parts: Part) -> Reply:
    """Build a stream whose connection drops after the given parts."""
    return Reply(parts=parts, ending="cut")


def hang(*parts: Part) -> Reply:
    """Build a stream that never ends by itself."""
    return Reply(parts=parts, ending="hang")


def incomplete(reason: str, *parts: Part) -> Reply:
    """Build a stream that ends in `response.incomplete`, e.g. `max_output_tokens`."""
    return Reply(parts=parts, ending="incomplete", error={"reason": reason})


def gate() -> Gate:
    """Build a gate that the test opens with `.event.set()`."""
    return Gate(event=anyio.Event(), reached=anyio.Event())


def part_events(
    part: Text | Reasoning | Item | Raw, index: int, fresh_id: str
) -> Iterator[JsonObject]:
    """Yield the events of one part; `fresh_id` stands where the part has no id of its own."""
    match part:
        case Text():
            item_id = part.item_id or f"msg_{fresh_id}"
            yield from sse.message_events(item_id, part.chunks, index, part.phase)
        case Reasoning():
            item_id = part.item_id or f"rs_{fresh_id}"
            yield from sse.reasoning_events(item_id, part.summary, index, part.encrypted)
        case Item():
            yield from sse.item_events(_with_ids(part.item, fresh_id), index)
        case Raw():
            yield part.event


def _call(kind: str, call_id: str | None, namespace: str | None, **fields: JsonValue) -> Item:
    item: dict[str, JsonValue] = {"type": kind, **fields, "status": "completed"}
    if call_id is not None:
        item["call_id"] = call_id
    if namespace is not None:
        item["namespace"] = namespace
    return Item(item=item)


def _with_ids(item: JsonObject, fresh_id: str) -> JsonObject:
    filled: dict[str, JsonValue] = {"id": f"item_{fresh_id}", **item}
    if str(item.get("type")).endswith("_call"):
        filled = {"call_id": f"call_{fresh_id}", **filled}
    return filled
