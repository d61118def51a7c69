"""Time and fresh ids, as things that are handed in, and their real implementations.

Knows nothing of what is timed or named. Tests drive both (`treadle.testing.clock`).
"""

from __future__ import annotations

import secrets
import threading
import time
from typing import Protocol

CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Digits of the ids: sorting by text is sorting by number; I, L, O and U are left out."""

_RANDOM_BITS = 80
_ID_BITS = 130
_PAIRS = [high + low for high in CROCKFORD for low in CROCKFORD]
_SHIFTS = range(_ID_BITS - 10, -1, -10)


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> float:
        """Return seconds since 1970-01-01 UTC; may jump when the machine's clock is set."""

    def monotonic(self) -> float:
        """Return seconds from an unnamed point; never goes back. For durations and deadlines."""


class Ids(Protocol):
    """Makes ids that nobody else has."""

    def new(self, prefix: str) -> str:
        """Return `<prefix>_<26 characters>`; ids of one maker sort in the order of their making."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        """Return the wall-clock time."""
        return time.time()

    def monotonic(self) -> float:
        """Return the monotonic time."""
        return time.monotonic()


def ulid(milliseconds: int, random_bits: int) -> str:
    """Write 48 bits of time and 80 bits of chance as 26 characters (the ULID text form)."""
    number = ((milliseconds & (1 << 48) - 1) << _RANDOM_BITS) | (random_bits & (1 << 80) - 1)
    return "".join([_PAIRS[number >> shift & 1023] for shift in _SHIFTS])


class RandomIds:
    """Time-ordered random ids (ULIDs), safe to use from several threads.

    Within one millisecond, and when the clock goes back, the last id plus one is given, so that
    order holds.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._last = 0

    def new(self, prefix: str) -> str:
        """Return a new id."""
        milliseconds = int(self._clock.now() * 1000)
        fresh = (milliseconds << _RANDOM_BITS) | secrets.randbits(_RANDOM_BITS)
        with self._lock:
            behind = fresh >> _RANDOM_BITS <= self._last >> _RANDOM_BITS
            self._last = self._last + 1 if behind else fresh
            number = self._last
        return f"{prefix}_{ulid(number >> _RANDOM_BITS, number)}"
