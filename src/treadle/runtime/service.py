"""The service: what a face holds while Treadle is open.

Knows nothing of how its parts were made (`compose`) or of how they are shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

import anyio
from anyio.abc import TaskGroup

from treadle.config.settings import Settings
from treadle.contract.harness import CompactionResult
from treadle.contract.session_calls import SubagentContext
from treadle.contract.store import SearchHit, SearchQuery, SessionRecord, Store
from treadle.engines.resolution import EngineListing
from treadle.foreign import ForeignCalls
from treadle.model.errors import (
    StoreError,
    UsageError,
)
from treadle.model.ids import AgentId, SessionKey
from treadle.model.json import JsonValue
from treadle.model.session import MAIN_AGENT, SessionName, agent_id, session_name
from treadle.observe import emit
from treadle.runtime.accounts import Accounts
from treadle.runtime.handle import RunHandle
from treadle.runtime.intake import Intake
from treadle.runtime.lives import Lives
from treadle.runtime.requests import RunRequest
from treadle.runtime.runs import Runs, RunServices, RunSite
from treadle.runtime.sessions import Session
from treadle.runtime.streams import Streams
from treadle.runtime.subagents import SpawnRequest, Subagents, no_child

LOCAL_OWNER = "local"
"""Owner of sessions that are used from this machine's command line or library (decision 31)."""


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
        self._resumes = resumes
        self._group: TaskGroup | None = None
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
        self._runs = Runs(services)
        self._intake = Intake(services, self._runs, self.streams.record)

    async def __aenter__(self) -> Self:
        """Open the root of all runs; messages without an end are taken up in their order."""
        group = await anyio.create_task_group().__aenter__()
        self._group = group
        try:
            group.start_soon(self.streams.store)
            await self.subagents.sweep()
            group.start_soon(self._tell_of_children)
            await self._intake.open(group, resumes=self._resumes)
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
        running = self._intake.close()
        with anyio.move_on_after(self.settings.deadlines.shutdown_s, shield=True):
            for handle in running:
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
        return await self._intake.drain(within_s)

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
        return self._intake.running

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
            "running": len(self.running),
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

    def _unfinished(self, key: SessionKey) -> int:
        return self._intake.unfinished(key)

    async def search(self, query: SearchQuery) -> tuple[SearchHit, ...]:
        """Return the entries that fit."""
        return await self._services.store.transcript.search(query)

    async def compact(self, name: SessionName) -> CompactionResult:
        """See `Session.compact`."""
        async with self.lives.alone(name.key):
            session = await self._services.store.sessions.get(name.key)
            assert session is not None, "it was there a moment ago, and nobody else may end it"
            return await self._runs.compact(session)

    def submit(self, request: RunRequest, site: RunSite) -> RunHandle:
        """Take a message; see `Session.run`."""
        return self._intake.submit(request, site)


def _checked_folder(cwd: str | Path | None) -> str | None:
    if cwd is None:
        return None
    folder = Path(cwd).expanduser().absolute()
    if not folder.is_dir():
        raise UsageError(
            f"the working folder {str(folder)!r} is no folder", next_step="Name one that exists."
        )
    return str(folder.resolve())
