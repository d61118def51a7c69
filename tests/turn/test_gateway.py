"""The gateway over its socket, as any client sees it: greeting, messages, streams, limits."""

from __future__ import annotations

import os
import stat
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from msgspec.structs import replace

from tests.turn.gateway_rig import Bare, connected, greeted, served
from tests.turn.rig import TURN_S, Rig, turn_steps
from treadle.gateway.client import open_client
from treadle.gateway.frames import HELLO_BYTES, REQUEST_BYTES
from treadle.gateway.place import SOCKET_FILE, SUN_PATH_BYTES
from treadle.gateway.remote_run import cursor_in
from treadle.gateway.requests import Ping, Submit
from treadle.gateway.server import MAX_CLIENTS
from treadle.model.errors import MessageTooLarge, StateDirectoryRefused

pytestmark = pytest.mark.anyio

KEY = "agent:main:t"


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(root=tmp_path)


async def submit(client: Bare, text: str, name: str = "m_1") -> dict[str, Any]:
    answer = await client.ask(type="submit", session="t", text=text, client_message_id=name)
    told: dict[str, Any] = answer["ok"]
    return told


def error_of(answer: dict[str, Any]) -> str:
    return str(answer["error"]["code"])


async def test_the_socket_is_private_and_goes_with_its_gateway(rig: Rig) -> None:
    """INV-23."""
    async with served(rig):
        found = (rig.state / SOCKET_FILE).lstat()
        assert stat.S_ISSOCK(found.st_mode)
        assert stat.S_IMODE(found.st_mode) == 0o600
    assert not (rig.state / SOCKET_FILE).exists()


async def test_what_a_dead_owner_left_is_replaced_and_what_is_no_socket_is_not(rig: Rig) -> None:
    """RS26: a stale socket file stops nobody."""
    async with served(rig):
        pass
    async with await anyio.create_unix_listener(rig.state / SOCKET_FILE):
        pass
    assert (rig.state / SOCKET_FILE).exists()
    async with served(rig), greeted(rig) as client:
        assert (await client.ask(type="ping"))["ok"] == {}
    (rig.state / SOCKET_FILE).write_text("mine", encoding="utf-8")
    with pytest.raises(StateDirectoryRefused, match="no socket"):
        async with served(rig):
            pass
    assert (rig.state / SOCKET_FILE).read_text(encoding="utf-8") == "mine"


async def test_a_state_directory_with_a_long_path_has_its_socket_too(tmp_path: Path) -> None:
    """Ours: an address holds 107 bytes, a path many more."""
    root = tmp_path / ("long" * 30)
    root.mkdir()
    rig = Rig(root=root)
    assert len(os.fsencode(rig.state / SOCKET_FILE)) > SUN_PATH_BYTES
    async with served(rig), open_client(rig.state) as client:
        assert (rig.state / SOCKET_FILE).is_socket()
        assert await client.ask(Ping()) == {}


async def test_a_message_is_acknowledged_run_and_told_of_in_its_stream(rig: Rig) -> None:
    """Ours: the acknowledgement names the place behind which all events of the run stand."""
    rig.answers("Good morning.", deltas=["Good ", "morning."])
    async with served(rig), greeted(rig) as client:
        told = await submit(client, "hello")
        assert (told["state"], told["session_key"], told["client_message_id"]) == (
            "accepted", KEY, "m_1",
        )  # fmt: skip
        await client.ask(type="subscribe", streams=[told["stream"]])
        opened, *rest = await client.events_to("run.finished")
    assert (opened["type"], opened["data"]["mode"]) == ("stream.opened", "replay")
    durable = [one for one in rest if "seq" in one]
    assert [one["seq"] for one in durable] == list(range(1, len(durable) + 1))
    assert {one["run"] for one in durable if one["type"] != "session.created"} - {None} == {
        told["run"]
    }
    assert rest[-1]["data"]["text"] == "Good morning."
    for at, one in enumerate(rest):
        if "base" in one and one["run"]:
            before = [other["seq"] for other in rest[:at] if "seq" in other]
            assert one["base"] == max(before, default=0)


