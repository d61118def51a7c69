"""Events that are not stored: merged and, where a watcher is slow, dropped. Pure.

Knows nothing of streams, sockets or stores. What is dropped is made good by a picture of the turn
as it stands then. Source: design of the page, section 5, back-pressure.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from treadle.model.ids import RunId, TurnId
from treadle.model.turn import PartDelta, PartValue

MAX_FRAMES: Final = 512
"""Events that wait for one watcher; beyond them all are dropped."""

MAX_CHARS: Final = 1_000_000
"""Characters of text and values that wait for one watcher."""

MERGE_CHARS: Final = 16_384
"""Characters up to which deltas are merged: joining without a bound costs the text's square."""

_VALUE_CHARS: Final = 1024
"""What a value counts for; measuring it would cost more than it is worth."""

PartEvent = PartDelta | PartValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Passing:
    """An event without a number; it comes after the durable event `base` and before the next."""

    base: int
    event: PartEvent
    turn_id: TurnId | None = None

    @property
    def run_id(self) -> RunId:
        """The run that it belongs to."""
        return self.event.run_id


@dataclass(slots=True)
class Backlog:
    """What waits for one watcher, in order."""

    waiting: list[Passing] = field(default_factory=list)
    chars: int = 0
    dropped: int = 0
    """How many were dropped since the last `take`."""

    def put(self, passing: Passing) -> None:
        """Add an event, merged into the last one of its part where nothing came between."""
        self.chars += _chars(passing.event)
        merged = self._merged(passing)
        if merged is None:
            self.waiting.append(passing)
        else:
            self.waiting[-1] = merged
        if len(self.waiting) > MAX_FRAMES or self.chars > MAX_CHARS:
            self.dropped += len(self.waiting)
            self.clear()

    def _merged(self, passing: Passing) -> Passing | None:
        last = self.waiting[-1] if self.waiting else None
        if last is None or last.base != passing.base or last.run_id != passing.run_id:
            return None
        match last.event, passing.event:
            case PartDelta() as before, PartDelta() as after if _continues(before, after):
                return replace(last, event=replace(before, text=before.text + after.text))
            case PartValue() as before, PartValue() as after if before.part == after.part:
                self.chars -= _VALUE_CHARS
                return passing
        return None

    def take(self, up_to: int) -> list[Passing]:
        """Remove and return what comes before the durable event behind `up_to`."""
        count = 0
        for passing in self.waiting:
            if passing.base > up_to:
                break
            count += 1
            self.chars -= _chars(passing.event)
        taken, self.waiting = self.waiting[:count], self.waiting[count:]
        return taken

    def clear(self) -> None:
        """Forget what waits, since something better was told instead."""
        self.waiting.clear()
        self.chars = 0

    def take_dropped(self) -> int:
        """Return how many were dropped since this was asked last."""
        dropped, self.dropped = self.dropped, 0
        return dropped

    @property
    def next_base(self) -> int | None:
        """The durable event that has to be told before anything here is; None if none waits."""
        return self.waiting[0].base if self.waiting else None


def _chars(event: PartEvent) -> int:
    return len(event.text) if isinstance(event, PartDelta) else _VALUE_CHARS


def _continues(before: PartDelta, after: PartDelta) -> bool:
    same = (before.part, before.kind) == (after.part, after.kind)
    joins = after.at == before.at + len(before.text)
    return same and joins and len(before.text) + len(after.text) <= MERGE_CHARS
