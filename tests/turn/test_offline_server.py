"""The offline model as a server: doors, streaming, determinism, usage (decisions 24 and 26)."""

from __future__ import annotations

from urllib.parse import urlsplit

import anyio
import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.model.json import JsonObject, JsonValue
from treadle.offline.server import BODY_LIMIT, OfflineModel, chunks
from treadle.testing.http import HttpAnswer, http
from treadle.tokens import EstimateCounter, ExactCounter

pytestmark = pytest.mark.anyio


def user(text: str) -> JsonObject:
    part = {"type": "input_text", "text": text}
    return {"type": "message", "role": "user", "content": [part]}


async def ask(model: OfflineModel, *texts: str, **more: JsonValue) -> HttpAnswer:
    body: JsonObject = {"model": "m", "input": [user(text) for text in texts], **more}
    return await http("POST", f"{model.base_url}/responses", body)


async def test_an_answer_is_streamed_in_several_deltas_and_ends_with_usage() -> None:
    async with OfflineModel(counter=ExactCounter()) as model:
        answer = await ask(model, "My cat is called Mimi and she likes to sleep on the old sofa.")
    kinds = [str(event["type"]).removeprefix("response.") for event in answer.events]
    deltas = kinds.count("output_text.delta")
    assert deltas > 1
    assert kinds == [
        "created",
        "output_item.added",
        *["output_text.delta"] * deltas,
        "output_item.done",
        "completed",
    ]
    said = "Noted: My cat is called Mimi and she likes to sleep on the old sofa."
    assert answer.text == said
    usage = model.last_usage
    assert usage is not None
    assert usage.output_tokens == ExactCounter().count(said)
    assert answer.events[-1]["response"] == {
        "id": answer.events[0]["response"]["id"],  # type: ignore[index,call-overload]  # JSON
        "status": "completed",
        "usage": {
            "input_tokens": usage.input_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": usage.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.input_tokens + usage.output_tokens,
        },
    }


async def test_equal_requests_get_equal_bytes_and_threads_get_ids_of_their_own() -> None:
    async with OfflineModel() as model:
        one = await ask(model, "hello", prompt_cache_key="a")
        again = await ask(model, "hello", prompt_cache_key="a", client_metadata={"turn": "2"})
        other = await ask(model, "hello", prompt_cache_key="b")
    assert one.body == again.body
    assert one.text == other.text
    assert one.body != other.body


async def test_cached_tokens_are_reported_per_key_and_beside_it_without() -> None:
    """Decision 26."""
    long = "The quick brown fox jumps over the lazy dog. " * 150
    async with OfflineModel(counter=ExactCounter()) as model:
        await ask(model, long, prompt_cache_key="a")
        await ask(model, long, "more", prompt_cache_key="a")
        await ask(model, long, "more", prompt_cache_key="b")
        figures = [(u.cached_tokens, u.cached_any_key_tokens) for u in model.usages]
    assert figures[0] == (0, 0)
    assert figures[1][0] == figures[1][1] > 1_024
    assert figures[2][0] == 0
    assert figures[2][1] >= figures[1][1]


async def test_an_estimate_says_so() -> None:
    async with OfflineModel(counter=EstimateCounter()) as model:
        await ask(model, "hello")
        assert model.last_usage is not None
        assert not model.last_usage.exact


async def test_a_tool_call_is_one_item_and_a_compaction_too() -> None:
    tool: JsonObject = {
        "type": "function",
        "name": "look",
        "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
    }
    async with OfflineModel() as model:
        called = await ask(model, "use the tool look with q=x", tools=[tool])
        url = f"{model.base_url}/responses"
        items: JsonValue = [user("I like tea."), {"type": "compaction_trigger"}]
        compacted = await http("POST", url, {"input": items})
    call = called.events[2]["item"]
    assert isinstance(call, dict)
    assert (call["type"], call["name"], call["arguments"]) == (
        "function_call",
        "look",
        '{"q": "x"}',
    )
    item = compacted.events[2]["item"]
    assert isinstance(item, dict)
    assert item["type"] == "compaction"


async def test_models_are_listed() -> None:
    async with OfflineModel() as model:
        answer = await http("GET", f"{model.base_url}/models")
    assert answer.status == 200


async def test_doors_are_closed_to_all_but_those_who_know_the_address() -> None:
    """Decision 24."""
    async with OfflineModel() as model, OfflineModel() as other:
        parts = urlsplit(model.base_url)
        root = f"http://{parts.netloc}"
        assert parts.hostname == "127.0.0.1"
        assert urlsplit(other.base_url).path != parts.path
        refused = [
            await http("POST", f"{root}/v1/responses", {}),
            await http("POST", f"{root}{parts.path}x/responses", {}),
            await http("POST", f"{root}{parts.path}/other", {}),
            await http("GET", f"{model.base_url}/responses"),
            await http("POST", f"{model.base_url}/responses", {}, headers={"host": "evil.test"}),
            await http("POST", f"{model.base_url}/responses", {}, headers={"host": "127.0.0.1"}),
            await http("POST", f"{model.base_url}/responses", {}, headers={"origin": root}),
            await http("POST", f"{model.base_url}/responses", b"{"),
            await http("POST", f"{model.base_url}/responses", b"[]"),
        ]
        assert [r.status for r in refused] == [404, 404, 404, 405, 421, 421, 403, 400, 400]
        assert len(model.usages) == 0
        localhost = {"host": parts.netloc.replace("127.0.0.1", "localhost")}
        answer = await http("POST", f"{model.base_url}/responses", {}, headers=localhost)
        assert answer.status == 200


async def test_a_body_over_the_limit_is_refused() -> None:
    async with OfflineModel() as model:
        parts = urlsplit(model.base_url)
        async with await anyio.connect_tcp("127.0.0.1", parts.port or 0) as stream:
            head = f"POST {parts.path}/responses HTTP/1.1\r\nhost: {parts.netloc}\r\n"
            await stream.send(f"{head}content-length: {BODY_LIMIT + 1}\r\n\r\n".encode())
            block = bytes(1024 * 1024)
            answer = b""
            async with anyio.create_task_group() as group:

                async def upload() -> None:
                    for _ in range(BODY_LIMIT // len(block) + 1):
                        await stream.send(block)

                group.start_soon(upload)
                answer = await stream.receive()
                group.cancel_scope.cancel()
        assert answer.startswith(b"HTTP/1.1 413 ")


async def test_many_requests_at_once_get_their_own_answers() -> None:
    answers: dict[int, str] = {}
    async with OfflineModel() as model, anyio.create_task_group() as group:

        async def one(number: int) -> None:
            answer = await ask(model, f"My number is {number}.", "What is my number?")
            answers[number] = answer.text

        for number in range(30):
            group.start_soon(one, number)
    assert answers == {n: f'You said: "My number is {n}"' for n in range(30)}


async def test_an_error_of_the_caller_passes_through_as_it_is() -> None:
    async def enter_and_fail() -> None:
        async with OfflineModel():
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await enter_and_fail()


async def test_nobody_listens_after_the_end_nor_after_a_cancel() -> None:
    async with OfflineModel() as model:
        url = model.base_url
    with pytest.raises(OSError, match=r".*"):
        await http("GET", f"{url}/models")
    with anyio.CancelScope() as scope:
        async with OfflineModel() as model:
            url = model.base_url
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    with pytest.raises((OSError, h11.RemoteProtocolError)):
        await http("GET", f"{url}/models")


@given(st.text(max_size=300))
def test_chunks_joined_are_the_text(text: str) -> None:
    assert "".join(chunks(text)) == text
    assert all(chunks(text))
