"""Streams of events as rows: numbers without a gap, given inside the writer's transactions.

Knows nothing of who listens or of what events mean.

How order and numbers hold: whatever writes to a stream first writes what waits in it. A waiting
event that the stream's stored head has reached was written by an earlier part of the same
transaction, or by one whose caller has not been told yet; it is not written again. One that was
undone is above the head, and gets its number anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from treadle.clock import Clock
from treadle.contract.events import (
    ENTRY_COMMITTED,
    FIRST_EPOCH,
    REPLAY_MOST,
    EventStore,
    NewEvent,
    StreamEvent,
    StreamHead,
)
from treadle.model.errors import UsageError
from treadle.model.ids import RunId, StreamId, TurnId
from treadle.model.json import JsonObject
from treadle.model.turn import entry_data
from treadle.observe import emit
from treadle.store.driver import Connection, Driver, Row
from treadle.store.rows import decoded_object, encoded, entry_from_row

MAX_WAITING: Final = 10_000
"""Events of all streams that may wait; a store that takes nothing must not fill the memory."""

FORGET_EVERY: Final = 256
"""Numbers after which those that nobody can catch up from are dropped."""


@dataclass(slots=True, eq=False)
class _Waiting:
    event: NewEvent
    at: float
    data: str
    seq: int | None = None
    """Set by the writer's thread: the number that it was last written under."""


class SqlEvents(EventStore):
    """`EventStore` over a driver; other records of the store write through `add`."""

    def __init__(self, driver: Driver, *, clock: Clock) -> None:
        self._driver = driver
        self._clock = clock
        self._waiting: dict[StreamId, list[_Waiting]] = {}
        self._waiting_count = 0
        self._listeners: list[Callable[[StreamId], None]] = []

    def later(self, stream: StreamId, event: NewEvent) -> None:
        """See `EventStore`; beyond `MAX_WAITING` the event is dropped, and that is logged."""
        if self._waiting_count >= MAX_WAITING:
            emit("stream.event_dropped", type=event.type, waiting_count=self._waiting_count)
            return
        one = _Waiting(event, self._clock.now(), _data_of(event))
        self._waiting.setdefault(stream, []).append(one)
        self._waiting_count += 1

    def waiting(self, stream: StreamId) -> int:
        """See `EventStore`."""
        return len(self._waiting.get(stream, ()))

    def add(
        self, connection: Connection, stream: StreamId, events: Iterable[NewEvent]
    ) -> StreamHead:
        """Write what waits in the stream, then these; for the writer's thread, in its transaction.

        Returns where the stream then stands. The caller calls `written` with it on the event loop
        once the transaction is committed, or `told` where it is not known whether it is.
        """
        row = connection.one("stream_head", stream=stream)
        epoch, stored = (FIRST_EPOCH, 0) if row is None else (row[0], row[1])
        waiting = [
            one
            for one in tuple(self._waiting.get(stream, ()))
            if one.seq is None or one.seq > stored
        ]
        now = self._clock.now()
        new = [*waiting, *(_Waiting(event, now, encoded(event.data)) for event in events)]
        if not new:
            return StreamHead(stream=stream, epoch=epoch, seq=stored)
        head = stored + len(new)
        connection.run("advance_stream", stream=stream, head=head)
        for seq, one in enumerate(new, stored + 1):
            one.seq = seq
            _add(connection, StreamHead(stream=stream, epoch=epoch, seq=seq), one)
        if head // FORGET_EVERY != stored // FORGET_EVERY:
            connection.run("forget_events", stream=stream, seq=head - REPLAY_MOST)
        return StreamHead(stream=stream, epoch=epoch, seq=head)

    def told(self, *streams: StreamId) -> None:
        """Forget what is written, and tell the listeners; harmless where nothing was committed."""
        for stream in streams:
            self.written(
                self.head(stream) if stream in self._waiting else StreamHead(stream=stream)
            )

    def written(self, head: StreamHead) -> None:
        """Forget what is written up to there, and tell the listeners."""
        self._forget_written(head.stream, head.seq)
        for listener in self._listeners:
            listener(head.stream)

    def _forget_written(self, stream: StreamId, stored: int) -> None:
        waiting = self._waiting.get(stream)
        if waiting is None:
            return
        left = [one for one in waiting if one.seq is None or one.seq > stored]
        self._waiting_count -= len(waiting) - len(left)
        if left:
            self._waiting[stream] = left
        else:
            del self._waiting[stream]

    async def flush(self) -> None:
        """See `EventStore`."""
        streams = tuple(self._waiting)
        if not streams:
            return

        def write(connection: Connection) -> None:
            for stream in streams:
                self.add(connection, stream, ())

        try:
            await self._driver.write(write, durable=False)
        finally:
            self.told(*streams)

    def head(self, stream: StreamId) -> StreamHead:
        """See `EventStore`."""
        row = self._driver.read_now(lambda connection: connection.one("stream_head", stream=stream))
        if row is None:
            return StreamHead(stream=stream)
        return StreamHead(stream=stream, epoch=row[0], seq=row[1])

    async def read(
        self, stream: StreamId, *, after: int, limit: int = 200
    ) -> tuple[StreamEvent, ...]:
        """See `EventStore`."""

        def find(connection: Connection) -> tuple[StreamEvent, ...]:
            rows = connection.rows("events_after", stream=stream, after=after, limit=max(0, limit))
            return tuple(_event(stream, row) for row in rows)

        return await self._driver.read(find)

    async def renew(self, stream: StreamId | None = None) -> None:
        """See `EventStore`."""

        def write(connection: Connection) -> None:
            if stream is None:
                connection.run("renew_streams")
            else:
                connection.run("renew_stream", stream=stream)

        await self._driver.write(write)
        if stream is not None:
            self.told(stream)

    def listen(self, listener: Callable[[StreamId], None]) -> None:
        """See `EventStore`."""
        self._listeners.append(listener)


def _data_of(event: NewEvent) -> str:
    """Return the data as JSON text; what JSON cannot say must not undo the fact it travels with."""
    try:
        return encoded(event.data)
    except UsageError as error:
        emit("stream.event_dropped", type=event.type, cause=error)
        return "{}"


def _add(connection: Connection, place: StreamHead, one: _Waiting) -> None:
    connection.run(
        "add_event",
        stream=place.stream,
        seq=place.seq,
        epoch=place.epoch,
        type=one.event.type,
        run_id=one.event.run_id,
        turn_id=one.event.turn_id,
        entry_id=one.event.entry_id,
        at=one.at,
        data=one.data,
    )


def _event(stream: StreamId, row: Row) -> StreamEvent:
    seq, epoch, kind, run_id, turn_id, at, data = row[17:]
    return StreamEvent(
        stream=stream,
        epoch=epoch,
        seq=seq,
        type=kind,
        at=at,
        data=_data(kind, row, data),
        run_id=None if run_id is None else RunId(run_id),
        turn_id=None if turn_id is None else TurnId(turn_id),
    )


def _data(kind: str, row: Row, data: str) -> JsonObject:
    """Return an event's data; an entry that was purged since is null."""
    if kind != ENTRY_COMMITTED:
        return decoded_object(data)
    return {"entry": None if row[0] is None else entry_data(entry_from_row(row))}
