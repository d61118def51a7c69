"""One connection to one app-server: requests, notifications, and requests that it makes.

One reader takes everything from the pipe and never waits for anybody: answers wake their callers,
notifications go into bounded subscriptions (`wire.subscription` states the policy), requests of the
app-server are answered from tasks. Every request and write has a deadline; one that passes it makes
the client *doubtful*: it goes on, but the pool gives it to nobody new. Knows no session and no
turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Final

from anyio import CancelScope, Event, Semaphore, create_task_group, current_time, move_on_after
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from treadle.model.errors import (
    LocalProtocolError,
    ProcessExited,
    ProcessStartError,
    RemoteProtocolError,
    RpcError,
    RpcTimeout,
    WireError,
)
from treadle.model.json import JsonObject
from treadle.observe import Counters, emit
from treadle.protocol.faults import error_from_answer, refusal_of
from treadle.protocol.methods import deadline_s, is_known
from treadle.protocol.rpc import (
    INTERNAL_ERROR,
    METHOD_NOT_SERVED,
    Answer,
    ErrorAnswer,
    Garbage,
    Notification,
    Peer,
    RequestId,
    ServerRequest,
    Stray,
    TooLarge,
)
from treadle.protocol.rpc import Event as PeerEvent
from treadle.wire.handshake import ServerInfo, info_from_answer, initialize_params
from treadle.wire.process import Exit, Link, StopGrace
from treadle.wire.subscription import Subscription
from treadle.wire.switchboard import Switchboard, started_thread

IN_FLIGHT: Final = 100
"""Most requests open at once: at some 500 the app-server drops requests unanswered (facts 13)."""

WRITE_S: Final = 10.0
"""Seconds in which a line must be taken; a pipe stays full only if the app-server hangs (F9)."""

GARBAGE_COUNT: Final = 100
"""Garbage lines within `GARBAGE_WINDOW_S` after which the connection is given up."""

GARBAGE_WINDOW_S: Final = 10.0
"""Seconds; see `GARBAGE_COUNT`."""

EXIT_S: Final = 0.2
"""Seconds to wait for the exit status after the end of stdout, before it counts as still alive."""

GONE: Final = StopGrace(eof_s=0.3, term_s=0.7, kill_s=5.0)
"""Grace for a process that can tell us nothing more, or that did not answer in time."""

Handler = Callable[[ServerRequest], Awaitable[JsonObject]]
"""Answers a request of the app-server; may take as long as a person does."""

OpenLink = Callable[[], AbstractAsyncContextManager[Link]]
"""Starts an app-server, or connects a scripted one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """How a connection behaves; the defaults are the product's."""

    client_version: str = "0"
    """Treadle's version, sent in the handshake."""
    start_s: float | None = None
    """Deadline of the handshake in seconds; None means that of the method table."""
    request_s: float | None = None
    """Deadline of control calls that may take long, an upper bound of all (spec S-12); None: the
    method table's."""
    write_s: float = WRITE_S
    stop: StopGrace = field(default_factory=StopGrace)


@dataclass(slots=True)
class _Waiter:
    method: str
    sent: bool = False
    outcome: Answer | ErrorAnswer | None = None
    done: Event = field(default_factory=Event)


@dataclass(slots=True)
class _Serving:
    """A request of the app-server that is being answered."""

    request: ServerRequest
    handler: Handler | None
    scope: CancelScope = field(default_factory=CancelScope)
    is_resolved: bool = False
    """Settled elsewhere: nobody waits for our answer."""


