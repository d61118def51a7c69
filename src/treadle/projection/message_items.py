"""Render one message as Responses items, for messages that cannot go back as they came.

Knows nothing of ids of items, of transcripts or of pairs: it is told which type each call and
result takes. Source: spec D-53, decision 17.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from treadle.model.json import JsonObject, JsonValue, canonical
from treadle.model.message import ASSISTANT, USER, Message, call_ids, parts_of, result_ids
from treadle.model.text import redact, redact_value, without_surrogates
from treadle.projection.pairing import CUSTOM_OUTPUT, FUNCTION_OUTPUT, is_half
from treadle.projection.rendering import (
    CALL_PARTS,
    IMAGE_OMITTED,
    NON_TEXT,
    clean_value,
    placeholder,
    shape_of,
    tool_call_text,
    tool_result_text,
)
from treadle.protocol.responses import (
    Role,
    custom_call_output_item,
    function_call_item,
    function_call_output_item,
    image_part,
    message_item_of_parts,
    text_part,
)

_SILENT_PARTS: Final = frozenset({"thinking", "reasoning", "redacted_thinking"})
"""Parts that the model is never shown again in words."""

_NAME: Final = re.compile(r"[^a-zA-Z0-9_-]")
_MAX_NAME: Final = 64
"""Characters that a function's name may have."""

_DATA_IMAGE: Final = re.compile(r"data:image/[a-z0-9.+-]+;base64,[A-Za-z0-9+/=\s]+", re.I)


def rendered_items(
    message: Message, types: Mapping[int, str], *, shapes_only: bool
) -> tuple[JsonObject, ...]:
    """Return the message's items in order, ids left out; none if nothing is left of it.

    `types` names the item type of each paired call and result by its ordinal among both; the others
    become text. With `shapes_only` a call's arguments are shown as D-20's shape. A role that is
    neither the user's nor the model's becomes a user's message under a label: nothing that an
    engine gives ever speaks with a developer's voice (decision 17).
    """
    items: list[JsonObject] = []
    said: list[JsonObject] = []
    ordinal = 0
    for part in _parts(message):
        if not is_half(part):
            said += _spoken(part)
            continue
        wire_type = types.get(ordinal)
        ordinal += 1
        if wire_type is None:
            said.append(text_part(_half_as_text(part)))
            continue
        items += _message(message.role, said)
        said = []
        items.append(_half(part, wire_type, shapes_only=shapes_only))
    return (*items, *_message(message.role, said))


def _parts(message: Message) -> Sequence[JsonObject]:
    content = message.content
    if content is None or isinstance(content, str | list | tuple):
        return parts_of(message)
    return ({"type": "text", "text": NON_TEXT},)


def _spoken(part: JsonObject) -> list[JsonObject]:
    """Return a part that is no call or result as input parts; none if it says nothing."""
    kind = part.get("type")
    match kind:
        case "text":
            text = part.get("text")
            said = without_surrogates(text) if isinstance(text, str) else ""
            return [text_part(said)] if said.strip() else []
        case "image" | "input_image":
            url = image_url(part)
            return [image_part(url) if url is not None else text_part(IMAGE_OMITTED)]
        case str() if kind in _SILENT_PARTS:
            return []
        case str() if kind:
            return [text_part(placeholder(kind))]
        case _:
            return [text_part(NON_TEXT)]


def image_url(part: JsonObject) -> str | None:
    """Return an image as a data URL, whichever of the usual forms it has; None for another one."""
    source = part.get("source")
    fields = source if isinstance(source, Mapping) else part
    for key in ("image_url", "imageUrl", "url"):
        found = fields.get(key)
        url = found.get("url") if isinstance(found, Mapping) else found
        if isinstance(url, str) and _DATA_IMAGE.fullmatch(url):
            return url
    encoded = fields.get("data")
    mime = fields.get("mimeType", fields.get("media_type"))
    if not isinstance(encoded, str) or not isinstance(mime, str):
        return None
    url = f"data:{mime};base64,{encoded}"
    return url if _DATA_IMAGE.fullmatch(url) else None


def _message(role: str, said: Sequence[JsonObject]) -> list[JsonObject]:
    if not said:
        return []
    if role == ASSISTANT:
        texts = (part.get("text", IMAGE_OMITTED) for part in said)
        return [_item("assistant", [{"type": "output_text", "text": text} for text in texts])]
    if role == USER:
        return [_item("user", said)]
    label = text_part(f"[{' '.join(without_surrogates(role).split())}]")
    return [_item("user", [label, *said])]


def _item(role: Role, parts: Sequence[JsonObject]) -> JsonObject:
    return message_item_of_parts(role, parts)


def _half_as_text(part: JsonObject) -> str:
    return tool_call_text(part) if part.get("type") in CALL_PARTS else tool_result_text(part)


def _half(part: JsonObject, wire_type: str, *, shapes_only: bool) -> JsonObject:
    alone = Message(role=ASSISTANT, content=[part])
    if wire_type == FUNCTION_OUTPUT:
        return function_call_output_item(result_ids(alone)[0], _output(part))
    if wire_type == CUSTOM_OUTPUT:
        return custom_call_output_item(result_ids(alone)[0], _output(part))
    return function_call_item(
        _name(part), _arguments(part, shapes_only=shapes_only), call_ids(alone)[0]
    )


def _name(part: JsonObject) -> str:
    name = part.get("name")
    clean = _NAME.sub("_", name)[:_MAX_NAME] if isinstance(name, str) else ""
    return clean or "unknown_tool"


def _arguments(part: JsonObject, *, shapes_only: bool) -> str:
    given = part["input"] if "input" in part else part.get("arguments")
    shown = shape_of(given) if shapes_only else redact_value(given)
    if not isinstance(shown, Mapping):
        shown = {} if shown is None else {"input": shown}
    return canonical(clean_value(shown)).decode()


def _output(part: JsonObject) -> str | list[JsonObject]:
    """Return a result's content, redacted: one text, or parts where it holds images."""
    content = part.get("content", part.get("output"))
    if isinstance(content, str):
        return without_surrogates(redact(content))
    said: list[JsonObject] = []
    for one in content if isinstance(content, list | tuple) else [content]:
        said += _output_part(one)
    if any(one.get("type") == "input_image" for one in said):
        return said
    return "\n".join(str(one["text"]) for one in said)


def _output_part(one: JsonValue) -> list[JsonObject]:
    if one is None:
        return []
    if isinstance(one, str):
        return [text_part(without_surrogates(redact(one)))]
    if isinstance(one, Mapping) and one.get("type") in {"text", "image", "input_image"}:
        return [
            text_part(redact(str(said["text"]))) if "text" in said else said
            for said in _spoken(one)
        ]
    return [text_part(canonical(clean_value(redact_value(one))).decode())]
