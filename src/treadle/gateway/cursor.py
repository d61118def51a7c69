"""Where a client goes on in a stream: the cursor rules of both sides. Pure.

Knows nothing of sockets or stores. Source: design of the page, section 5, cursor rules 1 to 4. The
cursor is the gateway's number of the last event that was applied, never a count of events.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal

from treadle.contract.events import REPLAY_MOST, StreamHead
from treadle.gateway.requests import WantedStream
from treadle.model.json import JsonObject, JsonValue

OPENED: Final = "stream.opened"
LIVE: Final = "stream.live"
LAGGED: Final = "stream.lagged"
SNAPSHOT: Final = "turn.snapshot"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """How a client begins to follow a stream."""

    mode: Literal["replay", "snapshot"]
    after: int
    """The number behind which events are sent."""


def opening(wanted: WantedStream, head: StreamHead) -> Opening:
    """Return whether a client is given what it missed, or is told to load the state anew.

    Missed events are replayed within an epoch, if there are at most `REPLAY_MOST` of them.
    """
    after = wanted.after
    fits = after is not None and after <= head.seq <= after + REPLAY_MOST
    if after is not None and wanted.epoch == head.epoch and fits:
        return Opening(mode="replay", after=after)
    return Opening(mode="snapshot", after=head.seq)


class Step(Enum):
    """What a client does with an event."""

    APPLY = "apply"
    DROP = "drop"
    RESUBSCRIBE = "resubscribe"


@dataclass(slots=True, kw_only=True)
class Cursor:
    """A client's place in a stream; it knows none before the gateway has opened it."""

    stream: str
    epoch: int | None = None
    seq: int | None = None

    def wanted(self) -> WantedStream:
        """Return what to subscribe with."""
        return WantedStream(id=self.stream, epoch=self.epoch, after=self.seq)

    def take(self, envelope: JsonObject) -> Step:
        """Take the next event of the stream and say what to do with it; the cursor follows."""
        seq = envelope.get("seq")
        if not isinstance(seq, int):
            return self._without_number(envelope)
        if self.seq is None or envelope.get("epoch") != self.epoch:
            return Step.RESUBSCRIBE
        if seq <= self.seq:
            return Step.DROP
        if seq > self.seq + 1:
            return Step.RESUBSCRIBE
        self.seq = seq
        return Step.APPLY

    def _without_number(self, envelope: JsonObject) -> Step:
        data = envelope.get("data")
        if envelope.get("type") == OPENED and isinstance(data, dict):
            self._opened(envelope.get("epoch"), data)
        return Step.APPLY

    def _opened(self, epoch: JsonValue, data: JsonObject) -> None:
        head = data.get("head")
        if data.get("mode") == "snapshot" and isinstance(epoch, int) and isinstance(head, int):
            self.epoch, self.seq = epoch, head
