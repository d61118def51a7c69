"""One run from admission to its end: lane, engine, claim, attempts, result.

Knows no harness by name; `selection` names one. A failure of the run is its result, never an
exception of the service. Source: architecture section 4; spec A-01, A-08, A-14, A-16, S-09.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import anyio

from treadle.clock import Clock, Ids
from treadle.config.paths import Paths
from treadle.config.settings import Settings
from treadle.contract.engine import EngineInfo
from treadle.contract.harness import (
    AgentHarness,
    AttemptParams,
    AttemptResult,
    CompactionResult,
    CompactsNatively,
    Emit,
    ModelRef,
)
from treadle.contract.inbox import Settlement
from treadle.contract.store import Claim, SessionRecord, Store
from treadle.engines.registry import EngineRegistry
from treadle.engines.resolution import Resolution, require_capabilities
from treadle.foreign import Abort
from treadle.harness.selection import NATIVE_PROVIDER
from treadle.harness.settling import SHUTDOWN, ending, finished, settlement_of
from treadle.model.errors import CompactionRefused, Draining, StoreError, TreadleError
from treadle.model.ids import RunId
from treadle.model.session import SessionName
from treadle.model.text import truncate
from treadle.model.turn import Notice, Outcome, RunEvent, RunFinished, RunStarted
from treadle.observe import bind, emit
from treadle.queue.lanes import Lanes
from treadle.runtime.choosing import Choosing
from treadle.runtime.handle import RunHandle
from treadle.runtime.requests import RunRequest

MAX_ATTEMPTS: Final = 2
"""A second attempt only where the first provably did nothing (spec S-09, INV-10)."""

TITLE_CHARS: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSite:
    """Where a run happens: its session's name, owner and folder."""

    name: SessionName
    owner: str
    cwd: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunServices:
    """What runs need; built by `compose`."""

    settings: Settings
    paths: Paths
    store: Store
    registry: EngineRegistry
    harnesses: Mapping[str, AgentHarness]
    lanes: Lanes
    clock: Clock
    ids: Ids
    choosing: Choosing


@dataclass(frozen=True, slots=True)
class Unsettled:
    """A run that is over and whose message has no end: the store did not take it."""

    settlement: Settlement | None
    """Its end; None where the entries of its turn are not written either (INV-6)."""


