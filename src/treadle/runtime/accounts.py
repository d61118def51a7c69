"""Who an agent's Codex is signed in as, signing in and out, and the models that Codex knows.

Speaks `account/*` and `model/list` to the app-server of the agent's own home, which alone keeps
what it is given: a key passes through here and stays in no field, log or error. Knows nothing of
how a person is asked. Source: issue 2 item 10.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Final

import anyio

from treadle.config.deadlines import Deadlines
from treadle.model.errors import RpcError, SignInError, UsageError, WireError
from treadle.model.ids import AgentId
from treadle.model.json import JsonObject, JsonValue
from treadle.model.session import MAIN_AGENT, agent_id
from treadle.model.text import Redactor
from treadle.wire.client import CodexClient
from treadle.wire.launch import LaunchKey
from treadle.wire.pool import ClientPool
from treadle.wire.subscription import Closed, Subscription

LOGIN_COMPLETED: Final = "account/login/completed"

MAX_KEY_CHARS: Final = 1000
"""Characters of an API key; what is longer is some other file."""

MAX_PAGES: Final = 50
"""Pages of models that are read; a catalog that goes on and on is a fault of the peer."""

CANCEL_S: Final = 5.0
"""Seconds to tell the app-server that nobody waits for a sign-in any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Who an agent's Codex is."""

    agent_id: AgentId
    kind: str | None
    """`apiKey`, `chatgpt` or another word of Codex's; None: nobody is signed in."""
    email: str | None = None
    plan: str | None = None
    needs_sign_in: bool = False
    """Whether Codex's own provider is in use, which takes nobody unsigned."""

    @property
    def is_signed_in(self) -> bool:
        """Whether somebody is."""
        return self.kind is not None

    def to_json(self) -> dict[str, JsonValue]:
        """Return the shape that `whoami --json` prints."""
        return {
            "agent": self.agent_id,
            "signed_in": self.is_signed_in,
            "kind": self.kind,
            "email": self.email,
            "plan": self.plan,
            "needs_sign_in": self.needs_sign_in,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRow:
    """One model of Codex's catalog."""

    model: str
    """What `--model` takes."""
    name: str
    about: str
    is_default: bool
    efforts: tuple[str, ...]
    """What `--effort` takes for it."""
    default_effort: str | None

    def to_json(self) -> dict[str, JsonValue]:
        """Return the shape that `models --json` prints."""
        return {
            "model": self.model,
            "name": self.name,
            "about": self.about,
            "is_default": self.is_default,
            "efforts": list(self.efforts),
            "default_effort": self.default_effort,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _BegunAnswer:
    login_id: str
    url: str
    code: str | None


class PendingLogin:
    """A sign-in that a person completes in a browser; `url` is where, `code` what to type there."""

    def __init__(
        self,
        client: CodexClient,
        told: Subscription,
        answer: _BegunAnswer,
        timeout_s: float,
    ) -> None:
        self._client = client
        self._told = told
        self._login_id = answer.login_id
        self._timeout_s = timeout_s
        self._is_settled = False
        self.url = answer.url
        self.code = answer.code
        """None where the browser comes back by itself."""

    async def wait(self) -> None:
        """Wait until it is done, at most `deadlines.sign_in_s`.

        Raises: SignInError (refused, too late), ProcessExited. Cancel: it can be waited for again.
        """
        with anyio.move_on_after(self._timeout_s):
            while True:
                told = await self._told.receive()
                if isinstance(told, Closed):
                    raise told.error or SignInError("the app-server ended before the sign-in did")
                params = told.params() if told.method == LOGIN_COMPLETED else {}
                if params.get("loginId") == self._login_id:
                    return self._settle(params)
        raise SignInError(
            f"nobody signed in within {self._timeout_s:g} s", next_step="Run treadle login again."
        )

    def _settle(self, params: JsonObject) -> None:
        self._is_settled = True
        if params.get("success") is not True:
            raise SignInError(
                f"Codex refused the sign-in: {params.get('error') or 'it gave no reason'}",
                next_step="Run treadle login again.",
            )

    async def cancel(self) -> None:
        """Tell the app-server that nobody waits any more; nothing where it is over."""
        if self._is_settled:
            return
        with anyio.move_on_after(CANCEL_S, shield=True):
            try:
                await self._client.request("account/login/cancel", {"loginId": self._login_id})
            except WireError:
                return  # it is over, or the app-server is: either way nobody waits


class Accounts:
    """Accounts of the agents, each in its own Codex home."""

    def __init__(
        self,
        pool: ClientPool,
        key_of: Callable[[AgentId], LaunchKey],
        deadlines: Deadlines,
    ) -> None:
        """`key_of` names the app-server of an agent's home; it raises NotFound for no agent."""
        self._pool = pool
        self._key_of = key_of
        self._deadlines = deadlines

    async def whoami(self, agent: str = MAIN_AGENT) -> Account:
        """Return who is signed in. Raises: NotFound, WireError."""
        name = agent_id(agent)
        async with self._connect(name) as client:
            return _account(name, await client.request("account/read", {"refreshToken": False}))

    async def login_api_key(self, agent: str, key: str) -> Account:
        """Sign in with an API key and return who that is; the key stays in the agent's home only.

        Raises: UsageError for a text that is no key, SignInError, NotFound, WireError.
        """
        name, secret = agent_id(agent), checked_key(key)
        async with self._connect(name) as client:
            try:
                await client.request("account/login/start", {"type": "apiKey", "apiKey": secret})
            except RpcError as error:
                text = Redactor([secret]).redact(error.rpc_message)
                raise SignInError(f"Codex did not take the key: {text}") from None
        return await self.whoami(agent)

    @asynccontextmanager
    async def login_chatgpt(self, agent: str = MAIN_AGENT) -> AsyncIterator[PendingLogin]:
        """Begin a sign-in in a browser on this machine; given up at the end if it is not done.

        Raises: SignInError, NotFound, WireError.
        """
        async with self._begun(agent, "chatgpt", "authUrl") as pending:
            yield pending

    @asynccontextmanager
    async def login_device(self, agent: str = MAIN_AGENT) -> AsyncIterator[PendingLogin]:
        """Begin a sign-in in a browser anywhere, with a code; given up at the end if it isn't done.

        Raises: SignInError, NotFound, WireError.
        """
        async with self._begun(agent, "chatgptDeviceCode", "verificationUrl") as pending:
            yield pending

    async def logout(self, agent: str = MAIN_AGENT) -> Account:
        """Sign out and return who is signed in then. Raises: NotFound, WireError."""
        async with self._connect(agent_id(agent)) as client:
            await client.request("account/logout", {})
        return await self.whoami(agent)

    async def models(self, agent: str = MAIN_AGENT) -> tuple[ModelRow, ...]:
        """Return the models in Codex's order; works offline, from its own catalog.

        Raises: NotFound, WireError.
        """
        rows: list[ModelRow] = []
        cursor: str | None = None
        async with self._connect(agent_id(agent)) as client:
            for _ in range(MAX_PAGES):
                page = await client.request("model/list", {"cursor": cursor} if cursor else {})
                rows += _models(page)
                following = page.get("nextCursor")
                if not isinstance(following, str) or following == cursor:
                    break
                cursor = following
        return tuple(rows)

    def _connect(self, agent: AgentId) -> AbstractAsyncContextManager[CodexClient]:
        return self._pool.lease(self._key_of(agent))

    @asynccontextmanager
    async def _begun(self, agent: str, kind: str, url_key: str) -> AsyncIterator[PendingLogin]:
        async with self._connect(agent_id(agent)) as client, client.subscribe(None) as told:
            try:
                answer = await client.request("account/login/start", {"type": kind})
            except RpcError as error:
                raise SignInError(
                    f"Codex could not begin the sign-in: {error.rpc_message}",
                    next_step="Check the network, or use treadle login --api-key-stdin.",
                ) from error
            begun = _begun_answer(answer, url_key)
            pending = PendingLogin(client, told, begun, self._deadlines.sign_in_s)
            try:
                yield pending
            finally:
                await pending.cancel()


def checked_key(text: str) -> str:
    """Return an API key without the blanks round it.

    Raises: UsageError for what cannot be one; the message never holds the text.
    """
    key = text.strip()
    fault = ""
    if not key:
        fault = "there is no key on standard input"
    elif len(key) > MAX_KEY_CHARS:
        fault = f"standard input holds {len(key):,} characters, too many for a key"
    elif not key.isascii() or not key.isprintable() or " " in key:
        fault = "standard input holds more than one word, or characters that no key has"
    if fault:
        raise UsageError(
            fault, next_step="Pipe the key alone: treadle login --api-key-stdin < key-file."
        )
    return key


def _begun_answer(answer: JsonObject, url_key: str) -> _BegunAnswer:
    login_id, url = _text(answer, "loginId"), _text(answer, url_key)
    if login_id is None or url is None:
        raise SignInError("Codex began a sign-in without saying where it goes on")
    return _BegunAnswer(login_id=login_id, url=url, code=_text(answer, "userCode"))


def _account(name: AgentId, answer: JsonObject) -> Account:
    found = answer.get("account")
    account = found if isinstance(found, Mapping) else {}
    return Account(
        agent_id=name,
        kind=_text(account, "type"),
        email=_text(account, "email"),
        plan=_text(account, "planType"),
        needs_sign_in=answer.get("requiresOpenaiAuth") is True,
    )


def _models(page: JsonObject) -> list[ModelRow]:
    found = page.get("data")
    listed = found if isinstance(found, list) else []
    return [
        _model(row) for row in listed if isinstance(row, Mapping) and row.get("hidden") is not True
    ]


def _model(row: JsonObject) -> ModelRow:
    model = _text(row, "model") or _text(row, "id") or ""
    found = row.get("supportedReasoningEfforts")
    options = found if isinstance(found, list) else []
    efforts = (_text(one, "reasoningEffort") for one in options if isinstance(one, Mapping))
    return ModelRow(
        model=model,
        name=_text(row, "displayName") or model,
        about=_text(row, "description") or "",
        is_default=row.get("isDefault") is True,
        efforts=tuple(effort for effort in efforts if effort),
        default_effort=_text(row, "defaultReasoningEffort"),
    )


def _text(fields: JsonObject, name: str) -> str | None:
    value = fields.get(name)
    return value if isinstance(value, str) and value else None
