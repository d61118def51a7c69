"""Name the call that blocks the event loop, with its stack, while it still blocks it.

Knows nothing of who called. A thread asks the loop for a sign of life; what blocks the loop cannot
be stopped from here, only shown (decision 14).
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

import anyio

from treadle.foreign import EventLog

BLOCKED_AFTER_S: Final = 2.0
"""Seconds without a sign of life after which the stack is logged, once per block."""

MAX_FRAMES: Final = 20
"""Frames of the stack that are logged, the innermost first."""


class LoopWatchdog:
    """Watches the loop that enters it; an async context manager."""

    def __init__(
        self,
        log: EventLog,
        *,
        after_s: float = BLOCKED_AFTER_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._after_s = after_s
        self._monotonic = monotonic
        self._stop = threading.Event()
        self._stopped = anyio.Event()
        self._asked_at: float | None = None
        self._reported = False

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        watched = threading.get_ident()
        threading.Thread(
            target=self._watch, args=(loop, watched), name="loop watchdog", daemon=True
        ).start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the thread and wait for it; it looks at the wish at once."""
        self._stop.set()
        with anyio.move_on_after(self._after_s, shield=True):
            await self._stopped.wait()

    @property
    def blocked_for_s(self) -> float:
        """Seconds since a sign of life was asked for and not given; 0 while the loop turns.

        May be read from any thread.
        """
        asked_at = self._asked_at
        return 0.0 if asked_at is None else max(0.0, self._monotonic() - asked_at)

    def _watch(self, loop: asyncio.AbstractEventLoop, watched: int) -> None:
        with suppress(RuntimeError):  # the loop is closed: there is nothing to watch
            while not self._stop.wait(self._after_s / 4):
                if self._asked_at is None:
                    self._asked_at = self._monotonic()
                    loop.call_soon_threadsafe(self._answered)
                elif not self._reported and self.blocked_for_s >= self._after_s:
                    self._reported = True
                    self._log(
                        "loop.blocked", blocked_for_s=self.blocked_for_s, stack=_stack(watched)
                    )
            loop.call_soon_threadsafe(self._stopped.set)

    def _answered(self) -> None:
        self._asked_at = None
        self._reported = False


def _stack(thread: int) -> str:
    frame = sys._current_frames().get(thread)
    if frame is None:
        return ""
    calls = reversed(traceback.extract_stack(frame)[-MAX_FRAMES:])
    return "\n".join(f"{call.filename}:{call.lineno} in {call.name}" for call in calls)
