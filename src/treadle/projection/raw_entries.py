"""Make a turn's messages from its raw Responses items, which are what the model saw.

Typed items name, measure and judge them. Knows nothing of what has no raw item. Source: spec G-07,
G-08, G-11; decision 7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from treadle.model.ids import ItemId
from treadle.model.json import JsonObject, JsonValue, canonical
from treadle.model.message import ASSISTANT, USER, Message, NewEntry, text_of, tool_call_part
from treadle.projection.entries import (
    CallResult,
    Draft,
    SeenItem,
    SnapshotInput,
    new_entry,
    result_entry,
)
from treadle.projection.tool_items import (
    TOOL_ITEMS,
    is_failure,
    parts_from_wire,
    text_parts,
    tool_meta,
)
from treadle.protocol.items import AgentMessage, UserMessage, tool_name
from treadle.protocol.responses import (
    call_id,
    is_call,
    is_injectable,
    is_output,
    item_id_of,
    item_kind,
    item_role,
    item_text,
)

_FREEFORM: Final = "input"
"""Argument under which a freeform call's text is kept."""


def output_key(call: str) -> str:
    """Return the key under which it is noted when a call's output was told of."""
    return f"output:{call}"


class RawReader:
    """Reads the raw items of one turn, once, in order."""

    def __init__(self, given: SnapshotInput) -> None:
        self._given = given
        self._typed = {seen.item.id: seen for seen in given.items}
        said = [seen.item for seen in given.items if isinstance(seen.item, UserMessage)]
        self._said: list[UserMessage] | None = said or None
        """User messages that Codex told of and that were not met yet; None if it told of none."""

        self._is_told = any(isinstance(seen.item, AgentMessage) for seen in given.items)
        self._used: set[ItemId] = set()
        self._names: dict[str, str] = {}
        self._prompt: JsonObject | None = None
        self._nameless = 0

    @property
    def used(self) -> frozenset[ItemId]:
        """Ids of the typed items that a raw item stands for."""
        return frozenset(self._used)

    def prompt_items(self, prompt: Message) -> tuple[JsonObject, ...]:
        """Return the prompt's raw item, if it says what the person said and no more.

        A prompt that went out behind a block of context is not kept as it went.
        """
        raw = self._prompt
        if raw is None or item_text(raw).strip() != text_of(prompt).strip():
            return ()
        return (raw,)

    def drafts(self) -> list[Draft]:
        """Return the messages; items without words of their own lead the next one's raw items."""
        drafts: list[Draft] = []
        leading: list[JsonObject] = []
        order = 0
        for item in self._given.raw_items:
            if _is_wordless(item):
                leading += [item] if is_injectable(item) else []
                continue
            entry = self._entry(item, leading)
            if entry is None:
                leading = [] if item_role(item) == ASSISTANT else leading
                continue
            leading = []
            order = max(order, self._order_of(item))
            drafts.append(Draft(entry=entry, order=order))
        return _with_trailing(drafts, leading)

    def _entry(self, item: JsonObject, leading: Sequence[JsonObject]) -> NewEntry | None:
        if item_role(item) == USER:
            return self._user_entry(item, leading)
        if item_role(item) == ASSISTANT:
            return self._assistant_entry(item, leading)
        if is_call(item):
            return self._call_entry(item, leading)
        return self._output_entry(item, leading) if is_output(item) else None

    def _user_entry(self, item: JsonObject, leading: Sequence[JsonObject]) -> NewEntry | None:
        """Return a steer's entry; the first message is the prompt, Codex's own context is neither.

        The prompt's entry is made elsewhere, from what the person said.
        """
        found = None
        if self._said is not None:
            found = next((one for one in self._said if _says(item, one.text)), None)
            if found is None:
                return None
            self._said.remove(found)
            self._used.add(found.id)
        if self._prompt is None:
            self._prompt = item
            return None
        name = found.id if found is not None else self._name_of(item)
        parts = parts_from_wire(item.get("content"))
        return new_entry(
            self._given, f"steer:{name}", Message(role=USER, content=parts), raw=(*leading, item)
        )

    def _assistant_entry(self, item: JsonObject, leading: Sequence[JsonObject]) -> NewEntry | None:
        """Return what was said; the typed item's text counts, where Codex took something out.

        Where Codex tells of typed items, one that it does not tell of was said to Codex alone: the
        summary of a native compaction (spec G-07, H-13).
        """
        seen = self._typed_message(item)
        if seen is None and self._is_told:
            return None
        text, name, phase = item_text(item), item_id_of(item), item.get("phase")
        if seen is not None and isinstance(seen.item, AgentMessage):
            self._used.add(seen.item.id)
            name = seen.item.id
            text = seen.item.text if seen.completed else text
            phase = phase or seen.item.phase
        return new_entry(
            self._given,
            f"assistant:{name or self._name_of(item)}",
            Message(role=ASSISTANT, content=text_parts(text)),
            raw=(*leading, item),
            meta={"phase": phase} if phase else {},
            model=seen.model if seen is not None else None,
        )

    def _typed_message(self, item: JsonObject) -> SeenItem | None:
        """Return the typed message of a raw one: by id, else the first unused of the same text."""
        found = self._typed.get(ItemId(item_id_of(item) or ""))
        if found is not None and isinstance(found.item, AgentMessage):
            return found
        text = item_text(item)
        for seen in self._given.items:
            unused = isinstance(seen.item, AgentMessage) and seen.item.id not in self._used
            if unused and getattr(seen.item, "text", None) == text:
                return seen
        return None

    def _call_entry(self, item: JsonObject, leading: Sequence[JsonObject]) -> NewEntry:
        found = call_id(item) or self._name_of(item)
        seen = self._typed_tool(found)
        name = (tool_name(seen.item) if seen is not None else None) or _raw_name(item)
        self._names[found] = name
        part = tool_call_part(found, name, _raw_arguments(item))
        return new_entry(
            self._given,
            f"call:{found}",
            Message(role=ASSISTANT, content=[part]),
            raw=(*leading, item),
            meta={"tool": tool_meta(seen.item)} if seen is not None else {},
            model=seen.model if seen is not None else None,
        )

    def _output_entry(self, item: JsonObject, leading: Sequence[JsonObject]) -> NewEntry:
        found = call_id(item) or self._name_of(item)
        seen = self._typed_tool(found)
        result = CallResult(
            call_id=found,
            name=self._names.get(found, ""),
            content=_raw_output(item),
            is_error=seen is not None and is_failure(seen.item),
        )
        meta: JsonObject = {"tool": tool_meta(seen.item)} if seen is not None else {}
        return result_entry(self._given, result, raw=(*leading, item), meta=meta)

    def _typed_tool(self, call: str) -> SeenItem | None:
        seen = self._typed.get(ItemId(call))
        if seen is None or not isinstance(seen.item, TOOL_ITEMS):
            return None
        self._used.add(seen.item.id)
        return seen

    def _order_of(self, item: JsonObject) -> int:
        call = call_id(item)
        if is_output(item):
            return self._given.raw_order.get(output_key(call or ""), 0)
        for key in (call, item_id_of(item)):
            if key is None:
                continue
            if (told := self._given.raw_order.get(key)) is not None:
                return told
            if (seen := self._typed.get(ItemId(key))) is not None:
                return seen.order
        return 0

    def _name_of(self, item: JsonObject) -> str:
        """Return the item's id, or its number among those without one."""
        found = item_id_of(item)
        if found is not None:
            return found
        self._nameless += 1
        return f"#{self._nameless}"


