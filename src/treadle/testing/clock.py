"""A clock and ids that tests drive.

Knows nothing of the event loop: deadlines of anyio run on real time.
"""

from __future__ import annotations

from treadle.clock import ulid

START = 1_700_000_000.0
"""Wall-clock seconds at which a `ManualClock` begins unless told otherwise (2023-11-14)."""


class ManualClock:
    """A clock that stands still until a test moves it."""

    def __init__(self, now: float = START) -> None:
        self._now = now
        self._monotonic = 0.0

    def now(self) -> float:
        """Return the wall-clock time in seconds."""
        return self._now

    def monotonic(self) -> float:
        """Return the monotonic time in seconds; begins at 0."""
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Let time pass on both clocks. Raises: ValueError for a negative duration."""
        if seconds < 0:
            raise ValueError(f"time cannot pass by {seconds!r} s; use set_now() to set the clock")
        self._now += seconds
        self._monotonic += seconds

    def set_now(self, now: float) -> None:
        """Set the wall clock, also backwards, as an administrator may; monotonic time stays."""
        self._now = now


class CountedIds:
    """Ids that count up from 1, one count for all prefixes, in the form of real ids.

    Two makers give the same ids in the same order, so whole objects can be compared.
    """

    def __init__(self) -> None:
        self._count = 0

    def new(self, prefix: str) -> str:
        """Return the next id."""
        self._count += 1
        return f"{prefix}_{ulid(0, self._count)}"
