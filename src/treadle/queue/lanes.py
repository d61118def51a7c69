"""Lanes.

One run a session at a time, and a global cap over all sessions, both first come first served.

Knows nothing of what a run does. A lane is held by the whole run, never by a question to a person
alone.
Source: spec A-14, A-15.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio

from treadle.model.ids import SessionKey


def default_capacity(cores: int | None = None) -> int:
    """Return max(8, 4 runs per core) (spec A-15)."""
    return max(8, (cores or os.cpu_count() or 1) * 4)


@dataclass(slots=True)
class _Lane:
    lock: anyio.Lock = field(default_factory=lambda: anyio.Lock(fast_acquire=True))
    users: int = 0


class Lanes:
    """Hands out lanes; build one per service."""

    def __init__(self, capacity: int | None = None) -> None:
        """Allow `capacity` runs at once over all sessions; None takes the default of A-15."""
        self._lanes: dict[SessionKey, _Lane] = {}
        self._global = anyio.Semaphore(capacity or default_capacity(), fast_acquire=True)

    @asynccontextmanager
    async def hold(self, key: SessionKey) -> AsyncIterator[None]:
        """Hold the session's lane and a place under the global cap.

        Wait for both in order of asking.

        Cancel: while waiting, the place in the queue is given up; while held, both are released.
        """
        async with self.hold_aside(key), self._global:
            yield

    @asynccontextmanager
    async def hold_aside(self, key: SessionKey) -> AsyncIterator[None]:
        """Hold the session's lane alone, for what is no run and must not wait for other sessions.

        Cancel: as `hold`.
        """
        lane = self._lanes.setdefault(key, _Lane())
        lane.users += 1
        try:
            async with lane.lock:
                yield
        finally:
            lane.users -= 1
            if lane.users == 0:
                del self._lanes[key]

    def is_free(self, key: SessionKey) -> bool:
        """Whether `hold` would not wait."""
        return key not in self._lanes and self._global.value > 0

    def waiting(self, key: SessionKey) -> int:
        """Return how many runs hold or wait for this session's lane."""
        lane = self._lanes.get(key)
        return lane.users if lane else 0
