"""Events in their envelopes. Pure: records in, objects out.

Knows nothing of who gets them. Source: design of the page, section 5.
"""

from __future__ import annotations

from datetime import UTC, datetime

from treadle.contract.events import StreamEvent, StreamHead
from treadle.gateway.requests import PROTOCOL
from treadle.model.ids import RunId, StreamId, TurnId
from treadle.model.json import JsonObject, JsonValue
from treadle.model.turn import event_data
from treadle.runtime.passing import Passing


def durable(event: StreamEvent) -> dict[str, JsonValue]:
    """Return the envelope of a stored event."""
    return {
        "v": PROTOCOL,
        "stream": event.stream,
        "epoch": event.epoch,
        "seq": event.seq,
        "type": event.type,
        "ts": time_text(event.at),
        "run": event.run_id,
        "turn": event.turn_id,
        "data": event.data,
    }


def passing(place: StreamHead, event: Passing, now: float) -> dict[str, JsonValue]:
    """Return the envelope of an event that is not stored; `place` is the last one before it."""
    data = event_data(event.event)
    data.pop("run_id")
    return _without_number(place, event.event.type, data, now, event.run_id, event.turn_id)


def control(place: StreamHead, kind: str, data: JsonObject, now: float) -> dict[str, JsonValue]:
    """Return the envelope of what is said of the stream itself."""
    return _without_number(place, kind, data, now, None, None)


def _without_number(
    place: StreamHead,
    kind: str,
    data: JsonObject,
    now: float,
    run_id: RunId | None,
    turn_id: TurnId | None,
) -> dict[str, JsonValue]:
    stream: StreamId = place.stream
    return {
        "v": PROTOCOL,
        "stream": stream,
        "epoch": place.epoch,
        "base": place.seq,
        "type": kind,
        "ts": time_text(now),
        "run": run_id,
        "turn": turn_id,
        "data": data,
    }


def time_text(now: float) -> str:
    """Return Unix seconds as UTC to the millisecond."""
    text = datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