def _is_wordless(item: JsonObject) -> bool:
    """Whether an item is neither said, called nor answered: reasoning, a hosted search."""
    return item_role(item) is None and not is_call(item) and not is_output(item)


def _with_trailing(drafts: list[Draft], trailing: Sequence[JsonObject]) -> list[Draft]:
    """Keep what stands behind the last message with it; reasoning that led nowhere is dropped."""
    kept = tuple(item for item in trailing if item_kind(item) != "reasoning")
    if not drafts or not kept:
        return drafts
    last = drafts[-1]
    entry = replace(last.entry, raw_items=(*last.entry.raw_items, *kept))
    return [*drafts[:-1], replace(last, entry=entry)]


def _says(item: JsonObject, text: str) -> bool:
    """Whether a raw user message is the typed one; Codex writes text round images."""
    raw = item_text(item)
    if text.strip():
        return text in raw
    content = item.get("content")
    parts = content if isinstance(content, list | tuple) else ()
    images = (isinstance(part, Mapping) and part.get("type") == "input_image" for part in parts)
    return raw == text or any(images)


def _raw_name(item: JsonObject) -> str:
    name = item.get("name")
    if isinstance(name, str) and name:
        return name
    return item_kind(item).removesuffix("_call")


def _raw_arguments(item: JsonObject) -> JsonValue:
    match item_kind(item):
        case "custom_tool_call":
            return {_FREEFORM: item.get("input")}
        case "local_shell_call":
            return item.get("action")
        case _:
            return _parsed(item.get("arguments"))


def _parsed(arguments: JsonValue) -> JsonValue:
    """Return the JSON that a model wrote; its text as it is where that is no JSON."""
    if not isinstance(arguments, str):
        return arguments
    try:
        found: JsonValue = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeError):
        return arguments
    return found


def _raw_output(item: JsonObject) -> list[JsonObject]:
    if item_kind(item) == "tool_search_output":
        return text_parts(canonical(item.get("tools")).decode())
    return parts_from_wire(item.get("output"))
