"""Serve one ASGI app on a loopback port until told to stop.

Knows nothing of what is served; takes no signals, writes no access log (paths hold secrets), and
leaves no socket behind, however it ends.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager

import anyio
import msgspec
import uvicorn
from anyio.abc import TaskStatus
from starlette.types import ASGIApp, Receive, Send

from treadle.model.json import JsonValue

LOOPBACK = "127.0.0.1"
"""The only address that is ever bound."""

GRACE_S = 1
"""Seconds that open answers get to end by themselves at a stop."""

_KEEP_ALIVE_S = 60
_HEADER_BYTES = 256 * 1024
_BACKLOG = 512


class _Server(uvicorn.Server):
    """Uvicorn without signal handlers and without its ten ticks a second."""

    def __init__(
        self, config: uvicorn.Config, stop: anyio.Event, started: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._stop = stop
        self._tell_started = started

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def main_loop(self) -> None:
        self._tell_started()
        await self._stop.wait()


async def serve_app(
    app: ASGIApp, port: int, stop: anyio.Event, *, task_status: TaskStatus[int]
) -> None:
    """Listen on a loopback port (0 picks a free one) and serve until `stop` is set.

    Reports the port once connections are accepted. At a stop, answers that are still open have
    `GRACE_S` to end; then their tasks are cancelled. Raises: OSError if the port is taken.
    Cancel: the socket is closed and connections are dropped, within `GRACE_S` and a bit.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LOOPBACK, port))
        bound: int = listener.getsockname()[1]
        config = uvicorn.Config(
            app,
            interface="asgi3",
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            backlog=_BACKLOG,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=GRACE_S,
            h11_max_incomplete_event_size=_HEADER_BYTES,
        )
        server = _Server(config, stop, lambda: task_status.started(bound))
        try:
            await server.serve(sockets=[listener])
        except anyio.get_cancelled_exc_class():
            if server.started:
                with anyio.move_on_after(2 * GRACE_S, shield=True):
                    await server.shutdown(sockets=[listener])
            raise


async def read_body(receive: Receive, limit_bytes: int) -> bytes | None:
    """Read a whole request body; None if it is longer than the limit or the client left."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        if len(body) > limit_bytes:
            return None
        if not message.get("more_body", False):
            return bytes(body)


async def start_response(
    send: Send, status: int, content_type: str, headers: Mapping[str, str] | None = None
) -> None:
    """Send status and headers."""
    fields = {"content-type": content_type, "cache-control": "no-store", **(headers or {})}
    pairs = [(name.lower().encode(), value.encode()) for name, value in fields.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})


async def send_json(
    send: Send, status: int, value: JsonValue, headers: Mapping[str, str] | None = None
) -> None:
    """Send a whole JSON answer."""
    body = msgspec.json.encode(value)
    fields = {"content-length": str(len(body)), **(headers or {})}
    await start_response(send, status, "application/json", fields)
    await send({"type": "http.response.body", "body": body})


async def wait_for_disconnect(receive: Receive) -> None:
    """Return once the client has gone; for requests whose body has been read."""
    while (await receive())["type"] != "http.disconnect":
        pass
