"""The scripted model alone (issue 2 item 11)."""

from __future__ import annotations

import anyio
import h11
import pytest

from treadle.model.json import JsonObject, JsonValue
from treadle.testing.http import HttpAnswer, http
from treadle.testing.model import (
    HttpError,
    Raw,
    Request,
    ScriptedModel,
    ScriptExhausted,
    Usage,
    call,
    custom_call,
    cut,
    failed,
    gate,
    hang,
    incomplete,
    prefix_overlap,
    reasoning,
    reply,
    text,
    text_overlap,
    tool_search,
)

pytestmark = pytest.mark.anyio


async def post(model: ScriptedModel, body: JsonValue) -> HttpAnswer:
    return await http("POST", f"{model.base_url}/responses", body)


def kinds(answer: HttpAnswer) -> list[str]:
    return [str(event["type"]).removeprefix("response.") for event in answer.events]


def item(answer: HttpAnswer) -> JsonObject:
    found = next(e["item"] for e in answer.events if e["type"] == "response.output_item.done")
    assert isinstance(found, dict)
    return found


def response(answer: HttpAnswer) -> JsonObject:
    found = answer.events[-1]["response"]
    assert isinstance(found, dict)
    return found


async def test_stream_events_are_complete_and_in_order() -> None:
    async with ScriptedModel() as model:
        model.enqueue(reply(reasoning("why"), text("a", "b"), usage=Usage(9, 4, 2, 1)))
        answer = await post(model, {"model": "m", "input": []})
    assert answer.status == 200
    assert kinds(answer)[0] == "created"
    assert kinds(answer)[-1] == "completed"
    deltas = [e["delta"] for e in answer.events if str(e["type"]).endswith("output_text.delta")]
    assert deltas == ["a", "b"]
    assert response(answer)["usage"] == {
        "input_tokens": 9,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens": 2,
        "output_tokens_details": {"reasoning_tokens": 1},
        "total_tokens": 11,
    }


async def test_requests_are_recorded_byte_for_byte() -> None:
    raw = b'{"model":"m",  "input":[]}'
    async with ScriptedModel() as model:
        model.enqueue("x")
        await post(model, raw)
    assert model.requests[0].raw == raw
    assert model.requests[0].body == {"model": "m", "input": []}


async def test_an_exhausted_script_is_reported() -> None:
    async with ScriptedModel() as model:
        assert (await post(model, {"input": []})).status == 400
        with pytest.raises(ScriptExhausted, match="no scripted answer"):
            model.check()
        model.clear()
        model.check()


async def test_routes_win_over_the_queue_and_handlers_never_run_dry() -> None:
    async with ScriptedModel() as model:
        model.enqueue("queue")
        model.route(lambda r: r.fields["model"] == "a", "route")
        model.handle(lambda r: r.fields["model"] == "b", lambda r: f"handled {len(r.input)}")
        assert model.pending == 2
        said = [
            (await post(model, {"model": name, "input": [{}, {}]})).text
            for name in ("a", "b", "b", "a")
        ]
    assert said == ["route", "handled 2", "handled 2", "queue"]
    assert model.pending == 0


async def test_a_handler_may_be_async() -> None:
    async def answer(request: Request) -> str:
        await anyio.lowlevel.checkpoint()
        return str(request.fields["model"])

    async with ScriptedModel() as model:
        model.fallback = answer
        assert (await post(model, {"model": "m"})).text == "m"


async def test_compact_endpoint_model_list_and_all_other_requests() -> None:
    async with ScriptedModel(models=[{"slug": "m"}]) as model:
        model.enqueue(reply(call("f", {}, call_id="c")))
        compacted = await http("POST", f"{model.base_url}/responses/compact", {"input": []})
        models = await http("GET", f"{model.base_url}/models")
        other = await http("GET", f"{model.base_url}/nothing")
    assert compacted.json == {
        "output": [
            {
                "type": "function_call",
                "name": "f",
                "arguments": "{}",
                "status": "completed",
                "call_id": "c",
            }
        ]
    }
    assert models.json == {"models": [{"slug": "m"}], "object": "list", "data": []}
    assert other.status == 404
    assert [request.path for request in model.other] == ["/v1/models", "/v1/nothing"]


async def test_calls_get_ids_that_never_repeat() -> None:
    async with ScriptedModel() as model:
        model.enqueue(
            reply(call("f", {"a": 1}, namespace="n")),
            reply(custom_call("exec", "text(1)")),
            reply(tool_search("q", limit=2)),
        )
        items = [item(await post(model, {})) for _ in range(3)]
    assert len({i["call_id"] for i in items} | {i["id"] for i in items}) == 6
    assert [i["type"] for i in items] == [
        "function_call",
        "custom_tool_call",
        "tool_search_call",
    ]
    assert (items[0]["namespace"], items[0]["arguments"]) == ("n", '{"a": 1}')
    assert items[2]["arguments"] == {"query": "q", "limit": 2}


