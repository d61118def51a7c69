"""Give each notification to those who listen to its thread; never waits for them.

Knows no pipe. What comes for a thread between its start and its first subscription is kept, within
bounds.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from treadle.model.errors import RemoteProtocolError, WireError
from treadle.observe import Counters, emit
from treadle.protocol.rpc import Answer, Notification
from treadle.wire.subscription import Subscription

EARLY_COUNT: Final = 1_000
"""Notifications kept for a thread that was just started and is not subscribed to yet."""

EARLY_THREADS: Final = 256
"""Threads for which early notifications are kept; the oldest goes first."""


class Switchboard:
    """The subscriptions of one connection; None stands for notifications of no thread."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._streams: dict[str | None, list[Subscription]] = {}
        self._early: OrderedDict[str | None, Subscription] = OrderedDict()
        self.keep_early(None)

    @contextmanager
    def subscribe(self, thread_id: str | None) -> Iterator[Subscription]:
        """Give a thread's notifications while it is open, early ones first."""
        early = self._early.pop(thread_id, None)
        stream = Subscription() if early is None or early.is_closed else early.with_usual_bounds()
        streams = self._streams.setdefault(thread_id, [])
        streams.append(stream)
        try:
            yield stream
        finally:
            streams.remove(stream)
            if not streams:
                self._streams.pop(thread_id, None)
            stream.close(None)

    def tell(self, notification: Notification) -> None:
        """Queue a notification for all who listen to its thread."""
        streams = self._streams.get(notification.thread_id)
        if not streams:
            early = self._early.get(notification.thread_id)
            streams = [early] if early is not None else []
        if not streams:
            self._counters.add("wire.unheard_notifications")
        for stream in streams:
            was_closed = stream.is_closed
            stream.offer(notification)
            if stream.is_closed and not was_closed:
                self._counters.add("wire.subscriptions_overflowed")
                emit("wire.frame_dropped", reason="subscription full", method=notification.method)

    def keep_early(self, thread_id: str | None) -> None:
        """Keep what comes for a thread until somebody subscribes."""
        if thread_id in self._streams:
            return
        self._early[thread_id] = Subscription(limit_count=EARLY_COUNT)
        while len(self._early) > EARLY_THREADS:
            self._early.popitem(last=False)

    def close(self, error: Callable[[], WireError]) -> None:
        """End every subscription with an error of its own."""
        for streams in self._streams.values():
            for stream in streams:
                stream.close(error())
        self._early.clear()


def started_thread(answer: Answer) -> str | None:
    """Return the thread that an answer brought into being; None for every other answer."""
    if answer.method not in {"thread/start", "thread/fork"}:
        return None
    try:
        thread = answer.result().get("thread")
    except RemoteProtocolError:
        return None  # the caller of the request sees the error
    thread_id = thread.get("id") if isinstance(thread, Mapping) else None
    return thread_id if isinstance(thread_id, str) else None
