"""One run from admission to its end: lane, engine, claim, attempts, result.

Knows no harness by name; `selection` names one. A failure of the run is its result, never an
exception of the service. Source: architecture section 4; spec A-01, A-08, A-14, A-16, S-09.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from treadle.clock import Clock, Ids
from treadle.config.paths import Paths
from treadle.config.records import Provider
from treadle.config.settings import Settings
from treadle.config.state_dir import make_private_folder
from treadle.contract.engine import LEGACY, EngineContext
from treadle.contract.harness import (
    AgentHarness,
    AttemptParams,
    AttemptResult,
    Emit,
    ModelRef,
    model_ref,
)
from treadle.contract.store import Claim, SessionRecord, Store
from treadle.engines.registry import EngineRegistry
from treadle.engines.resolution import Resolution, require_capabilities
from treadle.harness.selection import NATIVE_PROVIDER, RuntimePolicy, Selection, select
from treadle.model.errors import StoreError, TreadleError, UsageError
from treadle.model.ids import RunId
from treadle.model.json import JsonObject
from treadle.model.session import SessionName
from treadle.model.text import truncate
from treadle.model.turn import Notice, Outcome, RunFinished, RunStarted
from treadle.observe import bind, emit
from treadle.queue.lanes import Lanes
from treadle.runtime.handle import RunHandle
from treadle.runtime.requests import RunRequest

MAX_ATTEMPTS: Final = 2
"""A second attempt only where the first provably did nothing (spec S-09, INV-10)."""

TITLE_CHARS: Final = 80
ENGINE_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


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
    default_model: str | None = None
    """Stands in where neither the run, the session, the agent nor the settings name a model."""

    engine_configs: Mapping[str, JsonObject] = field(default_factory=dict)


class Runs:
    """Carries runs out."""

    def __init__(self, services: RunServices) -> None:
        """Keep the services."""
        self._services = services

    async def execute(self, handle: RunHandle, request: RunRequest, site: RunSite) -> None:
        """Run to the end and publish everything to the handle.

        `RunFinished` is always the last event.

        Cancel: the turn is interrupted, the claim released, and the handle ends as stopped.
        """
        started = self._services.clock.monotonic()
        with bind(session_key=site.name.key, run_id=handle.run_id):
            emit("run.admitted")
            result: AttemptResult | None = None
            try:
                async with AsyncExitStack() as stack:
                    if await self._enters_lane(stack, handle):
                        result = await self._in_lane(handle, request, site)
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
                    await handle.publish(_finished(handle.run_id, result, duration_s))

    async def _enters_lane(self, stack: AsyncExitStack, handle: RunHandle) -> bool:
        """Hold the session's lane until the stack is closed; False if the run is stopped first."""
        entered = False
        async with anyio.create_task_group() as waiting:

            async def give_up() -> None:
                await handle.abort.wait()
                waiting.cancel_scope.cancel()

            waiting.start_soon(give_up)
            await stack.enter_async_context(self._services.lanes.hold(handle.session_key))
            entered = True
            waiting.cancel_scope.cancel()
        return entered

    async def _in_lane(
        self, handle: RunHandle, request: RunRequest, site: RunSite
    ) -> AttemptResult:
        services = self._services
        if handle.abort.aborted:
            return AttemptResult(outcome=Outcome.STOPPED, text="", aborted=True)
        agent = services.settings.agent(site.name.agent_id)
        session = await services.store.sessions.open(
            site.name.key, agent_id=site.name.agent_id, owner=site.owner, cwd=site.cwd
        )
        model = self._model(request, session, agent.model)
        engine_id = self._engine_id(request, session, agent.engine)
        context = await self._engine_context(engine_id, session, agent.workspace)
        async with services.registry.lease(
            engine_id, context, explicit=request.engine is not None
        ) as resolution:
            selection = self._select(model)
            harness = services.harnesses[selection.harness_id]
            require_capabilities(
                resolution.engine.info, "agent-run", harness.capabilities, harness.id
            )
            async with self._claim(session, handle.run_id) as claim:
                with bind(session_id=session.id, engine=resolution.engine.info.id):
                    await self._announce(handle, request, session, resolution)
                    params = self._params(handle, request, session, claim)(
                        engine=resolution.engine,
                        model=selection.model,
                        cwd=context.workspace_dir,
                        context_token_budget=self._window(selection.model),
                    )
                    return await self._attempts(harness, params, handle.publish)

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
        for attempt in range(1, MAX_ATTEMPTS + 1):
            result = await harness.run_attempt(replace(params, attempt=attempt), publish)
            lost = result.outcome is Outcome.CLIENT_LOST
            if not (lost and result.replay_safe and not params.abort.aborted):
                return result
            emit("turn.retried", attempt=attempt)
        return result

    def _model(
        self, request: RunRequest, session: SessionRecord, agent_model: str | None
    ) -> str | None:
        chosen = session.settings.get("model")
        stored = chosen if isinstance(chosen, str) else None
        return request.model or stored or agent_model or self._services.default_model

    def _select(self, model: str | None) -> Selection:
        settings = self._services.settings
        ref = model_ref(model)
        choice = settings.runtime(ref.provider, ref.model)
        named = {choice.scope: choice.id} if choice is not None else {}
        provider = settings.provider(ref.provider)
        selection = select(
            RuntimePolicy(
                model=named.get("model"), provider=named.get("provider"), agent=named.get("agents")
            ),
            ref,
            tuple(self._services.harnesses.values()),
            provider_config=_provider_config(provider) if provider is not None else None,
        )
        emit("harness.selected", harness=selection.harness_id, source=selection.source)
        return selection

    def _engine_id(self, request: RunRequest, session: SessionRecord, agent_engine: str) -> str:
        chosen = session.settings.get("engine")
        return request.engine or (chosen if isinstance(chosen, str) else agent_engine)

    async def _engine_context(
        self, engine_id: str, session: SessionRecord, workspace: Path | None
    ) -> EngineContext:
        """Return what the engine's factory is given; its data directory is made, private (B-01).

        The working folder is the session's, else the agent's, whose own one is made. Raises:
        UsageError if it is not there, StateDirectoryRefused or StoreFull where ours cannot be made.
        """
        paths = self._services.paths
        data_dir: Path | None = paths.state / "engines" / engine_id
        known = {one.engine_id for one in self._services.registry.list()}
        if engine_id not in known or ENGINE_ID.fullmatch(engine_id) is None:
            data_dir = None  # a mistyped id leaves no folder, and an odd one is no folder's name
        own = paths.agent_workspace(session.agent_id)
        folder = Path(session.cwd) if session.cwd is not None else workspace or own
        made = [data_dir] if data_dir is not None and engine_id != LEGACY else []
        if folder == own:
            made.append(own)
        await anyio.to_thread.run_sync(_ready_folders, folder, made)
        return EngineContext(
            config=self._services.engine_configs.get(engine_id, {}),
            agent_dir=str(paths.agent_dir(session.agent_id)),
            workspace_dir=str(folder),
            data_dir=str(data_dir) if data_dir is not None else None,
        )

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
            client_message_id=request.client_message_id or self._services.ids.new("m"),
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


def _ready_folders(folder: Path, made: Sequence[Path]) -> None:
    """Make our own folders, private; refuse a working folder that is not there.

    Raises: UsageError, StateDirectoryRefused, StoreFull.
    """
    for own in made:
        make_private_folder(own)
    if not folder.is_dir():
        raise UsageError(
            f"the working folder {str(folder)!r} is not there",
            next_step="Make it, or name another one with --cwd.",
        )


def _provider_config(provider: Provider) -> JsonObject:
    """Return what selection looks at (spec A-11); secrets stay where they are."""
    return {"baseUrl": provider.base_url, "headers": bool(provider.headers)}


def _failed(error: TreadleError) -> AttemptResult:
    return AttemptResult(outcome=Outcome.FAILED, text="", prompt_error=error.to_json())


def _finished(run_id: RunId, result: AttemptResult, duration_s: float) -> RunFinished:
    return RunFinished(
        run_id=run_id,
        outcome=result.outcome,
        text=result.text,
        error=result.prompt_error,
        replay_safe=result.replay_safe,
        partial=result.outcome is not Outcome.COMPLETED and bool(result.text),
        usage=result.attempt_usage,
        duration_s=duration_s,
    )