async def test_endings() -> None:
    async with ScriptedModel() as model:
        model.enqueue(
            failed("context_length_exceeded", "too long"),
            incomplete("max_output_tokens", text("half")),
            HttpError(429, {"error": "slow"}, {"retry-after": "1"}),
            reply(Raw(event={"type": "response.odd"})),
            cut(text("half")),
        )
        bad, part, refused, odd = [await post(model, {}) for _ in range(4)]
        with pytest.raises(h11.RemoteProtocolError):
            await post(model, {})
    assert response(bad)["error"] == {"code": "context_length_exceeded", "message": "too long"}
    assert response(part)["incomplete_details"] == {"reason": "max_output_tokens"}
    assert (refused.status, refused.headers["retry-after"]) == (429, "1")
    assert kinds(odd) == ["created", "odd", "completed"]


async def test_many_streams_at_once_are_held_by_their_gates() -> None:
    said: dict[int, str] = {}
    async with ScriptedModel() as model:
        gates = [gate() for _ in range(50)]
        model.fallback = lambda r: reply(gates[int(str(r.fields["model"]))], str(r.fields["model"]))

        async def one(number: int) -> None:
            said[number] = (await post(model, {"model": str(number)})).text

        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                for number in range(50):
                    group.start_soon(one, number)
                await model.wait_for_requests(50)
                for held in gates:
                    await held.reached.wait()
                assert model.open_streams == 50
                for held in gates:
                    held.event.set()
    assert said == {n: str(n) for n in range(50)}
    assert model.open_streams == 0


async def test_stopping_drops_open_streams_and_the_port_can_be_taken_again() -> None:
    async with ScriptedModel() as model:
        held = gate()
        model.enqueue(hang(held), "again")
        held.event.set()
        port = model.port
        async with anyio.create_task_group() as group:

            async def broken() -> None:
                with pytest.raises(h11.RemoteProtocolError):
                    await post(model, {})

            group.start_soon(broken)
            await held.reached.wait()
            await model.stop()
        with pytest.raises(OSError, match=r".*"):
            await post(model, {})
        await model.start(port)
        assert model.port == port
        assert (await post(model, {})).text == "again"


async def test_a_client_that_leaves_ends_its_stream() -> None:
    async with ScriptedModel() as model:
        held = gate()
        model.enqueue(reply(held))
        async with anyio.create_task_group() as group:
            group.start_soon(post, model, {})
            await held.reached.wait()
            group.cancel_scope.cancel()
        with anyio.fail_after(5):
            while model.open_streams:
                await anyio.lowlevel.checkpoint()


def request(*items: JsonObject, **headers: str) -> Request:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Request(
        method="POST",
        path="/v1/responses",
        headers=names,
        raw=b"",
        body={"input": list(items)},
        at=0.0,
    )


async def test_prefix_overlap_counts_items_and_bytes() -> None:
    full = prefix_overlap(request({"a": 1}), request({"a": 1}, {"b": 2}))
    assert (full.items, full.items_total, full.percent) == (1, 1, 100.0)
    half = prefix_overlap(request({"a": 1}, {"b": 2}), request({"a": 1}, {"c": 3}))
    assert (half.items, half.items_total, half.percent) == (1, 2, 50.0)


async def test_text_overlap_ignores_item_ids() -> None:
    one, other = request({"id": "1", "a": 1}), request({"id": "2", "a": 1}, {"b": 2})
    assert prefix_overlap(one, other).items == 0
    assert text_overlap(one, other).percent == 100.0


async def test_a_request_tells_what_it_holds() -> None:
    lite: JsonObject = {"type": "additional_tools", "tools": [{"type": "custom", "name": "exec"}]}
    part: JsonObject = {"type": "input_text", "text": "hi"}
    told = request(
        lite,
        {"type": "message", "role": "user", "content": [part, {"type": "input_image"}]},
        {"type": "message", "role": "developer", "content": [part]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "OUT"},
        x_codex_turn_metadata='{"request_kind":"compaction"}',
        thread_id="t",
    )
    assert told.tool_names == ["exec"]
    assert told.texts() == ["hi", "hi"]
    assert told.texts("user") == ["hi"]
    assert told.output_of("c") == "OUT"
    assert (told.is_compaction, told.thread_id) == (True, "t")
    with pytest.raises(KeyError):
        told.output_of("d")
