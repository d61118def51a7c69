"""Hold one thread's notifications until they are read; the reader never waits here.

Policy when the reader of a thread is slow: adjacent deltas of the same part of the same item become
one, so that a burst costs its text and not its frames. Over the bounds the subscription fails,
visibly and alone: what is queued can still be read, then comes `Closed` with the error. Knows
nothing of what notifications mean.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

import msgspec
from anyio import Event

from treadle.model.errors import WireError
from treadle.protocol.items import Delta, delta_from_wire, is_delta
from treadle.protocol.rpc import Notification

LIMIT_COUNT: Final = 20_000
"""Most notifications waiting: some minutes of the busiest turn after merging."""

LIMIT_BYTES: Final = 64 * 1024 * 1024
"""Most bytes waiting."""

MERGED_CHARS: Final = 256 * 1024
"""Longest text of a merged delta."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """Nothing more will come."""

    error: WireError | None
    """Why; None if the subscription was ended by its owner."""


class _Queued:
    """A notification that waits, and the texts of those merged into it."""

    __slots__ = ("chars", "delta", "first", "texts")

    def __init__(self, first: Notification) -> None:
        self.first = first
        self.delta: Delta | None = None
        self.texts: list[str] = []
        self.chars = 0

    def take(self, other: Notification) -> bool:
        """Take a delta of the same part in; False if it is something else."""
        if not is_delta(other.method) or other.method != self.first.method:
            return False
        if other.item_id != self.first.item_id or self.chars > MERGED_CHARS:
            return False
        if self.delta is None:
            self.delta = delta_from_wire(self.first)
        added = delta_from_wire(other)
        if self.delta is None or added is None or added.part != self.delta.part:
            return False
        self.texts.append(added.text)
        self.chars += len(added.text)
        return True

    def notification(self) -> Notification:
        """Return the one notification that stands for all."""
        if not self.texts or self.delta is None:
            return self.first
        body = dict(self.first.params()) | {"delta": self.delta.text + "".join(self.texts)}
        raw = msgspec.Raw(msgspec.json.encode(body))
        return Notification(
            method=self.first.method,
            raw=raw,
            thread_id=self.first.thread_id,
            turn_id=self.first.turn_id,
            item_id=self.first.item_id,
            size_bytes=len(bytes(raw)),
        )


class Subscription:
    """Notifications of one thread (or of no thread), in order. For one reader."""

    def __init__(self, *, limit_count: int = LIMIT_COUNT, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit_count = limit_count
        self._limit_bytes = limit_bytes
        self._queue: deque[tuple[_Queued, int]] = deque()
        self._bytes = 0
        self._closed: Closed | None = None
        self._changed = Event()
        self.merged_count = 0
        """Deltas that were merged into the one before."""

    @property
    def is_closed(self) -> bool:
        """Whether nothing more is taken."""
        return self._closed is not None

    def with_usual_bounds(self) -> Subscription:
        """Return itself, from now on with the usual bounds (it was one of early notifications)."""
        self._limit_count, self._limit_bytes = LIMIT_COUNT, LIMIT_BYTES
        return self

    def offer(self, notification: Notification) -> None:
        """Queue a notification; never waits. Over a bound the subscription closes with an error."""
        if self._closed is not None:
            return
        size = notification.size_bytes
        if self._bytes + size > self._limit_bytes or len(self._queue) >= self._limit_count:
            self.close(
                WireError(
                    "The notifications of a thread were not read in time:"
                    f" {len(self._queue)} of {self._bytes} bytes wait.",
                    waiting_count=len(self._queue),
                    waiting_bytes=self._bytes,
                )
            )
            return
        self._bytes += size
        if self._queue and self._queue[-1][0].take(notification):
            queued, before = self._queue[-1]
            self._queue[-1] = (queued, before + size)
            self.merged_count += 1
            return
        self._queue.append((_Queued(notification), size))
        self._wake()

    def close(self, error: WireError | None) -> None:
        """Take nothing more; what is queued can still be read."""
        if self._closed is None:
            self._closed = Closed(error=error)
            self._wake()

    async def receive(self) -> Notification | Closed:
        """Return the next notification, or `Closed` (again and again) at the end.

        Cancel: nothing was taken.
        """
        while not self._queue:
            if self._closed is not None:
                return self._closed
            await self._changed.wait()
        queued, size = self._queue.popleft()
        self._bytes -= size
        if not self._queue and self._closed is None:
            self._changed = Event()
        return queued.notification()

    async def __aiter__(self) -> AsyncIterator[Notification | Closed]:
        """Iterate to the end; the last is `Closed`."""
        while True:
            got = await self.receive()
            yield got
            if isinstance(got, Closed):
                return

    def _wake(self) -> None:
        self._changed.set()
