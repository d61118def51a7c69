"""One HTTP request at a time over a plain socket, for tests of servers on loopback.

Knows nothing of redirects, cookies, TLS or kept connections.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import anyio
import h11

from treadle.model.json import JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """What a server answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> JsonValue:
        """The body as JSON."""
        value: JsonValue = json.loads(self.body)
        return value

    @property
    def events(self) -> list[dict[str, JsonValue]]:
        """The data of the server-sent events in the body, in order."""
        lines = self.body.decode().splitlines()
        return [json.loads(line[6:]) for line in lines if line.startswith("data: ")]

    @property
    def text(self) -> str:
        """The text deltas of a Responses stream, joined."""
        deltas = [e.get("delta") for e in self.events if str(e["type"]).endswith("text.delta")]
        return "".join(delta for delta in deltas if isinstance(delta, str))


async def http(
    method: str,
    url: str,
    body: JsonValue | bytes = b"",
    *,
    headers: Mapping[str, str] | None = None,
) -> HttpAnswer:
    """Send a request and read the whole answer; a body that is no bytes is sent as JSON.

    Raises: h11.RemoteProtocolError if the connection is dropped before the answer's end.
    """
    parts = urlsplit(url)
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    fields = {
        "host": parts.netloc,
        "content-type": "application/json",
        "content-length": str(len(data)),
        "connection": "close",
        **(headers or {}),
    }
    wire = h11.Connection(h11.CLIENT)
    async with await anyio.connect_tcp(parts.hostname or "", parts.port or 80) as stream:
        request = h11.Request(method=method, target=parts.path, headers=list(fields.items()))
        await stream.send(wire.send(request) or b"")
        await stream.send((wire.send(h11.Data(data=data)) or b"") if data else b"")
        await stream.send(wire.send(h11.EndOfMessage()) or b"")
        return await _read(wire, stream)


async def _read(wire: h11.Connection, stream: anyio.abc.ByteReceiveStream) -> HttpAnswer:
    status, headers, body = 0, dict[str, str](), bytearray()
    while True:
        match wire.next_event():
            case h11.NEED_DATA:
                try:
                    wire.receive_data(await stream.receive())
                except anyio.EndOfStream:
                    wire.receive_data(b"")
            case h11.Response() as response:
                status = response.status_code
                headers = {k.decode(): v.decode() for k, v in response.headers}
            case h11.Data() as part:
                body += part.data
            case h11.EndOfMessage():
                return HttpAnswer(status=status, headers=headers, body=bytes(body))
            case _:
                raise h11.RemoteProtocolError("the connection ended before the answer did")
