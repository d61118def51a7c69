"""A bare client of the real `codex app-server`, to see what the binary does without Treadle.

Probes, process tests and the benchmarks' baseline use it. It has no backpressure, keeps every event
and trusts its peer; the product's client is `treadle.wire`. Knows nothing of sessions or engines.

    async with BareCodex(binary, home, cwd=work) as app:
        await app.initialize()
        started = await app.request("thread/start", {"config": dict(BARE_CONFIG)})
        turn = await app.turn(started["thread"]["id"], "hello")
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import anyio
from anyio.abc import ByteReceiveStream, Process, TaskGroup
from anyio.streams.buffered import BufferedByteReceiveStream

from treadle.model.errors import ProcessExited, RpcError
from treadle.model.json import JsonObject, JsonValue

Loose = Any
"""JSON of the peer as tests index it: `started["thread"]["id"]`. Trusted, not parsed."""

Responder = Callable[[Loose], "JsonValue | Awaitable[JsonValue]"]
"""Answers a server request from its params; an `RpcError` of it becomes an error answer."""

CLIENT_INFO: Final[JsonObject] = {"name": "probe", "title": "Probe", "version": "0.0.1"}

_STOP_S = 5.0
_LINE_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A notification, or a request made by the server (then `request_id` is set)."""

    method: str
    params: Loose
    at: float
    request_id: int | str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BareTurn:
    """What one finished turn left behind."""

    turn_id: str
    status: str
    text: str
    """The last assistant message."""

    error: Loose
    events: tuple[Event, ...]


class _Waiting:
    __slots__ = ("done", "message", "method")

    def __init__(self, method: str) -> None:
        self.method = method
        self.done = anyio.Event()
        self.message: Loose = None


