"""Messages, as a context engine sees them, and entries, as the transcript keeps them.

Knows nothing of Codex's items beyond keeping them raw, and nothing of how entries are stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, TypeGuard

from treadle.model.ids import EntryId, RunId, SessionId, ThreadId, TurnId
from treadle.model.json import JsonObject, JsonValue, digest

USER: Final = "user"
ASSISTANT: Final = "assistant"
TOOL_RESULT: Final = "toolResult"
MIRRORED_ROLES: Final = frozenset({USER, ASSISTANT, TOOL_RESULT})
"""Roles that the transcript mirror takes (spec H-02)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a conversation.

    `content` is a string, or a list of parts (JSON objects with a `type`): `text` {text},
    `thinking` {thinking}, `image` {…}, `toolCall` {id, name, arguments}, `toolResult` {toolCallId,
    toolName, content, isError}. Whatever else an engine puts there is kept as it is. None means
    that there is no content.

    A message read from the transcript carries the `entry_id` and a fresh copy of the stored
    content: changing it changes nothing (spec B-13). An engine that returns it keeps the id; one
    that makes a message of its own has none.
    """

    role: str
    content: JsonValue = None
    entry_id: EntryId | None = None
    created_at: float | None = None
    """Unix seconds; never part of the hash or of any generated text (spec D-29)."""

    host_only: bool = False
    """Runtime context of the host's own: no engine sees or counts it (spec B-13, I-06)."""

    @property
    def content_hash(self) -> str:
        """SHA-256 over role and content alone.

        Equal for equal messages, whatever their ids and times (spec H-05).
        """
        return digest({"role": self.role, "content": self.content})


class StoredMessage(Message):
    """A message as the store keeps it, the same object for all who read it that way.

    Nobody may change what it holds, so its hash is the stored one. A changed copy (`replace`) is
    hashed anew, and it equals any other message with the same fields.
    """

    __slots__ = ("_stored_hash",)
    _stored_hash: str

    @classmethod
    def of(
        cls,
        *,
        role: str,
        content: JsonValue,
        entry_id: EntryId,
        created_at: float,
        stored_hash: str,
    ) -> StoredMessage:
        """Return the message of an entry with the hash that is stored beside it."""
        made = cls(role=role, content=content, entry_id=entry_id, created_at=created_at)
        object.__setattr__(made, "_stored_hash", stored_hash)
        return made

    @property
    def content_hash(self) -> str:
        """Return the stored hash."""
        if hasattr(self, "_stored_hash"):
            return self._stored_hash
        return content_hash(self.role, self.content)

    @property
    def is_as_stored(self) -> bool:
        """Whether this is no changed copy."""
        return hasattr(self, "_stored_hash")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return _fields_of(self) == _fields_of(other)

    __hash__ = Message.__hash__


def _fields_of(message: Message) -> tuple[object, ...]:
    return (
        message.role,
        message.content,
        message.entry_id,
        message.created_at,
        message.host_only,
    )


def content_hash(role: str, content: JsonValue) -> str:
    """Return the SHA-256 over `{role, content}` as 64 hex digits."""
    return digest({"role": role, "content": content})


def parts_of(message: Message) -> Sequence[JsonObject]:
    """Return the content as parts.

    A string becomes one text part, objects are kept, anything else is left out.
    """
    match message.content:
        case None:
            return ()
        case str() as text:
            return ({"type": "text", "text": text},)
        case list() | tuple() as parts:
            return tuple([part for part in parts if _is_object(part)])
        case _:
            return ()


def _is_object(part: JsonValue) -> TypeGuard[JsonObject]:
    """Tell objects; a dict first: the abstract check alone costs more than an engine's turn."""
    return type(part) is dict or isinstance(part, Mapping)


def text_of(message: Message) -> str:
    """Return the text parts joined by LF.

    Other parts ignored; empty if there is none (spec D-13).
    """
    if isinstance(message.content, str):
        return message.content
    texts = (part.get("text") for part in parts_of(message) if part.get("type") == "text")
    return "\n".join(text for text in texts if isinstance(text, str))


