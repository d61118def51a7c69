"""A gateway over the scripted app-server, and bare clients of its socket.

Knows nothing of what a test looks for.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.abc import SocketStream

from tests.turn.rig import Rig
from treadle.clock import SystemClock
from treadle.gateway.place import SOCKET_FILE
from treadle.gateway.server import Gateway, Identity, Role, open_gateway
from treadle.runtime.service import Runtime

WAIT_S = 20.0
"""Seconds after which a frame that does not come fails its test."""


@dataclass(frozen=True, kw_only=True)
class Open:
    """An open Treadle with its gateway."""

    runtime: Runtime
    gateway: Gateway


@asynccontextmanager
async def served(
    rig: Rig, *, role: Role = "serve", is_accepting: bool = True
) -> AsyncIterator[Open]:
    """Open Treadle and its gateway on the rig's state directory."""
    clock = SystemClock()
    identity = Identity(
        version="0",
        role=role,
        state_dir=rig.state,
        config_file=rig.root / "config.toml",
        offline=False,
        started_at=clock.now(),
    )
    async with (
        rig.opened() as runtime,
        open_gateway(runtime, identity, clock, is_accepting=is_accepting) as gateway,
    ):
        yield Open(runtime=runtime, gateway=gateway)


@dataclass(kw_only=True)
class Bare:
    """A client that sends what it is told to, and reads frames."""

    stream: SocketStream
    numbers: int = 0
    rest: bytes = b""
    events: list[dict[str, Any]] = field(default_factory=list)
    """Those that came while an answer was waited for, in order."""

    async def send(self, **frame: Any) -> int:
        """Send a request under the next number and return that."""
        self.numbers += 1
        await self.stream.send(json.dumps({"id": self.numbers, **frame}).encode() + b"\n")
        return self.numbers

    async def frame(self) -> dict[str, Any]:
        """Return the next frame. Raises: anyio.EndOfStream."""
        with anyio.fail_after(WAIT_S):
            while b"\n" not in self.rest:
                self.rest += await self.stream.receive()
        line, _, self.rest = self.rest.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found

    async def ask(self, **frame: Any) -> dict[str, Any]:
        """Send a request and return its answer; events that come before are kept."""
        number = await self.send(**frame)
        while True:
            found = await self.frame()
            if found.get("id") == number and "stream" not in found:
                return found
            self.events.append(found)

    async def event(self) -> dict[str, Any]:
        """Return the next event."""
        if self.events:
            return self.events.pop(0)
        while "stream" not in (found := await self.frame()):
            pass  # answers that nobody waits for any more
        return found

    async def events_to(self, kind: str) -> list[dict[str, Any]]:
        """Return the next events up to the first of this type."""
        found = [await self.event()]
        while found[-1]["type"] != kind:
            found.append(await self.event())
        return found


@asynccontextmanager
async def connected(rig: Rig) -> AsyncIterator[Bare]:
    """Connect without a word."""
    async with await anyio.connect_unix(rig.state / SOCKET_FILE) as stream:
        yield Bare(stream=stream)


@asynccontextmanager
async def greeted(rig: Rig) -> AsyncIterator[Bare]:
    """Connect and say hello."""
    async with connected(rig) as client:
        answer = await client.ask(type="hello", v=1, client="test")
        assert answer["ok"]["v"] == 1
        yield client
