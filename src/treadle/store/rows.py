"""Entries as rows and rows as entries.

Knows nothing of where the rows lie. What is stored is what the producer gave: order of keys, digits
and bytes of texts included; only the hash is taken over a canonical form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from treadle.model.errors import UsageError
from treadle.model.ids import EntryId, RunId, SessionId, ThreadId, TurnId
from treadle.model.json import JsonObject, JsonValue
from treadle.model.message import Entry, EntryKind, Message, NewEntry, StoredMessage
from treadle.store.driver import Row
from treadle.store.search import indexed_words, words_of


def encoded(value: JsonValue) -> str:
    """Return the value as JSON text. Raises: UsageError for what JSON cannot say."""
    try:
        return msgspec.json.encode(value).decode()
    except (UnicodeEncodeError, TypeError, OverflowError, RecursionError) as error:
        raise UsageError(f"the value cannot be stored as JSON: {error}") from error


def decoded(text: str) -> JsonValue:
    """Return a fresh value from JSON text of ours."""
    value: JsonValue = msgspec.json.decode(text)
    return value


def decoded_object(text: str) -> JsonObject:
    """Return a fresh object from JSON text of ours."""
    value: JsonObject = msgspec.json.decode(text)
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedEntry:
    """A new entry with everything that can be made outside the transaction."""

    new: NewEntry
    content: str
    content_hash: str
    raw_items: str | None
    meta: str
    words: str
    """What goes into the index over words."""

    @property
    def has_position(self) -> bool:
        """Whether engines see it: a message that is not the host's own context (spec B-13)."""
        return self.new.kind is EntryKind.MESSAGE and not self.new.message.host_only


def prepared(entries: Sequence[NewEntry]) -> tuple[PreparedEntry, ...]:
    """Encode, hash and index. Raises: UsageError for what cannot be stored."""
    return tuple(_prepared(new) for new in entries)


def _prepared(new: NewEntry) -> PreparedEntry:
    content = encoded(new.message.content)
    return PreparedEntry(
        new=new,
        content=content,
        content_hash=new.message.content_hash,
        raw_items=encoded(list(new.raw_items)) if new.raw_items else None,
        meta=encoded(new.meta),
        words=indexed_words(words_of(new.message)),
    )


def entry_from_row(row: Row) -> Entry:
    """Return the entry of a row with the columns of `entry_by_key`, in their order."""
    content: JsonValue = msgspec.json.decode(row[15])
    message = Message(
        role=row[7],
        content=content,
        entry_id=EntryId(row[0]),
        created_at=row[13],
        host_only=bool(row[8]),
    )
    return Entry(
        id=EntryId(row[0]),
        session_id=SessionId(row[1]),
        depth=row[2],
        position=row[3],
        parent=None if row[4] is None else EntryId(row[4]),
        kind=EntryKind(row[5]),
        key=row[6],
        message=message,
        content_hash=row[9],
        thread_id=None if row[10] is None else ThreadId(row[10]),
        turn_id=None if row[11] is None else TurnId(row[11]),
        run_id=None if row[12] is None else RunId(row[12]),
        created_at=row[13],
        meta=decoded_object(row[14]),
        raw_items=() if row[16] is None else tuple(msgspec.json.decode(row[16])),
    )


_DECODE = msgspec.json.Decoder().decode


def message_from_row(row: Row) -> Message:
    """Return the message of a row with the columns of `messages_by_position`, in their order."""
    entry_id, role, created_at, content = row
    return Message(role=role, content=_DECODE(content), entry_id=entry_id, created_at=created_at)


def stored_from_row(row: Row) -> tuple[StoredMessage, int]:
    """Return the message of a row of `stored_by_position`, and the characters of its content."""
    entry_id, role, created_at, content, content_hash = row
    message = StoredMessage.of(
        role=role,
        content=_DECODE(content),
        entry_id=entry_id,
        created_at=created_at,
        stored_hash=content_hash,
    )
    return message, len(content)
