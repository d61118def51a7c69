"""The client and the pool over a scripted app-server in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from anyio import Event, create_task_group, fail_after, sleep_forever
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from treadle.model.errors import (
    LocalProtocolError,
    ProcessExited,
    ProcessStartError,
    RpcError,
    RpcTimeout,
    ThreadBusy,
    VersionUnsupported,
)
from treadle.model.json import JsonObject
from treadle.observe import Counters
from treadle.protocol.rpc import Notification, ServerRequest
from treadle.testing.codex import ScriptedCodex, ScriptedLink, scripted_link
from treadle.wire.client import ClientSettings, CodexClient, open_client
from treadle.wire.launch import LaunchKey, launch_key
from treadle.wire.pool import backoff_s, open_pool
from treadle.wire.process import Exit, Link
from treadle.wire.subscription import LIMIT_COUNT, Closed, Subscription

pytestmark = pytest.mark.anyio

HOME = Path("/nonexistent/home")


class Rig:
    """A client, its scripted app-server and the link between."""

    def __init__(self, **script: Any) -> None:
        self.codex = ScriptedCodex(script)
        self.counters = Counters()
        self.link: ScriptedLink | None = None
        self.piece_bytes = 61
        """So small that frames are cut everywhere."""

    @asynccontextmanager
    async def _connect(self) -> AsyncIterator[Link]:
        async with scripted_link(self.codex, piece_bytes=self.piece_bytes) as link:
            self.link = link
            yield link

    def client(self, **settings: Any) -> AbstractAsyncContextManager[CodexClient]:
        return open_client(self._connect, ClientSettings(**settings), counters=self.counters)

    def play(self, *steps: Any, thread: str = "") -> None:
        assert self.link is not None
        self.link.play(steps, thread)


async def read_turn(stream: Subscription) -> list[Notification]:
    """Read to the end of a turn."""
    told: list[Notification] = []
    with fail_after(5):
        while not told or told[-1].method != "turn/completed":
            got = await stream.receive()
            assert isinstance(got, Notification), got
            told.append(got)
    return told


async def test_turn_runs_from_handshake_to_completion() -> None:
    """Spec F-26, F-27; decision 1."""
    rig = Rig()
    async with rig.client(client_version="9.9") as client:
        assert client.info.version == (0, 163, 0)
        started = await client.request("thread/start", {"cwd": "/"})
        thread = str(started["thread"]["id"])  # type: ignore[index,call-overload]  # scripted
        async with client.subscribe(thread) as stream:
            params: JsonObject = {"threadId": thread, "input": [{"type": "text", "text": "hi"}]}
            await client.request("turn/start", params)
            told = await read_turn(stream)
    hello = rig.codex.requests("initialize")[0]
    assert hello["clientInfo"] == {"name": "treadle", "title": "Treadle", "version": "9.9"}
    assert hello["capabilities"]["experimentalApi"] is True  # type: ignore[index,call-overload]
    assert [seen.method for seen in rig.codex.seen][:2] == ["initialize", "initialized"]
    assert told[0].method == "thread/started"  # it came before anybody subscribed
    assert [n.method for n in told].count("item/agentMessage/delta") == 1


async def test_misspelt_parameter_is_found_by_the_scripted_app_server() -> None:
    rig = Rig()
    async with rig.client() as client:
        with pytest.raises(RpcError, match="itemz"):
            await client.request("thread/inject_items", {"threadId": "t", "itemz": []})


async def test_refusals_become_the_errors_of_the_table() -> None:
    """F7."""
    busy = {"code": -32600, "message": "thread t already has an active writer"}
    rig = Rig(on={"thread/resume": [{"error": busy}]})
    async with rig.client() as client:
        with pytest.raises(ThreadBusy):
            await client.request("thread/resume", {"threadId": "t"})
        assert client.is_usable


async def test_unanswered_request_times_out_and_makes_the_client_doubtful() -> None:
    """F9."""
    rig = Rig(on={"model/list": [{"silence": True}]})
    async with rig.client() as client:
        with pytest.raises(RpcTimeout):
            await client.request("model/list", timeout_s=0.01)
        assert client.doubt == "model/list was not answered"
        assert not client.is_usable
        assert await client.request("account/read")  # who has it goes on


async def test_late_answer_is_dropped_and_counted() -> None:
    rig = Rig(on={"model/list": [{"ask": {"id": "x", "method": "m/n"}}, {"await": "y"}]})
    async with rig.client() as client:
        with pytest.raises(RpcTimeout):
            await client.request("model/list", timeout_s=0.01)
        rig.play({"raw": '{"id":2,"result":{}}'})
        assert await client.request("account/read")
        assert rig.counters.value("wire.stray_answers") == 1


async def test_write_to_a_frozen_app_server_ends_at_its_deadline() -> None:
    """F9: a stopped child blocks the writer once the pipe is full."""
    rig = Rig(on={"account/read": [{"answer": {}}, {"freeze": True}]})
    async with rig.client(write_s=0.01) as client:
        await client.request("account/read")
        with pytest.raises(RpcTimeout):
            await client.request("model/list")
        assert client.doubt == "model/list could not be written"


async def test_a_write_that_breaks_makes_the_client_doubtful_before_its_end_is_seen() -> None:
    """INV-10: else a second attempt gets the same dead connection, since the reader is slower."""
    rig = Rig()
    async with rig.client() as client:
        assert rig.link is not None
        rig.link._exit = Exit(code=-9, by="itself")  # dead, and nobody has read that yet
        with pytest.raises(ProcessExited):
            await client.request("model/list")
        assert not client.is_lost
        assert not client.is_usable


async def test_cancelled_request_leaves_the_client_usable() -> None:
    rig = Rig(on={"model/list": [{"silence": True}]})
    async with rig.client() as client, create_task_group() as group:
        group.start_soon(client.request, "model/list")
        while not client.open_request_count:
            await checkpoint()
        group.cancel_scope.cancel()
    assert client.doubt is None
    assert client.open_request_count == 0


async def test_at_most_a_hundred_requests_are_open() -> None:
    """Facts section 13: beyond some 500 answers are dropped."""
    rig = Rig(on={"model/list": [{"silence": True}]})
    async with rig.client() as client, create_task_group() as group:
        for _ in range(150):
            group.start_soon(client.request, "model/list")
        for _ in range(20):
            await checkpoint()
        assert len(rig.codex.requests("model/list")) == client.open_request_count == 100
        group.cancel_scope.cancel()


async def test_errors_of_the_body_pass_unwrapped() -> None:
    rig = Rig()
    with pytest.raises(KeyError, match="mine"):
        async with rig.client():
            raise KeyError("mine")


async def test_slow_handler_delays_neither_answers_nor_other_threads() -> None:
    """The SDK's fault: one approval stopped every thread."""
    rig = Rig()
    release = Event()

    async def slow(request: ServerRequest) -> JsonObject:
        await release.wait()
        return {"decision": "accept", "for": request.params()["itemId"]}

    method = "item/commandExecution/requestApproval"
    async with rig.client() as client:
        with client.serve({method: slow}):
            ask = {"threadId": "t", "turnId": "u", "itemId": "i"}
            rig.play({"ask": {"id": 0, "method": method, "params": ask}})
            with fail_after(5):
                assert await client.request("account/read")
            assert rig.codex.answers == {}
            release.set()
            while 0 not in rig.codex.answers:
                await checkpoint()
    assert rig.codex.answers[0]["result"] == {"decision": "accept", "for": "i"}


