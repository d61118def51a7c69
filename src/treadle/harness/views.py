"""Messages put together from several parts without reading them.

Knows nothing of where the parts come from. A part is a snapshot of the store (read on demand) or a
list of ours; what is handed out is the engine's to change (spec B-13).
"""

from __future__ import annotations

import copy
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import overload

from treadle.contract.store import TranscriptSnapshot
from treadle.model.message import Message


class MessageView(Sequence[Message]):
    """Several sequences as one, read-only and lazy; messages of plain lists are copied on access.

    Host-only messages of plain lists are left out; a snapshot holds none (spec B-13, I-06).
    """

    def __init__(self, *parts: Sequence[Message]) -> None:
        self._parts = tuple(map(_visible, parts))
        self._ends = tuple(accumulate(len(part) for part in self._parts))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, at: int) -> Message: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Message]: ...
    def __getitem__(self, at: int | slice) -> Message | Sequence[Message]:
        if isinstance(at, slice):
            return self._slice(at)
        place = at + len(self) if at < 0 else at
        if not 0 <= place < len(self):
            raise IndexError(f"there are {len(self)} messages, none at {at}")
        which = bisect_right(self._ends, place)
        part = self._parts[which]
        return _own(part, part[place - self._start(which)])

    def __iter__(self) -> Iterator[Message]:
        for part in self._parts:  # each in its own way: a snapshot reads pages, not rows
            for message in part:
                yield _own(part, message)

    def __reversed__(self) -> Iterator[Message]:
        for part in reversed(self._parts):
            for message in reversed(part):
                yield _own(part, message)

    def _slice(self, at: slice) -> Sequence[Message]:
        start, stop, step = at.indices(len(self))
        if step != 1:
            return tuple(self[place] for place in range(start, stop, step))
        found: list[Message] = []
        for which, part in enumerate(self._parts):
            offset = self._start(which)
            inside = part[max(0, start - offset) : max(0, stop - offset)]
            found.extend(_own(part, message) for message in inside)
        return tuple(found)

    def _start(self, which: int) -> int:
        return self._ends[which - 1] if which else 0


def visible_count(messages: Sequence[Message], count: int) -> int:
    """Return how many of the first `count` messages an engine sees (spec I-06)."""
    if isinstance(messages, TranscriptSnapshot):
        return min(count, len(messages))
    return sum(not message.host_only for message in messages[:count])


def _visible(part: Sequence[Message]) -> Sequence[Message]:
    if isinstance(part, TranscriptSnapshot | MessageView):
        return part
    return tuple(message for message in part if not message.host_only)


def _own(part: Sequence[Message], message: Message) -> Message:
    """Return a message that its reader may change: a snapshot decodes anew on each access."""
    return copy.deepcopy(message) if isinstance(part, tuple) else message
