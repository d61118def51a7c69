"""A sign-in in a browser that a client began: held while the client is there, given up without it.

Knows nothing of sockets.
"""

from __future__ import annotations

import anyio
from anyio.abc import TaskGroup, TaskStatus

from treadle.gateway.requests import BeginLogin
from treadle.model.errors import UsageError
from treadle.model.json import JsonObject
from treadle.runtime.accounts import Accounts, PendingLogin


class Logins:
    """The sign-in of one client; a second one takes the place of the first."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self._pending: PendingLogin | None = None
        self._over = anyio.Event()

    async def begin(self, group: TaskGroup, request: BeginLogin) -> JsonObject:
        """Begin one; it lives in the client's task group. Raises: SignInError, WireError."""
        self._over.set()
        self._over = anyio.Event()
        pending: PendingLogin = await group.start(self._hold, request, self._over)
        self._pending = pending
        return {"url": pending.url, "code": pending.code}

    async def wait(self) -> JsonObject:
        """Wait until it is done. Raises: UsageError, SignInError, ProcessExited."""
        pending, over = self._pending, self._over
        if pending is None:
            raise UsageError("this connection began no sign-in")
        try:
            await pending.wait()
        finally:
            over.set()
        return {}

    async def _hold(
        self,
        request: BeginLogin,
        over: anyio.Event,
        *,
        task_status: TaskStatus[PendingLogin] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        begin = self._accounts.login_device if request.device else self._accounts.login_chatgpt
        async with begin(request.agent) as pending:
            task_status.started(pending)
            await over.wait()
