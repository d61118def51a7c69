"""Responses API items that Treadle injects, records or answers with; knows no thread and no engine.

Plain JSON objects in and out, since items are kept byte for byte as they came (decision 7).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from treadle.model.json import JsonObject, JsonValue

Role = Literal["user", "assistant", "developer"]
"""Roles that the app-server keeps; `system` is dropped in silence (facts section 6)."""

_CALLS: Final = frozenset({
    "function_call",
    "custom_tool_call",
    "local_shell_call",
    "tool_search_call",
})
_OUTPUTS: Final = frozenset({
    "function_call_output",
    "custom_tool_call_output",
    "local_shell_call_output",
    "tool_search_output",
})
_INJECTABLE: Final = (
    frozenset({
        "message",
        "reasoning",
        "web_search_call",
        "image_generation_call",
        "compaction",
    })
    | _CALLS
    | _OUTPUTS
)


def message_item(role: Role, text: str, item_id: str | None = None) -> JsonObject:
    """Return a message of one text part; an assistant's part is output, all others' are input."""
    kind = "output_text" if role == "assistant" else "input_text"
    return message_item_of_parts(role, [{"type": kind, "text": text}], item_id)


def message_item_of_parts(
    role: Role, parts: Sequence[JsonObject], item_id: str | None = None
) -> JsonObject:
    """Return a message of ready parts (`text_part`, `image_part`)."""
    item: JsonObject = {"type": "message", "role": role, "content": list(parts)}
    return item if item_id is None else with_id(item, item_id)


def text_part(text: str) -> JsonObject:
    """Return a text part of a user or developer message, or of a call's output."""
    return {"type": "input_text", "text": text}


def image_part(url: str, detail: str | None = None) -> JsonObject:
    """Return an image part; the URL is usually a `data:` one."""
    part: dict[str, JsonValue] = {"type": "input_image", "image_url": url}
    return part if detail is None else {**part, "detail": detail}


def function_call_item(
    name: str,
    arguments: str,
    call_id: str,
    *,
    namespace: str | None = None,
    item_id: str | None = None,
) -> JsonObject:
    """Return a function call; `arguments` is the JSON text that the model wrote."""
    item: dict[str, JsonValue] = {"type": "function_call", "name": name}
    if namespace is not None:
        item["namespace"] = namespace
    item |= {"arguments": arguments, "call_id": call_id}
    return item if item_id is None else with_id(item, item_id)


def function_call_output_item(
    call_id: str, output: str | Sequence[JsonObject], item_id: str | None = None
) -> JsonObject:
    """Return a call's output: a text, or parts."""
    body: JsonValue = output if isinstance(output, str) else list(output)
    item: JsonObject = {"type": "function_call_output", "call_id": call_id, "output": body}
    return item if item_id is None else with_id(item, item_id)


def custom_call_item(
    name: str, input_text: str, call_id: str, item_id: str | None = None
) -> JsonObject:
    """Return a freeform call, such as a code-mode script."""
    item: JsonObject = {
        "type": "custom_tool_call",
        "name": name,
        "input": input_text,
        "call_id": call_id,
    }
    return item if item_id is None else with_id(item, item_id)


def custom_call_output_item(
    call_id: str, output: str | Sequence[JsonObject], item_id: str | None = None
) -> JsonObject:
    """Return a freeform call's output: a text, or parts."""
    body: JsonValue = output if isinstance(output, str) else list(output)
    item: JsonObject = {"type": "custom_tool_call_output", "call_id": call_id, "output": body}
    return item if item_id is None else with_id(item, item_id)


def with_id(item: JsonObject, item_id: str) -> JsonObject:
    """Return the item under this id, all else as it was; the app-server keeps our ids verbatim."""
    kept = {key: value for key, value in item.items() if key not in {"type", "id"}}
    return {"type": item_kind(item), "id": item_id, **kept}


def without_id(item: JsonObject) -> JsonObject:
    """Return the item without its id, to compare contents."""
    return {key: value for key, value in item.items() if key != "id"}


def item_kind(item: JsonObject) -> str:
    """Return the item's type; a body with a role and no type is a message, others are empty."""
    kind = item.get("type")
    if isinstance(kind, str):
        return kind
    return "message" if isinstance(item.get("role"), str) else ""


def item_id_of(item: JsonObject) -> str | None:
    """Return the item's id, if it has one."""
    found = item.get("id")
    return found if isinstance(found, str) and found else None


def item_role(item: JsonObject) -> str | None:
    """Return a message's role; None for every other item."""
    role = item.get("role")
    return role if item_kind(item) == "message" and isinstance(role, str) else None


def item_text(item: JsonObject) -> str:
    """Return the text parts of a message or of a call's output, joined by line ends."""
    body = item.get("content") if item_kind(item) == "message" else item.get("output")
    if isinstance(body, str):
        return body
    if not isinstance(body, Sequence):
        return ""
    texts = [part.get("text") for part in body if isinstance(part, Mapping)]
    return "\n".join(text for text in texts if isinstance(text, str))


def is_call(item: JsonObject) -> bool:
    """Whether the item asks for a tool's work and has an output item of its own."""
    return item_kind(item) in _CALLS


def is_output(item: JsonObject) -> bool:
    """Whether the item is the output of a call."""
    return item_kind(item) in _OUTPUTS


def call_id(item: JsonObject) -> str | None:
    """Return what joins a call with its output; None for other items and for calls without one."""
    found = item.get("call_id")
    return found if (is_call(item) or is_output(item)) and isinstance(found, str) else None


def is_injectable(item: JsonObject) -> bool:
    """Whether the app-server keeps the item: unknown types and `system` are dropped in silence."""
    return item_kind(item) in _INJECTABLE and item_role(item) != "system"
