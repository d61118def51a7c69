"""Child sessions over a whole Treadle: prepared, begun or undone once, ended once."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from tests.turn.rig import Rig
from treadle.contract.engine import EngineInfo, HostRequirement
from treadle.contract.session_calls import (
    SubagentContext,
    SubagentEndedParams,
    SubagentSpawnParams,
)
from treadle.contract.store import SessionRecord
from treadle.model.errors import (
    EngineError,
    EngineTimeout,
    HostCapabilityMissing,
    MessageTooLarge,
    NotFound,
    UsageError,
)
from treadle.model.message import text_of
from treadle.model.turn import Outcome
from treadle.runtime.handle import RunHandle
from treadle.runtime.requests import MAX_PROMPT_CHARS
from treadle.runtime.service import Runtime
from treadle.runtime.sessions import Session
from treadle.runtime.subagents import SpawnRequest
from treadle.testing.clock import ManualClock
from treadle.testing.engine import RECORDING_INFO, BreakingEngine, RecordingEngine

pytestmark = pytest.mark.anyio

OF_CHILDREN = ("prepare_subagent_spawn", "rollback", "on_subagent_ended")


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(root=tmp_path)


async def parent_of(rig: Rig, runtime: Runtime) -> Session:
    session = runtime.session("parent")
    rig.answers("one")
    await rig.say(session, "first")
    return session


def told(engine: RecordingEngine) -> list[str]:
    """Return the calls about children, in order, each end with its reason."""
    return [
        f"{call.operation} {call.params.reason}"
        if isinstance(call.params, SubagentEndedParams)
        else call.operation
        for call in engine.calls
        if call.operation in OF_CHILDREN
    ]


@pytest.mark.parametrize("mode", ["isolated", "fork"])
async def test_a_child_is_prepared_by_its_parents_engine_and_takes_its_first_message(
    rig: Rig, mode: SubagentContext
) -> None:
    """Spec B-20."""
    engine = RecordingEngine()
    async with rig.opened(engine) as runtime:
        parent = await parent_of(rig, runtime)
        rig.answers("done")
        child = await runtime.spawn_child(parent, "task", context_mode=mode, ttl_s=60)
        assert child.run is not None
        with anyio.fail_after(5):
            assert (await child.run.result()).outcome is Outcome.COMPLETED
        said = [text_of(entry.message) for entry in await child.session.entries()]
        record = await parent.record()
        assert record is not None
        assert record.entry_count == 2
    assert child.session.key.startswith("agent:main:sub:")
    assert said == (["first", "one"] if mode == "fork" else []) + ["task", "done"]
    [params] = [c.params for c in engine.calls if isinstance(c.params, SubagentSpawnParams)]
    assert params.parent_session_key == "agent:main:parent"
    assert params.child_session_key == child.session.key
    assert (params.context_mode, params.ttl_ms, params.session_id) == (mode, 60_000, record.id)
    assert told(engine) == ["prepare_subagent_spawn"]


@pytest.mark.parametrize(
    ("mode", "lightweight", "asked"),
    [("isolated", True, 0), ("isolated", False, 1), ("fork", True, 1), ("fork", False, 1)],
)
async def test_only_a_lightweight_isolated_child_is_prepared_by_no_engine(
    rig: Rig, mode: SubagentContext, lightweight: bool, asked: int
) -> None:
    """Spec B-20."""
    engine = RecordingEngine()
    async with rig.opened(engine) as runtime:
        parent = await parent_of(rig, runtime)
        await runtime.spawn_child(parent, context_mode=mode, lightweight=lightweight)
    assert told(engine) == ["prepare_subagent_spawn"] * asked


async def test_a_spawn_that_fails_after_its_preparation_is_undone_once(rig: Rig) -> None:
    """Spec B-20: also no session is left behind."""
    engine = RecordingEngine()
    async with rig.opened(engine) as runtime:
        parent = await parent_of(rig, runtime)
        with pytest.raises(MessageTooLarge):
            await runtime.spawn_child(parent, "x" * (MAX_PROMPT_CHARS + 1))
        assert [one.key for one in await runtime.sessions()] == [parent.key]
        assert await runtime.store.subagents.of(parent.key) == ()
    assert told(engine) == ["prepare_subagent_spawn", "rollback"]


async def test_a_spawn_that_is_cancelled_is_undone_once(rig: Rig) -> None:
    """Spec B-20: whatever ends it after the preparation."""
    engine = RecordingEngine()
    async with rig.opened(engine) as runtime:
        parent = await parent_of(rig, runtime)

        async def cancelled(made: SessionRecord) -> RunHandle:
            assert await runtime.store.sessions.get(made.key) == made
            scope.cancel()
            await anyio.sleep_forever()
            raise AssertionError

        with anyio.CancelScope() as scope:
            await runtime.subagents.spawn(parent.name, SpawnRequest(), cancelled)
        assert scope.cancelled_caught
        assert await runtime.store.subagents.of(parent.key) == ()
        assert [one.key for one in await runtime.sessions()] == [parent.key]
    assert told(engine) == ["prepare_subagent_spawn", "rollback"]


async def test_an_engine_that_was_not_waited_for_is_told_that_the_child_is_over(rig: Rig) -> None:
    """Spec B-20, B-21: it may have prepared something that nobody can roll back."""
    rig.keys[("deadlines", "engineCallSeconds")] = 0.2
    slow = BreakingEngine("sleeps", on="prepare_subagent_spawn")
    async with rig.opened(slow) as runtime:
        parent = await parent_of(rig, runtime)
        with pytest.raises(EngineTimeout):
            await runtime.spawn_child(parent, "task")
        slow.let_go()
    engine = RecordingEngine()
    async with rig.opened(engine) as runtime:
        await settled(runtime)
    assert told(engine) == ["on_subagent_ended swept"]


async def test_a_rollback_that_fails_leaves_no_child_either(rig: Rig) -> None:
    """INV-16."""
    engine = BreakingEngine("throws", on="rollback")
    async with rig.opened(engine) as runtime:
        parent = await parent_of(rig, runtime)
        with pytest.raises(MessageTooLarge):
            await runtime.spawn_child(parent, "x" * (MAX_PROMPT_CHARS + 1))
        assert await runtime.store.subagents.of(parent.key) == ()
    assert engine.counted["rollback"] == 1
    [failed] = rig.logged("plugin.failed")
    assert failed["operation"] == "rollback"


@pytest.mark.parametrize(("fault", "error"), [("throws", EngineError), ("sleeps", EngineTimeout)])
async def test_a_child_that_cannot_be_prepared_does_not_begin(
    rig: Rig, fault: str, error: type[EngineError]
) -> None:
    """Spec B-41: the failure is the caller's."""
    rig.keys[("deadlines", "engineCallSeconds")] = 0.2
    engine = BreakingEngine(fault, on="prepare_subagent_spawn")  # type: ignore[arg-type] # a Fault
    async with rig.opened(engine) as runtime:
        parent = await parent_of(rig, runtime)
        with pytest.raises(error):
            await runtime.spawn_child(parent, "task")
        assert [one.key for one in await runtime.sessions()] == [parent.key]
        engine.let_go()


