"""What becomes of whole sessions, over a whole Treadle with a scripted app-server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from tests.turn.rig import Rig
from treadle.model.errors import InvalidCut, NotFound, SessionBusy, SessionExists, UsageError
from treadle.model.message import text_of
from treadle.model.turn import Outcome, TurnStarted
from treadle.runtime.sessions import Session

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
