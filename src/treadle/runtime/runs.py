"""One run from admission to its end: lane, engine, claim, attempts, result.

Knows no harness by name; `selection` names one. A failure of the run is its result, never an
exception of the service. Source: architecture section 4; spec A-01, A-08, A-14, A-16, S-09.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import anyio

from treadle.clock import Clock, Ids
from treadle.config.paths import Paths
from treadle.config.settings import Settings
from treadle.contract.engine import EngineContext, ResolvedEngine
from treadle.contract.harness import (
    AgentHarness,
    AttemptParams,
    AttemptResult,
    Emit,
    SupportQuery,
    model_ref,
)
from treadle.contract.store import Claim, SessionRecord, Store
from treadle.engines.registry import EngineRegistry
from treadle.harness.selection import HarnessOption, select_harness
from treadle.model.errors import TreadleError
from treadle.model.ids import RunId
from treadle.model.json import JsonObject
from treadle.model.session import SessionName
from treadle.model.text import truncate
from treadle.model.turn import Outcome, RunFinished, RunStarted
from treadle.observe import bind, emit
from treadle.queue.lanes import Lanes
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
                async with self._services.lanes.hold(site.name.key):
                    result = await self._in_lane(handle, request, site)
            except TreadleError as error:
                emit("run.refused", code=error.code, cause=error)
                result = _failed(error)
            finally:
                if result is None:
                    result = AttemptResult(outcome=Outcome.STOPPED, text="", aborted=True)
                duration_s = self._services.clock.monotonic() - started
                emit("run.settled", outcome=result.outcome.value, duration_s=round(duration_s, 3))
                with anyio.CancelScope(shield=True):
                    await handle.publish(_finished(handle.run_id, result, duration_s))

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
        harness = self._harness(model)
        cwd = self._cwd(session, agent.workspace)
        engine = await self._engine(request, session, agent.engine, cwd)
        claim = await services.store.transcript.claim(session.id, handle.run_id)
        try:
            await handle.publish(
                RunStarted(
                    run_id=handle.run_id,
                    session_key=session.key,
                    session_id=session.id,
                    trigger=request.trigger,
                )
            )
            await self._give_title(session, request.text)
            params = self._params(handle, request, session, claim, engine, model, cwd)
            return await self._attempts(harness, params, handle.publish)
        finally:
            with anyio.move_on_after(services.settings.deadlines.cleanup_s, shield=True):
                await services.store.transcript.release(claim)

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

    def _harness(self, model: str | None) -> AgentHarness:
        services = self._services
        ref = model_ref(model)
        choice = services.settings.runtime(ref.provider, ref.model)
        provider = services.settings.provider(ref.provider)
        query = SupportQuery(
            model=ref, provider_config={"configured": True} if provider is not None else None
        )
        options = tuple(
            HarnessOption(id=name, support=harness.supports(query))
            for name, harness in services.harnesses.items()
        )
        selected = select_harness(
            requested=choice.id if choice is not None else None, model=ref, options=options
        )
        emit("harness.selected", harness=selected.id, reason=selected.reason)
        return services.harnesses[selected.id]

    async def _engine(
        self, request: RunRequest, session: SessionRecord, agent_engine: str, cwd: str
    ) -> ResolvedEngine:
        chosen = session.settings.get("engine")
        engine_id = request.engine or (chosen if isinstance(chosen, str) else None) or agent_engine
        agent_dir = self._services.paths.agent_dir(session.agent_id)
        context = EngineContext(
            config=self._services.engine_configs.get(engine_id, {}),
            agent_dir=str(agent_dir),
            workspace_dir=cwd,
            data_dir=str(self._services.paths.state / "engines" / engine_id),
        )
        return await self._services.registry.resolve(
            engine_id, context, explicit=request.engine is not None
        )

    def _cwd(self, session: SessionRecord, workspace: Path | None) -> str:
        if session.cwd is not None:
            return session.cwd
        return str(workspace or self._services.paths.agent_workspace(session.agent_id))

    async def _give_title(self, session: SessionRecord, text: str) -> None:
        if not session.title:
            title = truncate(" ".join(text.split()), TITLE_CHARS, "…")
            await self._services.store.sessions.update(session.key, title=title)

    def _params(
        self,
        handle: RunHandle,
        request: RunRequest,
        session: SessionRecord,
        claim: Claim,
        engine: ResolvedEngine,
        model: str | None,
        cwd: str,
    ) -> AttemptParams:
        settings = self._services.settings
        ref = model_ref(model)
        provider = settings.provider(ref.provider)
        entry = provider.models.get(ref.model) if provider and ref.model else None
        stored = session.settings.get("effort")
        effort = stored if isinstance(stored, str) else settings.agent(session.agent_id).effort
        return AttemptParams(
            run_id=handle.run_id,
            session=session,
            session_key=session.key,
            agent_id=session.agent_id,
            claim=claim,
            prompt=request.text,
            engine=engine,
            context_token_budget=entry.context_window if entry is not None else None,
            model=ref,
            effort=request.effort or effort,
            cwd=cwd,
            abort=handle.abort,
            client_message_id=request.client_message_id or self._services.ids.new("m"),
            trigger=request.trigger,
            lightweight=request.lightweight,
            projection=request.projection or settings.codex.projection.mode,
            output_schema=request.output_schema,
            sender=request.sender,
        )


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