async def test_an_engine_that_prepares_nothing_needs_no_way_back(rig: Rig) -> None:
    """Spec B-20: `undefined`."""
    engine = BreakingEngine("none", on="prepare_subagent_spawn")
    async with rig.opened(engine) as runtime:
        parent = await parent_of(rig, runtime)
        with pytest.raises(MessageTooLarge):
            await runtime.spawn_child(parent, "x" * (MAX_PROMPT_CHARS + 1))
    assert engine.counted["rollback"] == 0


async def test_an_engine_may_need_what_this_host_lacks_for_children(rig: Rig) -> None:
    """Spec B-25, B-27."""
    needs = HostRequirement(required_capabilities=frozenset({"runtime-llm-complete"}))
    info = EngineInfo(
        id=RECORDING_INFO.id, name="Needy", host_requirements={"subagent-spawn": needs}
    )
    async with rig.opened(RecordingEngine(info=info)) as runtime:
        parent = await parent_of(rig, runtime)
        with pytest.raises(HostCapabilityMissing):
            await runtime.spawn_child(parent, "task")


async def test_a_child_needs_a_parent_and_some_time(rig: Rig) -> None:
    async with rig.opened() as runtime:
        with pytest.raises(NotFound):
            await runtime.spawn_child(runtime.session("nobody"), "task")
        parent = await parent_of(rig, runtime)
        with pytest.raises(UsageError):
            await runtime.spawn_child(parent, "task", ttl_s=0)