async def test_request_nobody_serves_gets_its_documented_refusal() -> None:
    """Decision 27; id 0 is an id (F3)."""
    rig = Rig()
    async with rig.client() as client:
        for number, method in enumerate([
            "item/commandExecution/requestApproval",
            "item/tool/call",
            "from/theFuture",
        ]):
            rig.play({"ask": {"id": number, "method": method, "params": {"threadId": "t"}}})
        while len(rig.codex.answers) < 3:
            await client.request("account/read")
    assert rig.codex.answers[0]["result"] == {"decision": "decline"}
    assert rig.codex.answers[1]["result"]["success"] is False  # type: ignore[index,call-overload]
    assert rig.codex.answers[2]["error"]["code"] == -32601  # type: ignore[index,call-overload]


async def test_failing_handler_is_an_error_answer_and_a_thread_has_its_own_handler() -> None:
    rig = Rig()

    async def broken(_: ServerRequest) -> JsonObject:
        raise RuntimeError("secret detail")

    async def own(_: ServerRequest) -> JsonObject:
        return {"mine": True}

    async with rig.client() as client:
        with (
            client.serve({"item/tool/call": broken}),
            client.serve({"item/tool/call": own}, thread_id="t2"),
        ):
            with pytest.raises(LocalProtocolError), client.serve({"item/tool/call": own}):
                pass
            rig.play({"ask": {"id": 1, "method": "item/tool/call", "params": {"threadId": "t1"}}})
            rig.play({"ask": {"id": 2, "method": "item/tool/call", "params": {"threadId": "t2"}}})
            while len(rig.codex.answers) < 2:
                await client.request("account/read")
    assert rig.codex.answers[1]["error"] == {
        "code": -32603,
        "message": "the request could not be served",
    }
    assert rig.codex.answers[2]["result"] == {"mine": True}