async def test_a_client_that_comes_back_is_given_what_it_missed(rig: Rig) -> None:
    """Cursor rules 1 and 2: events behind the cursor, then the open turn, then what comes."""
    rig.answers("one", "two")
    async with served(rig):
        async with greeted(rig) as client:
            told = await submit(client, "first")
            await client.ask(type="subscribe", streams=[told["stream"]])
            seen = [one for one in await client.events_to("run.finished") if "seq" in one]
        async with greeted(rig) as other:
            second = await submit(other, "second", "m_2")
            await other.ask(type="subscribe", streams=[second["stream"]])
            await other.events_to("run.finished")
        async with greeted(rig) as client:
            cursor = {"id": KEY, "epoch": seen[-1]["epoch"], "after": seen[-1]["seq"]}
            await client.ask(type="subscribe", streams=[cursor])
            found = await client.events_to("stream.live")
    assert [one["type"] for one in (found[0], *found[-2:])] == [
        "stream.opened", "turn.snapshot", "stream.live",
    ]  # fmt: skip
    missed = [one for one in found if "seq" in one]
    assert [one["seq"] for one in missed] == [
        seen[-1]["seq"] + n for n in range(1, len(missed) + 1)
    ]
    assert missed[-1]["data"]["text"] == "two"
    assert found[-2]["data"] == {"runs": []}


async def test_a_cursor_that_fits_no_more_gets_a_snapshot(rig: Rig) -> None:
    """Cursor rule 3: a reset begins another epoch; live followers are told too."""
    rig.answers("one")
    async with served(rig), greeted(rig) as client:
        told = await submit(client, "first")
        await client.ask(type="subscribe", streams=[told["stream"]])
        last = (await client.events_to("run.finished"))[-1]
        await client.ask(type="sessions.reset", session="t")
        told_live = await client.events_to("session.reset")
        assert [one["type"] for one in told_live][-2:] == ["stream.opened", "session.reset"]
        assert told_live[-2]["data"]["mode"] == "snapshot"
        assert told_live[-1]["epoch"] == last["epoch"] + 1
        cursor = {"id": KEY, "epoch": last["epoch"], "after": last["seq"]}
        await client.ask(type="subscribe", streams=[cursor])
        opened, picture, live = await client.events_to("stream.live")
        assert (opened["data"]["mode"], opened["data"]["head"]) == (
            "snapshot", told_live[-1]["seq"],
        )  # fmt: skip
        assert (picture["type"], live["base"]) == ("turn.snapshot", told_live[-1]["seq"])


def unfinished(*deltas: str) -> list[dict[str, Any]]:
    """Return the steps of a turn that says this much and waits to be interrupted."""
    ids = {"threadId": "$thread", "turnId": "$turn"}
    said = [
        {
            "tell": {
                "method": "item/agentMessage/delta",
                "params": {**ids, "itemId": "a", "delta": d},
            }
        }
        for d in deltas
    ]
    return [turn_steps({})[0], *said]


async def test_who_comes_amid_a_turn_sees_its_open_parts(rig: Rig) -> None:
    """Cursor rule 5: the picture of the turn holds the text so far."""
    rig.codex.once("turn/start", unfinished("Good ", "mor"))
    async with served(rig), greeted(rig) as first, greeted(rig) as late:
        told = await submit(first, "hello")
        await first.ask(type="subscribe", streams=[told["stream"]])
        await first.events_to("part.delta")
        await late.ask(type="subscribe", streams=[{"id": KEY}])
        found = await late.events_to("stream.live")
        assert (await late.ask(type="interrupt", run=told["run"]))["ok"] == {"running": True}
        last = (await late.events_to("run.finished"))[-1]
        assert (await late.ask(type="interrupt", run=told["run"]))["ok"] == {"running": False}
    [run] = found[-2]["data"]["runs"]
    assert run["run"] == told["run"]
    assert "".join(part["text"] for part in run["parts"]).startswith("Good")
    assert last["data"]["outcome"] == "stopped"