@pytest.mark.parametrize("reason", ["completed", "released"])
async def test_an_engine_is_told_once_that_a_child_is_over(rig: Rig, reason: str) -> None:
    """Spec B-21."""
    engine = RecordingEngine()
    async with rig.opened(engine) as runtime:
        parent = await parent_of(rig, runtime)
        child = (await runtime.spawn_child(parent)).session
        await runtime.end_child(child, reason)  # type: ignore[arg-type] # one of the two
        with pytest.raises(NotFound):
            await runtime.end_child(child)
        assert await child.record() is not None
    assert told(engine) == ["prepare_subagent_spawn", f"on_subagent_ended {reason}"]
    [params] = [c.params for c in engine.calls if isinstance(c.params, SubagentEndedParams)]
    assert params.child_session_key == child.key == params.session_key


async def test_a_deleted_child_and_those_of_a_deleted_parent_are_over(rig: Rig) -> None:
    """Spec B-21, U-08."""
    engine = RecordingEngine()
    async with rig.opened(engine) as runtime:
        parent = await parent_of(rig, runtime)
        first = (await runtime.spawn_child(parent)).session
        await runtime.spawn_child(parent)
        await first.delete()
        assert told(engine)[2:] == ["on_subagent_ended deleted"]
        await parent.delete()
    assert told(engine)[2:] == ["on_subagent_ended deleted", "on_subagent_ended released"]


async def test_a_child_that_outlived_its_time_is_swept_at_the_next_start(rig: Rig) -> None:
    """Spec B-21."""
    clock, engine = ManualClock(), RecordingEngine()
    async with rig.opened(engine, clock=clock) as runtime:
        parent = await parent_of(rig, runtime)
        short = (await runtime.spawn_child(parent, ttl_s=10)).session
        await runtime.spawn_child(parent, ttl_s=100)
    clock.advance(50)
    for _ in range(2):
        async with rig.opened(engine, clock=clock) as runtime:
            await settled(runtime)
    assert told(engine) == ["prepare_subagent_spawn"] * 2 + ["on_subagent_ended swept"]
    [params] = [c.params for c in engine.calls if isinstance(c.params, SubagentEndedParams)]
    assert params.child_session_key == short.key


async def test_a_child_whose_spawn_was_cut_off_is_swept(rig: Rig) -> None:
    """Spec B-21: its engine hears of it, since nobody else can undo what it prepared."""
    engine = RecordingEngine()
    async with rig.opened(engine) as runtime:
        parent = await parent_of(rig, runtime)
        begun = (await runtime.spawn_child(parent)).session
        child = await runtime.store.subagents.get(begun.key)
        assert child is not None
        await runtime.store.subagents.abandon(begun.key)
        await runtime.store.subagents.prepare(child)  # as it stood before it began
    engine.calls.clear()
    async with rig.opened(engine) as runtime:
        await settled(runtime)
    assert told(engine) == ["on_subagent_ended swept"]


async def settled(runtime: Runtime) -> None:
    """Wait until the start has told of all children that are over."""
    with anyio.fail_after(5):
        while await runtime.store.subagents.ending():
            pass
