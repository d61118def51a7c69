"""A scripted stand-in for the Responses API, for tests that drive the real `codex app-server`.

It speaks enough of `POST /v1/responses` (server-sent events) for Codex to run whole turns. Every
request is recorded, raw and parsed. Answers come from a route whose predicate matches the request
or, failing that, from the default queue. Knows nothing of the app-server's own protocol.

    async with ScriptedModel() as model:
        model.enqueue(reply(call("exec_command", {"cmd": "ls"})), "done")
        ...
        assert model.requests[0].fields["model"] == "scripted-1"
        model.check()
"""

from __future__ import annotations

import itertools
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import anyio
import msgspec
from anyio.abc import TaskGroup
from starlette.types import Receive, Scope, Send

from treadle.model.json import JsonObject, JsonValue
from treadle.offline import sse
from treadle.offline.listen import (
    LOOPBACK,
    read_body,
    send_json,
    serve_app,
    start_response,
    wait_for_disconnect,
)
from treadle.testing.recorded import Overlap, Request, prefix_overlap, text_overlap
from treadle.testing.replies import (
    Answer,
    Gate,
    HttpError,
    Item,
    Pause,
    Raw,
    Reasoning,
    Reply,
    Text,
    Usage,
    call,
    custom_call,
    cut,
    failed,
    gate,
    hang,
    incomplete,
    part_events,
    reasoning,
    reply,
    text,
    tool_search,
)

__all__ = [
    "Answer",
    "Gate",
    "Handler",
    "HttpError",
    "Item",
    "Overlap",
    "Pause",
    "Raw",
    "Reasoning",
    "Reply",
    "Request",
    "ScriptExhausted",
    "ScriptedModel",
    "Text",
    "Usage",
    "call",
    "custom_call",
    "cut",
    "failed",
    "gate",
    "hang",
    "incomplete",
    "prefix_overlap",
    "reasoning",
    "reply",
    "text",
    "text_overlap",
    "tool_search",
]

Handler = Callable[[Request], "Answer | str | Awaitable[Answer | str]"]
"""Computes an answer for a request; a string is a plain assistant reply."""

_BODY_LIMIT = 256 * 1024 * 1024


