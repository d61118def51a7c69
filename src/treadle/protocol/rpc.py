"""The JSON-RPC peer of the app-server, without I/O: bytes in, events out; calls in, bytes out.

One JSON object a line, no `jsonrpc` key. The peer splits lines at any byte boundary, tells the four
kinds of message apart, and knows which of our requests are open. It knows no clock (deadlines are
the caller's: `expire`), no meaning of any method, and never decodes a body that nobody reads.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from treadle.model.errors import LocalProtocolError, RemoteProtocolError
from treadle.model.json import JsonObject, JsonValue
from treadle.model.text import redact, without_surrogates

FRAME_LIMIT_BYTES: Final = 64 * 1024 * 1024
"""Longest line that is read; the app-server's own largest legitimate ones are some 20 MB."""

MAX_DEPTH: Final = 120
"""Levels of nesting that may be sent; the app-server drops a line deeper than 128 unanswered."""

SAMPLE_BYTES: Final = 200
"""How much of a line that cannot be read is kept for the log."""

RequestId = int | str
"""Id of a request. 0 is the first id of the app-server: never test an id for truth (F3)."""

METHOD_NOT_SERVED: Final = -32601
"""JSON-RPC code for a request that nobody here serves."""

INTERNAL_ERROR: Final = -32603
"""JSON-RPC code for a request whose handler failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of a request of ours."""

    id: RequestId
    method: str
    """The request's method."""

    raw: msgspec.Raw

    def result(self) -> JsonObject:
        """Decode the result; null counts as empty. Raises: RemoteProtocolError (no object)."""
        return object_from_wire(self.raw, self.method)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorAnswer:
    """The refusal of a request of ours."""

    id: RequestId
    method: str
    code: int
    message: str
    data: JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """The app-server tells something; the body is decoded when it is read."""

    method: str
    raw: msgspec.Raw
    thread_id: str | None
    turn_id: str | None
    item_id: str | None
    size_bytes: int
    """Length of its line."""

    def params(self) -> JsonObject:
        """Decode the body; a missing one is empty. Raises: RemoteProtocolError (no object)."""
        return object_from_wire(self.raw, self.method)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRequest:
    """The app-server asks something and waits for `Peer.answer` or `Peer.refuse`."""

    id: RequestId
    method: str
    raw: msgspec.Raw
    thread_id: str | None
    turn_id: str | None

    def params(self) -> JsonObject:
        """Decode the body; a missing one is empty. Raises: RemoteProtocolError (no object)."""
        return object_from_wire(self.raw, self.method)


