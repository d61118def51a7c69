"""One process owns a state directory; every other command uses it (INV-4): real programs."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Any

import anyio
import anyio.to_thread
import pytest

from tests.process.program import Program, ended
from treadle.gateway.client import open_client
from treadle.gateway.requests import GetStatus
from treadle.testing.model import ScriptedModel, gate, reply, text

pytestmark = [pytest.mark.anyio, pytest.mark.codex]

Process = subprocess.Popen[bytes]


@pytest.fixture
def program(scratch: Path, codex_binary: Path) -> Program:
    return Program(scratch, codex_binary)


async def line_of(stream: IO[bytes] | None) -> str:
    """Return the next line that a program prints."""
    assert stream is not None
    with anyio.fail_after(60):
        return (await anyio.to_thread.run_sync(stream.readline)).decode()


@asynccontextmanager
async def serving(program: Program, *options: str) -> AsyncIterator[Process]:
    """Start a server and wait until it is ready; at the end of the block it is gone."""
    with program.begun("serve", "--socket", "--json", *options) as server:
        ready = json.loads(await line_of(server.stdout))
        assert (ready["ready"], ready["pid"]) == (True, server.pid)
        yield server
        if server.poll() is None:
            server.terminate()
            await ended(server)


async def status(program: Program) -> dict[str, Any]:
    async with open_client(program.state) as client:
        return dict(await client.ask(GetStatus()))


async def until(holds: Callable[[], bool]) -> None:
    """Wait for what another process does, which sets no event."""
    with anyio.fail_after(60):
        while True:
            if holds():
                return
            await anyio.sleep(0.05)  # between two looks


async def status_with(program: Program, fits: Callable[[dict[str, Any]], bool]) -> None:
    """Wait until the owner tells of itself what is expected."""
    with anyio.fail_after(60):
        while True:
            if fits(await status(program)):
                return
            await anyio.sleep(0.05)  # between two looks


def files(state: Path) -> dict[str, tuple[bytes, int]]:
    """Return what lies in a state directory, byte for byte, with the times of writing."""
    return {
        str(path.relative_to(state)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(state.rglob("*"))
        if path.is_file()
    }


async def test_a_newcomer_serves_runs_looks_and_stops(program: Program) -> None:
    """Issue 4, item 2: two terminals."""
    async with serving(program, "--offline") as server:
        answer = await program.answer("run", "say exactly: good morning")
        shown = await program.answer("status")
        stopped = await program.answer("stop")
        code, _, err = await ended(server)
    assert answer == "good morning"
    assert f"Process {server.pid} owns {program.state}: a server, offline model" in shown
    assert stopped == f"Process {server.pid} ended."
    assert (code, err) == (0, "")
    assert "good morning" in await program.answer("sessions", "show", "main")


async def test_of_two_servers_one_serves_and_the_other_names_it(program: Program) -> None:
    """RS26: ten times two at once; exit 78, and the owner's pid in the message."""
    for _ in range(10):
        begun = [program.begun("serve", "--socket", "--json", "--offline") for _ in range(2)]
        with begun[0] as first, begun[1] as second:
            await until(lambda: first.poll() is not None or second.poll() is not None)
            loser, owner = (first, second) if first.poll() is not None else (second, first)
            ready = json.loads(await line_of(owner.stdout))
            code, out, _ = await ended(loser)
            refused = json.loads(out)["error"]
            assert (code, refused["code"]) == (78, "state.refused")
            assert f"in use by process {owner.pid}" in refused["message"]
            assert ready["pid"] == owner.pid
            owner.terminate()
            assert (await ended(owner))[0] == 0


async def test_commands_print_the_same_attached_and_on_their_own(program: Program) -> None:
    """Ours: one protocol for both, the same results and exit codes."""
    commands = (
        ("sessions", "list", "--json"),
        ("sessions", "list", "--agent", "nobody"),
        ("sessions", "show", "main", "--last", "1"),
        ("sessions", "show", "nope"),
        ("sessions", "search", "kiln", "--json"),
        ("sessions", "export", "main"),
        ("context", "show", "main", "--json"),
        ("context", "show", "main", "--turn", "9"),
        ("whoami", "--json"),
        ("models", "--agent", "nobody"),
    )

    async def results() -> list[tuple[int, str, str]]:
        found = []
        for arguments in commands:
            with program.begun(*arguments) as process:
                found.append(await ended(process))
        return found

    await program.run("run", "--offline", "The kiln is at 1,240 degrees.")
    async with serving(program, "--offline"):
        attached = await results()
    alone = await results()
    for arguments, one, other in zip(commands, attached, alone, strict=True):
        assert one == other, arguments
    assert {code for code, _, _ in alone} == {0, 2, 4}


