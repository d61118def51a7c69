"""A scripted app-server: the same script in memory, or as a child on stdio.

    python -m treadle.testing.codex script.json

It speaks enough of the protocol for a session's life (threads, turns, injections, interrupts) and
misbehaves where the script says so. It is no model of Codex: what it answers is what the script, or
`DEFAULTS`, says.

A script is JSON: `{"on": {method: [step, …]}, "start": [step, …], "hang": false, "version":
"0.163.0"}`. `on` replaces the usual answer to a method, `start` is played before the first byte is
read, `hang` ignores the end of stdin and SIGTERM. A step is an object with one key:

    {"answer": {…}} {"error": {"code": …, "message": …}}   settle the request at hand
    {"tell": {"method": …, "params": {…}}}                 send a notification
    {"ask": {"id": …, "method": …, "params": {…}}}         send a request of the app-server
    {"await": id}                                          go on when the client has answered that
    request {"turn": {"text": …, "status": …}}                     all notifications of a plain turn
    {"burst": {"count": n, "method": …, "params": {…}}}    one notification n times, `$n` counting
    {"raw": "…"} {"partial": "…"}                          a line, a line without end
    {"garbage": n} {"huge": n}                             n odd lines, a line of n bytes
    {"stderr": n}                                          n bytes of log
    {"silence": true}                                      do not settle this request
    {"close": true} {"freeze": true} {"exit": code}        end stdout, read nothing more, end the
    process

In strings `$thread`, `$turn` and `$client` stand for the ids of the request at hand.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anyio import Event, sleep_forever

from treadle.model.errors import ProcessExited
from treadle.model.json import JsonObject, JsonValue
from treadle.protocol.rpc import LineSplitter, encode
from treadle.testing.usual import (
    DEFAULTS,
    INITIALIZED,
    NO_ANSWER,
    Step,
    Steps,
    fault_in,
    turn_notifications,
)
from treadle.wire.process import Exit, StopGrace


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes for stdout."""

    data: bytes


@dataclass(frozen=True, slots=True)
class WriteError:
    """Bytes for stderr."""

    data: bytes


@dataclass(frozen=True, slots=True)
class CloseOutput:
    """Stdout ends, the process lives."""


@dataclass(frozen=True, slots=True)
class Freeze:
    """Nothing more is read, as under SIGSTOP."""


@dataclass(frozen=True, slots=True)
class End:
    """The process ends."""

    code: int


Output = Write | WriteError | CloseOutput | Freeze | End
"""What the scripted app-server does."""


