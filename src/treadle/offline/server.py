"""Serve the offline model: the Responses API on a loopback port behind a secret path.

Knows nothing of Codex or of sessions, decides no answer itself, and logs no text.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import deque
from collections.abc import Iterator
from contextlib import AsyncExitStack
from itertools import pairwise
from types import TracebackType
from typing import Self

import anyio
import anyio.to_thread
import msgspec
from starlette.types import Receive, Scope, Send

from treadle.model.json import JsonObject, JsonValue
from treadle.offline import sse
from treadle.offline.answer import Answer, CallCustom, CallFunction, Compact, Say, decide
from treadle.offline.listen import (
    LOOPBACK,
    read_body,
    send_json,
    serve_app,
    start_response,
    wait_for_disconnect,
)
from treadle.offline.usage import CacheLedger, Usage, rendered
from treadle.protocol.responses import custom_call_item, function_call_item
from treadle.tokens import Counter, open_counter

MODEL = "offline-1"
"""The model's name. No catalog of Codex has it, so classic tools are offered, window 258,400."""

BODY_LIMIT = 64 * 1024 * 1024
"""Bytes of a request; a longer one is refused with 413."""

CHUNK_WORDS = 6
"""Words of a streamed delta."""

_REMEMBERED_USAGES = 1_024


class OfflineModel:
    """The offline model as an async context manager.

        async with OfflineModel() as model:
            ...  # point Codex at model.base_url

    Listens on a random port of 127.0.0.1. Who does not know the path's secret gets 404, a foreign
    `Host` 421, any `Origin` (a browser) 403. Equal requests get equal answers; ids in the answer
    derive from the input and the `prompt_cache_key`. Source: decisions 24 and 26.
    """

    def __init__(self, *, counter: Counter | None = None) -> None:
        self._counter = counter or open_counter()
        self._ledger = CacheLedger(self._counter)
        self._secret = secrets.token_urlsafe(24)
        self._thinking = anyio.CapacityLimiter(1)  # also keeps the ledger to one thread at a time
        self._stop = anyio.Event()
        self._stack = AsyncExitStack()
        self._port = 0
        self.usages: deque[Usage] = deque(maxlen=_REMEMBERED_USAGES)
        """Usage of the newest answers, oldest first."""

    @property
    def base_url(self) -> str:
        """The value for `model_providers.<id>.base_url`; holds the secret."""
        return f"http://{LOOPBACK}:{self._port}/{self._secret}/v1"

    @property
    def last_usage(self) -> Usage | None:
        """Usage of the newest answer."""
        return self.usages[-1] if self.usages else None

    async def __aenter__(self) -> Self:
        """Start to listen. Raises: OSError if no port can be had."""
        async with AsyncExitStack() as stack:
            group = await stack.enter_async_context(anyio.create_task_group())
            self._port = await group.start(serve_app, self._serve, 0, self._stop)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        """Stop to listen; answers that are being streamed have a second to end."""
        self._stop.set()
        if kind is not None and issubclass(kind, anyio.get_cancelled_exc_class()):
            return await self._stack.__aexit__(kind, error, trace)
        await self._stack.aclose()  # an error of the caller's body is not our group's to wrap
        return None

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope)
        if refusal is not None:
            await _refuse(send, *refusal)
            return
        route = (scope["method"], scope["path"].rpartition("/v1")[2])
        match route:
            case ("POST", "/responses"):
                await self._respond(receive, send)
            case ("GET", "/models"):
                listed: JsonValue = [{"id": MODEL, "object": "model", "owned_by": "treadle"}]
                await send_json(send, 200, {"object": "list", "data": listed, "models": []})
            case (_, "/responses" | "/models"):
                await _refuse(send, 405, "method_not_allowed", "This route takes another method.")
            case _:
                await _refuse(send, 404, "not_found", "There is no such route.")

    def _refusal(self, scope: Scope) -> tuple[int, str, str] | None:
        """Say why a request is refused before its path or body is looked at further."""
        headers = {name.decode("latin-1"): value for name, value in scope["headers"]}
        hosts = {f"{name}:{self._port}".encode() for name in (LOOPBACK, "localhost")}
        if headers.get("host") not in hosts:
            return 421, "wrong_host", "This server does not answer for that host."
        if "origin" in headers:
            return 403, "browser_refused", "Requests of web pages are refused."
        given = scope["path"].encode("utf-8", "replace")
        prefix = f"/{self._secret}/v1/".encode()
        if not secrets.compare_digest(given[: len(prefix)], prefix):
            return 404, "not_found", "There is no such route."
        return None

    async def _respond(self, receive: Receive, send: Send) -> None:
        raw = await read_body(receive, BODY_LIMIT)
        if raw is None:
            await _refuse(send, 413, "body_too_large", f"The body exceeds {BODY_LIMIT} bytes.")
            return
        try:
            frames = await anyio.to_thread.run_sync(self._think, raw, limiter=self._thinking)
        except (msgspec.DecodeError, RecursionError):
            await _refuse(send, 400, "invalid_request", "The body is no JSON object.")
            return
        async with anyio.create_task_group() as group:

            async def leave_with_client() -> None:
                await wait_for_disconnect(receive)
                group.cancel_scope.cancel()

            group.start_soon(leave_with_client)
            await start_response(send, 200, "text/event-stream")
            for part in frames:
                await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
            group.cancel_scope.cancel()

    def _think(self, raw: bytes) -> list[bytes]:
        """Answer one body; runs in a worker thread, since long contexts take a while."""
        body: dict[str, JsonValue] = msgspec.json.decode(raw, type=dict)
        answer = decide(body)
        cached = self._ledger.record(body)
        item, text = _item(answer, _fingerprint(body))
        usage = Usage(
            input_tokens=cached.input_tokens,
            cached_tokens=cached.same_key_tokens,
            cached_any_key_tokens=cached.any_key_tokens,
            output_tokens=self._counter.count(text),
            exact=self._counter.exact,
        )
        self.usages.append(usage)
        return [sse.frame(event) for event in _events(answer, item, usage)]


