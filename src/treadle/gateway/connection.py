"""One client of the gateway: its frames in, answers and streams out, until either side ends.

Knows nothing of other clients. Requests are carried out in the order in which they come; those that
may take long are put beside, a few at a time. A client that does not take what it is sent is
dropped, never waited for (INV-17).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import anyio
from anyio.abc import ByteStream, TaskGroup

from treadle.clock import Clock
from treadle.gateway import requests as asked
from treadle.gateway.following import Following
from treadle.gateway.frames import REQUEST_BYTES, LineReader, frame
from treadle.gateway.logins import Logins
from treadle.gateway.machine import CarryOut, Close, Command, Received, Refuse, ServerSide, Welcome
from treadle.model.errors import GatewayLost, StoreError, TreadleError, UsageError
from treadle.model.json import JsonObject
from treadle.observe import emit
from treadle.runtime.service import Runtime

HELLO_S: Final = 5.0
"""Seconds within which a client says who it is."""

SEND_S: Final = 10.0
"""Seconds within which a client takes a frame; then it is dropped, and comes back by its cursor."""

READ_BYTES: Final = 65_536
MAX_BESIDE: Final = 8
"""Requests of one client that are carried out beside the others."""

_BESIDE: Final = (
    asked.CompactSession,
    asked.ListEngines,
    asked.GetAccount,
    asked.LogInWithKey,
    asked.BeginLogin,
    asked.AwaitLogin,
    asked.LogOut,
    asked.ListModels,
)
"""Requests that may take long: they read much, or ask the app-server or a person."""

Answer = Callable[[asked.AnyRequest], Awaitable[JsonObject]]


class Connection:
    """A client; `run` serves it."""

    def __init__(
        self, stream: ByteStream, reader: LineReader, runtime: Runtime, answer: Answer, clock: Clock
    ) -> None:
        """`answer` answers every request that is not about the connection itself."""
        self._stream = stream
        self._reader = reader
        self._runtime = runtime
        self._answer = answer
        self._clock = clock
        self._side = ServerSide()
        self._sending = anyio.Lock()
        self._following: dict[str, tuple[Following, anyio.CancelScope]] = {}
        self._logins = Logins(runtime.accounts)
        self._beside = 0
        self.client = ""
        """What the client calls itself."""

    async def run(self) -> None:
        """Serve the client to its end; never raises. Cancel: it is cut off, its runs go on."""
        try:
            async with anyio.create_task_group() as group:
                await self._serve(group)
                group.cancel_scope.cancel()
        except* (anyio.BrokenResourceError, anyio.ClosedResourceError, GatewayLost) as gone:
            emit("gateway.client_dropped", client=self.client, cause=gone.exceptions[0])
        except* Exception as crashed:  # one client's fault must not end the others
            emit("gateway.request_crashed", client=self.client, cause=crashed.exceptions[0])

    async def _serve(self, group: TaskGroup) -> None:
        with anyio.move_on_after(HELLO_S) as greeting:
            while True:
                try:
                    data = await self._stream.receive(READ_BYTES)
                except anyio.EndOfStream:
                    return
                for line in self._reader.feed(data):
                    for command in self._side.step(line):
                        if isinstance(command, Welcome):
                            greeting.deadline = float("inf")
                        if not await self._carry_out(group, command):
                            return

    async def _carry_out(self, group: TaskGroup, command: Command) -> bool:
        """Carry a command out; False if it ends the connection."""
        match command:
            case Close():
                return False
            case Refuse(id=number, error=error):
                await self.send({"id": number, "error": error.to_json()})
            case Received(id=number):
                await self.send({"id": number, "ok": {"more": True}})
            case Welcome(hello=hello):
                self._reader.limit = REQUEST_BYTES
                self.client = hello.client
                await self._answered(group, hello)
            case CarryOut(request=request):
                await self._asked(group, request)
        return True

    async def _asked(self, group: TaskGroup, request: asked.AnyRequest) -> None:
        match request:
            case asked.Subscribe():
                await self._subscribe(group, request)
            case asked.Unsubscribe():
                self._forget(request.stream)
                await self.send({"id": request.id, "ok": {}})
            case _ if not isinstance(request, _BESIDE):
                await self._answered(group, request)
            case _ if self._beside >= MAX_BESIDE:
                error = UsageError(f"more than {MAX_BESIDE} long requests of one client at once")
                await self.send({"id": request.id, "error": error.to_json()})
            case _:
                self._beside += 1
                group.start_soon(self._answered_beside, group, request)

    async def _answered_beside(self, group: TaskGroup, request: asked.AnyRequest) -> None:
        try:
            await self._answered(group, request)
        finally:
            self._beside -= 1

    async def _answered(self, group: TaskGroup, request: asked.AnyRequest) -> None:
        try:
            match request:
                case asked.BeginLogin():
                    result = await self._logins.begin(group, request)
                case asked.AwaitLogin():
                    result = await self._logins.wait()
                case _:
                    result = await self._answer(request)
        except TreadleError as error:
            await self.send({"id": request.id, "error": error.to_json()})
        except Exception as error:  # one request's fault must not end the client's others
            emit("gateway.request_crashed", type=type(request).__name__, cause=error)
            fault = TreadleError(f"Treadle itself failed: {type(error).__name__}")
            await self.send({"id": request.id, "error": fault.to_json()})
        else:
            await self.send({"id": request.id, "ok": result})

    async def _subscribe(self, group: TaskGroup, request: asked.Subscribe) -> None:
        await self.send({"id": request.id, "ok": {}})
        for wanted in request.streams:
            self._forget(wanted.id)
            following = Following(self._runtime.streams, wanted, self.send, self._clock)
            scope = anyio.CancelScope()
            self._following[wanted.id] = (following, scope)
            group.start_soon(self._follow, following, scope)

    async def _follow(self, following: Following, scope: anyio.CancelScope) -> None:
        with scope:
            try:
                await following.run()
            except StoreError as error:
                raise GatewayLost("the stream cannot be read") from error

    def _forget(self, stream: str) -> None:
        found = self._following.pop(stream, None)
        if found is not None:
            found[1].cancel()

    async def caught_up(self) -> None:
        """Wait until the client was sent all that is stored of its streams."""
        for following, _ in tuple(self._following.values()):
            await following.caught_up()

    async def send(self, value: JsonObject) -> None:
        """Send a frame. Raises: GatewayLost where it is not taken in time, BrokenResourceError."""
        data = frame(value)
        async with self._sending:
            with anyio.move_on_after(SEND_S) as sending:
                await self._stream.send(data)
        if sending.cancelled_caught:
            raise GatewayLost(f"the client took no frame for {SEND_S:g} s")
