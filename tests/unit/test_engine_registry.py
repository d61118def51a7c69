"""Finding engines: who may register, what falls back to legacy, and what is said of it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from importlib.metadata import EntryPoint
from typing import Any

import anyio
import pytest

from treadle.config import Deadlines
from treadle.contract.engine import (
    AssembleParams,
    EngineContext,
    EngineInfo,
    HostRequirement,
)
from treadle.contract.tool import DynamicTool
from treadle.engines import window
from treadle.engines.registry import CORE, EngineRegistry
from treadle.engines.resolution import EngineFault, Resolution
from treadle.foreign import ForeignCalls
from treadle.model.errors import (
    EngineContractError,
    EngineError,
    EngineNotFound,
    HostCapabilityMissing,
)
from treadle.model.ids import SessionId
from treadle.observe import emit
from treadle.testing.clock import ManualClock
from treadle.testing.engine import BreakingEngine, RecordingEngine

pytestmark = pytest.mark.anyio

CONTEXT = EngineContext(config={})
ASK = AssembleParams(
    session_id=SessionId("ses_1"),
    messages=(),
    token_budget=None,
    available_tools=frozenset(),
    citations_mode=None,
    model=None,
    prompt="p",
)


@pytest.fixture
async def make() -> AsyncIterator[Callable[..., EngineRegistry]]:
    async with ForeignCalls(emit, close_within_s=0.05) as foreign:

        def registry(deadlines: Deadlines | None = None, **fields: Any) -> EngineRegistry:
            return EngineRegistry(foreign, deadlines or Deadlines(), ManualClock(), **fields)

        yield registry


Make = Callable[..., EngineRegistry]


def point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name=name, value=value, group="treadle.context_engines")


def fault(resolution: Resolution) -> EngineFault:
    assert resolution.fault is not None
    assert resolution.engine.info.id == "legacy"
    return resolution.fault


async def test_nothing_selected_is_legacy_without_a_word(make: Make) -> None:
    """Spec B-01, A-20."""
    registry = make()
    for selected in (None, "", " ", "legacy"):
        resolution = await registry.resolve(selected, CONTEXT)
        assert resolution.engine.info.id == "legacy"
        assert not resolution.engine.is_active
        assert (resolution.fault, resolution.notice) == (None, "")


async def test_each_run_gets_an_engine_of_its_own_made_from_its_context(make: Make) -> None:
    """Spec A-01, B-01, B-46."""
    registry = make()
    made: list[EngineContext] = []
    engines: list[RecordingEngine] = []

    async def factory(context: EngineContext) -> RecordingEngine:
        made.append(context)
        engines.append(RecordingEngine())
        return engines[-1]

    registry.register("mine", factory, owner="me")
    context = EngineContext(config={"a": 1}, workspace_dir="/w")
    async with registry.lease("mine", context) as first:
        assert first.engine.is_active
        await first.engine.assemble(ASK)
    async with registry.lease("mine", context):
        pass
    assert made == [context, context]
    assert [engine.operations for engine in engines] == [["assemble", "dispose"], ["dispose"]]


async def test_a_lease_that_fails_or_is_cancelled_disposes_too(make: Make) -> None:
    registry = make()
    engine = RecordingEngine()
    registry.register("mine", lambda c: engine, owner="me")
    with anyio.CancelScope() as scope:
        async with registry.lease("mine", CONTEXT):
            scope.cancel()
            await anyio.lowlevel.checkpoint()
    assert engine.operations == ["dispose"]
    engine.calls.clear()
    with pytest.raises(ValueError, match="mine"):
        async with registry.lease("mine", CONTEXT):
            raise ValueError("mine")
    assert engine.operations == ["dispose"]


@pytest.mark.parametrize(
    ("engine_id", "owner", "says"),
    [
        ("legacy", "somebody", "is reserved"),
        ("taken", "somebody", "'me' has registered"),
        ("taken", "me", "registered already"),
        (" ", "me", "is blank"),
    ],
)
async def test_a_registration_that_clashes_is_refused(
    engine_id: str, owner: str, says: str, make: Make
) -> None:
    """Spec B-02."""
    registry = make()
    registry.register("taken", window.create, owner="me")
    with pytest.raises(EngineContractError, match=says):
        registry.register(engine_id, window.create, owner=owner)


async def test_an_unknown_engine_is_an_error_by_name_and_a_notice_by_configuration(
    make: Make,
) -> None:
    """The bad-input list of issue 2; fault matrix: selected engine missing."""
    registry = make()
    registry.register("window", window.create, owner=CORE)
    with pytest.raises(EngineNotFound) as caught:
        await registry.resolve("windwo", CONTEXT, explicit=True)
    assert "Did you mean 'window'?" in caught.value.next_step
    resolution = await registry.resolve("windwo", CONTEXT)
    assert fault(resolution).operation == "resolve"
    assert "'windwo' does not serve" in resolution.notice


BAD_FACTORIES: dict[str, tuple[Any, str, str]] = {
    "raises": (lambda c: 1 / 0, "factory", "ZeroDivisionError"),
    "exits": (lambda c: exit(3), "factory", "SystemExit"),
    "none": (lambda c: None, "contract-validation", "the engine lacks"),
    "no engine": (lambda c: object(), "contract-validation", "'assemble'"),
    "wrong setting": (
        lambda c: window.create(EngineContext(config={"size": 0})),
        "factory",
        "'size' is 0",
    ),
}


@pytest.mark.parametrize(
    ("factory", "operation", "says"), BAD_FACTORIES.values(), ids=BAD_FACTORIES.keys()
)
async def test_a_bad_factory_is_quarantined_and_legacy_serves(
    factory: Any, operation: str, says: str, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """Spec B-03, B-40, B-41, B-47."""
    registry = make()
    registry.register("bad", factory, owner="me")
    caplog.set_level(logging.WARNING, logger="treadle")
    first = fault(await registry.resolve("bad", CONTEXT))
    assert (first.operation, first.owner, first.quarantined) == (operation, "me", True)
    assert says in first.reason
    again = await registry.resolve("bad", CONTEXT)
    assert fault(again) is first, "the first failure wins and the factory is not asked again"
    assert caplog.messages.count("context engine quarantined") == 1
    assert registry.list()[0].state == "quarantined"


async def test_a_factory_that_never_ends_is_quarantined_in_time(make: Make) -> None:
    async def sleeps(context: EngineContext) -> None:
        await anyio.sleep_forever()

    registry = make(Deadlines(engine_factory_s=0.2))
    registry.register("slow", sleeps, owner="me")  # type: ignore[arg-type] # wrong on purpose
    with anyio.fail_after(5):
        assert "no answer within" in fault(await registry.resolve("slow", CONTEXT)).reason


async def test_registering_anew_lifts_a_quarantine(make: Make) -> None:
    """Spec B-44; by command too (B-47)."""
    registry = make()
    registry.register("bad", lambda c: 1 / 0, owner="me")  # type: ignore[arg-type,return-value] # wrong on purpose
    await registry.resolve("bad", CONTEXT)
    registry.register("bad", lambda c: RecordingEngine(), owner="me", refresh=True)
    assert (await registry.resolve("bad", CONTEXT)).fault is None
    registry.register("worse", lambda c: None, owner="me")  # type: ignore[arg-type,return-value] # wrong on purpose
    await registry.resolve("worse", CONTEXT)
    assert registry.lift(registry.list()[-1].engine_id)
    assert not registry.lift(registry.list()[-1].engine_id)
    assert registry.list()[-1].state == "ready"


async def failing_run(registry: EngineRegistry) -> Resolution:
    async with registry.lease("shaky", CONTEXT) as resolution:
        if resolution.fault is None:
            for _ in range(2):
                with pytest.raises(EngineError):
                    await resolution.engine.assemble(ASK)
    return resolution


async def test_three_failing_runs_in_a_row_quarantine_from_the_next_run_on(make: Make) -> None:
    """Spec B-47: never within the run, and a good run starts the count anew."""
    registry = make()
    fails = True
    registry.register(
        "shaky",
        lambda c: BreakingEngine("throws", on="assemble" if fails else "nothing"),
        owner="me",
    )
    for _ in range(2):
        assert (await failing_run(registry)).fault is None
    assert registry.list()[-1].failing_runs == 2
    fails = False
    async with registry.lease("shaky", CONTEXT) as good:
        await good.engine.assemble(ASK)
    assert registry.list()[-1].failing_runs == 0
    fails = True
    for _ in range(3):
        assert (await failing_run(registry)).fault is None
    quarantined = fault(await failing_run(registry))
    assert quarantined.operation == "assemble"
    assert "3 failing runs in a row" in quarantined.reason
    assert "abcdef123456" not in quarantined.reason, "redacted (T-08)"


async def test_a_disabled_owner_keeps_the_slot_and_runs_legacy_quietly(make: Make) -> None:
    """Spec B-05."""
    registry = make(disabled_owners=["me"])
    registry.register("mine", lambda c: RecordingEngine(), owner="me")
    resolution = await registry.resolve("mine", CONTEXT)
    assert (resolution.selected_id, resolution.engine.info.id) == ("mine", "legacy")
    assert resolution.notice == ""
    assert [one.state for one in registry.list()] == ["ready", "disabled"]


async def test_an_engine_for_discovery_only_is_replaced_without_quarantine(make: Make) -> None:
    """Spec B-06."""
    registry = make()
    registry.register("seen", lambda c: RecordingEngine(), owner="me", discovery_only=True)
    assert not fault(await registry.resolve("seen", CONTEXT)).quarantined
    assert registry.list()[-1].state == "discovery-only"


async def test_a_missing_capability_fails_the_operation_and_nothing_else(make: Make) -> None:
    """Spec B-25, B-27."""
    needs = HostRequirement(
        required_capabilities=frozenset({"maintain", "thread-bootstrap-projection"}),
        unsupported_message="Use the codex runtime.",
    )
    registry = make()
    registry.register(
        "picky",
        lambda c: RecordingEngine(
            info=EngineInfo(id="picky", name="P", host_requirements={"agent-run": needs})
        ),
        owner="me",
    )
    with pytest.raises(HostCapabilityMissing) as caught:
        await registry.resolve("picky", CONTEXT, offered={"maintain"}, host="built-in")
    for part in (
        "'picky'",
        "'agent-run'",
        "'built-in'",
        "missing thread-bootstrap-projection;",
        "required maintain, thread-bootstrap-projection;",
        "offered maintain.",
        "Use the codex runtime.",
    ):
        assert part in caught.value.message
    assert registry.list()[-1].state == "ready"
    everything = {"maintain", "thread-bootstrap-projection"}
    assert (await registry.resolve("picky", CONTEXT, offered=everything)).fault is None  # type: ignore[arg-type] # literals
    other = await registry.resolve("picky", CONTEXT, offered=(), operation="manual-compact")
    assert other.fault is None


async def test_tools_of_an_engine_are_asked_for_once_and_a_failure_costs_only_them(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """Decision 13."""
    dice = DynamicTool(
        name="dice", description="d", input_schema={"type": "object"}, call=lambda c: "4"
    )

    class Broken(RecordingEngine):
        def tools(self) -> Any:
            raise RuntimeError("no tools today")

    class Odd(RecordingEngine):
        def tools(self) -> Any:
            return 7

    registry = make()
    registry.register("good", lambda c: RecordingEngine(offered_tools=(dice,)), owner="me")
    registry.register("broken", lambda c: Broken(), owner="me")
    registry.register("odd", lambda c: Odd(), owner="me")
    assert (await registry.resolve("good", CONTEXT)).engine.tools() == (dice,)
    for engine_id in ("broken", "odd"):
        resolution = await registry.resolve(engine_id, CONTEXT)
        assert (resolution.fault, resolution.engine.tools()) == (None, ())
    assert caplog.messages.count("dynamic tool quarantined") == 2


async def test_entry_points_are_found_without_importing_and_a_broken_one_is_named(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """The bad-input list of issue 2: an entry point that fails to import."""
    registry = make()
    registry.discover([
        point("window", "treadle.engines.window:create"),
        point("broken", "no.such.package:create"),
        point("no_factory", "treadle.engines.window:DEFAULT_SIZE"),
        point("legacy", "evil.package:create"),
        point("window", "other.package:create"),
    ])
    assert {one.engine_id: one.state for one in registry.list()} == {
        "broken": "ready",
        "legacy": "ready",
        "no_factory": "ready",
        "window": "ready",
    }
    assert [(one.engine_id, one.operation) for one in registry.refused] == [
        ("legacy", "register"),
        ("window", "register"),
    ]
    assert "No module named 'no'" in fault(await registry.resolve("broken", CONTEXT)).reason
    checked = {one.engine_id: one.state for one in await registry.check()}
    assert checked == {
        "broken": "quarantined",
        "legacy": "ready",
        "no_factory": "quarantined",
        "window": "quarantined",
    }, "of two that claim `window` the first by owner is kept, and it cannot be imported"
    assert "plugin could not be loaded" in caplog.messages


async def test_the_installed_entry_points_are_of_the_core(make: Make) -> None:
    registry = make()
    await anyio.to_thread.run_sync(registry.discover)
    listed = {str(one.engine_id): one for one in await registry.check()}
    assert listed["window"].owner == CORE
    assert listed["legacy"].owner == CORE
    assert all(one.state == "ready" for one in listed.values())
    async with registry.lease("window", EngineContext(config={"size": 5})) as resolution:
        assert resolution.engine.info.owns_compaction