async def test_handler_is_cancelled_when_its_request_is_resolved_elsewhere() -> None:
    """Facts section 8: `serverRequest/resolved`; a late answer changes nothing."""
    rig = Rig()
    states: list[str] = []

    async def waits(_: ServerRequest) -> JsonObject:
        states.append("asked")
        try:
            await sleep_forever()
        finally:
            states.append("cancelled")
        return {}

    method = "item/tool/requestUserInput"
    async with rig.client() as client:
        with client.serve({method: waits}):
            rig.play({"ask": {"id": 0, "method": method, "params": {"threadId": "t"}}})
            while not states:
                await checkpoint()
            resolved = {"threadId": "t", "requestId": 0}
            rig.play({"tell": {"method": "serverRequest/resolved", "params": resolved}})
            while "cancelled" not in states:
                await checkpoint()
            await client.request("account/read")
    assert states == ["asked", "cancelled"]
    assert rig.codex.answers == {}


async def test_handler_that_is_taken_away_refuses_what_it_had() -> None:
    rig = Rig()
    asked = Event()

    async def waits(_: ServerRequest) -> JsonObject:
        asked.set()
        await sleep_forever()
        return {}

    method = "item/commandExecution/requestApproval"
    async with rig.client() as client:
        with client.serve({method: waits}, thread_id="t"):
            rig.play({"ask": {"id": 0, "method": method, "params": {"threadId": "t"}}})
            await asked.wait()
        while 0 not in rig.codex.answers:
            await checkpoint()
    assert rig.codex.answers[0]["result"] == {"decision": "decline"}


DELTA = {
    "method": "item/agentMessage/delta",
    "params": {"threadId": "t", "turnId": "u", "itemId": "i", "delta": "$n,"},
}


async def test_burst_of_50000_deltas_while_a_request_waits() -> None:
    """RS08: the request is answered, memory is bounded, no text is lost."""
    rig = Rig(on={"model/list": [{"burst": {"count": 50_000, **DELTA}}, {"answer": {"data": []}}]})
    async with rig.client() as client, client.subscribe("t") as stream:
        with fail_after(20):
            assert await client.request("model/list", timeout_s=20) == {"data": []}
        assert stream.merged_count > 49_000
        text = ""
        while text.count(",") < 50_000:
            got = await stream.receive()
            assert isinstance(got, Notification)
            text += str(got.params()["delta"])
    assert text == "".join(f"{n}," for n in range(50_000))


