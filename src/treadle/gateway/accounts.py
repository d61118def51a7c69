"""Accounts as a command holds them: here, or in the process that owns the state directory.

Knows nothing of how a person is asked.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Protocol

from treadle.gateway import requests as asked
from treadle.gateway.attach import Owned
from treadle.gateway.client import GatewayClient
from treadle.gateway.face import Face
from treadle.gateway.records import record_from, records_from
from treadle.model.errors import RemoteProtocolError
from treadle.model.json import JsonObject
from treadle.runtime.accounts import Account, ModelRow

SIGN_IN_S: Final = 86_400.0
"""Seconds for a sign-in; the owner has a deadline of its own, which may be any below this."""

CODEX_S: Final = 180.0
"""Seconds for what the owner asks its app-server, which may have to be started for it."""


class Pending(Protocol):
    """A sign-in that a person completes in a browser."""

    url: str
    """Where."""

    code: str | None
    """What to type there; None where the browser comes back by itself."""

    async def wait(self) -> None:
        """Wait until it is done. Raises: SignInError, ProcessExited, GatewayLost."""


class _RemotePending:
    def __init__(self, client: GatewayClient, begun: JsonObject) -> None:
        url, code = begun.get("url"), begun.get("code")
        if not isinstance(url, str):
            raise RemoteProtocolError("the gateway began a sign-in without saying where")
        self.url = url
        self.code = code if isinstance(code, str) else None
        self._client = client

    async def wait(self) -> None:
        await self._client.ask(asked.AwaitLogin(), within_s=SIGN_IN_S)


class FaceAccounts:
    """Accounts of the agents, wherever they are held."""

    def __init__(self, face: Face) -> None:
        self._face = face

    async def whoami(self, agent: str) -> Account:
        """Return who is signed in. Raises: NotFound, WireError."""
        return await self._account(asked.GetAccount(agent=agent))

    async def login_api_key(self, agent: str, key: str) -> Account:
        """Sign in with an API key. Raises: UsageError, SignInError, NotFound, WireError."""
        return await self._account(asked.LogInWithKey(agent=agent, key=key))

    async def logout(self, agent: str) -> Account:
        """Sign out. Raises: NotFound, WireError."""
        return await self._account(asked.LogOut(agent=agent))

    async def _account(self, request: asked.Request) -> Account:
        answer = await self._face.ask(request, within_s=CODEX_S)
        return record_from(Account, answer.get("account"))

    async def models(self, agent: str) -> tuple[ModelRow, ...]:
        """Return the models that Codex knows. Raises: NotFound, WireError."""
        answer = await self._face.ask(asked.ListModels(agent=agent), within_s=CODEX_S)
        return records_from(ModelRow, answer.get("items"))

    @asynccontextmanager
    async def login(self, agent: str, *, device: bool) -> AsyncIterator[Pending]:
        """Begin a sign-in in a browser; given up at the end. Raises: SignInError, WireError."""
        target = await self._face.target()
        if isinstance(target, Owned):
            accounts = target.runtime.accounts
            begin = accounts.login_device if device else accounts.login_chatgpt
            async with begin(agent) as pending:
                yield pending
        else:
            request = asked.BeginLogin(agent=agent, device=device)
            yield _RemotePending(target, await target.ask(request, within_s=CODEX_S))