@dataclass(slots=True)
class _Call:
    """The request at hand, and the steps that are still to be played for it."""

    request_id: JsonValue
    thread: str
    turn: str
    client: str
    steps: deque[Step]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A message of the client."""

    method: str
    params: JsonObject


@dataclass(slots=True)
class _Thread:
    turns: int = 0
    active: str | None = None
    injected: list[JsonValue] = field(default_factory=list)


class ScriptedCodex:
    """The app-server without I/O: bytes in, outputs out."""

    def __init__(self, script: Mapping[str, Any] | None = None) -> None:
        given = dict(script or {})
        self.version: str = given.get("version", "0.163.0")
        self.hangs: bool = bool(given.get("hang"))
        self.seen: list[Seen] = []
        """Requests and notifications of the client, in order."""
        self.answers: dict[JsonValue, JsonObject] = {}
        """The client's answers (`result` or `error`) to requests of ours, by id."""
        self._on: dict[str, Steps] = dict(given.get("on", {}))
        self._start: Steps = given.get("start", ())
        self._once: dict[str, deque[Steps]] = {}
        self._lines = LineSplitter()
        self._threads: dict[str, _Thread] = {}
        self._paused: dict[JsonValue, _Call] = {}

    def on(self, method: str, steps: Steps) -> None:
        """Answer every request of that method so from now on."""
        self._on[method] = steps

    def once(self, method: str, steps: Steps) -> None:
        """Answer one request of that method so; several are taken in order, before `on`."""
        self._once.setdefault(method, deque()).append(steps)

    def injected(self, thread_id: str) -> list[JsonValue]:
        """Return the items injected into a thread."""
        return self._threads[thread_id].injected

    def requests(self, method: str) -> list[JsonObject]:
        """Return the params of every message of that method."""
        return [seen.params for seen in self.seen if seen.method == method]

    def start(self) -> Iterator[Output]:
        """Play what comes before the first byte is read."""
        yield from self.play(self._start)

    def play(self, steps: Steps, thread: str = "") -> Iterator[Output]:
        """Play steps that belong to no request."""
        turn = self._threads[thread].active if thread in self._threads else None
        yield from self._run(_Call(None, thread, turn or "", "", deque(steps)))

    def feed(self, chunk: bytes) -> Iterator[Output]:
        """Take bytes of the client."""
        for line in self._lines.feed(chunk):
            if line is None or not line.strip():
                continue
            try:
                message = json.loads(line)
            except ValueError:
                continue  # as the real one: dropped without any answer (F9)
            if isinstance(message, dict):
                yield from self._take(message)

    def _take(self, message: dict[str, Any]) -> Iterator[Output]:
        method = message.get("method")
        if not isinstance(method, str):
            self.answers[message.get("id")] = message
            paused = self._paused.pop(message.get("id"), None)
            if paused is not None:
                yield from self._run(paused)
            return
        params = message.get("params") or {}
        self.seen.append(Seen(method=method, params=params))
        if "id" in message:
            yield from self._run(self._call(message["id"], method, params))

    def _call(self, request_id: JsonValue, method: str, params: dict[str, Any]) -> _Call:
        thread = str(params.get("threadId") or "")
        if method in {"thread/start", "thread/fork"}:
            thread = f"thread-{len(self._threads) + 1}"
            self._threads[thread] = _Thread()
        held = self._threads.setdefault(thread, _Thread()) if thread else _Thread()
        if method == "turn/start" and held.active is None:
            held.turns += 1
            held.active = f"{thread}-turn-{held.turns}"
        if method == "thread/inject_items":
            held.injected.extend(params.get("items", ()))
        client = str(params.get("clientUserMessageId") or "")
        steps = deque(self._steps(method, params))
        return _Call(request_id, thread, held.active or "", client, steps)

    def _steps(self, method: str, params: dict[str, Any]) -> Steps:
        fault = fault_in(method, params)
        if fault is not None:
            return [{"error": {"code": -32600, "message": fault}}]
        waiting = self._once.get(method)
        if waiting:
            return waiting.popleft()
        if method in self._on:
            return self._on[method]
        if method == "initialize":
            return [{"answer": {**INITIALIZED, "userAgent": f"treadle/{self.version} (scripted)"}}]
        return DEFAULTS.get(method, NO_ANSWER)

    def _run(self, call: _Call) -> Iterator[Output]:
        while call.steps:
            step = call.steps.popleft()
            ((kind, body),) = step.items()
            if kind == "await":
                if body not in self.answers:
                    self._paused[body] = call
                    return
            else:
                yield from self._play(kind, _filled(body, call), call)

    def _play(self, kind: str, body: Any, call: _Call) -> Iterator[Output]:
        match kind:
            case "answer":
                yield Write(encode({"id": call.request_id, "result": body}))
            case "error":
                yield Write(encode({"id": call.request_id, "error": body}))
            case "tell" | "ask":
                self._note_end_of_turn(body)
                yield Write(encode(body))
            case "turn":
                for told in turn_notifications(call.thread, call.turn, call.client, body):
                    self._note_end_of_turn(told)
                    yield Write(encode(told))
            case "burst":
                for number in range(body["count"]):
                    told = {"method": body["method"], "params": body["params"]}
                    yield Write(encode(told).replace(b"$n", b"%d" % number))
            case _:
                yield from _misbehave(kind, body)

    def _note_end_of_turn(self, told: JsonObject) -> None:
        params = told.get("params")
        if told.get("method") == "turn/completed" and isinstance(params, Mapping):
            thread = self._threads.get(str(params.get("threadId")))
            if thread is not None:
                thread.active = None


