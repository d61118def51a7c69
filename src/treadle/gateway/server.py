"""The gateway: the runtime service behind the unix socket of its state directory.

One process owns a state directory (INV-4); it alone opens this. Knows nothing of what requests
mean. Source: RS26, INV-17, INV-23.
"""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import anyio
import anyio.to_thread
from anyio.abc import SocketAttribute, SocketListener, SocketStream, TaskGroup

from treadle.clock import Clock
from treadle.gateway import requests as asked
from treadle.gateway.connection import Connection
from treadle.gateway.dispatch import Dispatcher
from treadle.gateway.frames import HELLO_BYTES, LineReader
from treadle.gateway.place import SOCKET_FILE, listening_socket, peer_uid
from treadle.model.errors import (
    Draining,
    OwnerRefused,
    StateDirectoryRefused,
    StoreDamaged,
    StoreError,
)
from treadle.model.json import JsonObject, JsonValue
from treadle.observe import emit
from treadle.runtime.handle import RunHandle
from treadle.runtime.service import Runtime

Role = Literal["serve", "command"]
"""Whether the process serves until it is stopped, or until its own command is done."""

MAX_CLIENTS: Final = 128
"""Clients at a time; further ones are closed at once."""

ACCEPT_AGAIN_S: Final = 0.5
"""Seconds until the next try where no client could be let in (no descriptors left)."""

LOOK_EVERY_S: Final = 20
"""Seconds between two looks for damage: a damaged store is told of within 60 (RS27)."""

LAST_WORDS_S: Final = 5.0
"""Seconds that clients get for what is stored of their streams when the gateway ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a client is told of its gateway."""

    version: str
    role: Role
    state_dir: Path
    config_file: Path
    offline: bool
    started_at: float
    """Unix seconds."""


class Gateway:
    """An open gateway; made by `open_gateway`."""

    def __init__(
        self, runtime: Runtime, identity: Identity, clock: Clock, *, is_accepting: bool = True
    ) -> None:
        """One that is not accepting answers questions and takes no message."""
        self._runtime = runtime
        self._identity = identity
        self._clock = clock
        self._dispatcher = Dispatcher(runtime)
        self._clients: set[Connection] = set()
        self._stop_asked = anyio.Event()
        self._is_accepting = is_accepting
        self.fault: StoreDamaged | None = None
        """Why it has to end at once; None while nothing is known to be damaged."""

    @property
    def identity(self) -> Identity:
        """What clients are told."""
        return self._identity

    def ask_to_stop(self) -> None:
        """Take no more messages, and let `stop_asked` return."""
        self._is_accepting = False
        self._stop_asked.set()

    async def stop_asked(self) -> None:
        """Wait until somebody asks it to stop, or it has to (`fault`)."""
        await self._stop_asked.wait()

    async def watch_store(self) -> None:
        """Stop as soon as the store is known to be damaged, and look for that; a task of its own.

        Source: RS27, not a paralysed process (#126821).
        """
        store = self._runtime.store
        for second in itertools.count(1):
            await anyio.sleep(1)
            if second % LOOK_EVERY_S == 0:
                with suppress(StoreError):  # damage is kept as the store's fault; others pass
                    await store.look()
            if store.fault is not None:
                emit("store.damaged", cause=store.fault)
                self.fault = store.fault
                self.ask_to_stop()
                return

    async def drain(self, within_s: float | None) -> bool:
        """Take no more messages and wait for the runs there are; False if some are left.

        None waits as long as they take, those that have not begun included; with a time those stay
        stored for the next owner (RS06). Cancel: they go on.
        """
        self._is_accepting = False
        if within_s is not None:
            return await self._runtime.drain(within_s=within_s)
        while running := self._runtime.running:
            await running[0].result()
        return True

    async def serve(self, stream: SocketStream) -> None:
        """Serve one client to its end."""
        async with stream:
            raw: socket.socket = stream.extra(SocketAttribute.raw_socket)
            uid = peer_uid(raw)
            if uid is not None and uid != os.geteuid():
                emit("gateway.client_dropped", reason=f"it belongs to user {uid}")
                return
            if len(self._clients) >= MAX_CLIENTS:
                emit("gateway.client_dropped", reason=f"{MAX_CLIENTS} others are there")
                return
            reader = LineReader(HELLO_BYTES)
            client = Connection(stream, reader, self._runtime, self.answer, self._clock)
            self._clients.add(client)
            try:
                await client.run()
            finally:
                self._clients.discard(client)

    async def last_words(self) -> None:
        """Send clients what is stored of their streams; who is too slow reads it later."""
        await self._runtime.streams.flush()
        with anyio.move_on_after(LAST_WORDS_S):
            async with anyio.create_task_group() as group:
                for client in tuple(self._clients):
                    group.start_soon(client.caught_up)

    async def submit(self, request: asked.Submit) -> tuple[RunHandle, JsonObject]:
        """Accept a message; see `Dispatcher.submit`. Raises besides: Draining."""
        if self.fault is not None:
            raise self.fault
        if not self._is_accepting:
            raise Draining(next_step="Try again in a moment; the message was not accepted.")
        return await self._dispatcher.submit(request)

    async def answer(self, request: asked.Request) -> JsonObject:
        """Answer a request that is not about a connection. Raises: TreadleError."""
        match request:
            case asked.Hello():
                return self.about()
            case asked.GetStatus():
                return self._status()
            case asked.Stop():
                return self._stop()
            case asked.Ping():
                return {}
            case asked.Submit():
                return (await self.submit(request))[1]
            case _:
                return await self._dispatcher.answer(request)

    def about(self) -> dict[str, JsonValue]:
        """Return who this is, as a client is told when it comes."""
        about = self._identity
        settings = self._runtime.settings
        return {
            "v": asked.PROTOCOL,
            "version": about.version,
            "pid": os.getpid(),
            "role": about.role,
            "state_dir": str(about.state_dir),
            "config_file": str(about.config_file),
            "offline": about.offline,
            "started_at": about.started_at,
            "accepting": self._is_accepting,
            "engines": {one: settings.agent(one).engine for one in settings.agent_ids()},
        }

    def _status(self) -> JsonObject:
        runs: list[JsonValue] = [
            {"run": one.run_id, "session_key": one.session_key} for one in self._runtime.running
        ]
        return {
            **self.about(),
            "up_s": round(self._clock.now() - self._identity.started_at, 3),
            "clients": len(self._clients),
            "runs": runs,
            "health": {**self._runtime.health(), "store": self._store()},
        }

    def _store(self) -> JsonObject:
        store = self._runtime.store
        return {
            "fault": None if store.fault is None else store.fault.message,
            "log_bytes": store.log_bytes,
        }

    def _stop(self) -> JsonObject:
        if self._identity.role != "serve":
            raise OwnerRefused(
                f"process {os.getpid()} is a command of its own and ends when it is done",
                next_step="Wait for it, or interrupt it where it runs (Ctrl-C).",
            )
        self.ask_to_stop()
        return {"pid": os.getpid(), "running": len(self._runtime.running)}


