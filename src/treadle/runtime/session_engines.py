"""The context engines that have to do with a session, apart from any run.

Knows nothing of what they are told.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from treadle.contract.engine import LEGACY, EngineContext, ResolvedEngine
from treadle.contract.store import Binding, SessionRecord
from treadle.harness.outcomes import LifecycleCall
from treadle.model.errors import TreadleError
from treadle.observe import emit
from treadle.runtime.choosing import Choosing

T = TypeVar("T")


Job = Callable[[ResolvedEngine, LifecycleCall], Awaitable[T]]
"""What is done with an engine; the call says of which session."""


class SessionEngines:
    """Resolves them one after the other, each disposed of before the next."""

    def __init__(self, choosing: Choosing) -> None:
        self._choosing = choosing

    async def each(self, session: SessionRecord, bound: Binding | None, job: Job[T]) -> list[T]:
        """Do the job with the engine in the session's slot and with the one of its thread.

        Those that do not serve, and legacy, are left out; why is logged.
        """
        done = [await self.one(one, session, job) for one in self._ids(session, bound)]
        return [result for result in done if result is not None]

    async def one(self, engine_id: str, session: SessionRecord, job: Job[T]) -> T | None:
        """Do the job with that engine; None where it does not serve.

        Raises: what the job raises.
        """
        choosing = self._choosing
        try:
            context = await choosing.engine_context(engine_id, session)
        except TreadleError as error:  # a working folder that is gone, a disk that is full
            emit("engine.fell_back", engine=engine_id, operation="resolve", cause=error)
            return None
        async with choosing.registry.lease(engine_id, context) as resolution:
            if not resolution.engine.is_active:
                return None
            return await job(resolution.engine, self.call(session, context))

    def call(self, session: SessionRecord, context: EngineContext) -> LifecycleCall:
        """Return what calls about a session are told: no harness and no model (spec U-08)."""
        return LifecycleCall(
            session_id=session.id,
            session_key=session.key,
            cwd=context.workspace_dir,
            workspace_dir=context.workspace_dir,
            agent_dir=context.agent_dir,
            session_file=f"{self._choosing.paths.database}#{session.id}",
            transcript_storage={"kind": "sqlite"},
        )

    def _ids(self, session: SessionRecord, bound: Binding | None) -> tuple[str, ...]:
        record = bound.engine if bound is not None else None
        last = record.get("engineId") if record is not None else None
        known = {one.engine_id for one in self._choosing.registry.list()}
        chosen = [self._choosing.engine_id(session)]
        if isinstance(last, str) and last in known:
            chosen.append(last)
        return tuple(one for one in dict.fromkeys(chosen) if one != LEGACY)
