"""The real Codex against the scripted model, through the bare client (issue 2 item 11)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from treadle.model.errors import ProcessExited, RpcError
from treadle.model.json import JsonObject, JsonValue
from treadle.protocol.responses import function_call_item, function_call_output_item, message_item
from treadle.testing.bare import BareCodex
from treadle.testing.model import (
    HttpError,
    ScriptedModel,
    Usage,
    call,
    custom_call,
    cut,
    failed,
    gate,
    hang,
    prefix_overlap,
    reasoning,
    reply,
    text,
    text_overlap,
    tool_search,
)
from treadle.testing.provider import BARE_CONFIG, provider_config, write_config

pytestmark = [pytest.mark.anyio, pytest.mark.codex]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rig:
    """A scripted model and an initialized app-server that talks to it."""

    model: ScriptedModel
    app: BareCodex
    work: Path
    spawn: Callable[[], BareCodex]

    async def thread(self, **params: JsonValue) -> str:
        """Start a thread with nothing in its prompt but BASE, DEV and the turn."""
        defaults: JsonObject = {
            "cwd": str(self.work),
            "baseInstructions": "BASE",
            "developerInstructions": "DEV",
            "approvalPolicy": "never",
            "config": dict(BARE_CONFIG),
        }
        started = await self.app.request("thread/start", {**defaults, **params})
        return str(started["thread"]["id"])

    async def begin(self, thread: str, prompt: str) -> str:
        content = [{"type": "text", "text": prompt}]
        params: JsonObject = {"threadId": thread, "input": content}
        return str((await self.app.request("turn/start", params))["turn"]["id"])


@asynccontextmanager
async def open_rig(binary: Path, root: Path) -> AsyncIterator[Rig]:
    work = root / "work"
    work.mkdir()

    def spawn() -> BareCodex:
        return BareCodex(binary, root / "home", cwd=work, env={"HOME": str(root)})

    async with ScriptedModel() as model:
        write_config(root / "home", provider_config(model.base_url))
        async with spawn() as app:
            await app.initialize()
            yield Rig(model=model, app=app, work=work, spawn=spawn)


def recall_tool(**more: JsonValue) -> list[JsonValue]:
    schema: JsonObject = {"type": "object", "properties": {"q": {"type": "string"}}}
    tool: JsonObject = {
        "type": "function",
        "name": "recall",
        "description": "Rare banana lookup.",
        "inputSchema": schema,
        **more,
    }
    return [{"type": "namespace", "name": "mem", "description": "d", "tools": [tool]}]


def answering(seen: list[Any]) -> Callable[[Any], JsonValue]:
    def answer(params: Any) -> JsonValue:
        seen.append(params)
        return {"contentItems": [{"type": "inputText", "text": "R"}], "success": True}

    return answer


async def test_plain_turn_prompt_and_usage(codex_binary: Path, scratch: Path) -> None:
    async with open_rig(codex_binary, scratch) as r:
        r.model.enqueue(
            reply(reasoning("thinking"), text("hel", "lo"), usage=Usage(1000, 400, 20, 5))
        )
        turn = await r.app.turn(await r.thread(), "hi")
        assert (turn.status, turn.text) == ("completed", "hello")
        request = r.model.requests[0]
        assert request.texts() == ["BASE", "DEV", "hi"]
        assert request.tool_names == []
        assert not request.is_compaction
        told = next(e.params for e in turn.events if e.method == "thread/tokenUsage/updated")
        last = told["tokenUsage"]["last"]
        assert (last["inputTokens"], last["cachedInputTokens"]) == (1000, 400)
        assert last["reasoningOutputTokens"] == 5
        r.model.check()
        assert r.model.other == []


async def test_consecutive_turns_extend_the_prompt(codex_binary: Path, scratch: Path) -> None:
    async with open_rig(codex_binary, scratch) as r:
        thread = await r.thread()
        r.model.enqueue("one", "two", "three")
        await r.app.turn(thread, "first")
        await r.app.turn(thread, "second")
        assert prefix_overlap(*r.model.requests).percent == 100.0
        assert [request.thread_id for request in r.model.requests] == [thread, thread]
        await r.app.turn(await r.thread(), "first")
        first, _, third = r.model.requests
        assert prefix_overlap(first, third).items == 0
        assert text_overlap(first, third).percent == 100.0


async def test_dynamic_tool_call(codex_binary: Path, scratch: Path) -> None:
    async with open_rig(codex_binary, scratch) as r:
        seen: list[Any] = []
        r.app.respond("item/tool/call", answering(seen))
        r.model.enqueue(reply(call("recall", {"q": "x"}, namespace="mem", call_id="c1")), "done")
        turn = await r.app.turn(await r.thread(dynamicTools=recall_tool()), "go")
        assert turn.text == "done"
        assert (seen[0]["namespace"], seen[0]["tool"]) == ("mem", "recall")
        assert seen[0]["arguments"] == {"q": "x"}
        assert r.model.requests[1].output_of("c1") == "R"
        assert "mem" in r.model.requests[0].tool_names


async def test_deferred_tools_are_found_by_search(codex_binary: Path, scratch: Path) -> None:
    async with open_rig(codex_binary, scratch) as r:
        r.model.enqueue(reply(tool_search("banana", call_id="s1")), "done")
        tools = recall_tool(deferLoading=True)
        await r.app.turn(await r.thread(dynamicTools=tools, model="gpt-5.5"), "go")
        assert "mem" not in r.model.requests[0].tool_names
        found: Any = next(i for i in r.model.requests[1].input if i["type"] == "tool_search_output")
        assert found["tools"][0]["tools"][0]["name"] == "recall"


async def test_code_mode_reaches_dynamic_tools(codex_binary: Path, scratch: Path) -> None:
    async with open_rig(codex_binary, scratch) as r:
        seen: list[Any] = []
        r.app.respond("item/tool/call", answering(seen))
        script = "const r = await tools.mem__recall({q: 'z'}); text('got ' + r)"
        r.model.enqueue(reply(custom_call("exec", script, call_id="x1")), "done")
        thread = await r.thread(dynamicTools=recall_tool(), model="gpt-6.1-sol")
        await r.app.turn(thread, "go")
        assert "functions" in r.model.requests[0].tool_names
        assert seen[0]["arguments"] == {"q": "z"}
        assert seen[0]["callId"].startswith("exec-")
        output: Any = r.model.requests[1].output_of("x1")
        assert output[-1]["text"] == "got R"


async def test_errors_retries_and_broken_streams(codex_binary: Path, scratch: Path) -> None:
    """Facts section 11."""
    async with open_rig(codex_binary, scratch) as r:
        thread = await r.thread()
        r.model.enqueue(HttpError(500, {"error": {"message": "boom"}}), "recovered")
        assert (await r.app.turn(thread, "a")).text == "recovered"
        r.model.enqueue(cut(text("half")), "again")
        turn = await r.app.turn(thread, "b")
        assert turn.text == "again"
        assert any(e.method == "error" and e.params["willRetry"] for e in turn.events)
        r.model.enqueue(failed("context_length_exceeded", "too long"))
        turn = await r.app.turn(thread, "c")
        assert turn.status == "failed"
        assert turn.error["codexErrorInfo"] == "contextWindowExceeded"


async def test_an_unreachable_endpoint_fails_the_turn(codex_binary: Path, scratch: Path) -> None:
    """Facts section 11: only because `unbounded_connection_retries` is off."""
    async with open_rig(codex_binary, scratch) as r:
        thread = await r.thread()
        port = r.model.port
        await r.model.stop()
        turn = await r.app.turn(thread, "a")
        assert turn.status == "failed"
        await r.model.start(port)
        r.model.enqueue("back")
        assert (await r.app.turn(thread, "b")).text == "back"


async def test_interrupt_closes_the_stream(codex_binary: Path, scratch: Path) -> None:
    async with open_rig(codex_binary, scratch) as r:
        thread = await r.thread()
        r.model.enqueue(hang(text("begun")))
        turn = await r.begin(thread, "x")
        await r.app.wait_for("item/agentMessage/delta")
        await r.app.request("turn/interrupt", {"threadId": thread, "turnId": turn})
        assert (await r.app.finish_turn(thread, turn)).status == "interrupted"


async def test_steer_reaches_the_model_in_the_same_turn(codex_binary: Path, scratch: Path) -> None:
    async with open_rig(codex_binary, scratch) as r:
        thread = await r.thread()
        held = gate()
        r.model.enqueue(reply(text("a"), held), "after steer")
        turn = await r.begin(thread, "x")
        await held.reached.wait()
        steer: JsonObject = {
            "threadId": thread,
            "expectedTurnId": turn,
            "input": [{"type": "text", "text": "STEER"}],
        }
        await r.app.request("turn/steer", steer)
        held.event.set()
        assert (await r.app.finish_turn(thread, turn)).text == "after steer"
        assert r.model.requests[1].texts("user") == ["x", "STEER"]


async def test_injected_items_survive_a_new_process(codex_binary: Path, scratch: Path) -> None:
    async with open_rig(codex_binary, scratch) as r:
        thread = await r.thread()
        items = [
            message_item("user", "U"),
            message_item("assistant", "A"),
            function_call_item("f", "{}", "c"),
            function_call_output_item("c", "OUT"),
        ]
        await r.app.request("thread/inject_items", {"threadId": thread, "items": items})
        r.model.enqueue("one", "two")
        await r.app.turn(thread, "first")
        assert r.model.requests[0].texts() == ["BASE", "DEV", "U", "A", "first"]
        assert r.model.requests[0].output_of("c") == "OUT"
        await r.app.kill()
        async with r.spawn() as again:
            await again.initialize()
            params: JsonObject = {"threadId": thread, "config": dict(BARE_CONFIG)}
            await again.request("thread/resume", params)
            await again.turn(thread, "second")
        assert prefix_overlap(*r.model.requests).percent == 100.0


async def test_compaction_request_and_new_history(codex_binary: Path, scratch: Path) -> None:
    """Facts section 5."""
    async with open_rig(codex_binary, scratch) as r:
        thread = await r.thread()
        r.model.enqueue("one", "SUMMARY", "two")
        await r.app.turn(thread, "first")
        since = len(r.app.events)
        await r.app.request("thread/compact/start", {"threadId": thread})
        await r.app.wait_for("turn/completed", since=since)
        await r.app.turn(thread, "second")
        assert [request.is_compaction for request in r.model.requests] == [False, True, False]
        assert r.model.requests[1].tool_names == []
        texts = r.model.requests[2].texts("user")
        assert (texts[0], texts[2]) == ("first", "second")
        assert "SUMMARY" in texts[1]
        assert r.model.requests[2].texts("assistant") == []


async def test_threads_stream_at_the_same_time(codex_binary: Path, scratch: Path) -> None:
    async with open_rig(codex_binary, scratch) as r:
        held = gate()
        r.model.handle(lambda q: True, lambda q: reply(held, text(q.texts("user")[-1])))
        threads = [await r.thread() for _ in range(8)]
        said: dict[str, str] = {}

        async def one(thread: str) -> None:
            said[thread] = (await r.app.turn(thread, f"to {thread}")).text

        async with anyio.create_task_group() as group:
            for thread in threads:
                group.start_soon(one, thread)
            await r.model.wait_for_requests(8)
            held.event.set()
    assert said == {thread: f"to {thread}" for thread in threads}


async def test_rpc_errors_and_closing(codex_binary: Path, scratch: Path) -> None:
    async with open_rig(codex_binary, scratch) as r:
        unknown = "01a22e49-aea0-7fa3-9a79-8d4c199cb72b"
        with pytest.raises(RpcError) as caught:
            await r.app.request("thread/read", {"threadId": unknown})
        assert caught.value.rpc_code == -32600
        async with anyio.create_task_group() as group:

            async def wait_in_vain() -> None:
                with pytest.raises(ProcessExited):
                    await r.app.wait_for("never/sent", within_s=30)

            group.start_soon(wait_in_vain)
            assert await r.app.close() == 0
        with pytest.raises(ProcessExited):
            await r.app.request("thread/loaded/list", {})