async def test_stream_over_its_bound_fails_visibly_and_alone() -> None:
    """INV-17, RS08: the reader never waits for a slow consumer."""
    rig = Rig()
    async with (
        rig.client() as client,
        client.subscribe("t") as slow,
        client.subscribe("o") as other,
    ):
        warning = {"method": "warning", "params": {"threadId": "t", "message": "m"}}
        rig.play({"burst": {"count": LIMIT_COUNT + 1, **warning}})
        rig.play({"tell": {"method": "warning", "params": {"threadId": "o", "message": "m"}}})
        await client.request("account/read", timeout_s=20)
        got = [type(event) async for event in slow]
        assert got == [Notification] * LIMIT_COUNT + [Closed]
        assert isinstance(await other.receive(), Notification)
        assert rig.counters.value("wire.subscriptions_overflowed") == 1


async def test_garbage_is_counted_and_a_flood_ends_the_connection() -> None:
    """Fault matrix: ignored; more than 100 in 10 s retires the client."""
    rig = Rig()
    async with rig.client() as client:
        rig.play({"garbage": 100})
        assert await client.request("account/read")
        assert rig.counters.value("wire.garbage_lines") == 100
        rig.play({"garbage": 1})
        with fail_after(5):
            await client.wait_lost()
        with pytest.raises(ProcessExited, match="garbage"):
            await client.request("account/read")


async def test_unknown_messages_are_kept_and_counted() -> None:
    rig = Rig()
    async with rig.client() as client, client.subscribe("t") as stream:
        rig.play({"tell": {"method": "from/theFuture", "params": {"threadId": "t", "a": 1}}})
        got = await stream.receive()
        assert isinstance(got, Notification)
        assert got.params() == {"threadId": "t", "a": 1}
    assert rig.counters.value("wire.unknown_methods") == 1


@pytest.mark.parametrize(
    "end", [{"close": True}, {"exit": 3}, {"partial": "{"}, {"huge": 64 * 1024 * 1024 + 1}]
)
async def test_lost_app_server_ends_all_that_waits(end: dict[str, Any]) -> None:
    """RS11, fault matrix: EOF with the process alive, death, partial line, a frame over 64 MiB."""
    rig = Rig(on={"model/list": [{"silence": True}]})
    rig.piece_bytes = 1 << 20
    outcome: list[str] = []

    async def ask(client: CodexClient) -> None:
        with pytest.raises(ProcessExited):
            await client.request("model/list")
        outcome.append("exited")

    async with rig.client() as client, client.subscribe("t") as stream:
        async with create_task_group() as group:
            group.start_soon(ask, client)
            while not client.open_request_count:
                await checkpoint()
            rig.play(end, *([{"close": True}] if "partial" in end else []))
            with fail_after(20):
                await client.wait_lost()
        last = await stream.receive()
        assert isinstance(last, Closed)
        assert isinstance(last.error, ProcessExited)
        assert client.is_lost
        async with client.subscribe("t2") as late:
            assert isinstance(await late.receive(), Closed)
    assert outcome == ["exited"]


@pytest.mark.parametrize("steps", [[{"exit": 1}], [{"silence": True}], [{"close": True}]])
async def test_app_server_that_dies_or_hangs_at_start_is_a_start_error(steps: list[Any]) -> None:
    rig = Rig(on={"initialize": steps})
    with pytest.raises(ProcessStartError), fail_after(5):
        async with rig.client(start_s=0.05):
            pass


@pytest.mark.parametrize("version", ["0.148.9", "", "new"])
async def test_old_or_nameless_version_is_refused(version: str) -> None:
    """Spec F-26."""
    rig = Rig(version=version)
    with pytest.raises(VersionUnsupported):
        async with rig.client():
            pass


