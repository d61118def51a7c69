"""Child sessions: begun for a parent, ended once, and swept where their time is over.

A spawn is prepared by the parent's context engine, then made; where it fails after the preparation,
that is undone once (spec B-20). An engine hears of each end at least once, also after a crash
(B-21). Knows nothing of SQL, of threads or of who asks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import anyio

from treadle.clock import Clock, Ids
from treadle.contract.engine import ResolvedEngine
from treadle.contract.session_calls import Rollback, SubagentContext, SubagentEnd
from treadle.contract.store import SessionRecord, Store
from treadle.contract.subagents import Subagent
from treadle.failpoints import failpoint
from treadle.harness.endings import prepare_spawn, subagent_ended
from treadle.harness.outcomes import LifecycleCall
from treadle.model.errors import EngineError, EngineTimeout, NotFound, StoreError, UsageError
from treadle.model.ids import SessionKey
from treadle.model.session import SessionName, child_name
from treadle.observe import emit
from treadle.runtime.choosing import Choosing
from treadle.runtime.handle import RunHandle
from treadle.runtime.lives import unknown_session
from treadle.runtime.session_engines import SessionEngines

ID_PREFIX: Final = "sub"
"""Prefix of the ids in the names of child sessions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnRequest:
    """How a child is to begin."""

    context_mode: SubagentContext = "isolated"
    ttl_s: float | None = None
    """Seconds until it is swept; None: it lives until somebody ends it."""

    lightweight: bool = False
    """An isolated child that is also lightweight is prepared by no engine (spec B-20)."""

    @property
    def is_prepared(self) -> bool:
        """Whether the engine is asked to prepare it."""
        return not (self.lightweight and self.context_mode == "isolated")

    @property
    def ttl_ms(self) -> int | None:
        """Its time to live in milliseconds."""
        return None if self.ttl_s is None else round(self.ttl_s * 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A child that has begun."""

    session: SessionRecord
    run: RunHandle | None
    """The run of its first message, where one was given."""


FirstMessage = Callable[[SessionRecord], Awaitable[RunHandle]]
"""Says the first message of a child that has just begun, and returns once it was accepted."""


class Subagents:
    """Begins and ends child sessions."""

    def __init__(self, store: Store, choosing: Choosing, clock: Clock, ids: Ids) -> None:
        """Keep the parts."""
        self._store = store
        self._choosing = choosing
        self._engines = SessionEngines(choosing)
        self._clock = clock
        self._ids = ids

    async def spawn(
        self, parent: SessionName, request: SpawnRequest, say: FirstMessage | None = None
    ) -> Begun:
        """Begin a child; its first message, if there is one, belongs to the spawn.

        Raises: NotFound, UsageError, HostCapabilityMissing, EngineError where it could not be
        prepared, and whatever refuses the first message; then no child is left. Cancel: the same.
        """
        if request.ttl_s is not None and request.ttl_s <= 0:
            raise UsageError("a child session needs time to live", next_step="Give ttl_s above 0.")
        session = await self._store.sessions.get(parent.key)
        if session is None:
            raise unknown_session(parent.key)
        choosing = self._choosing
        child = Subagent(
            key=child_name(parent.agent_id, self._ids.new(ID_PREFIX)).key,
            parent_key=parent.key,
            context_mode=request.context_mode,
            engine_id=choosing.engine_id(session),
            expires_at=None if request.ttl_s is None else self._clock.now() + request.ttl_s,
        )
        harness = choosing.harnesses[choosing.harness(choosing.model(session)).harness_id]
        context = await choosing.engine_context(child.engine_id, session)
        async with choosing.registry.lease(
            child.engine_id,
            context,
            offered=harness.capabilities,
            host=harness.id,
            operation="subagent-spawn",
        ) as resolution:
            call = self._engines.call(session, context)
            prepare = partial(_prepare, resolution.engine, call, child, request)
            return await self._spawned(child, prepare, say)

    async def _spawned(
        self,
        child: Subagent,
        prepare: Callable[[], Awaitable[Rollback | None]],
        say: FirstMessage | None,
    ) -> Begun:
        await self._store.subagents.prepare(child)
        rollback: Rollback | None = None
        in_doubt = True
        try:
            rollback = await prepare()
            in_doubt = False
            failpoint("spawn-prepared")
            session = await self._store.subagents.begin(child.key)
            failpoint("spawn-begun")
            run = await say(session) if say is not None else None
        except BaseException as error:
            failed = isinstance(error, EngineError) and not isinstance(error, EngineTimeout)
            await self._undo(child, rollback, in_doubt=in_doubt and not failed)
            raise
        emit("subagent.began", session_key=child.key, context_mode=child.context_mode)
        return Begun(session=session, run=run)

    async def _undo(self, child: Subagent, rollback: Rollback | None, *, in_doubt: bool) -> None:
        """Take back a spawn that failed; what cannot be is swept at the next start.

        An engine that was not waited for may have prepared something: it is told of the end then.
        """
        deadlines = self._choosing.settings.deadlines
        with anyio.CancelScope(shield=True):  # each part is bounded
            if rollback is not None:
                await rollback()
            with anyio.move_on_after(deadlines.store_s):
                try:
                    await self._store.subagents.abandon(child.key, in_doubt=in_doubt)
                except StoreError as error:
                    emit("store.write_failed", cause=error)
        emit("subagent.rolled_back", session_key=child.key)

    async def end(self, key: SessionKey, reason: SubagentEnd) -> bool:
        """Note that a child is over, and tell its engine; False where it is none, or over already.

        Its session stays, with what was said.
        """
        child = await self._store.subagents.end(key, reason)
        if child is None:
            return False
        emit("subagent.ended", session_key=key, reason=reason)
        await self._tell(child)
        return True

    async def sweep(self) -> None:
        """End what outlived its time, or never began in an earlier process; short."""
        await self._store.subagents.sweep()

    async def tell_ending(self) -> None:
        """Tell the engines of all children that are over of which they do not know yet."""
        for child in await self._store.subagents.ending():
            await self._tell(child)

    async def _tell(self, child: Subagent) -> None:
        assert child.reason is not None, "a child that is over has a reason"
        session = await self._session_of(child)
        if session is not None:
            job = partial(_told, child=child, reason=child.reason)
            await self._engines.one(child.engine_id, session, job)
        await self._store.subagents.told(child.key)

    async def _session_of(self, child: Subagent) -> SessionRecord | None:
        """Return the session in whose surroundings the engine is asked."""
        sessions = self._store.sessions
        return await sessions.get(child.key) or await sessions.get(child.parent_key)


async def _prepare(
    engine: ResolvedEngine, call: LifecycleCall, child: Subagent, request: SpawnRequest
) -> Rollback | None:
    if not request.is_prepared:
        return None
    return await prepare_spawn(
        engine,
        call,
        child_key=child.key,
        context_mode=child.context_mode,
        ttl_ms=request.ttl_ms,
    )


async def _told(
    engine: ResolvedEngine, call: LifecycleCall, *, child: Subagent, reason: SubagentEnd
) -> str | None:
    return await subagent_ended(engine, replace(call, session_key=child.key), reason=reason)


def no_child(key: SessionKey) -> NotFound:
    """Return the error for a session that is no live child."""
    return NotFound(f"session {key!r} is no child session that lives", session=key)
