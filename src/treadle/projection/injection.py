"""Turn messages into the Responses items that are injected into a thread.

A message that the engine returns as it stands in the transcript becomes its raw items again, any
other one is rendered. Knows nothing of threads, plans or of the call that injects. The same
messages give byte-identical items. Source: spec D-51…D-53, decisions 7, 17.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from treadle.model.ids import EntryId
from treadle.model.json import JsonObject, digest
from treadle.model.message import Entry, Message
from treadle.projection.message_items import rendered_items
from treadle.projection.pairing import paired
from treadle.protocol.responses import (
    is_injectable,
    item_kind,
    item_role,
    with_id,
    without_id,
)

ToolArguments = Literal["redacted", "shape"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemOptions:
    """How messages become items."""

    tool_arguments: ToolArguments = "redacted"
    """Of calls that the thread did not make itself (spec D-53)."""

    thread_bootstrap: bool = False
    """The engine asked for `thread_bootstrap`: shapes and redacted results only, nothing raw."""

    model: str | None = None
    model_provider: str | None = None
    """Encrypted reasoning goes back to the model and provider that it came from alone."""

    first_position: int = 0
    """How many messages the thread holds already; tells repeated messages of the engine apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedItem:
    """An item to inject, and the message that it stands for."""

    item: JsonObject
    entry_id: EntryId | None
    content_hash: str


_PREFIXES: Final[Mapping[str, str]] = MappingProxyType({
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "cto",
    "local_shell_call": "lsh",
    "web_search_call": "ws",
    "image_generation_call": "ig",
    "tool_search_call": "tsc",
    "tool_search_output": "tso",
})
"""How the ids of each type begin where Codex and the service make them."""

_SEALED: Final = frozenset({"reasoning", "compaction"})
"""Types whose content only the model and provider that made it can read (decision 7)."""

_NOT_KEPT: Final = frozenset({"id", "internal_chat_message_metadata_passthrough"})
"""What belongs to the thread that an item came from."""

_ID_DIGITS: Final = 40
"""Hex digits of a derived id: the service takes ids of up to 64 characters."""


def items_for(
    messages: Sequence[Message], entries_by_id: Mapping[EntryId, Entry], options: ItemOptions
) -> tuple[PlannedItem, ...]:
    """Return the items in order; each call is followed by its output, neither stands alone.

    A call or result whose other half is not in the list is rendered as text. A message of which
    nothing is left gives no item.
    """
    entries = dict(enumerate(_unchanged(message, entries_by_id) for message in messages))
    raw = {
        at: entry.raw_items
        for at, entry in entries.items()
        if entry is not None and entry.raw_items and not options.thread_bootstrap
    }
    pairing = paired(messages, raw)
    shapes_only = options.thread_bootstrap or options.tool_arguments == "shape"
    seen: Counter[tuple[EntryId, str]] = Counter()
    planned: list[PlannedItem] = []
    for at, message in enumerate(messages):
        content_hash = message.content_hash
        entry = entries[at]
        if entry is not None and at in pairing.raw:
            items = tuple(_raw_copies(entry, options))
        else:
            items = rendered_items(message, pairing.types.get(at, {}), shapes_only=shapes_only)
        if message.entry_id is None:
            salt = f"at:{options.first_position + at}"
        else:
            salt = f"{message.entry_id}:{seen[message.entry_id, content_hash]}"
            seen[message.entry_id, content_hash] += 1
        planned += [
            PlannedItem(
                item=with_id(item, derived_id(item, salt, index)),
                entry_id=message.entry_id,
                content_hash=content_hash,
            )
            for index, item in enumerate(items)
        ]
    return tuple(planned)


def derived_id(item: JsonObject, salt: str, index: int) -> str:
    """Return the item's id: its type's prefix and a hash over salt, index and content.

    No time, random, thread or turn value. Source: spec D-52.
    """
    prefix = _PREFIXES.get(item_kind(item), "itm")
    return f"{prefix}_{digest([salt, index, without_id(item)])[:_ID_DIGITS]}"


def cleaned_raw(item: JsonObject) -> JsonObject:
    """Return a raw item as it can be injected: whole, but without its id and Codex's own marks.

    The marks would make the copy look like an old prompt of that thread.
    """
    return {key: value for key, value in item.items() if key not in _NOT_KEPT}


def _unchanged(message: Message, entries_by_id: Mapping[EntryId, Entry]) -> Entry | None:
    """Return the entry that the message is an unchanged copy of. Source: decision 7."""
    entry = entries_by_id.get(message.entry_id) if message.entry_id is not None else None
    if entry is None or entry.content_hash != message.content_hash:
        return None
    return entry


def _raw_copies(entry: Entry, options: ItemOptions) -> Iterator[JsonObject]:
    same_model = (
        options.model is not None
        and entry.meta.get("model") == options.model
        and entry.meta.get("model_provider") == options.model_provider
    )
    for item in entry.raw_items:
        if not is_injectable(item) or item_role(item) not in {None, "user", "assistant"}:
            continue
        if item_kind(item) in _SEALED and not (same_model and item.get("encrypted_content")):
            continue
        yield cleaned_raw(item)