@dataclass(frozen=True, slots=True, kw_only=True)
class Garbage:
    """A line that is no message."""

    size_bytes: int
    sample: str
    """Head of the line, redacted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stray:
    """An answer to no open request: expired, answered twice, or never asked."""

    id: RequestId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TooLarge:
    """A line over the limit was dropped; what it said is lost, so the client is retired."""

    limit_bytes: int


Event = Answer | ErrorAnswer | Notification | ServerRequest | Garbage | Stray | TooLarge
"""What `Peer.feed` gives."""


class _Envelope(msgspec.Struct):
    id: int | str | msgspec.UnsetType | None = msgspec.UNSET
    method: str | msgspec.UnsetType = msgspec.UNSET
    params: msgspec.Raw = msgspec.Raw(b"null")
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _Route(msgspec.Struct, rename="camel"):
    thread_id: str | None = None
    turn_id: str | None = None
    item_id: str | None = None
    thread: msgspec.Raw = msgspec.Raw(b"")
    turn: msgspec.Raw = msgspec.Raw(b"")


class _HasId(msgspec.Struct):
    id: str | None = None


class _Error(msgspec.Struct):
    code: int = 0
    message: str = ""
    data: Any = None


_ENVELOPE: Final = msgspec.json.Decoder(_Envelope)
_ROUTE: Final = msgspec.json.Decoder(_Route)
_HAS_ID: Final = msgspec.json.Decoder(_HasId)
_ERROR: Final = msgspec.json.Decoder(_Error)
_ENCODER: Final = msgspec.json.Encoder()
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class LineSplitter:
    """Cut a byte stream into lines; a line over the limit is dropped once and reported."""

    def __init__(self, limit_bytes: int = FRAME_LIMIT_BYTES) -> None:
        self._limit = limit_bytes
        self._parts: list[bytes] = []
        self._size = 0
        self._skipping = False

    def feed(self, chunk: bytes) -> list[bytes | None]:
        """Return the lines that this chunk completes, without line ends; None is a dropped one."""
        lines: list[bytes | None] = []
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            self._take(chunk[start:end], lines)
            if not self._skipping:
                lines.append(b"".join(self._parts))
            self._clear()
            self._skipping = False
            start = end + 1
        if start < len(chunk):
            self._take(chunk[start:], lines)
        return lines

    def rest(self) -> bytes:
        """Return, and forget, the bytes after the last line end."""
        left = b"".join(self._parts)
        self._clear()
        return left

    def _take(self, part: bytes, lines: list[bytes | None]) -> None:
        if self._skipping:
            return
        self._size += len(part)
        if self._size > self._limit:
            self._clear()
            self._skipping = True
            lines.append(None)
        else:
            self._parts.append(part)

    def _clear(self) -> None:
        self._parts.clear()
        self._size = 0


class Peer:
    """Our end of one connection. Not shared between connections; not thread-safe."""

    def __init__(
        self, *, limit_bytes: int = FRAME_LIMIT_BYTES, hide: Callable[[str], str] = redact
    ) -> None:
        """`hide` blackens secrets in the samples of lines that cannot be read."""
        self._lines = LineSplitter(limit_bytes)
        self._limit = limit_bytes
        self._hide = hide
        self._numbers = itertools.count(1)
        self._open: dict[RequestId, str] = {}
        self.garbage_count = 0
        """Lines that were no message."""
        self.stray_count = 0
        """Answers to no open request."""

    def request(self, method: str, params: JsonObject | None = None) -> tuple[RequestId, bytes]:
        """Open a request; return its id and its line. Raises: LocalProtocolError."""
        number = next(self._numbers)
        line = encode({"id": number, "method": method, "params": {} if params is None else params})
        self._open[number] = method
        return number, line

    def notify(self, method: str, params: JsonObject | None = None) -> bytes:
        """Return the line of a notification. Raises: LocalProtocolError."""
        return encode(
            {"method": method} if params is None else {"method": method, "params": params}
        )

    def answer(self, request_id: RequestId, result: JsonObject) -> bytes:
        """Return the line that answers a request of the app-server. Raises: LocalProtocolError."""
        return encode({"id": request_id, "result": result})

    def refuse(self, request_id: RequestId, code: int, message: str) -> bytes:
        """Return the line that answers a request of the app-server with an error."""
        return encode({"id": request_id, "error": {"code": code, "message": message}})

    def expire(self, request_id: RequestId) -> None:
        """Forget a request; an answer that still comes is a `Stray`."""
        self._open.pop(request_id, None)

    def feed(self, chunk: bytes) -> list[Event]:
        """Return what these bytes complete, in order. Never raises for what the peer sent."""
        events: list[Event] = []
        for line in self._lines.feed(chunk):
            if line is None:
                events.append(TooLarge(limit_bytes=self._limit))
            elif line and not line.isspace():
                events.append(self._classify(line))
        return events

    def finish(self) -> list[Event]:
        """Return what the end of the stream leaves: a partial line is garbage."""
        rest = self._lines.rest()
        return [self._garbage(rest)] if rest.strip() else []

    def _classify(self, line: bytes) -> Event:
        envelope = _envelope(line)
        if envelope is None:
            return self._garbage(line)
        match envelope:
            case _Envelope(method=str(method), id=msgspec.UNSET | None):
                thread_id, turn_id, item_id = _route(envelope.params)
                return Notification(
                    method=method,
                    raw=envelope.params,
                    thread_id=thread_id,
                    turn_id=turn_id,
                    item_id=item_id,
                    size_bytes=len(line),
                )
            case _Envelope(method=str(method), id=int() | str() as request_id):
                thread_id, turn_id, _ = _route(envelope.params)
                return ServerRequest(
                    id=request_id,
                    method=method,
                    raw=envelope.params,
                    thread_id=thread_id,
                    turn_id=turn_id,
                )
            case _Envelope(error=msgspec.Raw() as error):
                return self._settle_error(envelope.id, error)
            case _Envelope(result=msgspec.Raw() as result):
                return self._settle(envelope.id, result)
        return self._garbage(line)

    def _settle(
        self, request_id: RequestId | msgspec.UnsetType | None, result: msgspec.Raw
    ) -> Event:
        method = self._close(request_id)
        if method is None or not isinstance(request_id, int | str):
            return self._stray(request_id)
        return Answer(id=request_id, method=method, raw=result)

    def _settle_error(
        self, request_id: RequestId | msgspec.UnsetType | None, raw: msgspec.Raw
    ) -> Event:
        method = self._close(request_id)
        if method is None or not isinstance(request_id, int | str):
            return self._stray(request_id)
        try:
            error = _ERROR.decode(raw)
        except _UNREADABLE:
            error = _Error(message=self._hide(bytes(raw)[:SAMPLE_BYTES].decode("utf-8", "replace")))
        return ErrorAnswer(
            id=request_id, method=method, code=error.code, message=error.message, data=error.data
        )

    def _close(self, request_id: RequestId | msgspec.UnsetType | None) -> str | None:
        return self._open.pop(request_id, None) if isinstance(request_id, int | str) else None

    def _stray(self, request_id: RequestId | msgspec.UnsetType | None) -> Stray:
        self.stray_count += 1
        return Stray(id=request_id if isinstance(request_id, int | str) else None)

    def _garbage(self, line: bytes) -> Garbage:
        self.garbage_count += 1
        head = line[:SAMPLE_BYTES].decode("utf-8", "replace")
        return Garbage(size_bytes=len(line), sample=self._hide(head))


def _envelope(line: bytes) -> _Envelope | None:
    """Return the line's fields; None if it is no message, even with lone surrogates replaced."""
    try:
        return _ENVELOPE.decode(line)
    except _UNREADABLE:
        pass  # a lone surrogate escape is no reason to lose an answer: read it leniently below
    try:
        repaired = _cleaned(json.loads(line.decode("utf-8", "replace")))
        return _ENVELOPE.decode(_ENCODER.encode(repaired))
    except (*_UNREADABLE, ValueError):
        return None