class Runs:
    """Carries runs out."""

    def __init__(self, services: RunServices) -> None:
        """Keep the services."""
        self._services = services

    async def execute(
        self, handle: RunHandle, request: RunRequest, site: RunSite, *, attempts_before: int = 0
    ) -> Unsettled | None:
        """Run to the end, publish everything to the handle, and return what is left to do.

        `attempts_before` is how often an earlier process began this run. The message gets its end,
        unless nothing of it reached the thread and the service ends: then it waits for the next
        one. `RunFinished` is always the last event.

        Cancel: the turn is interrupted, the claim released, and the handle ends as stopped.
        """
        started = self._services.clock.monotonic()
        with bind(session_key=site.name.key, run_id=handle.run_id):
            emit("run.admitted")
            result: AttemptResult | None = None
            try:
                async with AsyncExitStack() as stack:
                    if await self._enters_lane(stack, handle):
                        result = await self._in_lane(handle, request, site, attempts_before)
            except TreadleError as error:
                emit("run.refused", code=error.code, cause=error)
                result = _failed(error)
            except Exception as error:  # one run's fault must not end the service
                emit("run.crashed", cause=error)
                result = _failed(TreadleError(f"Treadle itself failed: {type(error).__name__}"))
            finally:
                if result is None:
                    result = AttemptResult(outcome=Outcome.STOPPED, text="", aborted=True)
                duration_s = self._services.clock.monotonic() - started
                emit("run.settled", outcome=result.outcome.value, duration_s=round(duration_s, 3))
                with anyio.CancelScope(shield=True):
                    end = finished(handle.run_id, result, duration_s)
                    unsettled = await self._end(handle, result, end)
        return unsettled

    async def refuse(self, handle: RunHandle, error: TreadleError) -> Unsettled | None:
        """End a message that is not run."""
        emit("run.refused", code=error.code, cause=error)
        result = _failed(error)
        return await self._end(handle, result, finished(handle.run_id, result, 0.0))

    async def _end(
        self, handle: RunHandle, result: AttemptResult, end: RunFinished
    ) -> Unsettled | None:
        """Give the message its end, where that is due, and publish the last events."""
        reason = handle.abort.reason
        await handle.answered()  # a run that was stopped at once may be ahead of its message
        if handle.was_accepted and reason == SHUTDOWN and result.turn_id is None:
            await self._wait_again(handle)
            waits = Draining(
                "Treadle ends; the message is stored and will be answered by the next one"
            )
            await handle.publish(replace(end, error=waits.to_json()))
            return None
        if not handle.was_accepted:
            await handle.publish(end)
            return None
        settlement = settlement_of(end, reason)
        unsettled = Unsettled(None) if result.message == "open" else None
        if result.message == "due" and not await self._settles(settlement):
            unsettled = Unsettled(settlement)
        if told := ending(settlement, handle.client_message_id):
            await handle.publish(told)
        await handle.publish(end)
        return unsettled

    async def _settles(self, settlement: Settlement) -> bool:
        try:
            with anyio.move_on_after(self._services.settings.deadlines.cleanup_s) as scope:
                await self._services.store.inbox.settle(settlement)
        except StoreError as error:
            emit("store.write_failed", cause=error)
            return False
        return not scope.cancelled_caught

    async def _wait_again(self, handle: RunHandle) -> None:
        try:
            with anyio.move_on_after(self._services.settings.deadlines.cleanup_s):
                await self._services.store.inbox.requeue(handle.run_id)
        except StoreError as error:  # begun or not, it has no end and is taken up again
            emit("store.write_failed", cause=error)

    async def compact(self, session: SessionRecord) -> CompactionResult:
        """Have the session's native thread compacted; the caller holds its lane (spec D-38).

        Only where the engine leaves compaction to Codex: one that owns it is asked first, and
        nobody asks it yet (J-01). Raises: CompactionRefused, CompactionUnconfirmed, and what keeps
        a run of the session from beginning.
        """
        services, choosing = self._services, self._services.choosing
        engine_id = choosing.engine_id(session)
        context = await choosing.engine_context(engine_id, session)
        run_id = RunId(services.ids.new("r"))
        async with services.registry.lease(engine_id, context) as resolution:
            selection = choosing.harness(choosing.model(session))
            harness = services.harnesses[selection.harness_id]
            _require_native(harness, resolution.engine.info)
            assert isinstance(harness, CompactsNatively), "it was required"
            assert context.workspace_dir is not None, "a session has a working folder"
            async with self._claim(session, run_id) as claim:
                with bind(
                    session_key=session.key,
                    session_id=session.id,
                    run_id=run_id,
                    engine=resolution.engine.info.id,
                ):
                    params = AttemptParams(
                        run_id=run_id,
                        session=session,
                        session_key=session.key,
                        agent_id=session.agent_id,
                        claim=claim,
                        prompt="",
                        engine=resolution.engine,
                        context_token_budget=self._window(selection.model),
                        model=selection.model,
                        effort=None,
                        cwd=context.workspace_dir,
                        abort=Abort(),
                        client_message_id=services.ids.new("m"),
                        trigger="compaction",
                    )
                    return await harness.compact_native(params, _unwatched)

    async def _enters_lane(self, stack: AsyncExitStack, handle: RunHandle) -> bool:
        """Hold the session's lane until the stack is closed; False if the run is stopped first."""
        lane = self._services.lanes.hold(handle.session_key)
        if self._services.lanes.is_free(handle.session_key):
            await stack.enter_async_context(lane)
            return True
        entered = False
        async with anyio.create_task_group() as waiting:

            async def give_up() -> None:
                await handle.abort.wait()
                waiting.cancel_scope.cancel()

            waiting.start_soon(give_up)
            await stack.enter_async_context(lane)
            entered = True
            waiting.cancel_scope.cancel()
        return entered

    async def _in_lane(
        self, handle: RunHandle, request: RunRequest, site: RunSite, attempts_before: int
    ) -> AttemptResult:
        services = self._services
        if handle.abort.aborted:
            return AttemptResult(outcome=Outcome.STOPPED, text="", aborted=True)
        services.settings.agent(site.name.agent_id)  # an unknown one leaves no session behind
        session = await services.store.sessions.open(
            site.name.key, agent_id=site.name.agent_id, owner=site.owner, cwd=site.cwd
        )
        choosing = services.choosing
        model = choosing.model(session, request.model)
        engine_id = choosing.engine_id(session, request.engine)
        context = await choosing.engine_context(engine_id, session)
        async with services.registry.lease(
            engine_id, context, explicit=request.engine is not None
        ) as resolution:
            selection = choosing.harness(model)
            harness = services.harnesses[selection.harness_id]
            require_capabilities(
                resolution.engine.info, "agent-run", harness.capabilities, harness.id
            )
            async with self._claim(session, handle.run_id) as claim:
                with bind(session_id=session.id, engine=resolution.engine.info.id):
                    await handle.accepted()  # stored in the meantime: the claim stood behind it
                    await self._announce(handle, request, session, resolution)
                    params = self._params(handle, request, session, claim)(
                        engine=resolution.engine,
                        model=selection.model,
                        cwd=context.workspace_dir,
                        context_token_budget=self._window(selection.model),
                    )
                    return await self._attempts(
                        harness, replace(params, attempt=1 + attempts_before), handle.publish
                    )

    @asynccontextmanager
    async def _claim(self, session: SessionRecord, run_id: RunId) -> AsyncIterator[Claim]:
        claim = await self._services.store.transcript.claim(session.id, run_id)
        emit("claim.taken", lease_epoch=claim.lease_epoch)
        try:
            yield claim
        finally:
            cleanup_s = self._services.settings.deadlines.cleanup_s
            with anyio.move_on_after(cleanup_s, shield=True):
                try:
                    await self._services.store.transcript.release(claim)
                except StoreError as error:  # the next claim takes it over; the answer stands
                    emit("store.write_failed", cause=error)
                else:
                    emit("claim.released", lease_epoch=claim.lease_epoch)

    async def _announce(
        self,
        handle: RunHandle,
        request: RunRequest,
        session: SessionRecord,
        resolution: Resolution,
    ) -> None:
        emit("run.started")
        await handle.publish(
            RunStarted(
                run_id=handle.run_id,
                session_key=session.key,
                session_id=session.id,
                trigger=request.trigger,
            )
        )
        if resolution.notice:
            await handle.publish(
                Notice(
                    run_id=handle.run_id,
                    code="engine_unavailable",
                    text=resolution.notice,
                    next_step="treadle engines list shows what is wrong with it.",
                )
            )
        if not session.title and request.persist_prompt:
            title = truncate(" ".join(request.text.split()), TITLE_CHARS, "…")
            await self._services.store.sessions.update(session.key, title=title)

    async def _attempts(
        self, harness: AgentHarness, params: AttemptParams, publish: Emit
    ) -> AttemptResult:
        for attempt in range(params.attempt, params.attempt + MAX_ATTEMPTS):
            if attempt > params.attempt:
                params = replace(params, attempt=attempt, saw_nothing_done=True)
            result = await harness.run_attempt(params, publish)
            lost = result.outcome is Outcome.CLIENT_LOST
            if not (lost and result.replay_safe and not params.abort.aborted):
                return result
            emit("turn.retried", attempt=attempt)
        return result

    def _params(
        self, handle: RunHandle, request: RunRequest, session: SessionRecord, claim: Claim
    ) -> Callable[..., AttemptParams]:
        settings = self._services.settings
        stored = session.settings.get("effort")
        effort = stored if isinstance(stored, str) else settings.agent(session.agent_id).effort
        return partial(
            AttemptParams,
            run_id=handle.run_id,
            session=session,
            session_key=session.key,
            agent_id=session.agent_id,
            claim=claim,
            prompt=request.text,
            effort=request.effort or effort,
            abort=handle.abort,
            client_message_id=handle.client_message_id,
            trigger=request.trigger,
            is_heartbeat=request.is_heartbeat,
            lightweight=request.lightweight,
            native_tools=request.native_tools,
            persist_prompt=request.persist_prompt,
            projection=request.projection or settings.codex.projection.mode,
            output_schema=request.output_schema,
            sender=request.sender,
        )

    def _window(self, model: ModelRef) -> int | None:
        provider = self._services.settings.provider(model.provider or NATIVE_PROVIDER)
        entry = provider.models.get(model.model) if provider and model.model else None
        return entry.context_window if entry is not None else None


async def _unwatched(event: RunEvent) -> None:
    """Take an event that nobody watches."""


def _require_native(harness: AgentHarness, info: EngineInfo) -> None:
    if info.owns_compaction:
        raise CompactionRefused(
            f"the context engine {info.id!r} owns compaction, and this version cannot ask it",
            next_step="It compacts by itself; nothing has to be done.",
            reason="engine_owns_compaction",
        )
    if not isinstance(harness, CompactsNatively):
        raise CompactionRefused(
            f"the runtime {harness.id!r} has no native threads to compact",
            next_step="Nothing has to be done.",
            reason="no_native_thread",
        )


def _failed(error: TreadleError) -> AttemptResult:
    return AttemptResult(outcome=Outcome.FAILED, text="", prompt_error=error.to_json())
