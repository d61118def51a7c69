"""What an entry of a turn is made in: whose turn, under which key, with what beside the message.

Knows neither typed nor raw items. Source: spec H-03, H-04, G-11; decision 7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from treadle.model.ids import RunId, ThreadId, TurnId
from treadle.model.json import JsonObject, JsonValue
from treadle.model.message import ASSISTANT, TOOL_RESULT, EntryKind, Message, NewEntry
from treadle.projection.rendering import clean_value
from treadle.protocol.items import ThreadItem


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenItem:
    """A typed item of the turn."""

    item: ThreadItem
    order: int
    """When it was first told of, counted together with the raw items."""

    model: str | None
    completed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotInput:
    """What the entries are made from."""

    run_id: RunId
    thread_id: ThreadId
    turn_id: TurnId
    model: str | None
    model_provider: str | None
    items: tuple[SeenItem, ...]
    raw_items: tuple[JsonObject, ...]
    raw_order: Mapping[str, int] = field(default_factory=dict)
    """When raw items were told of, by item id and call id; empty where they were read later."""

    prompt: Message | None = None
    completed: bool = True
    ended: bool = True
    """False while the turn runs: nothing is yet said to be missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An entry and when it was told of; 0 if nobody knows."""

    entry: NewEntry
    order: int = 0


def new_entry(
    given: SnapshotInput,
    identity: str,
    message: Message,
    *,
    kind: EntryKind = EntryKind.MESSAGE,
    raw: tuple[JsonObject, ...] = (),
    meta: JsonObject | None = None,
    model: str | None = None,
) -> NewEntry:
    """Return an entry under the key of its identity; what the model said names the model.

    Source: spec H-03, H-04, G-25.
    """
    more: dict[str, JsonValue] = dict(meta or {})
    if message.role == ASSISTANT:
        more["model"] = model or given.model
        more["model_provider"] = given.model_provider
    return NewEntry(
        key=f"codex-app-server:{given.thread_id}:{given.turn_id}:{identity}",
        message=replace(message, content=clean_value(message.content)),
        kind=kind,
        raw_items=raw,
        thread_id=given.thread_id,
        turn_id=given.turn_id,
        run_id=given.run_id,
        meta=more,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """What a call came to."""

    call_id: str
    name: str
    content: Sequence[JsonObject]
    is_error: bool


def result_entry(
    given: SnapshotInput,
    result: CallResult,
    *,
    meta: JsonObject,
    raw: tuple[JsonObject, ...] = (),
) -> NewEntry:
    """Return the entry of a call's result (spec G-11)."""
    message = Message(role=TOOL_RESULT, content=[result_part(result)])
    return new_entry(given, f"result:{result.call_id}", message, raw=raw, meta=meta)


def result_part(result: CallResult) -> JsonObject:
    """Return the part that records a call's result (spec G-11)."""
    return {
        "type": "toolResult",
        "toolCallId": result.call_id,
        "toolName": result.name,
        "content": list(result.content),
        "isError": result.is_error,
    }
