"""The streams of a service: what happens in runs is stored in order and handed to who watches.

Durable events are read from the store by each watcher at its own pace, so that nothing waits in
memory for a slow one; the others pass through a short backlog of each watcher's own. Knows nothing
of sockets. Source: design of the page, section 5; INV-17.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import anyio

from treadle.contract.events import ENTRY_COMMITTED, EventStore, NewEvent, StreamEvent, StreamHead
from treadle.model.errors import StoreError
from treadle.model.ids import RunId, SessionKey, StreamId, TurnId
from treadle.model.json import JsonValue
from treadle.model.turn import (
    MessageAccepted,
    MessageCancelled,
    MessageFailed,
    MessageUnconfirmed,
    PartDelta,
    PartValue,
    RunEvent,
    event_data,
)
from treadle.observe import emit
from treadle.runtime.live import Live
from treadle.runtime.passing import Backlog, Passing

FLUSH_AFTER_S: Final = 0.02
"""Seconds that events wait for company, or for a fact that takes them along."""

RETRY_AFTER_S: Final = 1.0
"""Seconds between two tries to store events that could not be stored."""

FACTS: Final = frozenset({
    ENTRY_COMMITTED,
    MessageAccepted.type,
    MessageFailed.type,
    MessageCancelled.type,
    MessageUnconfirmed.type,
})
"""Types that the store writes itself, in the transaction of what they tell of."""


class Watch:
    """One watcher's view of a stream."""

    def __init__(self, stream: StreamId, head: int) -> None:
        self.stream = stream
        self.head = head
        """Number of the newest event that is known to be stored."""
        self.backlog = Backlog()
        self._changed = anyio.Event()

    async def changed(self) -> None:
        """Wait until there may be something new since the last call. Cancel: nothing is lost."""
        await self._changed.wait()
        self._changed = anyio.Event()

    def wake(self) -> None:
        """Note that there may be something new."""
        self._changed.set()


class Streams:
    """Records the events of all runs and tells the watchers."""

    def __init__(self, events: EventStore) -> None:
        self._events = events
        self._live: dict[StreamId, Live] = {}
        self._watches: dict[StreamId, list[Watch]] = {}
        self._unwritten = anyio.Event()
        events.listen(self._grown)

    def record(self, session_key: SessionKey, event: RunEvent) -> None:
        """Take the next event of a run; never waits."""
        stream = StreamId(session_key)
        live = self._live.setdefault(stream, Live())
        ended = live.turn_of(event.run_id)  # the last event of a run takes it away
        live.take(event)
        turn_id = live.turn_of(event.run_id) or ended
        if isinstance(event, PartDelta | PartValue):
            self._pass_on(stream, event, turn_id)
        elif event.type not in FACTS:
            self._events.later(stream, _new_event(event, turn_id))
            self._unwritten.set()
        if not live:
            del self._live[stream]

    def _pass_on(
        self, stream: StreamId, event: PartDelta | PartValue, turn_id: TurnId | None
    ) -> None:
        watches = self._watches.get(stream)
        if not watches:
            return
        waiting = self._events.waiting(stream)
        for watch in watches:
            base = watch.head + waiting
            watch.backlog.put(Passing(base=base, event=event, turn_id=turn_id))
            watch.wake()

    def _grown(self, stream: StreamId) -> None:
        watches = self._watches.get(stream)
        if not watches:
            return
        head = self._events.head(stream).seq
        for watch in watches:
            watch.head = head
            watch.wake()

    @contextmanager
    def watch(self, stream: StreamId) -> Iterator[Watch]:
        """Watch a stream until the block ends; it need not exist."""
        watch = Watch(stream, self._events.head(stream).seq)
        self._watches.setdefault(stream, []).append(watch)
        try:
            yield watch
        finally:
            self._watches[stream].remove(watch)
            if not self._watches[stream]:
                del self._watches[stream]

    def head(self, stream: StreamId) -> StreamHead:
        """Return where a stream stands."""
        return self._events.head(stream)

    async def read(self, stream: StreamId, *, after: int, limit: int) -> tuple[StreamEvent, ...]:
        """Return stored events behind `after`, in order. Raises: StoreError."""
        return await self._events.read(stream, after=after, limit=limit)

    def snapshot(self, stream: StreamId) -> dict[str, JsonValue]:
        """Return what goes on in a session right now, as `turn.snapshot` tells it."""
        return self._live.get(stream, Live()).to_json()

    async def store(self) -> None:
        """Store events that wait, again and again; a task of the service."""
        while True:
            await self._unwritten.wait()
            self._unwritten = anyio.Event()
            await anyio.sleep(FLUSH_AFTER_S)
            if not await self.flush():
                self._unwritten.set()
                await anyio.sleep(RETRY_AFTER_S)

    async def flush(self) -> bool:
        """Store what waits now; False if it could not be, and still waits."""
        try:
            await self._events.flush()
        except StoreError as error:
            emit("stream.flush_failed", cause=error)
            return False
        return True


def _new_event(event: RunEvent, turn_id: TurnId | None) -> NewEvent:
    data = event_data(event)
    run_id = data.pop("run_id")
    assert isinstance(run_id, str)
    return NewEvent(type=event.type, data=data, run_id=RunId(run_id), turn_id=turn_id)