async def test_a_client_that_goes_leaves_its_run_alone(rig: Rig) -> None:
    """Fault matrix, client gone: the turn goes on."""
    rig.answers("answered all the same")
    async with served(rig) as opened:
        async with greeted(rig) as client:
            told = await submit(client, "hello")
        for handle in opened.runtime.running:
            await handle.result()
        async with greeted(rig) as client:
            await client.ask(type="subscribe", streams=[told["stream"]])
            last = (await client.events_to("run.finished"))[-1]
    assert last["data"]["text"] == "answered all the same"


async def test_messages_of_one_client_are_accepted_in_the_order_of_its_frames(rig: Rig) -> None:
    """INV-3: sent in one piece, without waiting for any answer."""
    names = [f"m_{n}" for n in range(6)]
    rig.answers(*names)
    async with served(rig), greeted(rig) as client:
        await client.ask(type="subscribe", streams=[{"id": KEY}])
        for name in names:
            await client.send(type="submit", session="t", text=name, client_message_id=name)
        for _ in names:
            await client.events_to("run.finished")
    assert rig.sent() == names


# -------------------------------------------------------------------------------- limits


async def test_a_client_that_says_nothing_is_let_go(rig: Rig) -> None:
    """Ours, limits: one byte a second, or none, holds nothing for long."""
    async with served(rig), connected(rig) as client:
        await client.stream.send(b"{")
        with pytest.raises(anyio.EndOfStream):
            await client.frame()


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"x" * (HELLO_BYTES + 1) + b"\n", "usage.invalid"),
        (b"GET / HTTP/1.1\r\n\r\n", "usage.invalid"),
        (b'{"type":"hello","v":99,"id":1}\n', "gateway.refused"),
        (b"[" * 4000 + b"\n", "usage.invalid"),
    ],
    ids=["too long", "http", "other version", "deep"],
)
async def test_who_does_not_say_hello_is_told_why_and_let_go(
    rig: Rig, data: bytes, code: str
) -> None:
    """Ours, limits."""
    async with served(rig), connected(rig) as client:
        await client.stream.send(data)
        assert error_of(await client.frame()) == code
        with pytest.raises(anyio.EndOfStream):
            await client.frame()


async def test_a_frame_of_more_than_a_mebibyte_ends_the_connection_alone(rig: Rig) -> None:
    """Ours, limits: others are not affected."""
    async with served(rig), greeted(rig) as other, greeted(rig) as client:
        with suppress(anyio.BrokenResourceError):
            await client.stream.send(b"x" * (REQUEST_BYTES + 1) + b"\n")
        assert error_of(await client.frame()) == "usage.invalid"
        with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await client.frame()
        assert (await other.ask(type="ping"))["ok"] == {}


async def test_a_text_of_a_million_characters_comes_in_pieces(rig: Rig) -> None:
    """RS12, decision 25: as long as a message may be, of four bytes each."""
    rig.answers("read")
    text = "\U0001f9f6" * 2**20
    async with served(rig), open_client(rig.state) as client:
        request = Submit(session="t", text=text, client_message_id="m_1")
        told = await client.submit(request)
        assert told["state"] == "accepted"
        with pytest.raises(MessageTooLarge):
            await client.submit(replace(request, text=text + "x", client_message_id="m_2"))
        async with client.watch(cursor_in(told)) as events:
            async for event in events:
                if event["type"] == "run.finished":
                    break
    assert rig.sent() == [text]


