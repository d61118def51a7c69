"""Make entries from a turn's typed items: what has no raw item, or all where there is none.

Knows nothing of raw items. Source: spec G-03, G-04, G-08, G-11, H-13.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from treadle.model.ids import ItemId
from treadle.model.json import JsonObject, JsonValue, canonical
from treadle.model.message import ASSISTANT, USER, EntryKind, Message, NewEntry, tool_call_part
from treadle.projection.entries import (
    CallResult,
    Draft,
    SeenItem,
    SnapshotInput,
    new_entry,
    result_entry,
    result_part,
)
from treadle.projection.tool_items import (
    TOOL_ITEMS,
    ToolItem,
    call_arguments,
    is_failure,
    parts_from_wire,
    result_content,
    text_parts,
    thought,
    tool_meta,
)
from treadle.protocol.items import (
    AgentMessage,
    ContextCompaction,
    HookPrompt,
    ItemStatus,
    Plan,
    Reasoning,
    Unknown,
    UserMessage,
    status,
    tool_name,
)

COMPACTED: Final = "Codex compacted its history here."
"""Text of a compaction's entry; no summary, no list of what was kept (spec H-13)."""

ODD_BYTES: Final = 256_000
"""Of JSON: an item of a kind that is not read here is kept whole up to this size."""

NESTED: Final = "exec-"
"""How the ids begin of calls that a script made, which are no items of the model's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """Messages that were made from typed items, and the ids of those items."""

    drafts: list[Draft]
    used: frozenset[ItemId]


def rendered_messages(given: SnapshotInput) -> Rendered:
    """Return the conversation as typed items tell it, for a turn without raw items.

    The first user message is the prompt, whose entry is made from what the person said.
    """
    drafts: list[Draft] = []
    used: set[ItemId] = set()
    users = 0
    for seen in given.items:
        if isinstance(seen.item, UserMessage):
            users += 1
        found = list(_rendered(given, seen, is_prompt=users == 1))
        if found or isinstance(seen.item, UserMessage):
            used.add(seen.item.id)
        drafts += found
    return Rendered(drafts=drafts, used=frozenset(used))


def _rendered(given: SnapshotInput, seen: SeenItem, *, is_prompt: bool) -> Iterator[Draft]:
    item = seen.item
    match item:
        case UserMessage(content=content) if not is_prompt:
            steer = Message(role=USER, content=parts_from_wire(content))
            yield _draft(given, seen, f"steer:{item.id}", steer)
        case AgentMessage(text=text) if seen.completed and text:
            said = Message(role=ASSISTANT, content=text_parts(text))
            yield _draft(given, seen, f"assistant:{item.id}", said)
        case _ if isinstance(item, TOOL_ITEMS) and not item.id.startswith(NESTED):
            call = Message(role=ASSISTANT, content=[_call_part(item)])
            yield _draft(given, seen, f"call:{item.id}", call)
            if seen.completed and status(item) is not ItemStatus.RUNNING:
                meta: JsonObject = {"rendered": True, "tool": tool_meta(item)}
                yield Draft(entry=result_entry(given, _result(item), meta=meta), order=seen.order)
        case _:
            pass


def _draft(given: SnapshotInput, seen: SeenItem, identity: str, message: Message) -> Draft:
    meta: dict[str, JsonValue] = {"rendered": True}
    if isinstance(seen.item, AgentMessage) and seen.item.phase is not None:
        meta["phase"] = seen.item.phase
    if isinstance(seen.item, TOOL_ITEMS):
        meta["tool"] = tool_meta(seen.item)
    entry = new_entry(given, identity, message, meta=meta, model=seen.model)
    return Draft(entry=entry, order=seen.order)


def asides(given: SnapshotInput, used: frozenset[ItemId]) -> Iterator[Draft]:
    """Yield what is no message yet: activity, compactions, text that has no raw item.

    `used` are the typed items that messages stand for.
    """
    for seen in given.items:
        entry = _aside(given, seen, seen.item.id in used)
        if entry is not None:
            yield Draft(entry=entry, order=seen.order)


def _aside(given: SnapshotInput, seen: SeenItem, is_used: bool) -> NewEntry | None:
    item = seen.item
    match item:
        case ContextCompaction():
            state = "done" if seen.completed else "unfinished"
            return new_entry(
                given,
                f"compaction:{item.id}",
                Message(role="notice", content=text_parts(COMPACTED)),
                kind=EntryKind.COMPACTION,
                meta={"state": state},
            )
        case Reasoning() if shown := thought(item):
            part: JsonObject = {"type": "thinking", "thinking": shown}
            return _activity(given, seen, "reasoning", [part])
        case Plan(text=text) if text:
            return _activity(given, seen, "plan", text_parts(text))
        case HookPrompt(fragments=fragments):
            return _activity(given, seen, "hook", text_parts("\n".join(fragments)))
        case Unknown(type=kind, raw=raw):
            return _activity(given, seen, "item", [_odd_part(kind, raw)])
        case AgentMessage(text=text) if text and not is_used:
            return _lone_message(given, seen, text)
        case _ if isinstance(item, TOOL_ITEMS) and not is_used:
            parts = [_call_part(item)]
            if seen.completed:
                parts.append(result_part(_result(item)))
            return _activity(given, seen, "tool", parts)
    return None


def _odd_part(kind: str, raw: JsonObject) -> JsonObject:
    """Return an item that is not read here whole, or how large it was if it is very large."""
    size = len(canonical(raw))
    kept: JsonObject = raw if size <= ODD_BYTES else {"id": raw.get("id"), "leftOutBytes": size}
    return {"type": "item", "itemType": kind, "item": kept}


def _lone_message(given: SnapshotInput, seen: SeenItem, text: str) -> NewEntry | None:
    """Return a message that no raw item tells of: whole, or cut off by the end of the turn.

    The model does not get the cut one back, so it is no message (facts section 3).
    """
    said = Message(role=ASSISTANT, content=text_parts(text))
    if seen.completed:
        return new_entry(
            given,
            f"assistant:{seen.item.id}",
            said,
            meta={"rendered": True},
            model=seen.model,
        )
    if not given.ended:
        return None
    return new_entry(
        given,
        f"partial:{seen.item.id}",
        said,
        kind=EntryKind.NOTICE,
        meta={"partial": True},
        model=seen.model,
    )


def _activity(
    given: SnapshotInput, seen: SeenItem, what: str, parts: Sequence[JsonObject]
) -> NewEntry:
    meta: dict[str, JsonValue] = {"activity": what}
    if isinstance(seen.item, TOOL_ITEMS):
        meta["tool"] = tool_meta(seen.item)
    return new_entry(
        given,
        f"{what}:{seen.item.id}",
        Message(role=ASSISTANT, content=list(parts)),
        kind=EntryKind.ACTIVITY,
        meta=meta,
        model=seen.model,
    )


def _call_part(item: ToolItem) -> JsonObject:
    return tool_call_part(item.id, tool_name(item) or "", call_arguments(item))


def _result(item: ToolItem) -> CallResult:
    return CallResult(
        call_id=item.id,
        name=tool_name(item) or "",
        content=result_content(item),
        is_error=is_failure(item),
    )
