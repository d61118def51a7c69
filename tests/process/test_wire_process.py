"""The wire over real children: the pinned codex, and the scripted app-server on stdio."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from anyio import Event, create_task_group, fail_after
from anyio.lowlevel import checkpoint

from treadle.model.errors import (
    ProcessExited,
    ProcessStartError,
    RpcError,
    RpcTimeout,
    VersionUnsupported,
)
from treadle.model.json import JsonObject
from treadle.protocol.rpc import Notification
from treadle.wire.binary import BinaryVerifier, packaged_sha256, sha256_of
from treadle.wire.client import ClientSettings, CodexClient, open_client
from treadle.wire.environment import child_environment
from treadle.wire.launch import OFFLINE_CONFIG, codex_argv, launch_key
from treadle.wire.pool import open_pool, prepare_home
from treadle.wire.process import Child, Link, Spawn, StopGrace, open_child, run_once

pytestmark = pytest.mark.anyio

CANARIES = {"MY_API_KEY": "canary-1", "TREADLE_X": "canary-2", "LD_LIBRARY_PATH": "/canary-3"}


class World:
    """How a child is started in a test, and the last one."""

    def __init__(self, argv: list[str], home: Path) -> None:
        extra = {"CODEX_HOME": str(home), "RUST_LOG": "warn"}
        environment = child_environment({**os.environ, **CANARIES}, extra)
        self.spawn = Spawn(argv=argv, environment=environment)
        self.child: Child | None = None

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Link]:
        async with open_child(self.spawn, grace=StopGrace(eof_s=1, term_s=1)) as child:
            self.child = child
            yield child

    def client(self, **settings: Any) -> AbstractAsyncContextManager[CodexClient]:
        grace = StopGrace(eof_s=5, term_s=2)
        return open_client(self._open, ClientSettings(stop=grace, **settings))

    @property
    def pid(self) -> int:
        assert self.child is not None
        assert self.child.pid is not None
        return self.child.pid


async def codex(binary: Path, scratch: Path) -> World:
    home = scratch / "home"
    await prepare_home(home)
    return World(codex_argv(binary, launch_key(home, OFFLINE_CONFIG)), home)


def scripted(scratch: Path, **script: Any) -> World:
    path = scratch / "script.json"
    path.write_text(json.dumps(script), encoding="utf-8")
    return World([sys.executable, "-m", "treadle.testing.codex", str(path)], scratch)


def proc(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8")


def rollout_lines(home: Path) -> list[Any]:
    """Read the only rollout; U+2028 is no line end there."""
    (path,) = (home / "sessions").rglob("*.jsonl")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def user_item(text: str) -> JsonObject:
    content: list[JsonObject] = [{"type": "input_text", "text": text}]
    return {"type": "message", "role": "user", "content": content}


def real(path: Path) -> Path:
    return path.resolve()


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


@pytest.mark.codex
async def test_real_binary_shakes_hands_answers_refuses_and_leaves_at_eof(
    codex_binary: Path, scratch: Path
) -> None:
    """Spec F-26, RS43, F11: handshake, a request, an error, modes, environment, a clean end."""
    world = await codex(codex_binary, scratch)
    async with world.client() as client:
        assert client.info.version >= (0, 149, 0)
        assert client.info.codex_home == str(scratch / "home")
        assert (await client.request("model/list"))["data"]
        with pytest.raises(RpcError):
            await client.request("thread/resume", {"threadId": "no-such-thread"})
        assert client.is_usable
        environment = proc(world.pid, "environ")
        assert "canary" not in environment
        assert "NO_PROXY=127.0.0.1,localhost,::1" in environment
        assert "Umask:\t0077" in proc(world.pid, "status")
        assert os.getsid(world.pid) == world.pid
        started = await client.request("thread/start", {"cwd": str(scratch)})
        thread_id = str(started["thread"]["id"])  # type: ignore[index,call-overload]  # 0.163
        item = user_item("x")
        assert (
            await client.request("thread/inject_items", {"threadId": thread_id, "items": [item]})
            == {}
        )
        async with client.subscribe(thread_id) as stream:
            with fail_after(10):
                told = await stream.receive()
            assert isinstance(told, Notification)
            assert told.method == "thread/started"
    assert is_gone(world.pid)
    assert world.child is not None
    ended = await world.child.wait()
    assert (ended.code, ended.by) == (0, "eof")
    assert_private(scratch / "home")


def assert_private(home: Path) -> None:
    """F11: all but `installation_id`, which Codex opens itself, is for its user alone."""
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    open_files = {
        path.name
        for path in home.rglob("*")
        if path.is_file() and not path.is_symlink() and path.stat().st_mode & 0o077
    }
    assert open_files <= {"installation_id"}


@pytest.mark.codex
async def test_odd_text_reaches_the_real_binary_valid_and_is_answered(
    codex_binary: Path, scratch: Path
) -> None:
    """RS12: lone surrogates, NUL, U+2028 and a megabyte of emoji; nothing waits for a timeout."""
    world = await codex(codex_binary, scratch)
    async with world.client() as client:
        started = await client.request("thread/start", {"cwd": str(scratch)})
        thread_id = str(started["thread"]["id"])  # type: ignore[index,call-overload]  # 0.163
        for text in ("a\ud800b", "a\x00b", "a\u2028b", "\U0001f600" * 262_144):
            item = user_item(text)
            await client.request("thread/inject_items", {"threadId": thread_id, "items": [item]})
    lines = rollout_lines(scratch / "home")
    texts = [
        line["payload"]["content"][0]["text"]
        for line in lines
        if line["type"] == "response_item" and line["payload"].get("role") == "user"
    ]
    assert texts[-4:] == ["a\ufffdb", "a\x00b", "a\u2028b", "\U0001f600" * 262_144]


@pytest.mark.codex
async def test_killed_real_binary_is_seen_at_once_and_the_pool_starts_another(
    codex_binary: Path, scratch: Path
) -> None:
    """Fault matrix: SIGKILL of codex."""
    world = await codex(codex_binary, scratch)
    key = launch_key(scratch / "home", OFFLINE_CONFIG)
    async with open_pool(lambda _: world.client(), lambda: 0.0) as pool:
        async with pool.lease(key) as client:
            os.kill(world.pid, signal.SIGKILL)
            with fail_after(10):
                await client.wait_lost()
            with pytest.raises(ProcessExited, match="exit status -9"):
                await client.request("model/list")
        async with pool.lease(key) as again:
            assert again is not client
            assert await again.request("model/list")


@pytest.mark.codex
async def test_stopped_real_binary_meets_the_write_deadline_and_is_killed(
    codex_binary: Path, scratch: Path
) -> None:
    """F9: SIGSTOP fills the pipe; the write ends at its deadline, the client is doubtful."""
    world = await codex(codex_binary, scratch)
    async with world.client(write_s=0.2) as client:
        os.kill(world.pid, signal.SIGSTOP)
        with pytest.raises(RpcTimeout):
            await client.request("model/list", {"cursor": "x" * 4_000_000})
        assert not client.is_usable
    assert is_gone(world.pid)


@pytest.mark.codex
async def test_stderr_flood_of_the_real_binary_stops_nothing(
    codex_binary: Path, scratch: Path
) -> None:
    """Facts pitfall 1: an unread stderr stops the app-server after 64 KB."""
    world = await codex(codex_binary, scratch)
    environment = {**world.spawn.environment, "RUST_LOG": "trace"}
    world.spawn = Spawn(argv=world.spawn.argv, environment=environment)
    async with world.client() as client:
        for _ in range(30):
            await client.request("model/list")
        assert world.child is not None
        assert world.child.stderr_bytes > 65_536
        assert len(client.stderr_tail(1_000).splitlines()) <= 200


@pytest.mark.codex
async def test_packaged_binary_is_verified_against_its_wheel_once(codex_binary: Path) -> None:
    """RS55, decision 28."""
    verifier = BinaryVerifier(explicit=None, environment=os.environ)
    found = await verifier.verified()
    assert found.path == real(codex_binary)
    assert found.sha256 == packaged_sha256(found.path) == sha256_of(found.path)
    assert await verifier.verified() is found


def changed_copy(binary: Path, copy: Path) -> Path:
    """Copy a file and turn one bit of it."""
    shutil.copy(binary, copy)
    with copy.open("r+b") as file:
        file.seek(1_000_000)
        byte = file.read(1)
        file.seek(1_000_000)
        file.write(bytes([byte[0] ^ 1]))
    return copy


@pytest.mark.codex
async def test_packaged_binary_with_one_changed_byte_has_another_hash(
    codex_binary: Path, scratch: Path
) -> None:
    """RS55: refused with the expected and the found hash; nothing was started."""
    copy = changed_copy(codex_binary, scratch / "codex")
    expected = packaged_sha256(real(codex_binary))
    verifier = BinaryVerifier(explicit=str(copy), environment=os.environ, expected_sha256=expected)
    with pytest.raises(ProcessStartError) as caught:
        await verifier.verified()
    assert caught.value.fields == {"expected": expected, "found": sha256_of(copy)}


def has_started(folder: Path) -> bool:
    return (folder / "started").exists()


def write_program(path: Path, content: bytes, mode: int) -> None:
    path.write_bytes(content)
    path.chmod(mode)


def fake(path: Path, body: str) -> Path:
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


async def test_binary_replaced_while_the_gateway_runs_is_refused(scratch: Path) -> None:
    """RS55, decision 28: looked at again since its identity differs."""
    path = fake(scratch / "codex", "echo codex-cli 0.163.0")
    verifier = BinaryVerifier(explicit=str(path), environment=os.environ)
    assert (await verifier.verified()).version == (0, 163, 0)
    fake(path, f"touch {scratch}/started; echo codex-cli 0.163.0")
    with pytest.raises(ProcessStartError, match="verified first"):
        await verifier.verified()
    assert not has_started(scratch)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("echo codex-cli 0.1.0", VersionUnsupported),
        ("echo nothing", VersionUnsupported),
        ("echo broken >&2; exit 3", ProcessStartError),
    ],
)
async def test_binary_that_is_old_nameless_or_broken_is_refused(
    scratch: Path, body: str, error: type[Exception]
) -> None:
    """Spec F-26, RS55."""
    path = fake(scratch / "codex", body)
    with pytest.raises(error):
        await BinaryVerifier(explicit=str(path), environment=os.environ).verified()


async def test_program_that_hangs_is_ended_at_its_deadline(scratch: Path) -> None:
    path = fake(scratch / "codex", "exec tail -f /dev/null")
    spawn = Spawn(argv=[str(path)], environment=child_environment(os.environ, {}))
    with pytest.raises(ProcessStartError, match="did not end"), fail_after(10):
        await run_once(spawn, timeout_s=0.2)


@pytest.mark.parametrize(
    ("content", "mode", "why"),
    [
        (b"\x7fELF\x02\x01\x01" + bytes(57), 0o755, "no program for this machine"),
        (b"#!/nonexistent/interpreter\n", 0o755, "does not exist"),
        (b"#!/bin/sh\n", 0o644, "may not be executed"),
    ],
)
async def test_failed_start_says_why(scratch: Path, content: bytes, mode: int, why: str) -> None:
    """Bad input: wrong architecture, missing loader, no right to execute."""
    path = scratch / "codex"
    write_program(path, content, mode)
    with pytest.raises(ProcessStartError, match=why):
        async with open_child(Spawn(argv=[str(path)], environment={})):
            pass


async def test_child_that_ignores_eof_and_term_is_killed(scratch: Path) -> None:
    """Clean stop: EOF, then TERM, then KILL, exit observed."""
    world = scripted(scratch, hang=True)
    grace = StopGrace(eof_s=0.1, term_s=0.1, kill_s=5)
    async with open_client(world._open, ClientSettings(stop=grace)) as client:
        assert await client.request("account/read")
    assert is_gone(world.pid)
    assert world.child is not None
    ended = await world.child.wait()
    assert (ended.code, ended.by) == (-signal.SIGKILL, "kill")


async def test_end_is_seen_although_something_it_started_holds_its_pipes(scratch: Path) -> None:
    """INV-19, S-12: the exit of the process counts, not the end of its stderr."""
    body = "sh -c 'echo $$ >&3; exec tail -f /dev/null' 3>&1 >/dev/null & read line; exit 7"
    path = fake(scratch / "codex", body)
    spawn = Spawn(argv=[str(path)], environment=child_environment(os.environ, {}))
    patient = StopGrace(eof_s=600, term_s=600, kill_s=600)
    with fail_after(30):
        async with open_child(spawn, grace=patient) as child:
            holder = int(await child.read())
        ended = await child.wait()
    os.kill(holder, signal.SIGKILL)
    assert (ended.code, ended.by) == (7, "eof")


async def test_end_of_stdout_with_the_process_alive_ends_the_process(scratch: Path) -> None:
    """RS11: EOF, process alive: closed at once, process gone."""
    world = scripted(scratch, hang=True, on={"model/list": [{"close": True}]})
    async with world.client() as client:
        with pytest.raises(ProcessExited), fail_after(10):
            await client.request("model/list")
        with fail_after(10):
            await client.wait_lost()
        assert is_gone(world.pid)


async def test_burst_of_50000_deltas_from_a_child_delays_no_answer(scratch: Path) -> None:
    """RS08."""
    params = {"threadId": "t", "turnId": "u", "itemId": "i", "delta": "$n,"}
    burst = {"count": 50_000, "method": "item/agentMessage/delta", "params": params}
    world = scripted(scratch, on={"model/list": [{"burst": burst}, {"answer": {"data": []}}]})
    answered = Event()

    async def ask(client: CodexClient) -> None:
        await client.request("model/list", timeout_s=30)
        answered.set()

    async with world.client() as client, client.subscribe("t") as stream:
        async with create_task_group() as group:
            group.start_soon(ask, client)
            assert await client.request("account/read", timeout_s=30)
        assert answered.is_set()
        text = ""
        while text.count(",") < 50_000:
            got = await stream.receive()
            assert isinstance(got, Notification)
            text += str(got.params()["delta"])
    assert text == "".join(f"{n}," for n in range(50_000))


async def test_stderr_flood_of_a_child_stops_nothing(scratch: Path) -> None:
    flood = [{"stderr": 3_000_000}, {"answer": {"data": []}}]
    world = scripted(scratch, start=[{"stderr": 1_000_000}], on={"model/list": flood})
    async with world.client() as client:
        assert await client.request("model/list", timeout_s=10) == {"data": []}


async def test_secret_on_stderr_is_not_kept(scratch: Path) -> None:
    """INV-22."""
    path = fake(
        scratch / "codex", "printf '\\033[31mBearer abcdefghijklmnop\\033[0m\\n' >&2; exit 1"
    )
    spawn = Spawn(argv=[str(path)], environment=child_environment(os.environ, {}))
    _, _, errors = await run_once(spawn, timeout_s=10)
    assert errors == "Bearer [redacted]"


async def test_app_server_that_dies_at_start_is_a_start_error(scratch: Path) -> None:
    world = scripted(scratch, start=[{"exit": 7}])
    with pytest.raises(ProcessStartError, match="exit status 7"):
        async with world.client():
            pass


async def test_cancelled_start_leaves_no_process(scratch: Path) -> None:
    world = scripted(scratch, on={"initialize": [{"silence": True}]})
    async with create_task_group() as group:

        async def start() -> None:
            async with world.client():
                pass

        group.start_soon(start)
        while world.child is None:
            await checkpoint()
        group.cancel_scope.cancel()
    assert is_gone(world.pid)


async def test_home_is_made_private_again_and_a_link_is_refused(scratch: Path) -> None:
    """F11, threat model."""
    home = scratch / "a" / "home"
    await prepare_home(home)
    home.chmod(0o755)
    await prepare_home(home)
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    (scratch / "link").symlink_to(home)
    with pytest.raises(ProcessStartError, match="link"):
        await prepare_home(scratch / "link")


def test_script_plays_on_stdio_as_in_memory(scratch: Path) -> None:
    world = scripted(scratch, version="0.171.0")
    line = b'{"id":1,"method":"initialize","params":{"clientInfo":{"name":"x","version":"1"}}}\n'
    done = subprocess.run(
        list(world.spawn.argv), input=line, capture_output=True, check=True, timeout=20
    )
    assert json.loads(done.stdout)["result"]["userAgent"] == "treadle/0.171.0 (scripted)"
