"""The real codex, its commands, and a Treadle or a codex that is killed: nothing of it runs on."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from anyio import create_task_group, fail_after
from anyio.lowlevel import checkpoint

from tests.process.children_rig import (
    Pipe,
    Unsandboxed,
    child_of,
    pipe,
    runs,
    state_of,
    treadle_saying,
    unsandboxed,
)
from tests.process.faults_rig import World, command, say, times_said, transcript, user_texts
from tests.process.rig import CODE_MODE, PLAIN, Rig, assert_grows
from treadle.contract.children import Closed
from treadle.model.turn import Outcome
from treadle.testing.model import Answer, ScriptedModel, call, custom_call, gate, reply

pytestmark = [pytest.mark.anyio, pytest.mark.codex]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A Treadle whose commands run without a sandbox, and the pipe through which they speak."""

    world: World
    model: ScriptedModel
    codex: Unsandboxed
    pipe: Pipe
    started: list[int]
    """What must not outlive the test, whatever becomes of it."""

    def lasting(self) -> Answer:
        """Let the model start two commands that last, one of them in a session of its own."""
        idle = "exec sleep 100000"
        own = f"setsid sh -c 'echo $PPID $$ > {self.pipe.path}; {idle}' < /dev/null"
        cmd = f"{own} > /dev/null 2>&1 & {idle}"
        return reply(call("exec_command", {"cmd": cmd, "yield_time_ms": 250}))

    async def commands(self) -> list[int]:
        """Wait for these commands."""
        with fail_after(60):
            found = [int(pid) for pid in (await self.pipe.read()).split()]
        self.started.extend(found)
        return found


@pytest.fixture
async def scene(scratch: Path, codex_binary: Path) -> AsyncIterator[Scene]:
    codex = unsandboxed(scratch, codex_binary)
    async with ScriptedModel() as model:
        world = World(root=scratch, base_url=model.base_url, more=command(codex.path))
        found = Scene(world=world, model=model, codex=codex, pipe=pipe(scratch), started=[])
        yield found
    for pid in found.started:
        if runs(pid):
            os.kill(pid, signal.SIGKILL)


async def test_after_a_clean_end_no_command_runs_on(scene: Scene) -> None:
    """Spec S-11, F8: not even one in a session of its own; the turn had ended long before."""
    scene.model.enqueue(scene.lasting(), "started")
    async with scene.world.runtime() as runtime, create_task_group() as group:
        group.start_soon(say, runtime.session("s", cwd=scene.world.work), "FIRST")
        commands = await scene.commands()
        assert all(runs(pid) for pid in commands)
    assert not any(runs(pid) for pid in commands)


async def test_commands_of_a_killed_codex_are_stopped_before_it_is_started_again(
    scene: Scene,
) -> None:
    """Fault matrix, SIGKILL of codex; INV-9: what the turn did is not done again."""
    held = gate()
    scene.model.enqueue(scene.lasting(), reply(held), "third")
    async with scene.world.runtime() as runtime:
        session = runtime.session("s", cwd=scene.world.work)
        handle = session.run("FIRST")
        commands = await scene.commands()
        with fail_after(60):
            await held.reached.wait()
            os.kill(child_of(os.getpid()), signal.SIGKILL)
            end = await handle.result()
        assert end.outcome is Outcome.CLIENT_LOST
        scene.codex.watch(*commands)
        following = await say(session, "SECOND")
        assert (following.end.outcome, following.end.text) == (Outcome.COMPLETED, "third")
        assert scene.codex.seen_at_start == []
        assert not any(runs(pid) for pid in commands)
        said = await transcript(session)
    assert user_texts(said) == ["FIRST", "SECOND"]
    scene.model.check()


async def test_a_stopped_codex_and_its_command_are_gone_before_the_next_one_starts(
    scene: Scene,
) -> None:
    """RS24, INV-19, INV-20, F7: Treadle is killed, the thread is resumed and not given up."""
    scene.model.enqueue("one", scene.lasting())
    held = gate()
    scene.model.enqueue(reply(held), "three")
    async with scene.world.runtime() as runtime:
        await say(runtime.session("s", cwd=scene.world.work), "FIRST")
    async with treadle_saying(scene.world, "SECOND") as treadle:
        commands = await scene.commands()
        with fail_after(60):
            await held.reached.wait()
        codex = child_of(treadle)
        scene.started.append(codex)
        os.kill(codex, signal.SIGSTOP)
        with fail_after(60):
            while state_of(codex) != "T":
                await checkpoint()
    left = [codex, *commands]
    assert all(runs(pid) for pid in left)
    scene.codex.watch(*left)
    async with scene.world.runtime() as runtime:
        assert not any(runs(pid) for pid in left)
        rows = await runtime.store.children.closed_children()
        assert rows[0].closed_because is Closed.STOPPED
        ran = await say(runtime.session("s", cwd=scene.world.work), "THIRD")
        assert (ran.end.outcome, ran.end.text) == (Outcome.COMPLETED, "three")
        assert scene.codex.seen_at_start == []
    assert len({request.thread_id for request in scene.model.requests}) == 1
    assert not scene.world.logged("thread.rotated")
    assert not scene.world.logged("binding.cleared")
    last = scene.model.requests[-1]
    assert [times_said(last, mark) for mark in ("FIRST", "SECOND", "THIRD")] == [1, 1, 1]


# ------------------------------------------------------------------------------ the marker


ASKED = 'printf %s "$TREADLE_RUN" > {path}'


@pytest.mark.parametrize("model_name", [PLAIN, CODE_MODE])
async def test_every_command_bears_the_marker_and_the_model_is_told_nothing_of_it(
    codex_binary: Path, scratch: Path, model_name: str
) -> None:
    """F8, spec S-11; D-51: a value that each process has anew reaches no request.

    Each request of both processes begins with the whole input of the one before.
    """
    said = pipe(scratch)
    cmd = ASKED.format(path=said.path)
    async with ScriptedModel() as model:
        rig = Rig(scratch=scratch, binary=codex_binary, model=model)
        markers: list[str] = []

        async def listen() -> None:
            markers.append(await said.read())

        for _ in range(2):
            async with rig.opened(model=model_name) as runtime:
                if model_name == PLAIN:
                    asks = reply(call("exec_command", {"cmd": cmd}))
                else:
                    script = f"await tools.exec_command({{cmd: {json.dumps(cmd)}}}); text('ok');"
                    asks = reply(custom_call("exec", script))
                async with create_task_group() as group:
                    group.start_soon(listen)
                    await rig.turn(rig.session(runtime), "who are you?", asks, "done")
                rows = await runtime.store.children.open_children()
                assert markers[-1:] == [row.id for row in rows]
    assert len(set(markers)) == 2
    assert_grows(model.requests)
    for request in model.requests:
        whole = json.dumps(request.fields)
        assert "TREADLE_RUN" not in whole.replace("$TREADLE_RUN", "")
        assert not any(marker in whole for marker in markers)
    assert len({json.dumps(request.fields.get("tools")) for request in model.requests}) == 1
    assert len({str(request.fields.get("instructions")) for request in model.requests}) == 1