class CodexClient:
    """An initialized connection; made by `open_client`."""

    def __init__(
        self, link: Link, group: TaskGroup, settings: ClientSettings, counters: Counters
    ) -> None:
        self._link = link
        self._group = group
        self._settings = settings
        self._counters = counters
        self._peer = Peer()
        self._slots = Semaphore(IN_FLIGHT)
        self._waiting: dict[RequestId, _Waiter] = {}
        self._board = Switchboard(counters)
        self._handlers: dict[tuple[str, str | None], Handler] = {}
        self._serving: dict[RequestId, _Serving] = {}
        self._garbage: deque[float] = deque(maxlen=GARBAGE_COUNT + 1)
        self._lost = Event()
        self._lost_reason: str | None = None
        self._exit: Exit | None = None
        self._is_closing = False
        self._doubt: str | None = None
        self._info: ServerInfo | None = None

    @property
    def info(self) -> ServerInfo:
        """What the app-server said in the handshake."""
        assert self._info is not None
        return self._info

    @property
    def pid(self) -> int | None:
        """Process id of the app-server, if it is a process."""
        return self._link.pid

    @property
    def doubt(self) -> str | None:
        """Why this client should get no new work; None if all is well."""
        return self._doubt

    @property
    def is_lost(self) -> bool:
        """Whether the app-server is gone."""
        return self._lost_reason is not None

    @property
    def is_usable(self) -> bool:
        """Whether new work may be given to it."""
        return not self.is_lost and self._doubt is None and not self._is_closing

    @property
    def open_request_count(self) -> int:
        """Requests of ours that wait for an answer."""
        return len(self._waiting)

    async def wait_lost(self) -> None:
        """Wait until the app-server is gone and its exit was observed."""
        await self._lost.wait()

    def retire(self, reason: str) -> None:
        """Mark the client doubtful: who has it goes on, nobody new gets it."""
        if self._doubt is None:
            self._doubt = reason
            emit("wire.retired", reason=reason, pid=self.pid)

    def stderr_tail(self, lines: int = 20) -> str:
        """Return the last lines of the app-server's stderr, redacted."""
        return self._link.stderr_tail(lines)

    # calls

    async def request(
        self, method: str, params: JsonObject | None = None, *, timeout_s: float | None = None
    ) -> JsonObject:
        """Ask and return the result; the deadline (default: the method table's) covers all waiting.

        Raises: RpcError, ThreadBusy, RpcTimeout (whether it was done is unknown), ProcessExited,
        LocalProtocolError, RemoteProtocolError. Cancel: it may still be done; an answer that comes
        is dropped.
        """
        own_s = deadline_s(method, self._settings.request_s)
        limit_s = own_s if timeout_s is None else timeout_s
        waiter = _Waiter(method)
        with move_on_after(limit_s):
            async with self._slots:
                await self._ask(waiter, params)
        match waiter.outcome:
            case Answer() as answer:
                return answer.result()
            case ErrorAnswer() as refused:
                self._counters.add("wire.requests_refused")
                emit("wire.request_failed", method=method, rpc_code=refused.code)
                raise error_from_answer(method, refused.code, refused.message, refused.data)
            case None if self.is_lost:
                raise self._gone()
        if waiter.sent:
            self.retire(f"{method} was not answered")
        emit("wire.request_timed_out", method=method, timeout_s=limit_s)
        raise RpcTimeout(method, limit_s)

    async def notify(self, method: str, params: JsonObject | None = None) -> None:
        """Tell the app-server something. Raises: RpcTimeout, ProcessExited, LocalProtocolError."""
        self._refuse_if_gone()
        await self._write(self._peer.notify(method, params), method)

    @asynccontextmanager
    async def subscribe(self, thread_id: str | None) -> AsyncIterator[Subscription]:
        """Give the notifications of a thread, or with None those of no thread, while it is open.

        Those that came since this client started the thread (or connected) are there already.
        """
        with self._board.subscribe(thread_id) as stream:
            if self.is_lost:
                stream.close(self._gone())
            yield stream

    @contextmanager
    def serve(
        self, handlers: Mapping[str, Handler], *, thread_id: str | None = None
    ) -> Iterator[None]:
        """Answer requests by their method while it is open; a thread's handlers come first.

        At the end running handlers are cancelled and their requests refused. Raises:
        LocalProtocolError if a place is taken; nothing is served then.
        """
        own = {(method, thread_id): handler for method, handler in handlers.items()}
        if taken := own.keys() & self._handlers.keys():
            raise LocalProtocolError(f"(method, thread) is served already: {sorted(taken)!r}")
        self._handlers.update(own)
        try:
            yield
        finally:
            for key in own:
                del self._handlers[key]
            for serving in tuple(self._serving.values()):
                if serving.handler in own.values():
                    serving.scope.cancel()

    # requests of ours

    async def _ask(self, waiter: _Waiter, params: JsonObject | None) -> None:
        self._refuse_if_gone()
        request_id, line = self._peer.request(waiter.method, params)
        self._waiting[request_id] = waiter
        try:
            waiter.sent = True
            await self._write(line, waiter.method)
            await waiter.done.wait()
        finally:
            self._waiting.pop(request_id, None)
            self._peer.expire(request_id)

    async def _write(self, line: bytes, method: str) -> None:
        limit_s = self._settings.write_s
        with move_on_after(limit_s) as scope:
            try:
                await self._link.write(line)
            except ProcessExited:
                # Known here before the reader sees the end: nobody new may get this connection.
                self.retire(f"{method} could not be written")
                raise
        if scope.cancelled_caught:
            self.retire(f"{method} could not be written")
            raise RpcTimeout(method, limit_s)

    def _refuse_if_gone(self) -> None:
        if self.is_lost:
            raise self._gone()
        if self._is_closing:
            raise ProcessExited("The connection to the app-server is closing.")

    def _gone(self) -> ProcessExited:
        code = self._exit.code if self._exit is not None else None
        tail = self._link.stderr_tail(5)
        return ProcessExited(
            f"The app-server went away: {self._lost_reason}"
            + (f"; exit status {code}" if code is not None else "")
            + (f"; last words: {tail}" if tail else "."),
            exit_code=code,
        )

    # the reader

    async def _read(self) -> None:
        """Read to the end, then tell everybody; the only reader of the pipe."""
        reason = "its stdout ended"
        try:
            while chunk := await self._link.read():
                for event in self._peer.feed(chunk):
                    self._take(event)
                await checkpoint()  # a burst must not keep the callers from their answers
            for event in self._peer.finish():
                self._take(event)
        except RemoteProtocolError as error:
            reason = str(error)
        await self._lose(reason)

    def _take(self, event: PeerEvent) -> None:
        match event:
            case Notification():
                self._told(event)
            case Answer() | ErrorAnswer():
                self._answered(event)
            case ServerRequest():
                self._asked(event)
            case Stray():
                self._counters.add("wire.stray_answers")
            case Garbage():
                self._saw_garbage(event)
            case TooLarge(limit_bytes=limit):
                raise RemoteProtocolError(f"it sent a line of more than {limit} bytes")

    def _answered(self, event: Answer | ErrorAnswer) -> None:
        waiter = self._waiting.get(event.id)
        thread_id = started_thread(event) if isinstance(event, Answer) else None
        if thread_id is not None:
            self._board.keep_early(thread_id)
        if waiter is not None:
            waiter.outcome = event
            waiter.done.set()

    def _told(self, event: Notification) -> None:
        if not is_known(event.method):
            self._counters.add("wire.unknown_methods")
            emit("wire.unknown_received", method=event.method)
        if event.method == "serverRequest/resolved":
            self._resolved(event)
        self._board.tell(event)

    def _saw_garbage(self, event: Garbage) -> None:
        self._counters.add("wire.garbage_lines")
        emit("wire.frame_dropped", size_bytes=event.size_bytes, sample=event.sample)
        self._garbage.append(current_time())
        is_flood = len(self._garbage) > GARBAGE_COUNT
        if is_flood and self._garbage[-1] - self._garbage[0] < GARBAGE_WINDOW_S:
            raise RemoteProtocolError(f"it sent more than {GARBAGE_COUNT} lines of garbage")

    async def _lose(self, reason: str) -> None:
        """End everything that waits for an app-server that says nothing more."""
        if self._is_closing:
            return
        with move_on_after(EXIT_S):
            self._exit = await self._link.wait()
        self._end_all(reason)
        with CancelScope(shield=True):  # bounded by the grace
            ended = self._exit = await self._link.stop(GONE)
        emit("wire.exited", reason=reason, pid=self.pid, code=ended.code, by=ended.by)
        self._lost.set()

    def _end_all(self, reason: str) -> None:
        self._lost_reason = reason
        for waiter in self._waiting.values():
            waiter.done.set()
        for serving in self._serving.values():
            serving.is_resolved = True
            serving.scope.cancel()
        self._board.close(self._gone)

    # requests of the app-server

    def _asked(self, request: ServerRequest) -> None:
        handler = self._handlers.get((request.method, request.thread_id))
        if handler is None:
            handler = self._handlers.get((request.method, None))
        serving = _Serving(request, handler)
        self._serving[request.id] = serving
        self._group.start_soon(self._serve_one, serving)

    def _resolved(self, event: Notification) -> None:
        try:
            request_id = event.params().get("requestId")
        except RemoteProtocolError:
            return  # an odd body settles nothing; the request ends with its turn
        serving = self._serving.get(request_id) if isinstance(request_id, int | str) else None
        if serving is not None:
            serving.is_resolved = True
            serving.scope.cancel()

    async def _serve_one(self, serving: _Serving) -> None:
        request = serving.request
        line = self._refusal(request)
        with serving.scope:
            if serving.handler is not None:
                line = await self._line_from(serving.handler, request)
        self._serving.pop(request.id, None)
        if serving.is_resolved:
            return
        try:
            await self._write(line, request.method)
        except WireError:
            return  # the client is lost or doubtful by now, which says it all
        emit("wire.request_served", method=request.method)

    async def _line_from(self, handler: Handler, request: ServerRequest) -> bytes:
        try:
            return self._peer.answer(request.id, await handler(request))
        except RpcError as refused:
            return self._peer.refuse(request.id, refused.rpc_code, refused.rpc_message)
        except Exception as error:  # the door to handlers: whatever fails there is an error answer
            emit("wire.request_failed", cause=error, method=request.method)
            return self._peer.refuse(request.id, INTERNAL_ERROR, "the request could not be served")

    def _refusal(self, request: ServerRequest) -> bytes:
        result = refusal_of(request.method)
        if result is not None:
            return self._peer.answer(request.id, result)
        message = f"{request.method} is not served"
        return self._peer.refuse(request.id, METHOD_NOT_SERVED, message)

    # start and end

    async def _handshake(self) -> None:
        params = initialize_params(self._settings.client_version)
        try:
            answer = await self.request("initialize", params, timeout_s=self._settings.start_s)
            await self.notify("initialized")
        except (ProcessExited, RpcTimeout, RpcError) as error:
            raise ProcessStartError(
                f"The app-server did not come up: {error}",
                next_step="Run treadle doctor; the app-server's last words are above.",
            ) from error
        self._info = info_from_answer(answer)
        emit("wire.initialized", version=self._info.version_text, pid=self.pid)
        if self._info.warning is not None:
            emit("wire.warned", warning=self._info.warning)

    async def _close(self) -> None:
        """Stop the app-server while its pipes are still read; bounded by the grace."""
        self._is_closing = True
        grace = self._settings.stop if self._doubt is None else GONE
        with CancelScope(shield=True):
            await self._link.stop(grace)
        self._end_all("the connection was closed")
        self._lost.set()


@asynccontextmanager
async def open_client(
    open_link: OpenLink,
    settings: ClientSettings | None = None,
    *,
    counters: Counters | None = None,
) -> AsyncIterator[CodexClient]:
    """Start an app-server, shake hands, and stop it at the end; all its tasks live in one group.

    Raises: ProcessStartError, VersionUnsupported (F-26). Cancel: the app-server is stopped, its
    exit observed.
    """
    failure: Exception | None = None
    async with open_link() as link, create_task_group() as group:
        client = CodexClient(link, group, settings or ClientSettings(), counters or Counters())
        group.start_soon(link.drain_stderr)
        group.start_soon(client._read)
        try:
            await client._handshake()
            yield client
        except Exception as error:  # carried out of the group, which would wrap it
            failure = error
        finally:
            await client._close()
            group.cancel_scope.cancel()
    if failure is not None:
        raise failure
