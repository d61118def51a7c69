"""Build the events of a streamed Responses answer, as plain JSON objects.

Knows nothing of why an answer says what it says; the offline model and the scripted model of the
testing kit both speak through it. Source: codex 0.163.0, what its client reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from treadle.model.json import JsonObject, JsonValue
from treadle.model.text import without_surrogates

Event = dict[str, JsonValue]
"""One server-sent event; `type` is its name."""


def frame(event: JsonObject) -> bytes:
    """Write one event in the form of `text/event-stream`."""
    try:
        payload = msgspec.json.encode(event)
    except UnicodeEncodeError:
        payload = msgspec.json.encode(_encodable(event))
    return f"event: {event['type']}\ndata: ".encode() + payload + b"\n\n"


def created(response_id: str) -> Event:
    """Open a response."""
    return {"type": "response.created", "response": {"id": response_id}}


def item_events(item: JsonObject, index: int) -> Iterator[Event]:
    """Send a finished output item as it is: a call, a compaction, anything without deltas."""
    yield {"type": "response.output_item.added", "output_index": index, "item": item}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def message_events(
    item_id: str, chunks: Sequence[str], index: int, phase: str | None = None
) -> Iterator[Event]:
    """Stream an assistant message in the given chunks."""
    opened: Event = {"type": "message", "role": "assistant", "id": item_id, "content": []}
    if phase is not None:
        opened["phase"] = phase
    yield {"type": "response.output_item.added", "output_index": index, "item": opened}
    for chunk in chunks:
        yield {
            "type": "response.output_text.delta",
            "item_id": item_id,
            "output_index": index,
            "content_index": 0,
            "delta": chunk,
        }
    content = [{"type": "output_text", "text": "".join(chunks)}]
    done = {**opened, "content": content}
    yield {"type": "response.output_item.done", "output_index": index, "item": done}


def reasoning_events(
    item_id: str, summary: Sequence[str], index: int, encrypted: str | None = None
) -> Iterator[Event]:
    """Stream a reasoning item; each line of the summary is a part of its own."""
    opened: Event = {"type": "reasoning", "id": item_id, "summary": []}
    yield {"type": "response.output_item.added", "output_index": index, "item": opened}
    for number, line in enumerate(summary):
        where: Event = {"item_id": item_id, "output_index": index, "summary_index": number}
        yield {"type": "response.reasoning_summary_part.added", **where}
        yield {"type": "response.reasoning_summary_text.delta", **where, "delta": line}
    done = {**opened, "summary": [{"type": "summary_text", "text": line} for line in summary]}
    if encrypted is not None:
        done["encrypted_content"] = encrypted
    yield {"type": "response.output_item.done", "output_index": index, "item": done}


def usage_json(
    *, input_tokens: int, cached_tokens: int, output_tokens: int, reasoning_tokens: int = 0
) -> Event:
    """Return token counts in the shape that the Responses API uses."""
    return {
        "input_tokens": input_tokens,
        "input_tokens_details": {"cached_tokens": cached_tokens},
        "output_tokens": output_tokens,
        "output_tokens_details": {"reasoning_tokens": reasoning_tokens},
        "total_tokens": input_tokens + output_tokens,
    }


def completed(response_id: str, usage: JsonObject) -> Event:
    """End a response well."""
    response: Event = {"id": response_id, "status": "completed", "usage": usage}
    return {"type": "response.completed", "response": response}


def failed(response_id: str, error: JsonObject) -> Event:
    """End a response with an error `{code, message}`."""
    response: Event = {"id": response_id, "status": "failed", "error": error}
    return {"type": "response.failed", "response": response}


def incomplete(response_id: str, reason: str) -> Event:
    """End a response early, for example with `max_output_tokens`."""
    response: Event = {
        "id": response_id,
        "status": "incomplete",
        "incomplete_details": {"reason": reason},
    }
    return {"type": "response.incomplete", "response": response}


def _encodable(value: JsonValue) -> JsonValue:
    match value:
        case str():
            return without_surrogates(value)
        case dict():
            return {without_surrogates(key): _encodable(part) for key, part in value.items()}
        case list() | tuple():
            return [_encodable(part) for part in value]
        case _:
            return value
