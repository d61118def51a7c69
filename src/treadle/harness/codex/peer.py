"""What the harness needs of a connection to the app-server.

Knows nothing of processes; `wire.client.CodexClient` is one.
"""

from __future__ import annotations

from typing import Protocol

from treadle.model.json import JsonObject


class CodexPeer(Protocol):
    """A connection that takes requests."""

    async def request(
        self, method: str, params: JsonObject | None = None, *, timeout_s: float | None = None
    ) -> JsonObject:
        """Ask and return the result. Raises: RpcError, ThreadBusy, RpcTimeout, ProcessExited."""
