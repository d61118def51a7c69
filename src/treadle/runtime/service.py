"""The service: what a face holds while Treadle is open.

Knows nothing of how its parts were made (`compose`) or of how they are shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NoReturn, Self

import anyio
from anyio.abc import TaskGroup

from treadle.config.settings import Settings
from treadle.contract.inbox import FINAL, InboxMessage, NewMessage
from treadle.contract.session_calls import SubagentContext
from treadle.contract.store import SearchHit, SearchQuery, SessionRecord, Store
from treadle.engines.resolution import EngineListing
from treadle.foreign import ForeignCalls
from treadle.harness.settling import SHUTDOWN
from treadle.model.errors import (
    Draining,
    QueueFull,
    StoreError,
    TreadleError,
    UsageError,
    message_conflict,
)
from treadle.model.ids import AgentId, RunId, SessionKey
from treadle.model.json import JsonValue
from treadle.model.session import MAIN_AGENT, agent_id, session_name
from treadle.model.turn import MessageAccepted
from treadle.observe import emit
from treadle.runtime.acceptance import Asked, asked_again, end_of, given_up
from treadle.runtime.accounts import Accounts
from treadle.runtime.handle import RunHandle
from treadle.runtime.lives import Lives
from treadle.runtime.requests import RunRequest, checked_request
from treadle.runtime.runs import Runs, RunServices, RunSite
from treadle.runtime.sessions import Session
from treadle.runtime.streams import Streams
from treadle.runtime.subagents import SpawnRequest, Subagents, no_child

LOCAL_OWNER = "local"
"""Owner of sessions that are used from this machine's command line or library (decision 31)."""