def _fingerprint(body: JsonObject) -> str:
    """Return 24 hex digits that differ between threads and between inputs, and do not else."""
    known = hashlib.sha256(str(body.get("prompt_cache_key") or "").encode("utf-8", "replace"))
    for text, _ in rendered(body):
        known.update(b"\0" + text.encode("utf-8", "replace"))
    return known.hexdigest()[:24]


def _item(answer: Answer, mark: str) -> tuple[JsonObject, str]:
    """Return the output item and the text that it costs."""
    match answer:
        case Say(text=text):
            return {"type": "message", "id": f"msg_{mark}"}, text
        case CallFunction(name=name, namespace=namespace, arguments=arguments):
            call = function_call_item(
                name, arguments, f"call_{mark}", namespace=namespace, item_id=f"fc_{mark}"
            )
            return call, f"{name}{arguments}"
        case CallCustom(name=name, input=text):
            return custom_call_item(name, text, f"call_{mark}", f"ctc_{mark}"), f"{name}{text}"
        case Compact(packed=packed):
            item = {"type": "compaction", "id": f"cmp_{mark}", "encrypted_content": packed}
            return item, packed


def _events(answer: Answer, item: JsonObject, usage: Usage) -> Iterator[sse.Event]:
    item_id = str(item["id"])
    response_id = f"resp_{item_id.partition('_')[2]}"
    yield sse.created(response_id)
    if isinstance(answer, Say):
        yield from sse.message_events(item_id, chunks(answer.text), 0)
    else:
        yield from sse.item_events(item, 0)
    counts = sse.usage_json(
        input_tokens=usage.input_tokens,
        cached_tokens=usage.cached_tokens,
        output_tokens=usage.output_tokens,
    )
    yield sse.completed(response_id, counts)


def chunks(text: str) -> list[str]:
    """Part a text into the deltas in which it is streamed; joined, they are the text."""
    parts: list[str] = []
    start, words = 0, 0
    for at, (before, here) in enumerate(pairwise(text), start=1):
        if before.isspace() and not here.isspace():
            words += 1
            if words == CHUNK_WORDS:
                parts.append(text[start:at])
                start, words = at, 0
    return [*parts, text[start:]] if text[start:] else parts


async def _refuse(send: Send, status: int, code: str, message: str) -> None:
    error: JsonObject = {"error": {"code": code, "message": message, "type": "invalid_request"}}
    await send_json(send, status, error, {"connection": "close"})
