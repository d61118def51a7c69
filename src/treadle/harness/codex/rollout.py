"""Read a thread's rollout file.

The raw Responses items of a turn, and whether injected ones arrived.

Never writes, and knows the file only as lines of JSON: a line it cannot read is skipped and
counted. The app-server has written a turn's lines when `turn/completed` arrives, and an injection's
when its answer does (measured on 0.163).
Source: decisions 3 and 7, spec A-29.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import anyio.to_thread
import msgspec

from treadle.model.ids import TurnId
from treadle.model.json import JsonObject, JsonValue
from treadle.protocol.responses import item_kind, item_role, item_text

_PASSTHROUGH = "internal_chat_message_metadata_passthrough"
_PROMPT_KINDS = frozenset({"user.text", "user.image"})
_IDLE_TURN = "auto-compact-"
"""Codex files what was injected between turns under a turn id that begins so."""


class Origin(StrEnum):
    """Where a raw item came from."""

    PROMPT = "prompt"
    MODEL = "model"
    TOOL = "tool"
    INJECTED = "injected"
    CODEX = "codex"
    """Of its own: permissions, environment, AGENTS.md, notes about an interruption, summaries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RawItem:
    """One Responses item as the thread holds it."""

    item: JsonObject
    origin: Origin
    turn_id: TurnId | None

    @property
    def id(self) -> str | None:
        """The item's id, if it has one."""
        found = self.item.get("id")
        return found if isinstance(found, str) and found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """What stands in the file behind an offset, in order."""

    items: tuple[RawItem, ...] = ()
    client_ids: Mapping[str, TurnId]
    """Client message ids of the user messages seen, each with its turn."""

    ended: dict[TurnId, str]
    """Turns that ended, each with `completed`, `interrupted` or `failed`."""

    compactions: int = 0
    end_offset: int = 0
    """Bytes read; a last line without its line feed is left for the next time."""

    unreadable_lines: int = 0

    def of_turn(self, turn_id: TurnId) -> tuple[JsonObject, ...]:
        """Return the raw items of the conversation in that turn.

        What was said, called and answered, nothing else.
        """
        said = {Origin.PROMPT, Origin.MODEL, Origin.TOOL}
        return tuple(
            without_marks(raw.item)
            for raw in self.items
            if raw.turn_id == turn_id and raw.origin in said
        )

    @property
    def last_turn(self) -> TurnId | None:
        """Return the turn of the newest item that belongs to one, or that ended last."""
        turns = [raw.turn_id for raw in self.items if raw.turn_id is not None]
        turns = [turn for turn in turns if not turn.startswith(_IDLE_TURN)]
        return turns[-1] if turns else next(reversed(self.ended), None)

    @property
    def item_ids(self) -> frozenset[str]:
        """Ids of all items."""
        return frozenset(raw.id for raw in self.items if raw.id is not None)


async def read_rollout(path: str, offset: int = 0) -> Rollout | None:
    """Read the file from a byte offset on; None if it does not exist or cannot be read."""
    try:
        return await anyio.to_thread.run_sync(_read_parsed, path, offset)
    except OSError:
        return None


def parse_rollout(data: bytes, offset: int = 0) -> Rollout:
    """Read whole lines of `data`, which begins at `offset` of the file."""
    whole, _, _ = data.rpartition(b"\n")
    size = len(whole) + 1 if whole or data.startswith(b"\n") else 0
    items: list[RawItem] = []
    client_ids: dict[str, TurnId] = {}
    ended: dict[TurnId, str] = {}
    compactions = unreadable = 0
    for kind, payload in _records(whole.split(b"\n")):
        match kind:
            case "response_item":
                items.append(raw_item(payload))
            case "event_msg":
                _note_event(payload, client_ids, ended)
            case "compacted":
                compactions += 1
                _set_summary_apart(items, payload)
            case None:
                unreadable += 1
            case _:
                pass  # session, turn and token records hold nothing of the conversation
    return Rollout(
        items=tuple(items),
        client_ids=client_ids,
        ended=ended,
        compactions=compactions,
        end_offset=offset + size,
        unreadable_lines=unreadable,
    )


