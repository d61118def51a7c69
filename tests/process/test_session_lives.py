"""After a rewind, a reset or a branch the real Codex is given exactly what was kept."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.process.rig import CALLS, PLAIN, Rig, all_entries, bare, echo_tool, rig_over_model
from treadle.model.message import text_of
from treadle.testing.model import reply

pytestmark = [pytest.mark.anyio, pytest.mark.codex]

ENGINES = ["legacy", "window"]


@pytest.fixture
async def rig(scratch: Path, codex_binary: Path) -> AsyncIterator[Rig]:
    async with rig_over_model(scratch, codex_binary) as opened:
        yield opened


@pytest.mark.parametrize("engine", ENGINES)
async def test_after_a_rewind_the_model_sees_exactly_what_was_kept(rig: Rig, engine: str) -> None:
    """Spec U-04: a fresh thread with the real items of the turns that were kept, tools included."""
    async with rig.opened(engine=engine, tools=[echo_tool()]) as runtime:
        session = rig.session(runtime)
        first = await rig.turn(session, "SAID-1", reply(CALLS[PLAIN][0]), "ANSWER-1")
        kept = await all_entries(session)
        second = await rig.turn(session, "SAID-2", "ANSWER-2")
        await rig.turn(session, "SAID-3", "ANSWER-3")

        turned = await session.rewind(kept[-1].id)

        assert turned.left_behind == 4
        assert await all_entries(session) == kept
        again = await rig.turn(session, "SAID-4", "ANSWER-4")
        assert again.thread_id != first.thread_id
        assert bare(again.input)[:-1] == bare(second.input)[:-1]
        said = [text_of(one.message) for one in await all_entries(session)]
        assert [text for text in said if text] == [
            text_of(one.message) for one in kept if text_of(one.message)
        ] + ["SAID-4", "ANSWER-4"]
        after = await rig.turn(session, "SAID-5", "ANSWER-5")
        assert after.thread_id == again.thread_id
        assert after.input[: len(again.input)] == again.input


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_branch_begins_with_what_it_shares_and_the_first_session_goes_on(
    rig: Rig, engine: str
) -> None:
    """Ours: two threads, one beginning."""
    async with rig.opened(engine=engine) as runtime:
        session = rig.session(runtime)
        await rig.turn(session, "SAID-1", "ANSWER-1")
        second = await rig.turn(session, "SAID-2", "ANSWER-2")
        aside = await session.branch(at=1)
        there = await rig.turn(aside, "THERE", "ANSWER-THERE")
        here = await rig.turn(session, "HERE", "ANSWER-HERE")
        assert bare(there.input)[:-1] == bare(second.input)[:-1]
        assert there.thread_id != second.thread_id == here.thread_id
        assert here.input[: len(second.input)] == second.input
        assert "THERE" not in str(here.input)


async def test_after_a_reset_the_model_sees_nothing_of_what_was_said(rig: Rig) -> None:
    """Spec U-01, U-03; in a new process too."""
    async with rig.opened() as runtime:
        session = rig.session(runtime)
        first = await rig.turn(session, "SAID-1", "ANSWER-1")
        await session.reset()
    async with rig.opened() as runtime:
        session = rig.session(runtime)
        fresh = await rig.turn(session, "SAID-2", "ANSWER-2")
        assert fresh.thread_id != first.thread_id
        assert "SAID-1" not in str(fresh.input)
        assert "ANSWER-1" not in str(fresh.input)