def _misbehave(kind: str, body: Any) -> Iterator[Output]:
    match kind:
        case "raw":
            yield Write(body.encode("utf-8") + b"\n")
        case "partial":
            yield Write(body.encode("utf-8"))
        case "garbage":
            yield Write(b"no message\n" * body)
        case "huge":
            yield Write(b"x" * body + b"\n")
        case "stderr":
            yield WriteError((b"x" * 99 + b"\n") * (body // 100))
        case "close":
            yield CloseOutput()
        case "freeze":
            yield Freeze()
        case "exit":
            yield End(body)
        case "silence":
            return
        case _:
            raise ValueError(f"the script has an unknown step {kind!r}")


def _filled(body: Any, call: _Call) -> Any:
    if isinstance(body, str):
        for name, value in (("thread", call.thread), ("turn", call.turn), ("client", call.client)):
            body = body.replace(f"${name}", value)
        return body
    if isinstance(body, Mapping):
        return {key: _filled(value, call) for key, value in body.items()}
    if isinstance(body, list | tuple):
        return [_filled(value, call) for value in body]
    return body


class ScriptedLink:
    """The scripted app-server in memory, as a `wire.process.Link`."""

    def __init__(self, codex: ScriptedCodex, piece_bytes: int = 65_536) -> None:
        """`piece_bytes` is how much one read gives."""
        self.codex = codex
        self._piece = piece_bytes
        self._pending = bytearray()
        self._is_closed = False
        self._is_frozen = False
        self._changed = Event()
        self._exit: Exit | None = None
        self._ended = Event()
        self._do(codex.start)

    pid: int | None = None

    def play(self, steps: Steps, thread: str = "") -> None:
        """Play steps now, as if the app-server had thought of it."""
        self._do(lambda: self.codex.play(steps, thread))

    async def read(self) -> bytes:
        """Return the next piece; empty at the end."""
        while not self._pending:
            if self._is_closed:
                return b""
            self._changed = Event()
            await self._changed.wait()
        piece = bytes(self._pending[: self._piece])
        del self._pending[: self._piece]
        return piece

    async def write(self, data: bytes) -> None:
        """Take the client's bytes; a frozen app-server never does."""
        if self._is_frozen:
            await sleep_forever()
        if self._exit is not None:
            raise ProcessExited("The scripted app-server ended.")
        self._do(lambda: self.codex.feed(data))

    async def drain_stderr(self) -> None:
        """There is none."""

    async def wait(self) -> Exit:
        """Wait for the end."""
        await self._ended.wait()
        assert self._exit is not None
        return self._exit

    async def stop(self, grace: StopGrace) -> Exit:
        """End at once."""
        del grace
        return self._end(Exit(code=0, by="kill" if self.codex.hangs else "eof"))

    def stderr_tail(self, lines: int = 20) -> str:
        """Return nothing: there is none."""
        del lines
        return ""

    def _do(self, outputs: Callable[[], Iterator[Output]]) -> None:
        for output in outputs():
            match output:
                case Write(data) if not self._is_closed:
                    self._pending += data
                case CloseOutput():
                    self._is_closed = True
                case Freeze():
                    self._is_frozen = True
                case End(code):
                    self._end(Exit(code=code, by="itself"))
                    break
        self._changed.set()

    def _end(self, how: Exit) -> Exit:
        if self._exit is None:
            self._exit = how
            self._is_closed = True
            self._changed.set()
            self._ended.set()
        return self._exit


@asynccontextmanager
async def scripted_link(
    codex: ScriptedCodex, piece_bytes: int = 65_536
) -> AsyncIterator[ScriptedLink]:
    """Connect to a scripted app-server in memory."""
    yield ScriptedLink(codex, piece_bytes)


def main(arguments: Sequence[str]) -> int:
    """Play a script on stdio until stdin ends."""
    codex = ScriptedCodex(json.loads(Path(arguments[0]).read_text(encoding="utf-8")))
    if codex.hangs:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _perform(codex.start())
    while chunk := os.read(0, 65_536):
        _perform(codex.feed(chunk))
    while codex.hangs:
        signal.pause()
    return 0


def _perform(outputs: Iterator[Output]) -> None:
    for output in outputs:
        match output:
            case Write(data):
                _write_all(1, data)
            case WriteError(data):
                _write_all(2, data)
            case CloseOutput():
                os.close(1)
            case Freeze():
                os.kill(os.getpid(), signal.SIGSTOP)
            case End(code):
                os._exit(code)


def _write_all(number: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(number, view) :]


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