def _set_summary_apart(items: list[RawItem], compacted: JsonObject) -> None:
    """Take the last answer for Codex's own if it is the summary that the history gave way to.

    A native compaction stores what the model answered to it like an answer of the turn, without a
    typed item; nobody said it (spec H-13).
    """
    message = compacted.get("message")
    if not items or not isinstance(message, str):
        return
    last = items[-1]
    text = item_text(last.item).strip()
    if item_role(last.item) != "assistant" or not text or text not in message:
        return
    items[-1] = replace(last, origin=Origin.CODEX)
    for at in range(len(items) - 2, -1, -1):
        if item_kind(items[at].item) != "reasoning" or items[at].turn_id != last.turn_id:
            return
        items[at] = replace(items[at], origin=Origin.CODEX)


def raw_item(payload: JsonObject) -> RawItem:
    """Tell where a stored item came from by the marks that Codex leaves on it."""
    marks = payload.get(_PASSTHROUGH)
    marks = marks if isinstance(marks, Mapping) else {}
    turn = marks.get("turn_id")
    turn_id = TurnId(turn) if isinstance(turn, str) else None
    kinds = marks.get("content_item_kinds")
    named = None
    if isinstance(kinds, list | tuple):
        named = frozenset(kind for kind in kinds if isinstance(kind, str))
    return RawItem(item=payload, origin=_origin(payload, turn_id, named), turn_id=turn_id)


def without_marks(item: JsonObject) -> JsonObject:
    """Return the item without Codex's marks.

    Which would make an injected copy look like an old prompt.
    """
    return {name: value for name, value in item.items() if name != _PASSTHROUGH}


def _origin(payload: JsonObject, turn_id: TurnId | None, kinds: frozenset[str] | None) -> Origin:
    idle = turn_id is not None and turn_id.startswith(_IDLE_TURN)
    named = kinds is not None and not kinds <= {"unknown"}
    match payload.get("type"), payload.get("role"):
        case "message", "assistant":
            return Origin.INJECTED if idle else Origin.MODEL
        case "message", "user" if kinds is not None and kinds & _PROMPT_KINDS:
            return Origin.PROMPT
        case "message", _:
            return Origin.CODEX if named or kinds is None else Origin.INJECTED
        case str() as kind, _ if kind.endswith("_output"):
            return Origin.INJECTED if idle else Origin.TOOL
        case _:
            return Origin.INJECTED if idle else Origin.MODEL


def _note_event(
    payload: JsonObject, client_ids: dict[str, TurnId], ended: dict[TurnId, str]
) -> None:
    turn = payload.get("turn_id")
    if not isinstance(turn, str):
        return
    match payload.get("type"), payload.get("item"):
        case "item_completed", {"type": "UserMessage", "client_id": str() as client_id}:
            client_ids[client_id] = TurnId(turn)
        case "task_complete", _:
            ended[TurnId(turn)] = "failed" if payload.get("error") else "completed"
        case "turn_aborted", _:
            ended[TurnId(turn)] = "interrupted"
        case _:
            pass


def _records(lines: Iterable[bytes]) -> Iterable[tuple[str | None, JsonObject]]:
    for line in lines:
        if not line.strip():
            continue
        try:
            record: JsonValue = msgspec.json.decode(line)
        except msgspec.DecodeError:
            yield None, {}
            continue
        match record:
            case {"type": str() as kind, "payload": dict() as payload}:
                yield kind, payload
            case _:
                yield None, {}


def _read_parsed(path: str, offset: int) -> Rollout:
    """Read and parse in one thread: 50 MB of a long thread take half a second."""
    return parse_rollout(_read(path, offset), offset)


def _read(path: str, offset: int) -> bytes:
    with Path(path).open("rb") as file:
        file.seek(offset)
        return file.read()
