"""A native thread that another process writes, or that was deleted behind Treadle's back."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from anyio import fail_after

from tests.process.children_rig import child_of, treadle_saying
from tests.process.faults_rig import (
    World,
    command,
    say,
    times_said,
    transcript,
    user_texts,
)
from treadle.model.message import EntryKind
from treadle.model.turn import Outcome
from treadle.testing.bare import BareCodex
from treadle.testing.model import ScriptedModel, call, gate, reply, text
from treadle.testing.provider import provider_config

pytestmark = [pytest.mark.anyio, pytest.mark.codex]


@asynccontextmanager
async def other_codex(world: World, binary: Path) -> AsyncIterator[BareCodex]:
    """Start a codex of the person's own in the same home."""
    home = world.state / "agents" / "main" / "codex"
    async with BareCodex(binary, home, cwd=world.work) as app:
        await app.initialize()
        yield app


async def first_turn(world: World, model: ScriptedModel) -> str:
    """Run a turn and return its thread."""
    model.enqueue("one")
    async with world.runtime() as runtime:
        ran = await say(runtime.session("s", cwd=world.work), "FIRST")
    assert ran.end.outcome is Outcome.COMPLETED
    thread_id = model.requests[-1].thread_id
    assert thread_id is not None
    return thread_id


@pytest.mark.parametrize("is_held", [False, True], ids=["running", "held by SIGSTOP"])
async def test_a_thread_that_a_codex_of_the_person_writes_is_neither_lost_nor_left(
    codex_binary: Path, scratch: Path, is_held: bool
) -> None:
    """F7, INV-20, INV-19: the run fails visibly, the other codex lives; later it goes on there."""
    async with ScriptedModel() as model:
        world = World(root=scratch, base_url=model.base_url, more=command(codex_binary))
        thread_id = await first_turn(world, model)
        async with other_codex(world, codex_binary) as other:
            config = provider_config(model.base_url)
            await other.request("thread/resume", {"threadId": thread_id, "config": config})
            pid = child_of(os.getpid())
            if is_held:
                os.kill(pid, signal.SIGSTOP)
            async with world.runtime(more={("deadlines", "threadBusySeconds"): 0.3}) as runtime:
                ran = await say(runtime.session("s", cwd=world.work), "SECOND")
            assert (ran.end.outcome, ran.error_code) == (Outcome.FAILED, "codex.thread_busy")
            assert "another process writes this thread" in ran.advice
            assert len(model.requests) == 1
            os.kill(pid, signal.SIGCONT)
            assert (await other.request("model/list", {}))["data"]
        model.enqueue("three")
        async with world.runtime() as runtime:
            ran = await say(runtime.session("s", cwd=world.work), "THIRD")
            assert (ran.end.outcome, ran.end.text) == (Outcome.COMPLETED, "three")
        assert {request.thread_id for request in model.requests} == {thread_id}
        assert not world.logged("thread.rotated")
        assert not world.logged("binding.cleared")


async def test_a_deleted_thread_is_replaced_at_the_next_turn_with_the_same_model(
    codex_binary: Path, scratch: Path
) -> None:
    """Spec S-15, F-19: the fresh one is given what was said."""
    async with ScriptedModel() as model:
        world = World(root=scratch, base_url=model.base_url, more=command(codex_binary))
        thread_id = await first_turn(world, model)
        async with other_codex(world, codex_binary) as other:
            await other.request("thread/delete", {"threadId": thread_id})
        model.enqueue("two", "three")
        async with world.runtime() as runtime:
            session = runtime.session("s", cwd=world.work)
            ran = await say(session, "SECOND")
            again = await say(session, "THIRD")
        assert [one.end.outcome for one in (ran, again)] == [Outcome.COMPLETED] * 2
        fresh = {request.thread_id for request in model.requests[1:]}
        assert len(fresh) == 1
        assert fresh != {thread_id}
        assert {str(request.fields["model"]) for request in model.requests} == {"scripted-1"}
        last = model.requests[-1]
        assert [times_said(last, mark) for mark in ("FIRST", "SECOND", "THIRD")] == [1, 1, 1]


async def test_an_uncertain_turn_on_a_deleted_thread_is_not_sent_again(
    codex_binary: Path, scratch: Path
) -> None:
    """Spec S-15, INV-9: what it did stays unknown, and is said to be so."""
    held = gate()
    async with ScriptedModel() as model:
        world = World(root=scratch, base_url=model.base_url, more=command(codex_binary))
        thread_id = await first_turn(world, model)
        model.enqueue(reply(call("exec_command", {"cmd": "echo done"})), reply(text("so"), held))
        async with treadle_saying(world, "SECOND"):
            with fail_after(60):
                await held.reached.wait()
        async with other_codex(world, codex_binary) as other:
            await other.request("thread/delete", {"threadId": thread_id})
        asked = len(model.requests)
        model.enqueue("three")
        async with world.runtime() as runtime:
            session = runtime.session("s", cwd=world.work)
            ran = await say(session, "THIRD")
            said = await transcript(session)
            notices = [one for one in await session.entries() if one.kind is EntryKind.NOTICE]
        assert [one.meta.get("notice") for one in notices] == ["unknown"]
        assert (ran.end.outcome, ran.end.text) == (Outcome.COMPLETED, "three")
        assert user_texts(said) == ["FIRST", "SECOND", "THIRD"]
        assert len(model.requests) == asked + 1
        [last] = model.requests[asked:]
        assert last.thread_id != thread_id
        assert [times_said(last, mark) for mark in ("FIRST", "SECOND", "THIRD")] == [1, 1, 1]
        model.check()
