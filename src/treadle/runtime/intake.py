"""Messages on their way in: stored, refused, or taken up again; and the runs that they become.

What a process accepted and did not bring to an end is taken up by a later one in the order of its
acceptance, before any newer message of its session. Knows nothing of how a run is carried out.
Source: reliability section 1 (INV-1…INV-3, recovery by the last durable record); RS01–RS06.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import anyio
from anyio.abc import TaskGroup

from treadle.contract.inbox import FINAL, InboxMessage, NewMessage, message_conflict
from treadle.harness.settling import SHUTDOWN
from treadle.model.errors import (
    Draining,
    QueueFull,
    StoreError,
    TreadleError,
    UsageError,
)
from treadle.model.ids import RunId, SessionKey
from treadle.model.turn import MessageAccepted, RunEvent
from treadle.observe import emit
from treadle.runtime.acceptance import Asked, asked_again, end_of, given_up
from treadle.runtime.handle import RunHandle
from treadle.runtime.requests import RunRequest, checked_request
from treadle.runtime.runs import Runs, RunServices, RunSite, Unsettled

WAITING_MOST: Final = 20
"""Messages of a session that may wait behind the one that runs (RS04).

Modes come with the queue.
"""

AGAIN_AFTER_S: Final = (1.0, 2.0, 5.0, 10.0)
"""Seconds before each new try to end a message that could not be ended; the last one repeats."""


@dataclass(frozen=True, slots=True)
class _Taken:
    """A message whose run is not over."""

    handle: RunHandle
    asked: Asked | None
    """None for one that is stored, whatever became of it."""


class Intake:
    """Takes the messages of one service."""

    def __init__(
        self,
        services: RunServices,
        runs: Runs,
        record: Callable[[SessionKey, RunEvent], None],
    ) -> None:
        """Take none yet; `record` is given every event of every run."""
        self._services = services
        self._record = record
        self._runs = runs
        self._group: TaskGroup | None = None
        self._taken: dict[RunId, _Taken] = {}
        self._up_to_date: set[SessionKey] = set()
        """Sessions whose earlier messages were taken up."""

        self._draining = False

    @property
    def running(self) -> tuple[RunHandle, ...]:
        """The runs that are not over."""
        return tuple(taken.handle for taken in self._taken.values())

    def unfinished(self, key: SessionKey) -> int:
        """Return how many messages of a session have no end yet; a short read at most."""
        live = sum(one.session_key == key and one.finished is None for one in self.running)
        if key in self._up_to_date:
            return live
        return max(live, len(self._services.store.inbox.unfinished_of(key)))

    async def open(self, group: TaskGroup, *, resumes: bool) -> None:
        """Run in this group; take up every message without an end if it `resumes`.

        Otherwise those of a session are taken up when the next message for it comes. Raises:
        StoreError.
        """
        self._group = group
        if resumes:
            for message in await self._services.store.inbox.unfinished():
                self._up_to_date.add(message.session_key)
                self._take_up(message)

    def close(self) -> tuple[RunHandle, ...]:
        """Take nothing more, interrupt what runs, and return it."""
        self._group = None
        for handle in self.running:
            handle.interrupt(SHUTDOWN)
        return self.running

    async def drain(self, within_s: float) -> bool:
        """Take nothing more, and wait for the runs that have begun; True if all came to their end.

        What has not begun is put back and stays stored: it counts as no attempt (RS06). Cancel: it
        still takes nothing more.
        """
        self._draining = True
        for handle in self.running:
            if not handle.has_begun:
                handle.interrupt(SHUTDOWN)
        with anyio.move_on_after(within_s):
            for handle in self.running:
                await handle.result()
        return not self._taken

    def submit(self, request: RunRequest, site: RunSite) -> RunHandle:
        """Take a message; see `Session.run`.

        Raises: UsageError, MessageTooLarge, QueueFull, Draining, MessageConflict, StoreError.
        """
        group = self._accepting()
        asked = Asked(request=checked_request(request), site=site)
        self._bring_up_to_date(site.name.key)
        if request.client_message_id is not None:
            known = self._known(asked, request.client_message_id)
            if known is not None:
                return known
        place = self._refuse_if_full(site.name.key)
        client_message_id = request.client_message_id or self._services.ids.new("m")
        run_id = RunId(self._services.ids.new("r"))
        message = asked.to_message(run_id, client_message_id, place=place)
        handle = RunHandle(run_id, site.name.key, client_message_id, self._record)
        self._taken[run_id] = _Taken(handle, asked)
        group.start_soon(self._accept, handle, message)
        group.start_soon(self._run, handle, asked, 0)
        return handle

    def _accepting(self) -> TaskGroup:
        if self._group is None:
            raise UsageError("the runtime is closed", next_step="Open it with open_runtime().")
        if self._draining:
            raise Draining(
                "Treadle finishes what runs and then ends; this message was not accepted",
                next_step="Send it again, under the same id, once Treadle is back.",
            )
        return self._group

    # ------------------------------------------------------------------- what is known already

    def _bring_up_to_date(self, key: SessionKey) -> None:
        """Take up what an earlier process left in a session: nothing overtakes it (INV-3)."""
        if key in self._up_to_date:
            return
        for message in self._services.store.inbox.unfinished_of(key):
            if message.run_id not in self._taken:
                self._take_up(message)
        self._up_to_date.add(key)

    def _known(self, asked: Asked, client_message_id: str) -> RunHandle | None:
        """Return the run of a message that was sent before (INV-2)."""
        key = asked.site.name.key
        stored = self._services.store.inbox.find(key, client_message_id)
        if stored is not None and _hash_of(asked) != stored.request_hash:
            raise message_conflict(key, client_message_id)
        for taken in self._taken.values():
            handle = taken.handle
            if handle.was_refused:
                continue  # it was not stored, so nothing is known of it
            if (handle.session_key, handle.client_message_id) == (key, client_message_id):
                if stored is None and taken.asked != asked:
                    raise message_conflict(key, client_message_id)
                return handle
        if stored is None:
            return None
        if stored.state in FINAL:
            return RunHandle.ended(key, client_message_id, end_of(stored))
        return self._take_up(stored)

    def _take_up(self, message: InboxMessage) -> RunHandle:
        """Go on with a message that has no end."""
        assert self._group is not None, "whoever takes messages is open"
        asked = _of_stored(message, self._services)
        handle = RunHandle(
            message.run_id, message.session_key, message.client_message_id, self._record
        )
        handle.acknowledge_again()
        self._taken[message.run_id] = _Taken(handle, None)
        if isinstance(asked, TreadleError):
            self._group.start_soon(self._refuse, handle, asked)
        else:
            emit("run.resumed", session_key=message.session_key, run_id=message.run_id)
            self._group.start_soon(self._run, handle, asked, message.attempts)
        return handle

    def _refuse_if_full(self, key: SessionKey) -> int:
        """Keep what waits bounded, one run and so many behind it; return how many there are."""
        unfinished = sum(handle.session_key == key for handle in self.running)
        if unfinished > WAITING_MOST:
            raise QueueFull(
                f"{unfinished} messages of session {key!r} are not answered yet,"
                f" and no more than {WAITING_MOST} may wait; this one was not accepted",
                next_step="Wait for an answer, then say it again.",
                session=key,
                waiting=unfinished - 1,
            )
        return unfinished

    # ---------------------------------------------------------------------------------- tasks

    async def _accept(self, handle: RunHandle, message: NewMessage) -> None:
        """Store the message; the run waits for it before it begins (S1)."""
        try:
            await self._services.store.inbox.accept(message)
        except TreadleError as error:
            handle.refuse(error)
        except BaseException:
            handle.refuse(TreadleError("Treadle ended before the message was stored"))
            raise
        else:
            await handle.acknowledge(
                MessageAccepted(
                    run_id=handle.run_id,
                    client_message_id=handle.client_message_id,
                    place=message.place,
                )
            )

    async def _run(self, handle: RunHandle, asked: Asked, attempts_before: int) -> None:
        unsettled: Unsettled | None = None
        try:
            unsettled = await self._runs.execute(
                handle, asked.request, asked.site, attempts_before=attempts_before
            )
        finally:
            del self._taken[handle.run_id]
        self._end_later(handle, unsettled)

    async def _refuse(self, handle: RunHandle, error: TreadleError) -> None:
        unsettled: Unsettled | None = None
        try:
            unsettled = await self._runs.refuse(handle, error)
        finally:
            del self._taken[handle.run_id]
        self._end_later(handle, unsettled)

    def _end_later(self, handle: RunHandle, unsettled: Unsettled | None) -> None:
        if unsettled is not None and self._group is not None:
            self._group.start_soon(self._try_to_end, handle, unsettled)

    async def _try_to_end(self, handle: RunHandle, unsettled: Unsettled) -> None:
        """Give a message its end as soon as the store takes it again.

        A turn whose entries are not written yet is settled as after a restart: by its own run.
        Cancel: the next process does it.
        """
        tries = 0
        while True:
            await anyio.sleep(AGAIN_AFTER_S[min(tries, len(AGAIN_AFTER_S) - 1)])
            tries += 1
            try:
                if unsettled.settlement is not None:
                    await self._services.store.inbox.settle(unsettled.settlement)
                else:
                    self._take_up_again(handle)
            except StoreError as error:
                emit("store.write_failed", cause=error)
            else:
                return

    def _take_up_again(self, handle: RunHandle) -> None:
        found = self._services.store.inbox.find(handle.session_key, handle.client_message_id)
        is_open = found is not None and found.state not in FINAL
        if is_open and self._group is not None and handle.run_id not in self._taken:
            assert found is not None
            self._take_up(found)


def _of_stored(message: InboxMessage, services: RunServices) -> Asked | TreadleError:
    """Return what a stored message asked for, or why it is not run."""
    try:
        asked = asked_again(message)
        services.settings.agent(asked.site.name.agent_id)
    except (KeyError, TypeError, ValueError) as error:
        return TreadleError(f"what is stored of this message cannot be read: {error}")
    except TreadleError as error:
        return error
    return given_up(message) or asked


def _hash_of(asked: Asked) -> str:
    return asked.to_message(RunId(""), "", place=0).request_hash