async def test_more_clients_than_there_are_places_are_let_go_at_once(rig: Rig) -> None:
    """Ours, limits: those that are there are served."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(served(rig))
        first = await stack.enter_async_context(greeted(rig))
        for _ in range(MAX_CLIENTS - 1):
            await stack.enter_async_context(greeted(rig))
        late = await stack.enter_async_context(connected(rig))
        with pytest.raises(anyio.EndOfStream):
            await late.frame()
        assert (await first.ask(type="status"))["ok"]["clients"] == MAX_CLIENTS


async def test_errors_are_those_of_the_runtime(rig: Rig) -> None:
    """Ours: code, message and next step go over the socket as they are."""
    async with served(rig), greeted(rig) as client:
        empty = await client.ask(type="submit", session="t", text=" ", client_message_id="m")
        assert empty["error"]["code"] == "usage.invalid"
        assert empty["error"]["next_step"]
        for request in (
            {"type": "sessions.entries", "session": "nope"},
            {"type": "sessions.list", "agent": "nobody"},
        ):
            assert error_of(await client.ask(**request)) == "not_found"
        assert (await client.ask(type="sessions.get", session="nope"))["ok"]["session"] is None


async def test_a_compaction_holds_up_nothing_else_of_its_client(rig: Rig) -> None:
    """Spec D-38: asked for over the socket, answered once it is over, and refused as elsewhere."""
    turn: dict[str, Any] = {"id": "c-1", "items": [], "status": "inProgress", "error": None}
    begun = {"method": "turn/started", "params": {"threadId": "$thread", "turn": turn}}
    rig.codex.once("thread/compact/start", [{"answer": {}}, {"tell": begun}])
    ids = {"threadId": "thread-1", "turnId": "c-1"}
    item = {"type": "contextCompaction", "id": "i"}
    rest = [
        {"method": "item/started", "params": {**ids, "item": item, "startedAtMs": 1}},
        {"method": "item/completed", "params": {**ids, "item": item, "completedAtMs": 2}},
        {"method": "turn/completed", "params": {**ids, "turn": {**turn, "status": "completed"}}},
    ]
    rig.answers("fine")
    async with served(rig) as gateway, greeted(rig) as client:
        none = await client.ask(type="sessions.compact", session="t")
        await submit(client, "hello")
        for run in gateway.runtime.running:
            await run.result()
        number = await client.send(type="sessions.compact", session="t")
        meanwhile = await client.ask(type="sessions.get", session="t")
        with anyio.fail_after(TURN_S):
            while not rig.codex.requests("thread/compact/start"):
                await anyio.lowlevel.checkpoint()
        rig.links[0].play([{"tell": one} for one in rest])
        answer = await client.frame()
    assert error_of(none) == "not_found"
    assert meanwhile["ok"]["session"] is not None
    assert (answer["id"], answer["ok"]["result"]["compacted"]) == (number, True)


async def test_a_gateway_that_ends_takes_no_message_and_answers_questions(rig: Rig) -> None:
    """Fault matrix, SIGTERM: new ones are refused as `draining`; what runs ends."""
    rig.codex.once("turn/start", unfinished("so far"))
    async with served(rig) as opened, greeted(rig) as client:
        told = await submit(client, "hello")
        await client.ask(type="subscribe", streams=[told["stream"]])
        assert (await client.ask(type="stop"))["ok"]["running"] == 1
        await opened.gateway.stop_asked()
        refused = await client.ask(type="submit", session="t", text="late", client_message_id="m")
        assert error_of(refused) == "draining"
        about = (await client.ask(type="status"))["ok"]
        assert (about["accepting"], len(about["runs"])) == (False, 1)
        async with anyio.create_task_group() as group:
            group.start_soon(opened.gateway.drain, None)
            await client.ask(type="interrupt", run=told["run"])
        assert opened.runtime.running == ()


async def test_a_commands_own_gateway_is_not_stopped_from_outside(rig: Rig) -> None:
    """Ours: it ends with its command."""
    async with served(rig, role="command"), greeted(rig) as client:
        assert error_of(await client.ask(type="stop")) == "gateway.refused"
        assert (await client.ask(type="status"))["ok"]["accepting"] is True


async def test_clients_are_sent_the_last_events_before_the_gateway_ends(rig: Rig) -> None:
    """INV-15: who attached learns how its run ended, although the owner goes."""
    rig.answers("the last words")
    async with AsyncExitStack() as outlives:
        async with served(rig, role="command") as opened:
            client = await outlives.enter_async_context(greeted(rig))
            told = await submit(client, "hello")
            await client.ask(type="subscribe", streams=[told["stream"]])
            await opened.gateway.drain(None)
        last = (await client.events_to("run.finished"))[-1]
        assert last["data"]["text"] == "the last words"
        with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await client.frame()
