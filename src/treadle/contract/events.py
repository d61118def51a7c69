"""Durable events: numbered without a gap per stream, so that a client can go on where it left off.

Knows nothing of SQL, of sockets, or of what the events mean. An event that tells of a stored fact
is written in the transaction of that fact; the others wait in memory and are written, in their
order, before the next fact of their stream, or a moment later by themselves. Source: design of the
page, section 5.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from treadle.model.ids import EntryId, RunId, StreamId, TurnId
from treadle.model.json import JsonObject

GLOBAL_STREAM: Final = StreamId("global")
"""The stream of what concerns no single session, and of sessions coming and going."""

REPLAY_MOST: Final = 2000
"""Events that a client can have missed and still be given; as many are kept (cursor rule 2)."""

FIRST_EPOCH: Final = 1

ENTRY_COMMITTED: Final = "entry.committed"
"""The one type whose data is not stored with the event: it is the entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """An event that has no number yet."""

    type: str
    data: JsonObject = field(default_factory=dict)
    run_id: RunId | None = None
    turn_id: TurnId | None = None
    entry_id: EntryId | None = None
    """Of `entry.committed` alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEvent:
    """A durable event as it is stored."""

    stream: StreamId
    epoch: int
    seq: int
    """From 1, without a gap in its stream; goes on through epochs."""

    type: str
    at: float
    """Unix seconds."""

    data: JsonObject
    run_id: RunId | None = None
    turn_id: TurnId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamHead:
    """Where a stream stands; one without events is at 0 of its first epoch."""

    stream: StreamId
    epoch: int = FIRST_EPOCH
    seq: int = 0


class EventStore(Protocol):
    """Streams of durable events."""

    def later(self, stream: StreamId, event: NewEvent) -> None:
        """Keep an event that tells of no stored fact for the next write; never waits.

        For the event loop. The death of the process loses what was not written.
        """

    def waiting(self, stream: StreamId) -> int:
        """Return how many events wait to be written in this stream."""

    async def flush(self) -> None:
        """Write what waits, in order; a power cut may undo it. Raises: StoreError, all still wait.

        Cancel: written whole, or all still waits.
        """

    def head(self, stream: StreamId) -> StreamHead:
        """Return the newest number that is stored, and its epoch; a short read."""

    async def read(
        self, stream: StreamId, *, after: int, limit: int = 200
    ) -> tuple[StreamEvent, ...]:
        """Return stored events behind `after` in order; what is no longer kept is left out."""

    async def renew(self, stream: StreamId | None = None) -> None:
        """Begin a new epoch of a stream, or of all: clients take a snapshot, no number returns."""

    def listen(self, listener: Callable[[StreamId], None]) -> None:
        """Call this on the event loop whenever a stream may have grown or begun a new epoch."""