async def test_a_run_prints_the_same_attached_and_on_its_own(program: Program) -> None:
    """Ours: text, one object, and every event in its order."""

    def shape(lines: str) -> list[tuple[Any, ...]]:
        events = [json.loads(line) for line in lines.splitlines()]
        return [(e["type"], e.get("seq"), e.get("base"), sorted(e["data"])) for e in events]

    alone = await program.answer("run", "--offline", "--jsonl", "say exactly: one two")
    await program.run("run", "--offline", "say exactly: one")
    async with serving(program, "--offline"):
        attached = await program.answer(
            "run", "--jsonl", "--session", "other", "say exactly: one two"
        )
        done = await program.run("run", "--json", "say exactly: two")
    assert shape(attached) == shape(alone)
    summary = json.loads(done.stdout)
    assert (summary["outcome"], summary["text"], summary["error"]) == ("completed", "two", None)
    assert len(summary["entries"]) == 2
    assert summary["context"]["counted"]
    assert summary["usage"]["output"] > 0


async def test_two_runs_in_two_terminals_both_work(program: Program) -> None:
    """Issue 4, item 2: the second attaches to the first, whose process ends with both."""
    async with ScriptedModel() as model:
        program.use(model)
        first_gate, second_gate = gate(), gate()
        model.enqueue(
            reply(first_gate, text("first answer")),
            reply(second_gate, text("second answer")),
        )
        with program.begun("run", "--session", "one", "hello") as first:
            await model.wait_for_requests(1, within_s=60)
            with program.begun("run", "--session", "two", "hello again") as second:
                await model.wait_for_requests(2, within_s=60)
                assert (await status(program))["pid"] == first.pid
                first_gate.event.set()
                assert await line_of(first.stdout) == "first answer\n"
                assert first.poll() is None  # it is the owner, and the other's turn goes on in it
                second_gate.event.set()
                assert (await ended(second))[:2] == (0, "second answer\n")
            code, _, err = await ended(first)
    assert code == 0, err
    assert "Process" not in await program.answer("status", exit_code=3)


async def test_runs_of_one_session_from_two_terminals_take_turns(program: Program) -> None:
    """Spec A-14, INV-3: also where they come from two processes."""
    async with ScriptedModel() as model:
        program.use(model)
        held = gate()
        model.enqueue(reply(text("one"), held), "two")
        with program.begun("run", "first") as first:
            await model.wait_for_requests(1, within_s=60)
            with program.begun("run", "second") as second:
                await status_with(program, lambda told: len(told["runs"]) == 2)
                held.event.set()
                assert (await ended(first))[:2] == (0, "one\n")
                assert (await ended(second))[:2] == (0, "two\n")
    said = await program.answer("sessions", "show", "main")
    assert [said.index(one) for one in ("first", "one", "second", "two")] == sorted(
        said.index(one) for one in ("first", "one", "second", "two")
    )


async def test_an_interrupt_of_an_attached_run_stops_it_where_it_runs(program: Program) -> None:
    """Ours: exit 130 after the run was stopped; the server goes on."""
    async with ScriptedModel() as model:
        program.use(model)
        model.enqueue(reply(text("I begin"), gate()), "again")
        async with serving(program):
            with program.begun("run", "hello there") as process:
                await model.wait_for_requests(1, within_s=60)
                process.send_signal(signal.SIGINT)
                code, _, err = await ended(process)
            assert (code, "stopped" in err) == (130, True)
            assert await program.answer("run", "once more") == "again"


async def test_sigterm_lets_the_running_turn_end(program: Program) -> None:
    """Fault matrix, SIGTERM: new messages are refused, the turn finishes, exit 0."""
    async with ScriptedModel() as model:
        program.use(model)
        held = gate()
        model.enqueue(reply(text("the answer"), held))
        async with serving(program) as server:
            with program.begun("run", "hello") as process:
                await model.wait_for_requests(1, within_s=60)
                server.send_signal(signal.SIGTERM)
                await status_with(program, lambda told: told["accepting"] is False)
                held.event.set()
                assert (await ended(process))[:2] == (0, "the answer\n")
            assert (await ended(server))[0] == 0


