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
from treadle.model.errors import TreadleError
from treadle.model.ids import RunId, SessionKey
from treadle.model.turn import MessageAccepted, PartDelta, RunEvent, RunFinished, RunStarted

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
        client_message_id: str,
        record: Callable[[SessionKey, RunEvent], None] | None = None,
    ) -> None:
        """Begin with no events; `record` is given each one before any watcher."""
        self.run_id = run_id
        self.session_key = session_key
        self.client_message_id = client_message_id
        """The sender's id of the message; the same id again in the session gives this run."""
        self.abort = Abort()
        self._record = record
        self._events: list[RunEvent] = []
        self._finished: RunFinished | None = None
        self._changed = anyio.Event()
        self._acknowledged: MessageAccepted | None = None
        self._refused: TreadleError | None = None
        self._answered = anyio.Event()

    async def accepted(self) -> MessageAccepted:
        """Wait until the message is stored, and return the acknowledgement (INV-1).

        Raises: what refused it, such as StoreFull. Cancel: the run goes on.
        """
        await self._answered.wait()
        if self._acknowledged is None:
            assert self._refused is not None, "whoever answers says one or the other"
            raise self._refused
        return self._acknowledged

    async def answered(self) -> bool:
        """Wait until the message was stored or refused; True if it is stored."""
        await self._answered.wait()
        return self.was_accepted

    @property
    def was_accepted(self) -> bool:
        """Whether the message is known to be stored."""
        return self._acknowledged is not None

    @classmethod
    def ended(cls, session_key: SessionKey, client_message_id: str, end: RunFinished) -> RunHandle:
        """Return the handle of a run that was over before, with its last event alone."""
        handle = cls(end.run_id, session_key, client_message_id)
        handle.acknowledge_again()
        handle._events.append(end)
        handle._finished = end
        return handle

    @property
    def was_refused(self) -> bool:
        """Whether the message is known not to be stored."""
        return self._refused is not None

    @property
    def has_begun(self) -> bool:
        """Whether the run came to its session's turn."""
        return any(isinstance(event, RunStarted) for event in self._events)

    def acknowledge_again(self) -> None:
        """Say that the message was stored before; watchers were told then."""
        self._acknowledged = MessageAccepted(
            run_id=self.run_id, client_message_id=self.client_message_id
        )
        self._answered.set()

    async def acknowledge(self, event: MessageAccepted) -> None:
        """Say that the message is stored; for the service alone. Never waits."""
        self._acknowledged = event
        await self.publish(event)
        self._answered.set()

    def refuse(self, error: TreadleError) -> None:
        """Say that the message was not stored; for the service alone."""
        self._refused = error
        self._answered.set()

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
