"""One turn of the pinned codex through the wire, with a tool of ours and a scripted model."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from anyio import fail_after

from treadle.model.json import JsonObject
from treadle.protocol.items import (
    AgentMessage,
    DynamicToolCall,
    Unknown,
    delta_from_wire,
    item_from_wire,
)
from treadle.protocol.methods import is_known
from treadle.protocol.responses import item_kind
from treadle.protocol.rpc import Notification, ServerRequest
from treadle.testing.model import ScriptedModel
from treadle.testing.replies import call, reply
from treadle.wire.client import open_client
from treadle.wire.environment import child_environment
from treadle.wire.launch import OFFLINE_CONFIG, codex_argv, launch_key
from treadle.wire.pool import prepare_home
from treadle.wire.process import Link, Spawn, open_child

pytestmark = [pytest.mark.anyio, pytest.mark.codex]

TOOL: JsonObject = {
    "type": "function",
    "name": "recall",
    "description": "Recall.",
    "inputSchema": {"type": "object", "properties": {"q": {"type": "string"}}},
}


async def test_turn_with_a_tool_call_streams_and_completes(
    codex_binary: Path, scratch: Path
) -> None:
    """Facts sections 2 to 4: launch settings, raw events, deltas, a served tool call, id 0."""
    async with ScriptedModel() as model:
        model.enqueue(reply(call("recall", {"q": "x"})), "done now")
        config: JsonObject = {
            **OFFLINE_CONFIG,
            "model": "scripted-1",
            "model_provider": "scripted",
            "model_providers.scripted": {
                "name": "scripted",
                "base_url": model.base_url,
                "wire_api": "responses",
                "supports_websockets": False,
                "requires_openai_auth": False,
            },
        }
        key = launch_key(scratch / "home", config)
        await prepare_home(key.home)
        environment = child_environment(os.environ, {"CODEX_HOME": str(key.home)})

        @asynccontextmanager
        async def connect() -> AsyncIterator[Link]:
            spawn = Spawn(argv=codex_argv(codex_binary, key), environment=environment)
            async with open_child(spawn) as child:
                yield child

        asked: list[ServerRequest] = []

        async def recall(request: ServerRequest) -> JsonObject:
            asked.append(request)
            return {"contentItems": [{"type": "inputText", "text": "found"}], "success": True}

        async with open_client(connect) as client:
            started = await client.request(
                "thread/start",
                {"cwd": str(scratch), "dynamicTools": [TOOL], "experimentalRawEvents": True},
            )
            thread_id = str(started["thread"]["id"])  # type: ignore[index,call-overload]  # 0.163
            told: list[Notification] = []
            async with client.subscribe(thread_id) as stream:
                with client.serve({"item/tool/call": recall}, thread_id=thread_id):
                    text: list[JsonObject] = [{"type": "text", "text": "hi", "text_elements": []}]
                    await client.request("turn/start", {"threadId": thread_id, "input": text})
                    with fail_after(20):
                        while not told or told[-1].method != "turn/completed":
                            got = await stream.receive()
                            assert isinstance(got, Notification), got
                            told.append(got)
    assert [(r.id, r.params()["tool"]) for r in asked] == [(0, "recall")]
    items = [
        item_from_wire(n.params()["item"])  # type: ignore[arg-type]  # an object in the schema
        for n in told
        if n.method == "item/completed"
    ]
    assert not [item for item in items if isinstance(item, Unknown)]
    assert [i.success for i in items if isinstance(i, DynamicToolCall)] == [True]
    assert [i.text for i in items if isinstance(i, AgentMessage)] == ["done now"]
    deltas = [delta_from_wire(n) for n in told if n.method == "item/agentMessage/delta"]
    assert "".join(d.text for d in deltas if d is not None) == "done now"
    raw = [
        item_kind(n.params()["item"])  # type: ignore[arg-type]  # an object in the schema
        for n in told
        if n.method == "rawResponseItem/completed"
    ]
    assert {"function_call", "function_call_output"} <= set(raw)
    assert all(n.turn_id for n in told if n.method.startswith(("turn/", "item/")))
    assert {n.method for n in told if not is_known(n.method)} == set()
    assert "found" in str(model.requests[1].body)
