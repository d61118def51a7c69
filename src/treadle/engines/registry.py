"""Find the context engine of a run: registered factories, quarantine, and legacy in their place.

An engine is made anew for each run that resolves it, guarded, and disposed of when that run (and
its background work) releases it. What cannot be loaded, made or checked is quarantined and served
by `legacy`, visibly; a failing lifecycle call never is within its run, but `failing_runs` runs in a
row that saw one are (spec B-40, B-47). Knows nothing of turns and of who asks.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Final

import anyio

from treadle.clock import Clock
from treadle.config import Deadlines
from treadle.contract.engine import (
    LEGACY,
    Capability,
    ContextEngine,
    EngineContext,
    EngineFactory,
    EngineInfo,
    Operation,
)
from treadle.contract.tool import DynamicTool
from treadle.engines import legacy
from treadle.engines.answers import engine_info
from treadle.engines.guard import GuardedEngine
from treadle.engines.resolution import (
    EngineFault,
    EngineListing,
    Resolution,
    State,
    require_capabilities,
)
from treadle.foreign import ForeignCalls, ForeignFailure, ForeignFault, is_async, reason_text
from treadle.model.errors import EngineContractError, EngineNotFound, HostCapabilityMissing
from treadle.model.ids import EngineId
from treadle.observe import emit

GROUP: Final = "treadle.context_engines"
"""Entry-point group; each value is a factory `(EngineContext) -> engine`."""

CORE: Final = "treadle"
"""The owner of what Treadle itself brings; the only one that may own `legacy` (spec B-02)."""

FAILING_RUNS: Final = 3
"""Failing runs in a row after which an engine is quarantined from the next run on (spec B-47)."""

LOAD_WITHIN_S: Final = 30.0
"""Seconds for the import of an entry point."""


@dataclass(slots=True, kw_only=True)
class _Registered:
    engine_id: EngineId
    owner: str
    load: Callable[[], EngineFactory]
    factory: EngineFactory | None = None
    """Once loaded."""

    discovery_only: bool = False
    failing_runs: int = 0
    fault: EngineFault | None = None


class EngineRegistry:
    """Engines by id. One per process; belongs to the loop."""

    def __init__(
        self,
        foreign: ForeignCalls,
        deadlines: Deadlines,
        clock: Clock,
        *,
        failing_runs: int = FAILING_RUNS,
        disabled_owners: Iterable[str] = (),
    ) -> None:
        self._foreign = foreign
        self._deadlines = deadlines
        self._clock = clock
        self._limit = failing_runs
        self._disabled = frozenset(disabled_owners)
        self._engines: dict[EngineId, _Registered] = {}
        self._refused: list[EngineFault] = []
        self.register(LEGACY, legacy.create, owner=CORE)

    def register(
        self,
        engine_id: str,
        factory: EngineFactory,
        *,
        owner: str,
        refresh: bool = False,
        discovery_only: bool = False,
    ) -> None:
        """Register a factory; a refresh by the same owner lifts a quarantine (spec B-44).

        Raises: EngineContractError for a blank id, for `legacy` by anyone but the core, for an id
        that another owner has, and for one's own without `refresh` (spec B-02).
        """
        self._add(
            _Registered(
                engine_id=EngineId(engine_id),
                owner=owner,
                load=lambda: factory,
                discovery_only=discovery_only,
            ),
            refresh=refresh,
        )

    def discover(self, found: Iterable[EntryPoint] | None = None) -> None:
        """Register all entry points of the group without importing them.

        Reads the installed packages' metadata, so call it outside the loop. A name that is taken is
        kept as a named fault.
        """
        points = entry_points(group=GROUP) if found is None else found
        for owner, point in sorted(
            ((_owner(point), point) for point in points),
            key=lambda pair: (pair[0] != CORE, pair[1].name, pair[0]),
        ):
            if point.name == LEGACY and owner == CORE:
                continue  # it is here already
            one = _Registered(engine_id=EngineId(point.name), owner=owner, load=point.load)
            try:
                self._add(one, refresh=False)
            except EngineContractError as refused:
                self._refused.append(self._fault(one, "register", refused.message))

    def lift(self, engine_id: EngineId) -> bool:
        """End a quarantine by command; False where there is none (spec B-47)."""
        one = self._engines.get(engine_id)
        if one is None or one.fault is None:
            return False
        one.fault, one.failing_runs = None, 0
        return True

    def knows(self, engine_id: str) -> bool:
        """Whether an engine of that id is registered."""
        return engine_id in self._engines

    def list(self) -> tuple[EngineListing, ...]:
        """Return all engines by id; what was never loaded counts as ready."""
        return tuple(self._listing(one) for _, one in sorted(self._engines.items()))

    @property
    def refused(self) -> tuple[EngineFault, ...]:
        """Entry points that could not be registered."""
        return tuple(self._refused)

    async def check(self) -> tuple[EngineListing, ...]:
        """Import every entry point, quarantine those that fail, and return all (`engines list`)."""
        for one in self._engines.values():
            if one.fault is None:
                await self._loaded(one)
        return self.list()

    @asynccontextmanager
    async def lease(
        self,
        engine_id: str | None,
        context: EngineContext,
        *,
        explicit: bool = False,
        offered: Iterable[Capability] | None = None,
        host: str = "",
        operation: Operation = "agent-run",
    ) -> AsyncIterator[Resolution]:
        """Resolve for the length of a block, then release."""
        resolution = await self.resolve(
            engine_id, context, explicit=explicit, offered=offered, host=host, operation=operation
        )
        try:
            yield resolution
        finally:
            await self.release(resolution)

    async def resolve(
        self,
        engine_id: str | None,
        context: EngineContext,
        *,
        explicit: bool = False,
        offered: Iterable[Capability] | None = None,
        host: str = "",
        operation: Operation = "agent-run",
    ) -> Resolution:
        """Return the engine of a run; call it once a run, and `release` what it gave (spec A-01).

        `explicit` says that a person named the engine for this run: an unknown one is then an
        error, where a configured one falls back to legacy. `offered` are the capabilities of the
        chosen harness, None to ask nothing.

        Raises: EngineNotFound, HostCapabilityMissing. Cancel: nothing is kept.
        """
        selected = EngineId((engine_id or "").strip() or LEGACY)
        one = self._engines.get(selected)
        if one is None:
            return await self._unknown(selected, explicit=explicit)
        if one.owner in self._disabled and selected != LEGACY:
            return await self._legacy(selected, None)
        if one.discovery_only:
            reason = "it is registered for discovery only"
            return await self._legacy(selected, self._fault(one, "resolve", reason, kept=False))
        if one.fault is not None:
            return await self._legacy(selected, one.fault)
        made = await self._made(one, context)
        if isinstance(made, EngineFault):
            return await self._legacy(selected, made)
        engine, info, tools = made
        guarded = self._guarded(one, engine, info, tools)
        try:
            require_capabilities(
                info, operation, frozenset(offered) if offered is not None else None, host
            )
        except HostCapabilityMissing:
            await guarded.dispose()
            raise
        emit("engine.resolved", engine=selected, owner=one.owner)
        return Resolution(engine=guarded, selected_id=selected)

    async def release(self, resolution: Resolution) -> None:
        """Count the run and dispose of its engine, within the deadline of `dispose` (spec B-46).

        Cancel: it is disposed of all the same.
        """
        one = self._engines.get(resolution.selected_id)
        if one is not None and resolution.fault is None and not resolution.engine.has_failed:
            one.failing_runs = 0
        with anyio.CancelScope(shield=True):  # bounded by the deadline of `dispose`
            await resolution.engine.dispose()

    def _add(self, one: _Registered, *, refresh: bool) -> None:
        held = self._engines.get(one.engine_id)
        reason = ""
        if not one.engine_id.strip():
            reason = "its id is blank"
        elif one.engine_id == LEGACY and one.owner != CORE:
            reason = f"the id {LEGACY!r} is reserved"
        elif held is not None and held.owner != one.owner:
            reason = f"{held.owner!r} has registered this id already"
        elif held is not None and not refresh:
            reason = "it is registered already"
        if reason:
            raise EngineContractError(
                f"{one.owner!r} cannot register context engine {one.engine_id!r}: {reason}",
                engine_id=one.engine_id,
                owner=one.owner,
            )
        self._engines[one.engine_id] = one
        emit("engine.registered", engine=one.engine_id, owner=one.owner)

    async def _unknown(self, selected: EngineId, *, explicit: bool) -> Resolution:
        known = sorted(self._engines)
        near = difflib.get_close_matches(selected, known, n=1)
        hint = f"Did you mean {near[0]!r}? " if near else ""
        if explicit:
            raise EngineNotFound(
                f"no context engine is named {selected!r}; there are {', '.join(known)}",
                next_step=f"{hint}`treadle engines list` shows them all.",
                engine_id=selected,
            )
        fault = EngineFault(
            engine_id=selected,
            owner="",
            operation="resolve",
            reason="no engine of that id is installed",
            at=self._clock.now(),
        )
        return await self._legacy(selected, fault)

    async def _legacy(self, selected: EngineId, fault: EngineFault | None) -> Resolution:
        if fault is not None:
            emit(
                "engine.fell_back",
                engine=selected,
                owner=fault.owner,
                operation=fault.operation,
                reason=fault.reason,
            )
        one = self._engines[LEGACY]
        engine = legacy.LegacyEngine()
        return Resolution(
            engine=self._guarded(one, engine, engine.info, ()), selected_id=selected, fault=fault
        )

    async def _loaded(self, one: _Registered) -> EngineFactory | EngineFault:
        if one.factory is not None:
            return one.factory
        try:
            factory: EngineFactory = await self._foreign.call(
                one.owner, "resolve", one.load, deadline_s=LOAD_WITHIN_S
            )
        except ForeignFault as fault:
            emit("plugin.failed", engine=one.engine_id, owner=one.owner, reason=fault.reason)
            return self._quarantine(one, "resolve", fault.reason)
        if not callable(factory):
            return self._quarantine(one, "resolve", "its entry point is no factory")
        one.factory = factory
        return factory

    async def _made(
        self, one: _Registered, context: EngineContext
    ) -> tuple[ContextEngine, EngineInfo, tuple[DynamicTool, ...]] | EngineFault:
        factory = await self._loaded(one)
        if isinstance(factory, EngineFault):
            return factory
        try:
            if one.owner == CORE:
                made = _own(one, factory, context)
            else:
                made = await self._made_by_foreigners(one, factory, context)
        except ForeignFault as fault:
            broken = fault.__cause__
            if isinstance(broken, EngineContractError):
                return self._quarantine(one, "contract-validation", broken.message)
            return self._quarantine(one, "factory", fault.reason)
        return made.engine, made.info, await self._offered_tools(one, made.engine)

    async def _made_by_foreigners(
        self, one: _Registered, factory: EngineFactory, context: EngineContext
    ) -> _Made:
        seconds = self._deadlines.engine_factory_s
        make = factory if is_async(factory) else _checking(factory, one.engine_id)
        made = await self._foreign.call(one.owner, "factory", make, context, deadline_s=seconds)
        if not isinstance(made, _Made):
            made = await self._foreign.call(
                one.owner, "info", _checked, made, one.engine_id, deadline_s=seconds
            )
        assert isinstance(made, _Made)
        return made

    async def _offered_tools(
        self, one: _Registered, engine: ContextEngine
    ) -> tuple[DynamicTool, ...]:
        offers = getattr(engine, "tools", None)
        if not callable(offers):
            return ()
        seconds = self._deadlines.engine_factory_s
        try:
            offered = await self._foreign.call(one.owner, "tools", offers, deadline_s=seconds)
            return tuple(offered)
        except ForeignFault as fault:
            reason = fault.reason
        except Exception as error:  # the guard's door: what was offered is no sequence
            reason = reason_text(error)
        emit("tool.quarantined", engine=one.engine_id, owner=one.owner, reason=reason)
        return ()

    def _guarded(
        self,
        one: _Registered,
        engine: ContextEngine,
        info: EngineInfo,
        tools: tuple[DynamicTool, ...],
    ) -> GuardedEngine:
        def seen(operation: str, reason: str) -> None:
            self._count_failing_run(one, operation, reason)

        return GuardedEngine(
            engine,
            info,
            foreign=self._foreign,
            deadlines=self._deadlines,
            engine_id=one.engine_id,
            tools=tools,
            on_failure=None if one.engine_id == LEGACY else seen,
            monotonic=self._clock.monotonic,
        )

    def _count_failing_run(self, one: _Registered, operation: str, reason: str) -> None:
        one.failing_runs += 1
        if one.failing_runs >= self._limit:
            self._quarantine(
                one, operation, f"{one.failing_runs} failing runs in a row; last: {reason}"
            )

    def _quarantine(self, one: _Registered, operation: str, reason: str) -> EngineFault:
        if one.fault is None:  # the first failure wins (spec B-40)
            one.fault = self._fault(one, operation, reason)
            emit(
                "engine.quarantined",
                engine=one.engine_id,
                owner=one.owner,
                operation=operation,
                reason=reason,
            )
        return one.fault

    def _fault(
        self, one: _Registered, operation: str, reason: str, *, kept: bool = True
    ) -> EngineFault:
        return EngineFault(
            engine_id=one.engine_id,
            owner=one.owner,
            operation=operation,
            reason=reason,
            at=self._clock.now(),
            quarantined=kept,
        )

    def _listing(self, one: _Registered) -> EngineListing:
        state: State = "ready"
        if one.owner in self._disabled:
            state = "disabled"
        elif one.discovery_only:
            state = "discovery-only"
        elif one.fault is not None:
            state = "quarantined"
        return EngineListing(
            engine_id=one.engine_id,
            owner=one.owner,
            state=state,
            failing_runs=one.failing_runs,
            fault=one.fault,
        )


def _owner(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value


@dataclass(frozen=True, slots=True)
class _Made:
    """An engine that passed the contract check."""

    engine: ContextEngine
    info: EngineInfo


def _checked(engine: ContextEngine, engine_id: str) -> _Made:
    """Check an engine. Raises: EngineContractError, also where its `info` raises."""
    try:
        return _Made(engine, engine_info(engine_id, engine))
    except EngineContractError:
        raise
    except Exception as error:  # the guard's door: attributes of an engine are foreign code
        raise EngineContractError(
            f"context engine {engine_id!r} cannot be looked at: {reason_text(error)}"
        ) from error


def _own(one: _Registered, factory: EngineFactory, context: EngineContext) -> _Made:
    """Make an engine of ours where we stand: it needs neither a thread nor a deadline.

    Raises: ForeignFailure, as a foreign one would.
    """
    try:
        made = factory(context)
        assert not inspect.isawaitable(made), "our own factories are plain functions"
        return _checked(made, one.engine_id)
    except Exception as error:  # a setting that it refuses, say: the same way out as for all
        raise ForeignFailure(one.owner, "factory", reason_text(error)) from error


def _checking(factory: EngineFactory, engine_id: str) -> Callable[[EngineContext], object]:
    """Make and check in one go, in one thread; what an awaitable brings is checked afterwards."""

    def make(context: EngineContext) -> object:
        made = factory(context)
        return made if inspect.isawaitable(made) else _checked(made, engine_id)

    return make