def _route(params: msgspec.Raw) -> tuple[str | None, str | None, str | None]:
    """Return the ids of thread, turn and item, also where the thread or turn itself is the body."""
    try:
        route = _ROUTE.decode(params)
    except _UNREADABLE:
        return None, None, None
    thread_id = route.thread_id if route.thread_id is not None else _inner_id(route.thread)
    turn_id = route.turn_id if route.turn_id is not None else _inner_id(route.turn)
    return thread_id, turn_id, route.item_id


def _inner_id(raw: msgspec.Raw) -> str | None:
    if not bytes(raw):
        return None
    try:
        return _HAS_ID.decode(raw).id
    except _UNREADABLE:
        return None


def object_from_wire(raw: msgspec.Raw, method: str) -> JsonObject:
    """Decode a body to a plain dict; null is empty.

    A lone surrogate escape or a broken UTF-8 byte inside it is replaced, since the rest is still
    worth reading. Raises: RemoteProtocolError.
    """
    try:
        value: Any = msgspec.json.decode(raw)
    except _UNREADABLE:
        value = _lenient(raw, method)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RemoteProtocolError(f"the body of {method!r} is no object but {type(value).__name__}")
    return value


def _lenient(raw: msgspec.Raw, method: str) -> object:
    try:
        return _cleaned(json.loads(bytes(raw).decode("utf-8", "replace")))
    except (ValueError, RecursionError) as error:
        raise RemoteProtocolError(f"the body of {method!r} cannot be read: {error}") from error


def encode(message: JsonObject) -> bytes:
    """Return the line of a message.

    Lone surrogates are replaced, since the app-server drops a line that has one and answers nothing
    (F9). NaN becomes null. Raises: LocalProtocolError for nesting over `MAX_DEPTH` and for what
    JSON cannot say.
    """
    _refuse_depth(message)
    try:
        return _ENCODER.encode(message) + b"\n"
    except UnicodeEncodeError:
        return _ENCODER.encode(_cleaned(message)) + b"\n"
    except (TypeError, OverflowError) as error:
        raise LocalProtocolError(f"the message cannot be written as JSON: {error}") from error


def _refuse_depth(message: JsonObject) -> None:
    """Raise if containers nest too deeply; strings are not looked into, so the cost is per node."""
    level: list[object] = [message]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for node in level
            for child in _children(node)
            if isinstance(child, dict | list | tuple)
        ]
        if not level:
            return
    raise LocalProtocolError(
        f"the message nests deeper than {MAX_DEPTH} levels, which the app-server drops unanswered"
    )


def _children(node: object) -> list[object]:
    if isinstance(node, dict):
        return list(node.values())
    return list(node) if isinstance(node, list | tuple) else []


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, dict):
        return {without_surrogates(str(key)): _cleaned(child) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(child) for child in value]
    return value
