"""Find what was said in a session without the thread that a turn is about to use.

A turn on a transient thread, another harness, an import. Reads one row where nothing was. Knows
nothing of what is done about it. Source: spec D-27, D-39.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from treadle.contract.harness import AttemptParams
from treadle.contract.store import Binding, BindingStore, TranscriptSnapshot
from treadle.model.message import Entry, Message

_PAGE: Final = 200
"""Entries read at a time, from the newest back."""


async def said_elsewhere(
    bindings: BindingStore, params: AttemptParams, history: TranscriptSnapshot, binding: Binding
) -> tuple[Message, ...]:
    """Return the newest messages that the thread neither made nor holds, oldest first.

    What stands before the thread's own newest message is not looked at: it was decided then.
    """
    if not _is_foreign(_newest(history), binding):
        return ()
    held = {one.entry_id for one in await bindings.held(binding.thread_id)}
    found: list[Entry] = []
    stop = len(history)
    while stop > 0:
        start = max(0, stop - _PAGE)
        for entry in reversed(history.entries(start, stop)):
            if entry.id in held or not _is_foreign(entry, binding):
                return _messages(found, params)
            found.append(entry)
        stop = start
    return _messages(found, params)


def _newest(history: TranscriptSnapshot) -> Entry | None:
    size = len(history)
    return history.entries(size - 1, size)[0] if size else None


def _is_foreign(entry: Entry | None, binding: Binding) -> bool:
    return entry is not None and entry.thread_id != binding.thread_id


def _messages(found: Sequence[Entry], params: AttemptParams) -> tuple[Message, ...]:
    """Return them in order, without this run's own prompt, which an earlier attempt stored."""
    return tuple(one.message for one in reversed(found) if one.run_id != params.run_id)
