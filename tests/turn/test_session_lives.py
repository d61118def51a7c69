"""What becomes of whole sessions, over a whole Treadle with a scripted app-server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from tests.turn.rig import Rig
from treadle.contract.session_calls import SessionEndedParams
from treadle.model.errors import InvalidCut, NotFound, SessionBusy, SessionExists, UsageError
from treadle.model.ids import AgentId
from treadle.model.message import text_of
from treadle.model.turn import Outcome, TurnStarted
from treadle.runtime.sessions import Session
from treadle.testing.engine import BreakingEngine, Fault, RecordingEngine

pytestmark = pytest.mark.anyio

SILENT: list[dict[str, Any]] = [
    {"answer": {"turn": {"id": "$turn", "items": [], "status": "inProgress", "error": None}}},
    {
        "tell": {
            "method": "turn/started",
            "params": {"threadId": "$thread", "turn": {"id": "$turn"}},
        }
    },
]
"""A turn that is taken and does not end."""


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(root=tmp_path)


async def said(session: Session) -> list[str]:
    return [text_of(entry.message) for entry in await session.entries()]


CHANGES = {
    "reset": lambda session: session.reset(),
    "rewind": lambda session: session.rewind(1),
    "branch": lambda session: session.branch(),
    "delete": lambda session: session.delete(),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_a_session_with_a_run_is_not_changed_as_a_whole(rig: Rig, change: str) -> None:
    """Ours; design of the terminal: refused by its state, exit 5."""
    async with rig.opened() as runtime:
        session = runtime.session("s")
        rig.answers("one")
        await rig.say(session, "first")
        rig.codex.once("turn/start", SILENT)
        run = session.run("second")
        async for event in run:
            if isinstance(event, TurnStarted):
                break
        before = await session.record()
        with pytest.raises(SessionBusy) as refused:
            await CHANGES[change](session)
        assert refused.value.fields["unfinished"] == 1
        assert await session.record() == before
        run.interrupt()


@pytest.mark.parametrize("change", CHANGES)
async def test_a_session_may_be_changed_as_soon_as_its_run_is_over(rig: Rig, change: str) -> None:
    """Ours: also while the run still gives its lane back."""
    async with rig.opened() as runtime:
        session = runtime.session("s")
        rig.answers("one")
        finished = await session.run("first").result()
        assert finished.outcome is Outcome.COMPLETED
        await CHANGES[change](session)


async def test_a_message_that_comes_meanwhile_is_said_in_the_new_generation(rig: Rig) -> None:
    """Spec A-14: it waits for the lane, and is lost to neither."""
    async with rig.opened() as runtime:
        session = runtime.session("s")
        rig.answers("one", "two")
        await rig.say(session, "first")
        async with anyio.create_task_group() as group:
            group.start_soon(session.reset)
            await anyio.lowlevel.checkpoint()
            run = session.run("second")
        finished = await run.result()
        assert finished.outcome is Outcome.COMPLETED
        record = await session.record()
        assert record is not None
        assert (record.generation, await said(session)) == (2, ["second", "two"])


async def test_after_a_reset_the_next_turn_starts_a_thread(rig: Rig) -> None:
    """Spec U-01, U-03."""
    async with rig.opened() as runtime:
        session = runtime.session("s")
        rig.answers("one", "two")
        await rig.say(session, "first")
        old = await session.record()
        assert old is not None
        fresh = await session.reset()
        assert await runtime.store.bindings.get(old.id) is None
        await rig.say(session, "second")
        bound = await runtime.store.bindings.get(fresh.id)
        assert bound is not None
        assert bound.thread_id == "thread-2"
    assert rig.methods().count("thread/start") == 2
    assert rig.sent() == ["first", "second"]


# --------------------------------------------------------------------------------------- engines


def about_sessions(engine: RecordingEngine) -> list[tuple[str, str, str, str | None]]:
    """Return what an engine was told of whole sessions: call, generation, reason, the next one."""
    told = [call.params for call in engine.calls if isinstance(call.params, SessionEndedParams)]
    return [
        ("on_session_ended", str(one.session_id), one.reason, one.next_session_id) for one in told
    ]


async def test_an_engine_is_told_which_generation_is_over_and_which_one_follows(rig: Rig) -> None:
    """Spec U-02, U-08: by calls that name no harness and stand behind the change."""
    engine = RecordingEngine()
    async with rig.opened(engine) as runtime:
        session = runtime.session("s")
        rig.answers("one", "two")
        await rig.say(session, "first")
        ids = [await generation(session)]
        await rig.say(session, "second")
        await session.rewind(1)
        ids.append(await generation(session))
        await session.reset()
        ids.append(await generation(session))
        await session.branch()
        await session.rename("a title")
        await session.delete()
    first, second, third = ids
    assert about_sessions(engine) == [
        ("on_session_ended", first, "rewound", second),
        ("on_session_ended", second, "reset", third),
        ("on_session_ended", third, "deleted", None),
    ]
    for call in engine.calls:
        if isinstance(call.params, SessionEndedParams):
            assert call.params.session_key == "agent:main:s"
            assert call.params.runtime_settings is not None
            assert call.params.runtime_settings["executionHost"] == {"id": None, "label": None}
    at = [n for n, call in enumerate(engine.calls) if call.operation == "on_session_ended"]
    assert [engine.calls[n + 1].operation for n in at] == ["dispose"] * 3


async def test_after_a_rewind_the_engine_bootstraps_the_new_generation_with_what_is_kept(
    rig: Rig,
) -> None:
    """Spec B-08, C-04."""
    engine = RecordingEngine()
    async with rig.opened(engine) as runtime:
        session = runtime.session("s")
        rig.answers("one", "two", "three")
        await rig.say(session, "first")
        await rig.say(session, "second")
        await session.rewind(1)
        engine.calls.clear()
        await rig.say(session, "third")
        ours = await generation(session)
    [bootstrap] = [call for call in engine.calls if call.operation == "bootstrap"]
    assert [text_of(one) for one in bootstrap.messages] == ["first", "one"]
    assert bootstrap.params is not None
    assert bootstrap.params.session_id == ours


@pytest.mark.parametrize("fault", ["throws", "sleeps", "swallows-cancellation"])
async def test_an_engine_that_fails_there_changes_nothing_of_it(rig: Rig, fault: Fault) -> None:
    """INV-16: the session is reset, the failure is one warning, and the engine goes on."""
    engine = BreakingEngine(fault, on="on_session_ended")
    rig.keys[("deadlines", "engineCallSeconds")] = 0.2
    async with rig.opened(engine) as runtime:
        session = runtime.session("s")
        rig.answers("one", "two")
        await rig.say(session, "first")
        fresh = await session.reset()
        assert fresh.generation == 2
        assert (await rig.say(session, "second")).finished.outcome is Outcome.COMPLETED
        engine.let_go()
    [warned] = rig.logged("engine.session_call_failed")
    assert warned["operation"] == "on_session_ended"
    assert engine.counted["assemble"] == 2


async def test_a_session_whose_folder_is_gone_can_still_be_reset(rig: Rig, tmp_path: Path) -> None:
    """Ours: what cannot be told is logged."""
    folder = tmp_path / "gone"
    folder.mkdir()
    async with rig.opened(RecordingEngine()) as runtime:
        session = runtime.session("s")
        await runtime.store.sessions.open(
            session.key, agent_id=AgentId("main"), owner="local", cwd=str(folder)
        )
        rig.answers("one")
        await rig.say(session, "first")
        folder.rmdir()
        assert (await runtime.session("s").reset()).generation == 2
    assert rig.logged("engine.fell_back")


async def test_the_thread_of_an_ended_generation_is_archived(rig: Rig) -> None:
    """Spec U-01; decision 8."""
    async with rig.opened() as runtime:
        session = runtime.session("s")
        rig.answers("one")
        await rig.say(session, "first")
        await session.reset()
    assert rig.codex.requests("thread/archive") == [{"threadId": "thread-1"}]


async def generation(session: Session) -> str:
    record = await session.record()
    assert record is not None
    return record.id


async def test_a_branch_gets_a_free_name_or_the_one_that_was_asked_for(rig: Rig) -> None:
    async with rig.opened() as runtime:
        session = runtime.session("s")
        rig.answers("one")
        await rig.say(session, "first")
        names = [(await session.branch()).name.name for _ in range(2)]
        assert names == ["s-2", "s-3"]
        named = await session.branch("aside", at=1)
        assert named.key == "agent:main:aside"
        assert await said(named) == ["first", "one"]
        with pytest.raises(SessionExists):
            await session.branch("s-2")
        with pytest.raises(UsageError):
            await session.branch("no name: ?")
        with pytest.raises(InvalidCut):
            await session.branch(at=0)


async def test_a_title_is_changed_and_an_empty_one_refused(rig: Rig) -> None:
    async with rig.opened() as runtime:
        session = runtime.session("s")
        rig.answers("one")
        await rig.say(session, "first")
        assert (await session.rename("  A new\n title ")).title == "A new title"
        with pytest.raises(UsageError):
            await session.rename(" \n")
        with pytest.raises(NotFound):
            await runtime.session("nobody").rename("x")


@pytest.mark.parametrize("change", CHANGES)
async def test_an_unknown_session_is_told(rig: Rig, change: str) -> None:
    async with rig.opened() as runtime:
        with pytest.raises(NotFound):
            await CHANGES[change](runtime.session("nobody"))
        assert await runtime.sessions() == ()