class BareCodex:
    """One app-server process and the connection to it, as an async context manager."""

    def __init__(
        self,
        binary: str | Path,
        home: str | Path,
        *,
        cwd: str | Path,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._command = [str(binary), *args, "app-server"]
        self._env = {**_clean_env(), "CODEX_HOME": str(home), "RUST_LOG": "error", **(env or {})}
        self._cwd = str(cwd)
        self._numbers = itertools.count(1)
        self._waiting: dict[Loose, _Waiting] = {}
        self._responders: dict[str, Responder] = {}
        self._changed = anyio.Condition()
        self._stack = AsyncExitStack()
        self._process: Process | None = None
        self._group: TaskGroup | None = None
        self.events: list[Event] = []
        """Everything that the server sent unasked, in order."""
        self.stderr = bytearray()
        self.unparsed: list[bytes] = []
        """Lines that were no message, and answers to nothing."""
        self.closed = False

    # life cycle

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            group = await stack.enter_async_context(anyio.create_task_group())
            process = await anyio.open_process(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._env,
                cwd=self._cwd,
            )
            self._process, self._group = process, group
            assert process.stdout is not None
            assert process.stderr is not None
            group.start_soon(self._read_lines, process.stdout)
            group.start_soon(self._drain, process.stderr)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with anyio.CancelScope(shield=True):  # bounded by `_STOP_S`
            await self.close()
            await self._running.aclose()
        if self._group is not None:
            self._group.cancel_scope.cancel()
        await self._stack.aclose()

    @property
    def pid(self) -> int:
        """Process id of the app-server."""
        return self._running.pid

    @property
    def returncode(self) -> int | None:
        """Exit status, once the process has ended."""
        return self._process.returncode if self._process else None

    async def close(self) -> int:
        """Close stdin, wait for the exit, kill if it takes too long; return the exit status."""
        process = self._running
        if process.stdin is not None:
            await process.stdin.aclose()
        with anyio.move_on_after(_STOP_S) as patience:
            await process.wait()
        if patience.cancelled_caught:
            process.kill()
        return await process.wait()

    async def kill(self) -> None:
        """Kill the process at once (SIGKILL) and wait until it is gone."""
        self._running.kill()
        await self._running.wait()

    # calls

    async def initialize(self, **capabilities: JsonValue) -> Loose:
        """Do the handshake; the experimental API is on unless told otherwise."""
        params = {
            "clientInfo": CLIENT_INFO,
            "capabilities": {"experimentalApi": True, **capabilities},
        }
        result = await self.request("initialize", params)
        await self.notify("initialized")
        return result

    async def request(
        self, method: str, params: JsonValue = None, *, within_s: float = 30.0
    ) -> Loose:
        """Send a request and return its result.

        Raises: RpcError, ProcessExited, TimeoutError.
        """
        number = next(self._numbers)
        waiting = self._waiting[number] = _Waiting(method)
        await self._write({"id": number, "method": method, "params": params})
        with anyio.fail_after(within_s):
            await waiting.done.wait()
        message = waiting.message
        if message is None:
            raise ProcessExited(f"{method!r} was not answered: the app-server went away")
        if "error" in message:
            error = message["error"]
            raise RpcError(method, error["code"], error["message"], error.get("data"))
        return message.get("result")

    async def notify(self, method: str, params: JsonValue = None) -> None:
        """Send a notification."""
        await self._write({"method": method, **({} if params is None else {"params": params})})

    def respond(self, method: str, responder: Responder) -> None:
        """Answer the server's requests of one method; others get a method-not-found error."""
        self._responders[method] = responder

    async def wait_for(
        self,
        method: str,
        where: Callable[[Loose], bool] = lambda params: True,
        *,
        since: int = 0,
        within_s: float = 15.0,
    ) -> Event:
        """Return the first fitting event at index `since` or later; wait for it if need be.

        Raises: ProcessExited, TimeoutError.
        """
        with anyio.fail_after(within_s):
            async with self._changed:
                while True:
                    for event in self.events[since:]:
                        if event.method == method and where(event.params):
                            return event
                    if self.closed:
                        raise ProcessExited(f"no {method!r} came: the app-server went away")
                    await self._changed.wait()

    async def turn(
        self,
        thread_id: str,
        prompt: str | Sequence[JsonValue],
        *,
        within_s: float = 30.0,
        **params: JsonValue,
    ) -> BareTurn:
        """Run one turn to its end."""
        since = len(self.events)
        content = [{"type": "text", "text": prompt}] if isinstance(prompt, str) else prompt
        started = await self.request(
            "turn/start", {"threadId": thread_id, "input": content, **params}, within_s=within_s
        )
        turn_id = started["turn"]["id"]
        return await self.finish_turn(thread_id, turn_id, since=since, within_s=within_s)

    async def finish_turn(
        self, thread_id: str, turn_id: str, *, since: int = 0, within_s: float = 30.0
    ) -> BareTurn:
        """Wait for the end of a running turn and gather what it said."""
        done = await self.wait_for(
            "turn/completed", lambda p: p["turn"]["id"] == turn_id, since=since, within_s=within_s
        )
        events = [e for e in self.events[since:] if e.params.get("threadId") == thread_id]
        items = [
            e.params["item"]
            for e in events
            if e.method == "item/completed" and e.params["turnId"] == turn_id
        ]
        said = [item["text"] for item in items if item["type"] == "agentMessage"]
        turn = done.params["turn"]
        return BareTurn(
            turn_id=turn_id,
            status=turn["status"],
            text=said[-1] if said else "",
            error=turn.get("error"),
            events=tuple(events),
        )

    async def write_raw(self, line: bytes) -> None:
        """Write bytes to the server's stdin as they are. Raises: ProcessExited."""
        assert self._running.stdin is not None
        try:
            await self._running.stdin.send(line)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise ProcessExited("the app-server no longer reads") from error

    # plumbing

    @property
    def _running(self) -> Process:
        assert self._process is not None, "enter the context first"
        return self._process

    async def _write(self, message: JsonObject) -> None:
        await self.write_raw(json.dumps(message).encode() + b"\n")

    async def _read_lines(self, stdout: ByteReceiveStream) -> None:
        stream = BufferedByteReceiveStream(stdout)
        try:
            while True:
                line = await stream.receive_until(b"\n", _LINE_BYTES)
                await self._receive(line)
        except (anyio.IncompleteRead, anyio.EndOfStream, anyio.ClosedResourceError):
            pass  # the process has ended
        finally:
            self.closed = True
            for waiting in self._waiting.values():
                waiting.done.set()
        async with self._changed:
            self._changed.notify_all()

    async def _drain(self, stderr: ByteReceiveStream) -> None:
        async for chunk in stderr:
            self.stderr += chunk

    async def _receive(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            self.unparsed.append(line)
            return
        if "method" not in message:
            waiting = self._waiting.pop(message.get("id"), None)
            if waiting is None:
                self.unparsed.append(line)
            else:
                waiting.message = message
                waiting.done.set()
            return
        event = Event(
            method=message["method"],
            params=message.get("params") or {},
            at=time.monotonic(),
            request_id=message.get("id"),
        )
        async with self._changed:
            self.events.append(event)
            self._changed.notify_all()
        if event.request_id is not None and self._group is not None:
            self._group.start_soon(self._respond, event)

    async def _respond(self, event: Event) -> None:
        answer: dict[str, JsonValue] = {"id": event.request_id}
        try:
            answer["result"] = await self._responded(event)
        except RpcError as error:
            answer["error"] = {"code": error.rpc_code, "message": error.rpc_message}
        with suppress(ProcessExited):
            await self._write(answer)

    async def _responded(self, event: Event) -> JsonValue:
        responder = self._responders.get(event.method)
        if responder is None:
            raise RpcError(event.method, -32601, f"no responder for {event.method}")
        result = responder(event.params)
        if isinstance(result, Awaitable):
            awaited: JsonValue = await result
            return awaited
        return result


def _clean_env() -> dict[str, str]:
    """Return the caller's environment without what could steer Codex or leak a key."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OPENAI_", "CODEX_")) and "proxy" not in name.lower()
    }
