"""The other end of the socket: ask a gateway, and follow its streams.

Knows nothing of what is done with answers and events. A connection that ends fails every open
request; what those did is then unknown, and said to be.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import msgspec
from anyio.abc import SocketStream, UNIXSocketStream
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from treadle.gateway import requests as asked
from treadle.gateway.cursor import Cursor
from treadle.gateway.frames import ANSWER_BYTES, REQUEST_BYTES, LineReader, frame, object_in
from treadle.gateway.place import connected_socket, peer_uid
from treadle.model.errors import (
    GatewayLost,
    GatewayUnreachable,
    RemoteProtocolError,
    error_from_json,
)
from treadle.model.json import JsonObject, JsonValue

CONNECT_S: Final = 5.0
"""Seconds to the gateway's greeting; a process that is stopped takes clients and stays mute."""

ASK_S: Final = 60.0
"""Seconds for an answer, where the caller names no other time."""

WAITING_MOST: Final = 256
"""Events of a stream that wait for their reader."""

READER_S: Final = 1.0
"""Seconds for a reader to take an event; one that waits for an answer meanwhile never would."""

READ_BYTES: Final = 262_144

PIECE_CHARS: Final = REQUEST_BYTES // 8
"""Characters of a text that fit into a frame, however they are written."""

Events = MemoryObjectReceiveStream[JsonObject]


@dataclass(slots=True, eq=False)
class _Asked:
    done: anyio.Event = field(default_factory=anyio.Event)
    answer: JsonObject | None = None


class GatewayClient:
    """A connection to a gateway; made by `open_client`."""

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._numbers = itertools.count(1)
        self._asked: dict[int, _Asked] = {}
        self._readers: dict[str, list[MemoryObjectSendStream[JsonObject]]] = {}
        self._sending = anyio.Lock()
        self._lost = anyio.Event()
        self.about: JsonObject = {}
        """What the gateway said of itself."""

    @property
    def is_lost(self) -> bool:
        """Whether the connection is over."""
        return self._lost.is_set()

    async def ask(self, request: asked.Request, *, within_s: float = ASK_S) -> JsonObject:
        """Send a request and return its answer.

        Raises: the gateway's own error, GatewayLost. Cancel: it may be carried out all the same.
        """
        number = next(self._numbers)
        waiting = self._asked[number] = _Asked()
        try:
            await self._send({**asked.fields_of(request), "id": number})
            with anyio.move_on_after(within_s):
                await waiting.done.wait()
        finally:
            del self._asked[number]
        if waiting.answer is None:
            why = "went away" if self.is_lost else f"gave no answer within {within_s:g} s"
            raise GatewayLost(
                f"the process that owns the state directory {why}; what was asked may be done",
                next_step="Look with treadle status, then try again.",
            )
        error = waiting.answer.get("error")
        if isinstance(error, dict):
            raise error_from_json(error)
        result = waiting.answer.get("ok")
        if not isinstance(result, dict):
            raise RemoteProtocolError("the gateway gave an answer without a result")
        return result

    async def submit(self, request: asked.Submit) -> JsonObject:
        """Send a message, in pieces where it is long; return the acknowledgement. As `ask`."""
        text = request.text
        while len(text) > PIECE_CHARS:
            piece = msgspec.structs.replace(request, text=text[:PIECE_CHARS], more=True)
            await self.ask(piece)
            text = text[PIECE_CHARS:]
        return await self.ask(msgspec.structs.replace(request, text=text))

    @asynccontextmanager
    async def watch(self, cursor: Cursor) -> AsyncIterator[Events]:
        """Follow a stream from a cursor; its events come as they were sent, some twice.

        The cursor says what to do with each. It ends with the connection, and where its reader is
        too slow. Raises: GatewayLost.
        """
        send, receive = anyio.create_memory_object_stream[JsonObject](WAITING_MOST)
        readers = self._readers.setdefault(cursor.stream, [])
        readers.append(send)
        try:
            await self.subscribe(cursor)
            with receive:
                yield receive
        finally:
            readers.remove(send)
            send.close()

    async def subscribe(self, cursor: Cursor) -> None:
        """Ask for a stream from a cursor on. Raises: GatewayLost."""
        await self.ask(asked.Subscribe(streams=(cursor.wanted(),)))

    async def _send(self, value: JsonObject) -> None:
        data = frame(value)
        try:
            async with self._sending:
                await self._stream.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            await self._over()
            raise GatewayLost("the process that owns the state directory went away") from error

    async def read(self) -> None:
        """Read to the end; a task of the connection."""
        reader = LineReader(ANSWER_BYTES)
        try:
            while True:
                for line in reader.feed(await self._stream.receive(READ_BYTES)):
                    found = object_in(line) if isinstance(line, bytes) else None
                    if found is None:
                        return
                    await self._take(found)
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return  # told by `is_lost`
        finally:
            with anyio.CancelScope(shield=True):
                await self._over()

    async def _take(self, found: JsonObject) -> None:
        stream = found.get("stream")
        if isinstance(stream, str):
            for reader in tuple(self._readers.get(stream, ())):
                await self._pass_on(reader, found)
            return
        waiting = self._asked.get(_number(found.get("id")))
        if waiting is not None:
            waiting.answer = found
            waiting.done.set()

    async def _pass_on(self, reader: MemoryObjectSendStream[JsonObject], found: JsonObject) -> None:
        """Give an event to its reader; one that is behind for long is cut off and comes back."""
        with anyio.move_on_after(READER_S) as passing:
            try:
                await reader.send(found)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return  # its reader is gone
        if passing.cancelled_caught:
            reader.close()

    async def _over(self) -> None:
        self._lost.set()
        for waiting in self._asked.values():
            waiting.done.set()
        for readers in self._readers.values():
            for reader in readers:
                reader.close()


def _number(value: JsonValue) -> int:
    return value if isinstance(value, int) else -1


@asynccontextmanager
async def open_client(state: Path) -> AsyncIterator[GatewayClient]:
    """Connect to the gateway of a state directory and greet it.

    Raises: GatewayUnreachable where nobody listens, GatewayLost where nobody answers, the gateway's
    own refusal.
    """
    try:
        connected = await anyio.to_thread.run_sync(connected_socket, state, CONNECT_S)
    except OSError as error:
        raise GatewayUnreachable(
            f"nobody listens for {str(state)!r}", next_step="Start it: treadle serve --socket"
        ) from error
    uid = peer_uid(connected)
    if uid not in {None, os.geteuid()}:
        connected.close()
        raise GatewayUnreachable(
            f"the socket of {str(state)!r} belongs to user {uid}, and nothing is said to it",
            next_step="Look who can write to that directory.",
        )
    stream = await UNIXSocketStream.from_socket(connected)
    failure: BaseException | None = None
    async with stream, anyio.create_task_group() as group:
        client = GatewayClient(stream)
        group.start_soon(client.read)
        try:
            name = await anyio.to_thread.run_sync(version, "treadle")
            hello = asked.Hello(v=asked.PROTOCOL, client=f"treadle/{name}")
            client.about = await client.ask(hello, within_s=CONNECT_S)
            yield client
        except BaseException as error:  # carried out of the group, which would wrap it
            failure = error
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure
