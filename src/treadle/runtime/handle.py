"""A run as its caller sees it: events to watch, a result to wait for, a way to stop it.

Knows nothing of how a run is carried out. Nobody has to watch: events are kept until the handle is
dropped, adjacent deltas of one part merged into one, so a slow or absent watcher neither loses
anything nor holds the run up.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import anyio

from treadle.foreign import Abort
from treadle.model.ids import RunId, SessionKey
from treadle.model.turn import PartDelta, RunEvent, RunFinished

_MERGE_CHARS = 4096
"""Characters up to which deltas are merged.

Joining without a bound costs the square of the text.
"""


class RunHandle:
    """A run that was accepted.

    Iterate it for its events, from the first one on, as often as you like.
    """

    def __init__(
        self,
        run_id: RunId,
        session_key: SessionKey,
        record: Callable[[SessionKey, RunEvent], None] | None = None,
    ) -> None:
        """Begin with no events; `record` is given each one before any watcher."""
        self.run_id = run_id
        self.session_key = session_key
        self.abort = Abort()
        self._record = record
        self._events: list[RunEvent] = []
        self._finished: RunFinished | None = None
        self._changed = anyio.Event()

    async def __aiter__(self) -> AsyncIterator[RunEvent]:
        """Yield every event in order.

        The last is `RunFinished`. Cancel: nothing is lost, the run goes on.
        """
        index = seen_of_delta = 0
        while True:
            while index < len(self._events):
                event = self._events[index]
                if isinstance(event, PartDelta):
                    fresh = event.text[seen_of_delta:]
                    if fresh:
                        yield replace(event, at=event.at + seen_of_delta, text=fresh)
                    seen_of_delta += len(fresh)
                    grown = self._events[index]
                    if isinstance(grown, PartDelta) and len(grown.text) > seen_of_delta:
                        continue
                    if index == len(self._events) - 1:
                        break
                else:
                    yield event
                index, seen_of_delta = index + 1, 0
            if self._finished is not None and index >= len(self._events):
                return
            await self._changed.wait()

    async def result(self) -> RunFinished:
        """Wait for the end and return it. Cancel: the run goes on."""
        while self._finished is None:
            await self._changed.wait()
        return self._finished

    def interrupt(self, reason: str = "interrupted") -> None:
        """Ask the run to stop.

        It ends with outcome `stopped`. A second time, or too late, changes nothing.
        """
        self.abort.set(reason)

    @property
    def finished(self) -> RunFinished | None:
        """The end, once it is there."""
        return self._finished

    async def publish(self, event: RunEvent) -> None:
        """Add an event; for the service alone. Never waits."""
        if self._finished is not None:
            return
        if self._record is not None:
            self._record(self.session_key, event)
        last = self._events[-1] if self._events else None
        if isinstance(event, PartDelta) and isinstance(last, PartDelta) and _continues(last, event):
            self._events[-1] = replace(last, text=last.text + event.text)
        else:
            self._events.append(event)
        if isinstance(event, RunFinished):
            self._finished = event
        changed, self._changed = self._changed, anyio.Event()
        changed.set()


def _continues(last: PartDelta, event: PartDelta) -> bool:
    same = (last.part, last.kind) == (event.part, event.kind)
    joins = event.at == last.at + len(last.text)
    return same and joins and len(last.text) < _MERGE_CHARS
