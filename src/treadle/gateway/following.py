"""Send a stream to a client that follows it, from its cursor on and then as it grows.

Knows nothing of sockets: it is given a way to send. Durable events are read as fast as the client
takes them, so that a slow one costs no memory; what passes is merged, or dropped and made good by a
picture of the turn. Source: design of the page, section 5.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import anyio

from treadle.clock import Clock
from treadle.contract.events import StreamHead
from treadle.gateway.cursor import LAGGED, LIVE, OPENED, SNAPSHOT, opening
from treadle.gateway.envelope import control, durable, passing
from treadle.gateway.requests import WantedStream
from treadle.model.ids import StreamId
from treadle.model.json import JsonObject
from treadle.runtime.streams import Streams, Watch

FLUSH_S: Final = 0.033
"""Seconds for which deltas are merged before they are sent; durable events do not wait."""

PAGE: Final = 50
"""Durable events that are read at once."""

Send = Callable[[JsonObject], Awaitable[None]]


class Following:
    """One stream on its way to one client."""

    def __init__(self, streams: Streams, wanted: WantedStream, send: Send, clock: Clock) -> None:
        self._streams = streams
        self._wanted = wanted
        self._stream = StreamId(wanted.id)
        self._send = send
        self._clock = clock
        self._epoch = 0
        self._cursor = 0
        self._flushed_at = float("-inf")
        self._sent = anyio.Event()

    async def run(self) -> None:
        """Send until cancelled. Raises: what sending raises, StoreError."""
        with self._streams.watch(self._stream) as watch:
            await self._open(watch)
            while True:
                await self._catch_up(watch)
                await self._due(watch)

    async def caught_up(self) -> None:
        """Wait until all that is stored now has been sent; for the end of a gateway."""
        while self._cursor < self._streams.head(self._stream).seq:
            await self._sent.wait()

    async def _open(self, watch: Watch) -> None:
        head = self._streams.head(self._stream)
        begun = opening(self._wanted, head)
        self._epoch, self._cursor = head.epoch, begun.after
        await self._tell(OPENED, {"mode": begun.mode, "head": head.seq})
        await self._stored(head.seq)
        await self._picture(watch)
        await self._tell(LIVE, {})

    async def _picture(self, watch: Watch) -> None:
        """Send what goes on right now; what passed before it is in it."""
        watch.backlog.clear()
        await self._tell(SNAPSHOT, self._streams.snapshot(self._stream))

    async def _due(self, watch: Watch) -> None:
        """Wait for a durable event, or for deltas that were merged for a while."""
        await watch.changed()
        wait_s = self._flushed_at + FLUSH_S - self._clock.monotonic()
        with anyio.move_on_after(max(0.0, wait_s)):
            while watch.head <= self._cursor:
                await watch.changed()
        self._flushed_at = self._clock.monotonic()

    async def _catch_up(self, watch: Watch) -> None:
        while True:
            for one in watch.backlog.take(self._cursor):
                await self._send(passing(self._place(), one, self._clock.now()))
            if dropped := watch.backlog.take_dropped():
                await self._tell(LAGGED, {"dropped": dropped})
                await self._picture(watch)
            before = self._cursor
            await self._stored(watch.backlog.next_base)
            if self._cursor == before:
                return

    async def _stored(self, up_to: int | None) -> None:
        """Send stored events, at most one page behind another up to that number."""
        while up_to is None or self._cursor < up_to:
            limit = PAGE if up_to is None else min(PAGE, up_to - self._cursor)
            page = await self._streams.read(self._stream, after=self._cursor, limit=limit)
            for event in page:
                if event.epoch != self._epoch:
                    self._epoch = event.epoch
                    await self._tell(OPENED, {"mode": "snapshot", "head": self._cursor})
                await self._send(durable(event))
                self._cursor = event.seq
                sent, self._sent = self._sent, anyio.Event()
                sent.set()
            if len(page) < limit:
                return

    def _place(self) -> StreamHead:
        return StreamHead(stream=self._stream, epoch=self._epoch, seq=self._cursor)

    async def _tell(self, kind: str, data: JsonObject) -> None:
        await self._send(control(self._place(), kind, data, self._clock.now()))
