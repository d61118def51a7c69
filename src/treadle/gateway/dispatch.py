"""Answer requests from the runtime: one method a request, the same for every carrier.

Knows nothing of sockets or of connections; what a connection itself has to do (follow streams, hold
a sign-in) is not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import singledispatchmethod
from typing import Final, cast

import msgspec

from treadle.contract.lives import Place
from treadle.contract.store import SearchQuery
from treadle.gateway import requests as asked
from treadle.gateway.records import plain
from treadle.model.errors import UsageError
from treadle.model.ids import AgentId, EntryId, StreamId
from treadle.model.json import JsonObject, JsonValue
from treadle.model.message import Entry
from treadle.model.session import agent_id
from treadle.model.turn import event_data
from treadle.runtime.handle import RunHandle
from treadle.runtime.service import Runtime
from treadle.runtime.sessions import Session

PAGE_BYTES: Final = 2**20
"""A page of entries is cut behind the entry with which it has more than this."""


class Dispatcher:
    """Answers requests; errors are raised as the runtime raises them."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def submit(self, request: asked.Submit) -> tuple[RunHandle, JsonObject]:
        """Accept a message; return its run and the acknowledgement.

        The acknowledgement names the place in the session's stream behind which all events of the
        run stand. Raises: UsageError, MessageTooLarge, QueueFull, Draining, StoreError. Cancel: the
        message was accepted, or it was not.
        """
        session = self._runtime.session(request.session, agent=request.agent, cwd=request.cwd)
        head = self._runtime.streams.head(StreamId(session.key))
        handle = await session.submit(
            request.text,
            engine=request.engine,
            model=request.model,
            effort=request.effort,
            projection=request.projection,
            native_tools=request.native_tools,
            persist_prompt=request.persist_prompt,
            client_message_id=request.client_message_id,
            # What the client sent as JSON is JSON.
            output_schema=cast("JsonObject | None", request.output_schema),
        )
        finished = handle.finished
        return handle, {
            "client_message_id": request.client_message_id,
            "run": handle.run_id,
            "session_key": session.key,
            "state": "accepted",
            "stream": {"id": head.stream, "epoch": head.epoch, "after": head.seq},
            "finished": None if finished is None else event_data(finished),
        }

    @singledispatchmethod
    async def answer(self, request: asked.Request) -> JsonObject:
        """Return the answer of a request. Raises: TreadleError."""
        name = msgspec.structs.asdict(request).get("type", type(request).__name__)
        raise UsageError(f"{name!r} is not answered here")

    @answer.register
    async def _(self, request: asked.Interrupt) -> JsonObject:
        for handle in self._runtime.running:
            if handle.run_id == request.run:
                handle.interrupt(request.reason)
                return {"running": True}
        return {"running": False}

    @answer.register
    async def _(self, request: asked.ListSessions) -> JsonObject:
        if request.agent is not None:
            self._runtime.settings.agent(agent_id(request.agent))
        records = await self._runtime.sessions(agent=request.agent, limit=request.limit)
        return {"items": plain(records)}

    @answer.register
    async def _(self, request: asked.GetSession) -> JsonObject:
        session = self._session(request)
        return {"key": session.key, "session": plain(await session.record())}

    @answer.register
    async def _(self, request: asked.ListEntries) -> JsonObject:
        page = await self._session(request).entries(
            after_depth=request.after_depth, limit=request.limit
        )
        items: list[JsonValue] = []
        size = 0
        for entry in page:
            item = _entry_json(entry, raw=request.raw)
            items.append(item)
            size += len(msgspec.json.encode(item))
            if size > PAGE_BYTES:
                break
        return {"items": items}

    @answer.register
    async def _(self, request: asked.Search) -> JsonObject:
        key = None
        if request.session is not None:
            held = self._runtime.session(request.session, agent=request.agent or "main")
            await held.entries(limit=1)  # an unknown session is an error, not an empty answer
            key = held.key
        query = SearchQuery(
            text=request.text,
            session_key=key,
            agent_id=AgentId(request.agent) if request.agent and key is None else None,
            role=request.role,
            limit=request.limit,
        )
        hits = await self._runtime.search(query)
        items: list[JsonValue] = [
            {
                "session_key": hit.session_key,
                "entry": _entry_json(hit.entry, raw=False),
                "snippet": hit.snippet,
                "matches": plain(hit.matches),
            }
            for hit in hits
        ]
        return {"items": items}

    @answer.register
    async def _(self, request: asked.GetContext) -> JsonObject:
        return {"context": plain(await self._session(request).context(request.turn))}

    @answer.register
    async def _(self, request: asked.ResetSession) -> JsonObject:
        return {"session": plain(await self._session(request).reset())}

    @answer.register
    async def _(self, request: asked.CompactSession) -> JsonObject:
        return {"result": plain(await self._session(request).compact())}

    @answer.register
    async def _(self, request: asked.RewindSession) -> JsonObject:
        turned = await self._session(request).rewind(_place(request.to))
        return {"turned": plain(replace(turned, given_up=None))}

    @answer.register
    async def _(self, request: asked.BranchSession) -> JsonObject:
        at = None if request.at is None else _place(request.at)
        made = await self._session(request).branch(request.to, at=at)
        return {"session": plain(await made.record())}

    @answer.register
    async def _(self, request: asked.RenameSession) -> JsonObject:
        return {"session": plain(await self._session(request).rename(request.title))}

    @answer.register
    async def _(self, request: asked.DeleteSession) -> JsonObject:
        turned = await self._session(request).delete()
        return {"turned": plain(replace(turned, given_up=None))}

    @answer.register
    async def _(self, request: asked.ListEngines) -> JsonObject:
        del request
        return {"items": plain(await self._runtime.engines())}

    @answer.register
    async def _(self, request: asked.GetAccount) -> JsonObject:
        return {"account": plain(await self._runtime.accounts.whoami(request.agent))}

    @answer.register
    async def _(self, request: asked.LogInWithKey) -> JsonObject:
        account = await self._runtime.accounts.login_api_key(request.agent, request.key)
        return {"account": plain(account)}

    @answer.register
    async def _(self, request: asked.LogOut) -> JsonObject:
        return {"account": plain(await self._runtime.accounts.logout(request.agent))}

    @answer.register
    async def _(self, request: asked.ListModels) -> JsonObject:
        return {"items": plain(await self._runtime.accounts.models(request.agent))}

    def _session(self, request: _OfSession) -> Session:
        return self._runtime.session(request.session, agent=request.agent)


_OfSession = (
    asked.GetSession
    | asked.ListEntries
    | asked.GetContext
    | asked.ResetSession
    | asked.CompactSession
    | asked.RewindSession
    | asked.BranchSession
    | asked.RenameSession
    | asked.DeleteSession
)


def _place(given: int | str) -> Place:
    return given if isinstance(given, int) else EntryId(given)


def _entry_json(entry: Entry, *, raw: bool) -> JsonValue:
    found = plain(entry)
    if raw or not isinstance(found, Mapping):
        return found
    return {**found, "raw_items": []}