class ScriptExhausted(AssertionError):
    """A request arrived for which the script holds no answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Route:
    matches: Callable[[Request], bool]
    queue: deque[Answer]
    handler: Handler | None = None


class ScriptedModel:
    """The server, as an async context manager; `stop()` and `start(port)` may be used inside.

    Use it in one task. What is recorded stays readable after the end.
    """

    def __init__(self, *, models: Sequence[JsonObject] = ()) -> None:
        self.requests: list[Request] = []
        """Model requests in the order of their arrival."""
        self.other: list[Request] = []
        """Everything that was no model request."""
        self.unanswered: list[Request] = []
        """Model requests for which the script held no answer; they got a 400."""
        self.fallback: Handler | None = None
        """Answers when all else is empty."""
        self.models = models
        """What `GET /models` lists."""
        self.port = 0
        self.open_streams = 0
        self._queue: deque[Answer] = deque()
        self._routes: list[_Route] = []
        self._numbers = itertools.count(1)
        self._mark = secrets.token_hex(3)  # so that two servers never give one thread equal ids
        self._arrived = anyio.Condition()
        self._closing = anyio.Event()
        self._closed = anyio.Event()
        self._stack = AsyncExitStack()
        self._group: TaskGroup | None = None

    # life cycle

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            self._group = await stack.enter_async_context(anyio.create_task_group())
            await self.start()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        self._closing.set()
        if kind is not None and issubclass(kind, anyio.get_cancelled_exc_class()):
            return await self._stack.__aexit__(kind, error, trace)
        await self._stack.aclose()  # an error of the test's body is not our group's to wrap
        return None

    async def start(self, port: int = 0) -> None:
        """Listen on a loopback port (0 picks a free one); only after a `stop()`."""
        assert self._group is not None, "enter the context first"
        self._closing, self._closed = anyio.Event(), anyio.Event()
        self.port = await self._group.start(self._listen, port)

    async def stop(self) -> None:
        """Stop listening and drop open streams; `start(port)` may follow."""
        self._closing.set()
        await self._closed.wait()

    async def _listen(
        self, port: int, *, task_status: anyio.abc.TaskStatus[int] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        try:
            await serve_app(self._dispatch, port, self._closing, task_status=task_status)
        finally:
            self._closed.set()

    @property
    def base_url(self) -> str:
        """The value for `model_providers.<id>.base_url`."""
        return f"http://{LOOPBACK}:{self.port}/v1"

    # script

    def enqueue(self, *answers: Answer | str) -> None:
        """Append answers to the default queue; a string is a plain assistant reply."""
        self._queue.extend(map(_as_answer, answers))

    def route(self, matches: Callable[[Request], bool], *answers: Answer | str) -> None:
        """Give requests that match their own queue; routes are tried in order of creation."""
        self._routes.append(_Route(matches=matches, queue=deque(map(_as_answer, answers))))

    def handle(self, matches: Callable[[Request], bool], handler: Handler) -> None:
        """Answer matching requests with a function; it never runs dry."""
        self._routes.append(_Route(matches=matches, queue=deque(), handler=handler))

    def clear(self) -> None:
        """Forget script and recordings."""
        for kept in (self._queue, self._routes, self.requests, self.other, self.unanswered):
            kept.clear()

    @property
    def pending(self) -> int:
        """How many queued answers have not been used."""
        return len(self._queue) + sum(len(route.queue) for route in self._routes)

    async def wait_for_requests(self, count: int, within_s: float = 10.0) -> list[Request]:
        """Wait until at least `count` model requests have arrived. Raises: TimeoutError."""
        with anyio.fail_after(within_s):
            async with self._arrived:
                while len(self.requests) < count:
                    await self._arrived.wait()
        return self.requests

    def check(self) -> None:
        """Raise `ScriptExhausted` if more answers were asked for than the script held."""
        if self.unanswered:
            raise ScriptExhausted(f"{len(self.unanswered)} request(s) had no scripted answer")

    # HTTP

    async def _dispatch(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw = await read_body(receive, _BODY_LIMIT)
        request = _request(scope, raw or b"")
        if request.method == "GET" and request.path.endswith("/models"):
            self.other.append(request)
            await send_json(send, 200, {"models": self.models, "object": "list", "data": []})
            return
        if request.method != "POST" or "/responses" not in request.path:
            self.other.append(request)
            await send_json(send, 404, {"error": {"message": f"no route for {request.path}"}})
            return
        async with self._arrived:
            self.requests.append(request)
            self._arrived.notify_all()
        answer = await self._answer(request)
        if isinstance(answer, HttpError):
            await send_json(send, answer.status, answer.body, answer.headers)
        elif request.path.endswith("/compact"):
            output = [part.item for part in answer.parts if isinstance(part, Item)]
            await send_json(send, 200, {"output": output})
        else:
            await self._stream(answer, receive, send)

    async def _answer(self, request: Request) -> Answer:
        for route in self._routes:
            if not route.matches(request):
                continue
            if route.handler is not None:
                return await _handled(route.handler, request)
            if route.queue:
                return route.queue.popleft()
        if self._queue:
            return self._queue.popleft()
        if self.fallback is not None:
            return await _handled(self.fallback, request)
        self.unanswered.append(request)
        error = {"code": "script_exhausted", "message": "scripted model: script exhausted"}
        return HttpError(400, {"error": error})

    async def _stream(self, answer: Reply, receive: Receive, send: Send) -> None:
        """Stream a reply until its end, until the client leaves, or until we stop."""
        self.open_streams += 1
        try:
            async with anyio.create_task_group() as group:

                async def end_after(wait: Callable[[], Awaitable[object]]) -> None:
                    await wait()
                    group.cancel_scope.cancel()

                group.start_soon(end_after, lambda: wait_for_disconnect(receive))
                group.start_soon(end_after, self._closing.wait)
                await self._send_reply(answer, send)
                group.cancel_scope.cancel()
        finally:
            self.open_streams -= 1

    async def _send_reply(self, answer: Reply, send: Send) -> None:
        response_id = f"resp_{self._fresh_id()}"
        await start_response(send, 200, "text/event-stream", answer.headers)
        await _send(send, sse.created(response_id))
        for index, part in enumerate(answer.parts):
            match part:
                case Pause():
                    await anyio.sleep(part.seconds)
                case Gate():
                    part.reached.set()
                    await part.event.wait()
                case _:
                    for event in part_events(part, index, self._fresh_id()):
                        await _send(send, event)
        match answer.ending:
            case "hang":
                await anyio.sleep_forever()
            case "cut":
                return  # the server drops a connection whose answer was not completed
            case "completed":
                await _send(send, sse.completed(response_id, answer.usage.to_json()))
            case "failed":
                await _send(send, sse.failed(response_id, answer.error))
            case "incomplete":
                reason = str(answer.error.get("reason"))
                await _send(send, sse.incomplete(response_id, reason))
        await send({"type": "http.response.body", "body": b""})

    def _fresh_id(self) -> str:
        return f"{self._mark}{next(self._numbers):08d}"


def _request(scope: Scope, raw: bytes) -> Request:
    try:
        body: JsonValue = msgspec.json.decode(raw) if raw else None
    except msgspec.DecodeError:
        body = None
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    return Request(
        method=scope["method"],
        path=scope["path"],
        headers=headers,
        raw=raw,
        body=body,
        at=time.monotonic(),
        port=(scope.get("client") or ("", 0))[1],
    )


def _as_answer(answer: Answer | str) -> Answer:
    return reply(answer) if isinstance(answer, str) else answer


async def _handled(handler: Handler, request: Request) -> Answer:
    answer = handler(request)
    if isinstance(answer, Reply | HttpError | str):
        return _as_answer(answer)
    return _as_answer(await answer)


async def _send(send: Send, event: JsonObject) -> None:
    await send({"type": "http.response.body", "body": sse.frame(event), "more_body": True})