def user_message(text: str) -> Message:
    """Return a user's message that holds one text part."""
    return Message(role=USER, content=[{"type": "text", "text": text}])


def assistant_message(text: str) -> Message:
    """Return an assistant's message that holds one text part."""
    return Message(role=ASSISTANT, content=[{"type": "text", "text": text}])


def tool_call_part(call_id: str, name: str, arguments: JsonValue) -> JsonObject:
    """Return the part that records a call (spec G-11)."""
    return {"type": "toolCall", "id": call_id, "name": name, "arguments": arguments}


def tool_result_message(call_id: str, name: str, text: str, *, is_error: bool) -> Message:
    """Return the message that records a call's result as text (spec G-11)."""
    part: JsonObject = {
        "type": "toolResult",
        "toolCallId": call_id,
        "toolName": name,
        "content": [{"type": "text", "text": text}],
        "isError": is_error,
    }
    return Message(role=TOOL_RESULT, content=[part])


def is_said(message: Message) -> bool:
    """Whether it is nothing but a text; asked of hundreds of messages in a turn."""
    match message.content:
        case str() | [{"type": "text"}]:
            return True
        case _:
            return False


def call_ids(message: Message) -> tuple[str, ...]:
    """Return the ids of the calls that this message makes, in order."""
    return _ids(message, ("toolCall", "tool_use"), ("id", "callId", "toolCallId", "toolUseId"))


def result_ids(message: Message) -> tuple[str, ...]:
    """Return the ids of the calls that this message answers, in order."""
    return _ids(
        message,
        ("toolResult", "tool_result"),
        ("toolCallId", "toolUseId", "tool_use_id", "callId", "id"),
    )


def _ids(message: Message, kinds: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(message.content, str):
        return ()
    found: list[str] = []
    for part in parts_of(message):  # an engine asks this of hundreds of messages in each turn
        if part.get("type") in kinds:
            given = (part.get(name) for name in names)
            found += [one for one in given if isinstance(one, str) and one][:1]
    return tuple(found)


class EntryKind(StrEnum):
    """What a row of the transcript is."""

    MESSAGE = "message"
    """Part of the conversation; engines see it."""

    ACTIVITY = "activity"
    """Work that was done but is no message of the model's (a call nested in a script.

    A plan); shown, never assembled.
    """

    NOTICE = "notice"
    """Something Treadle has to say: an interruption, an unknown outcome."""

    COMPACTION = "compaction"
    """A native compaction began and ended here (spec H-13)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEntry:
    """What is to be appended to a transcript.

    `key` is the producer's identity of this row (spec H-03, H-04): a second append with the same
    key in the same session is a no-op, also after a rewrite of the text. `raw_items` are the
    Responses items that it came from, in the order in which the model saw them (decision 7); empty
    where the entry has none of its own.
    """

    key: str
    message: Message
    kind: EntryKind = EntryKind.MESSAGE
    raw_items: tuple[JsonObject, ...] = ()
    thread_id: ThreadId | None = None
    turn_id: TurnId | None = None
    run_id: RunId | None = None
    meta: JsonObject = field(default_factory=dict)
    """Status.

    Phase, sender, model, provider …: whatever explains the row and is not part of its hash.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A row of the transcript; it never changes.

    `depth` counts all entries of the active branch from 0, `position` the messages among them (None
    for other kinds).
    """

    id: EntryId
    session_id: SessionId
    depth: int
    position: int | None
    parent: EntryId | None
    kind: EntryKind
    key: str
    message: Message
    content_hash: str
    raw_items: tuple[JsonObject, ...]
    thread_id: ThreadId | None
    turn_id: TurnId | None
    run_id: RunId | None
    created_at: float
    """Unix seconds."""

    meta: JsonObject


def with_content(message: Message, content: JsonValue) -> Message:
    """Return the message with another content, its id kept."""
    return replace(message, content=content)