WAITING_MOST: Final = 20
"""Messages of a session that may wait behind the one that runs (RS04).

Modes come with the queue.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSession:
    """A child that has begun."""

    session: Session
    run: RunHandle | None
    """The run of its first message, where one was given."""


class Runtime:
    """An open Treadle; made by `treadle.open_runtime`."""

    def __init__(
        self,
        services: RunServices,
        accounts: Accounts,
        foreign: ForeignCalls,
        *,
        resumes: bool = True,
    ) -> None:
        """Keep the parts; entering opens it, and `resumes` what an earlier process left behind."""
        self._services = services
        self._foreign = foreign
        self._runs = Runs(services)
        self._group: TaskGroup | None = None
        self._live: dict[RunId, RunHandle] = {}
        self._asked: dict[RunId, Asked] = {}
        self._resumes = resumes
        self._draining = False
        self.accounts = accounts
        """Signing in, signing out, who is signed in, and which models there are."""
        self.subagents = Subagents(services.store, services.choosing, services.clock, services.ids)
        """Child sessions; `spawn_child` and `end_child` are the same by name."""
        self.lives = Lives(
            services.store,
            services.lanes,
            services.choosing,
            self._unfinished,
            self.subagents.tell_ending,
        )
        """What becomes of whole sessions; `Session` has the same by name."""
        self.streams = Streams(services.store.events)
        """What happens in all sessions, to be watched."""

    async def __aenter__(self) -> Self:
        """Open the root of all runs; messages without an end are taken up in their order."""
        group = await anyio.create_task_group().__aenter__()
        self._group = group
        try:
            group.start_soon(self.streams.store)
            await self.subagents.sweep()
            group.start_soon(self._tell_of_children)
            if self._resumes:
                for message in await self.store.inbox.unfinished():
                    self._resume(message)
        except BaseException:
            group.cancel_scope.cancel()
            await group.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Interrupt what runs, wait for it within `deadlines.shutdown_s`, then cancel it.

        What only waits stays stored for the next process.
        """
        group, self._group = self._group, None
        assert group is not None
        for handle in tuple(self._live.values()):
            handle.interrupt(SHUTDOWN)
        with anyio.move_on_after(self.settings.deadlines.shutdown_s, shield=True):
            for handle in tuple(self._live.values()):
                await handle.result()
            await self.streams.flush()
        group.cancel_scope.cancel()
        await group.__aexit__(None, None, None)

    async def drain(self, *, within_s: float) -> bool:
        """Take nothing more, and wait for the runs that go on; True if all came to their end.

        What has not begun is put back and stays stored: it counts as no attempt. What has not
        ended in time goes on; closing the runtime interrupts it. Source: RS06. Cancel: it still
        takes nothing more.
        """
        self._draining = True
        for handle in tuple(self._live.values()):
            if not handle.has_begun:
                handle.interrupt(SHUTDOWN)
        with anyio.move_on_after(within_s):
            for handle in tuple(self._live.values()):
                await handle.result()
        return not self._live

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self._services.settings

    @property
    def store(self) -> Store:
        """The store, for reading."""
        return self._services.store

    @property
    def running(self) -> tuple[RunHandle, ...]:
        """The runs that are not over."""
        return tuple(self._live.values())

    def session(
        self,
        key: str | None = None,
        *,
        agent: str = MAIN_AGENT,
        owner: str = LOCAL_OWNER,
        cwd: str | Path | None = None,
    ) -> Session:
        """Return a session by its key or bare name; None is the agent's `main`.

        A `cwd` becomes the session's working folder from its next run on. Raises: UsageError for an
        impossible key or folder, NotFound for an unknown agent.
        """
        name = session_name(key, agent=agent_id(agent))
        self.settings.agent(name.agent_id)
        site = RunSite(name=name, owner=owner, cwd=_checked_folder(cwd))
        return Session(self, self._services.store, site)

    async def spawn_child(
        self,
        parent: Session,
        text: str | None = None,
        *,
        context_mode: SubagentContext = "isolated",
        ttl_s: float | None = None,
        lightweight: bool = False,
    ) -> ChildSession:
        """Begin a child session, and say its first message if there is a `text`.

        An `isolated` one begins empty; a `fork` holds what its parent does, without a turn of it
        that is still running. The parent's context engine prepares it, unless it is isolated and
        `lightweight`. After `ttl_s` it is swept at the next start. If any of this fails, no child
        is left. Raises: NotFound for a parent without a message, EngineError,
        HostCapabilityMissing, and whatever refuses the message. Source: spec B-20.
        """
        request = SpawnRequest(context_mode=context_mode, ttl_s=ttl_s, lightweight=lightweight)

        async def say(made: SessionRecord) -> RunHandle:
            assert text is not None
            return self.session(made.key, owner=made.owner).run(text)

        begun = await self.subagents.spawn(parent.name, request, say if text is not None else None)
        session = self.session(begun.session.key, owner=begun.session.owner)
        return ChildSession(session=session, run=begun.run)

    async def end_child(
        self, child: Session, reason: Literal["completed", "released"] = "completed"
    ) -> None:
        """Say that a child's work is done, or that its parent lets it go; its engine is told.

        The session stays, with what was said. Raises: NotFound for none, or one that is over.
        Source: spec B-21.
        """
        if not await self.subagents.end(child.key, reason):
            raise no_child(child.key)

    async def _tell_of_children(self) -> None:
        try:
            await self.subagents.tell_ending()
        except StoreError as error:  # their engines are told at the next start
            emit("store.write_failed", cause=error)

    async def sessions(
        self, *, agent: str | None = None, owner: str | None = None, limit: int = 200
    ) -> tuple[SessionRecord, ...]:
        """Return the stored sessions, the last used first."""
        return await self._services.store.sessions.list(
            agent_id=AgentId(agent) if agent else None, owner=owner, limit=limit
        )

    async def engines(self) -> tuple[EngineListing, ...]:
        """Return every registered context engine with its state, each one imported to see."""
        return await self._services.registry.check()

    def health(self) -> dict[str, JsonValue]:
        """Return what is degraded right now, for people and for `doctor` (INV-25)."""
        return {
            "running": len(self._live),
            "stuck_calls": [
                {
                    "owner": call.owner,
                    "operation": call.operation,
                    "for_s": round(call.cancelled_for_s, 1),
                }
                for call in self._foreign.stuck
            ],
            "engines": [
                {"id": one.engine_id, "state": one.state, "failing_runs": one.failing_runs}
                for one in self._services.registry.list()
            ],
        }

    async def search(self, query: SearchQuery) -> tuple[SearchHit, ...]:
        """Return the entries that fit."""
        return await self._services.store.transcript.search(query)

    def submit(self, request: RunRequest, site: RunSite) -> RunHandle:
        """Take a message; see `Session.run`.

        Raises: UsageError, QueueFull, Draining, MessageConflict.
        """
        if self._group is None:
            raise UsageError("the runtime is closed", next_step="Open it with open_runtime().")
        if self._draining:
            raise Draining(
                "Treadle finishes what runs and then ends; this message was not accepted",
                next_step="Send it again, under the same id, once Treadle is back.",
            )
        asked = Asked(request=checked_request(request), site=site)
        if request.client_message_id is not None:
            known = self._known(asked, request.client_message_id)
            if known is not None:
                return known
        place = self._refuse_if_full(site.name.key)
        client_message_id = request.client_message_id or self._services.ids.new("m")
        message = asked.to_message(
            RunId(self._services.ids.new("r")), client_message_id, place=place
        )
        handle = self._handle(message.run_id, site.name.key, client_message_id)
        self._asked[handle.run_id] = asked
        self._group.start_soon(self._accept, handle, message)
        self._group.start_soon(self._run, handle, asked, 0)
        return handle

    def _unfinished(self, key: SessionKey) -> int:
        handles = self._live.values()
        return sum(one.session_key == key and one.finished is None for one in handles)

    def _known(self, asked: Asked, client_message_id: str) -> RunHandle | None:
        """Return the run of a message that was sent before (INV-2)."""
        key = asked.site.name.key
        for handle in self._live.values():
            if (handle.session_key, handle.client_message_id) == (key, client_message_id):
                return handle if self._asked[handle.run_id] == asked else self._conflict(asked)
        stored = self.store.inbox.find(key, client_message_id)
        if stored is None:
            return None
        new = asked.to_message(stored.run_id, client_message_id, place=0)
        if new.request_hash != stored.request_hash:
            self._conflict(asked)
        if stored.state in FINAL:
            return RunHandle.ended(stored.session_key, client_message_id, end_of(stored))
        return self._resume(stored)

    def _conflict(self, asked: Asked) -> NoReturn:
        raise message_conflict(asked.site.name.key, asked.request.client_message_id or "")

    def _resume(self, message: InboxMessage) -> RunHandle:
        """Take up a message that an earlier run of ours left without an end."""
        assert self._group is not None
        handle = self._handle(message.run_id, message.session_key, message.client_message_id)
        handle.acknowledge_again()
        try:
            asked = asked_again(message)
            refused = given_up(message)
            if refused is None:
                self.settings.agent(asked.site.name.agent_id)
        except (KeyError, TypeError, ValueError) as error:
            refused = TreadleError(f"what is stored of this message cannot be read: {error}")
        except TreadleError as error:
            refused = error
        if refused is not None:
            self._group.start_soon(self._refuse_stored, handle, refused)
            return handle
        emit("run.resumed", session_key=message.session_key, run_id=message.run_id)
        self._asked[handle.run_id] = asked
        self._group.start_soon(self._run, handle, asked, message.attempts)
        return handle

    def _handle(self, run_id: RunId, key: SessionKey, client_message_id: str) -> RunHandle:
        handle = RunHandle(run_id, key, client_message_id, self.streams.record)
        self._live[run_id] = handle
        return handle

    async def _accept(self, handle: RunHandle, message: NewMessage) -> None:
        """Store the message; the run waits for it before it begins (S1)."""
        try:
            await self.store.inbox.accept(message)
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

    async def _refuse_stored(self, handle: RunHandle, error: TreadleError) -> None:
        try:
            await self._runs.refuse(handle, error)
        finally:
            del self._live[handle.run_id]

    def _refuse_if_full(self, key: SessionKey) -> int:
        """Keep what waits bounded, one run and so many behind it; return how many there are."""
        unfinished = sum(handle.session_key == key for handle in self._live.values())
        if unfinished > WAITING_MOST:
            raise QueueFull(
                f"{unfinished} messages of session {key!r} are not answered yet,"
                f" and no more than {WAITING_MOST} may wait; this one was not accepted",
                next_step="Wait for an answer, then say it again.",
                session=key,
                waiting=unfinished - 1,
            )
        return unfinished

    async def _run(self, handle: RunHandle, asked: Asked, attempts_before: int) -> None:
        try:
            await self._runs.execute(
                handle, asked.request, asked.site, attempts_before=attempts_before
            )
        finally:
            del self._live[handle.run_id]
            self._asked.pop(handle.run_id, None)


def _checked_folder(cwd: str | Path | None) -> str | None:
    if cwd is None:
        return None
    folder = Path(cwd).expanduser().absolute()
    if not folder.is_dir():
        raise UsageError(
            f"the working folder {str(folder)!r} is no folder", next_step="Name one that exists."
        )
    return str(folder.resolve())