@asynccontextmanager
async def open_gateway(
    runtime: Runtime, identity: Identity, clock: Clock, *, is_accepting: bool = True
) -> AsyncIterator[Gateway]:
    """Listen on the socket of the state directory until the block ends.

    Whoever owns the state directory may call this; what a dead owner left is replaced. At the end
    nobody new is let in, clients are sent what is stored, and the socket goes. Raises:
    StateDirectoryRefused where there can be no socket. Cancel: clients are cut off.
    """
    gateway = Gateway(runtime, identity, clock, is_accepting=is_accepting)
    try:
        listening = await anyio.to_thread.run_sync(listening_socket, identity.state_dir)
    except OSError as error:
        raise StateDirectoryRefused(
            f"there can be no socket in the state directory {str(identity.state_dir)!r}:"
            f" {error.strerror or error}",
            next_step=f"Move away what lies there as {SOCKET_FILE}.",
        ) from error
    listener = await SocketListener.from_socket(listening)
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(_let_in, listener, gateway, group)
        group.start_soon(gateway.watch_store)
        emit("gateway.started", role=identity.role)
        try:
            yield gateway
        except Exception as error:  # carried out of the group, which would wrap it
            failure = error
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(_remove, identity.state_dir / SOCKET_FILE)
                await gateway.last_words()
            group.cancel_scope.cancel()
    emit("gateway.stopped")
    if failure is not None:
        raise failure


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


async def _let_in(listener: SocketListener, gateway: Gateway, group: TaskGroup) -> None:
    """Let clients in, each into a task of its own; without descriptors, wait for some."""
    async with listener:
        while True:
            try:
                stream = await listener.accept()
            except anyio.BrokenResourceError as error:
                emit("gateway.client_dropped", cause=error)
                await anyio.sleep(ACCEPT_AGAIN_S)
            else:
                group.start_soon(gateway.serve, stream)