async def test_what_only_the_owner_can_decide_is_refused(program: Program, scratch: Path) -> None:
    """Ours: exit 5, and the owner is named."""
    async with serving(program) as server:
        offline = await program.run("run", "--offline", "hello", exit_code=5)
        assert f"process {server.pid}" in offline.stderr.decode()
        assert "does not run the offline model" in offline.stderr.decode()
        program.config = scratch / "other.toml"
        program.config.touch()
        other = await program.run("sessions", "list", "--json", exit_code=5)
        assert json.loads(other.stdout)["error"]["code"] == "gateway.refused"


async def test_status_and_stop_without_an_owner_change_nothing(program: Program) -> None:
    """RS27: they never write, and never open the store."""
    assert (await program.run("status", exit_code=3)).stdout.startswith(b"Nothing runs on")
    assert not program.state.exists()
    await program.run("run", "--offline", "hello")
    before = files(program.state)
    found = json.loads((await program.run("status", "--json", exit_code=3)).stdout)
    assert found == {"running": False, "state_dir": str(program.state), "pid": None}
    assert await program.answer("stop") == "Nothing runs."
    assert files(program.state) == before


async def test_an_owner_that_is_mute_is_told_apart_from_none(program: Program) -> None:
    """Ours: exit 3 in seconds, the process is named; nothing waits for ever (INV-18)."""
    async with serving(program, "--offline") as server:
        server.send_signal(signal.SIGSTOP)
        try:
            done = await program.run("status", "--json", exit_code=3)
        finally:
            server.send_signal(signal.SIGCONT)
        assert json.loads(done.stdout)["error"]["code"] == "gateway.lost"


async def test_a_socket_that_a_killed_owner_left_stops_nobody(program: Program) -> None:
    """RS26: SIGKILL leaves the socket; the next command is the owner."""
    async with serving(program, "--offline") as server:
        server.kill()
        await ended(server)
    assert (program.state / "owner.sock").is_socket()
    assert (await program.run("status", exit_code=3)).stdout.startswith(b"Nothing runs on")
    assert await program.answer("run", "--offline", "say exactly: here") == "here"
    assert not (program.state / "owner.sock").exists()


async def test_a_chat_goes_through_the_server_too(program: Program) -> None:
    """Ours."""
    async with serving(program, "--offline"):
        lines = ("say exactly: through", "/status", "/context", "/new", "/quit")
        done = await program.run("chat", stdin="".join(f"{line}\n" for line in lines))
    assert b"through\n" in done.stdout
    for said in (b"engine legacy", b"running: 0", b"Generation 2 begins"):
        assert said in done.stderr


async def test_a_state_directory_with_a_long_path_is_served_and_used(program: Program) -> None:
    """Ours: an address holds 107 bytes; the path of a state directory any number."""
    program.state = program.state / ("deep" * 25)
    async with serving(program, "--offline"):
        assert await program.answer("run", "say exactly: deep down") == "deep down"
    assert len(os.fsencode(program.state)) > 107


async def test_a_damaged_store_ends_the_server_in_seconds_and_is_left_alone(
    program: Program,
) -> None:
    """RS27: exit 74 with the path, at start and while it runs; nothing more is written."""
    database = program.state / "treadle.sqlite3"
    for number in range(3):
        await program.run("run", "--offline", f"Message {number} fills some pages. " * 200)
    async with serving(program, "--offline") as server:
        with database.open("r+b") as file:
            for page in range(2, database.stat().st_size // 4096, 2):
                file.seek(page * 4096)
                file.write(random.Random(page).randbytes(200))
        damaged = database.read_bytes()
        code, out, _ = await ended(server)
    refused = json.loads(out)["error"]
    assert (code, refused["code"]) == (74, "store.damaged")
    assert str(database) in refused["message"]
    assert database.read_bytes() == damaged
    again = await program.run("serve", "--socket", "--offline", exit_code=74)
    assert str(database) in again.stderr.decode()
    before = files(program.state)
    await program.run("status", exit_code=3)
    assert files(program.state) == before
    assert database.read_bytes() == damaged
