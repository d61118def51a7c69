"""Make a turn's transcript entries from its typed items and its raw Responses items.

The raw items are what the model saw, so they give the messages; the typed items tell of the rest.
Knows nothing of notifications or of the store. Source: spec G-01…G-12, H-03; decision 7.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from treadle.model.message import EntryKind, NewEntry, call_ids, parts_of, result_ids
from treadle.projection.entries import (
    CallResult,
    Draft,
    SnapshotInput,
    new_entry,
    result_entry,
)
from treadle.projection.raw_entries import RawReader
from treadle.projection.tool_items import text_parts
from treadle.projection.typed_entries import asides, rendered_messages

NO_RESULT: Final = "[no result: the turn ended before the tool answered]"
"""Text of the error result that a call gets which was left without one (spec G-12)."""


def snapshot_entries(given: SnapshotInput) -> tuple[NewEntry, ...]:
    """Return the entries of the turn in order, each under a key of its own.

    The prompt comes first; what has no raw item stands behind what was told of before it; a call
    that an unfinished turn left without a result gets an error result. Source: spec G-03, G-12.
    """
    reader = RawReader(given)
    if given.raw_items:
        placed, used = reader.drafts(), reader.used
    else:
        rendered = rendered_messages(given)
        placed, used = rendered.drafts, rendered.used
    if given.prompt is not None:
        raw = reader.prompt_items(given.prompt)
        entry = new_entry(given, "prompt", given.prompt, raw=raw)
        placed = [Draft(entry=entry), *placed]
    for draft in asides(given, used):
        _place(placed, draft)
    entries: Iterable[NewEntry] = [draft.entry for draft in placed]
    if given.ended and not given.completed:
        entries = _with_results(given, [draft.entry for draft in placed])
    return tuple(_with_own_keys(entries))


def _place(placed: list[Draft], draft: Draft) -> None:
    """Insert the draft in front of the first one that is known to be younger."""
    at = next((at for at, other in enumerate(placed) if other.order > draft.order), len(placed))
    placed.insert(at, draft)


def _with_results(given: SnapshotInput, entries: Sequence[NewEntry]) -> Iterator[NewEntry]:
    messages = [entry for entry in entries if entry.kind is EntryKind.MESSAGE]
    results = Counter(call for entry in messages for call in result_ids(entry.message))
    for entry in entries:
        yield entry
        if entry.kind is not EntryKind.MESSAGE:
            continue
        for call in call_ids(entry.message):
            if results[call] > 0:
                results[call] -= 1
                continue
            name = next(
                (str(p.get("name", "")) for p in parts_of(entry.message) if p.get("id") == call), ""
            )
            missing = CallResult(
                call_id=call, name=name, content=text_parts(NO_RESULT), is_error=True
            )
            yield result_entry(given, missing, meta={"synthetic": True})


def _with_own_keys(entries: Iterable[NewEntry]) -> Iterator[NewEntry]:
    """Number the keys that a model used twice in one turn (a call id, say)."""
    seen: Counter[str] = Counter()
    for entry in entries:
        seen[entry.key] += 1
        times = seen[entry.key]
        yield entry if times == 1 else replace(entry, key=f"{entry.key}~{times}")