async def test_newer_version_than_tested_is_a_warning() -> None:
    """Spec F-26, decision 9."""
    async with Rig(version="0.172.0").client() as client:
        assert client.info.warning is not None


class Connector:
    """Opens scripted clients for a pool and remembers them."""

    def __init__(self) -> None:
        self.rigs: list[Rig] = []
        self.script: dict[str, Any] = {}

    def __call__(self, key: LaunchKey) -> AbstractAsyncContextManager[CodexClient]:
        assert key.home.is_absolute()
        rig = Rig(**self.script)
        self.rigs.append(rig)
        return rig.client()


async def test_leases_of_one_home_share_an_app_server_and_others_do_not() -> None:
    connect = Connector()
    async with open_pool(connect, lambda: 0.0) as pool:
        here, there = launch_key(HOME, {}), launch_key(HOME, {"model": "x"})
        async with pool.lease(here) as one, pool.lease(here) as two, pool.lease(there) as three:
            assert one is two
            assert one is not three
        async with pool.lease(here) as again:
            assert again is one  # it stays warm
        assert len(connect.rigs) == 2
    assert one.is_lost


async def test_leases_at_the_same_time_start_one_app_server() -> None:
    connect = Connector()
    seen: set[int] = set()

    async def take() -> None:
        async with pool.lease(launch_key(HOME, {})) as client:
            seen.add(id(client))

    async with open_pool(connect, lambda: 0.0) as pool, create_task_group() as group:
        for _ in range(20):
            group.start_soon(take)
    assert len(seen) == len(connect.rigs) == 1


async def test_doubtful_client_serves_its_leases_to_the_end_and_nobody_new() -> None:
    connect = Connector()
    key = launch_key(HOME, {})
    async with open_pool(connect, lambda: 0.0) as pool:
        async with pool.lease(key) as old:
            old.retire("a test says so")
            async with pool.lease(key) as new:
                assert new is not old
            assert await old.request("account/read")
        with fail_after(5):
            await old.wait_lost()
            while len(pool.clients) > 1:
                await checkpoint()
        assert pool.clients == (new,)


async def test_lost_client_is_replaced() -> None:
    connect = Connector()
    key = launch_key(HOME, {})
    async with open_pool(connect, lambda: 0.0) as pool:
        async with pool.lease(key) as first:
            connect.rigs[0].play({"exit": 1})
            await first.wait_lost()
        async with pool.lease(key) as second:
            assert second is not first
            assert await second.request("account/read")


async def test_failed_start_is_the_lessees_error_and_the_next_may_succeed() -> None:
    connect = Connector()
    connect.script = {"on": {"initialize": [{"exit": 1}]}}
    key = launch_key(HOME, {})
    async with open_pool(connect, lambda: 0.0) as pool:
        with pytest.raises(ProcessStartError):
            async with pool.lease(key):
                pass
        connect.script = {}
        async with pool.lease(key) as client:
            assert client.is_usable


async def test_draining_pool_waits_for_its_leases_and_gives_no_new_one() -> None:
    connect = Connector()
    key = launch_key(HOME, {})
    release, held = Event(), Event()

    async def hold(group: TaskGroup) -> None:
        del group
        async with pool.lease(key):
            held.set()
            await release.wait()

    async with open_pool(connect, lambda: 0.0) as pool, create_task_group() as group:
        group.start_soon(partial(hold, group))
        await held.wait()
        assert not await pool.drain(0.01)
        with pytest.raises(ProcessExited):
            async with pool.lease(key):
                pass
        release.set()
        assert await pool.drain(5)


async def test_backoff_grows_to_its_cap_and_is_jittered() -> None:
    assert [backoff_s(n, 1.0) for n in (0, 1, 2, 3, 99)] == [0.0, 0.25, 0.5, 1.0, 8.0]
    assert backoff_s(3, 0.0) == 0.0
