"""Daemon threads that are kept for the next piece of work.

Starting a thread makes the event loop wait until it runs, which on a busy machine takes longer than
most work that is handed out; a parked one is woken by a queue. Knows nothing of what the work is. A
thread whose work never ends is never parked again and dies with the process, which does not wait
for it.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Final

PARKED_MOST: Final = 8
"""Idle threads that are kept; more come and go with their work."""

Work = Callable[[], None]
"""Never raises."""


class ParkedThreads:
    """Hands work to idle daemon threads and starts one where none is idle.

    For one owner thread's use.
    """

    def __init__(self, name: str) -> None:
        """Start nothing yet; `name` is that of the threads."""
        self._name = name
        self._lock = threading.Lock()
        self._idle: list[queue.SimpleQueue[Work | None]] = []
        self._closed = False

    def run(self, work: Work) -> None:
        """Have the work done in a thread; returns at once."""
        with self._lock:
            inbox = self._idle.pop() if self._idle else None
        if inbox is None:
            inbox = queue.SimpleQueue()
            threading.Thread(
                target=self._serve, args=(inbox,), name=self._name, daemon=True
            ).start()
        inbox.put(work)

    def close(self) -> None:
        """Let idle threads end; those at work end when it does."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for inbox in idle:
            inbox.put(None)

    def _serve(self, inbox: queue.SimpleQueue[Work | None]) -> None:
        while (work := inbox.get()) is not None:
            work()
            del work  # what it held must not live until the next one comes
            with self._lock:
                if self._closed or len(self._idle) >= PARKED_MOST:
                    return
                self._idle.append(inbox)
