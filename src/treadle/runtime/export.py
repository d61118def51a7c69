"""A session as JSON lines: a head, then every entry in order. Pure.

Knows nothing of where the entries come from.
"""

from __future__ import annotations

import json
from typing import Final

from treadle.contract.store import SessionRecord
from treadle.model.json import JsonValue
from treadle.model.message import Entry
from treadle.model.turn import entry_data

EXPORT_VERSION: Final = 1


def export_head(record: SessionRecord) -> str:
    """Return the first line of an exported session."""
    return _line({
        "type": "session",
        "version": EXPORT_VERSION,
        "key": record.key,
        "id": record.id,
        "generation": record.generation,
        "agent": record.agent_id,
        "owner": record.owner,
        "title": record.title,
        "created_at": record.created_at,
    })


def export_entry(entry: Entry) -> str:
    """Return the line of an entry, raw items included."""
    return _line({"type": "entry", **entry_data(entry), **_raw(entry)})


def _raw(entry: Entry) -> dict[str, JsonValue]:
    return {"key": entry.key, "content_hash": entry.content_hash, "raw_items": entry.raw_items}


def _line(record: dict[str, JsonValue]) -> str:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"))
