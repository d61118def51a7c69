"""What a command holds: sessions, runs and the rest, here or in the process that owns them.

Knows nothing of which it is: the same requests are answered by our own gateway or by another one,
so that the results are the same.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import TaskGroup

from treadle.clock import Ids
from treadle.contract.harness import CompactionResult
from treadle.contract.lives import Place, Turnover
from treadle.contract.store import ContextReport, SearchHit, SessionRecord
from treadle.gateway import requests as asked
from treadle.gateway.attach import Attachment, Own, Owned, Target, Wish, attach
from treadle.gateway.client import ASK_S
from treadle.gateway.records import record_from, records_from
from treadle.gateway.remote_run import RemoteRun
from treadle.model.errors import Draining, GatewayLost, NotFound
from treadle.model.ids import RunId, SessionKey
from treadle.model.json import JsonObject
from treadle.model.message import Entry
from treadle.model.session import MAIN_AGENT, SessionName, agent_id, session_name
from treadle.runtime.export import export_entry, export_head
from treadle.runtime.handle import RunHandle

TRIES: Final = 3
"""How often a request goes to another owner when the one that was asked ends."""

COMPACT_S: Final = 2 * 86_400.0
"""Seconds: more than the longest deadlines of a compaction and of its interrupt, which count."""

_ONCE: Final = (
    asked.ResetSession,
    asked.CompactSession,
    asked.RewindSession,
    asked.BranchSession,
    asked.DeleteSession,
    asked.LogInWithKey,
    asked.LogOut,
    asked.BeginLogin,
)
"""Requests that are not sent again where it is unknown what became of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageOptions:
    """How a message is to be run; None means the session's, the agent's or the default choice."""

    engine: str | None = None
    model: str | None = None
    effort: str | None = None
    native_tools: bool = True


class Face:
    """Made by `open_face`."""

    def __init__(self, attachment: Attachment, group: TaskGroup, ids: Ids) -> None:
        self._attachment = attachment
        self._group = group
        self._ids = ids

    async def about(self) -> JsonObject:
        """Return what the owner says of itself. Raises: as `ask`."""
        target = await self._attachment.target()
        return target.gateway.about() if isinstance(target, Owned) else target.about

    async def target(self) -> Target:
        """Return who answers now. Raises: as `Attachment.target`."""
        return await self._attachment.target()

    async def is_ours(self) -> bool:
        """Whether this process is the owner."""
        return isinstance(await self._attachment.target(), Owned)

    async def ask(self, request: asked.Request, *, within_s: float = ASK_S) -> JsonObject:
        """Have a request answered by the owner, or by the next one where that ends meanwhile.

        Raises: what the request raises, GatewayLost where it may not be sent twice.
        """
        for tried in range(TRIES):
            target = await self._attachment.target()
            try:
                if isinstance(target, Owned):
                    return await target.gateway.answer(request)
                return await target.ask(request, within_s=within_s)
            except GatewayLost:
                if isinstance(request, _ONCE) or tried == TRIES - 1:
                    raise
        raise AssertionError("the last try returns or raises")

    async def submit(self, request: asked.Submit) -> RunHandle:
        """Send a message and return its run once it is accepted; an owner that ends is left.

        Raises: UsageError, MessageTooLarge, QueueFull, StoreError, GatewayError. Cancel: it may be
        accepted.
        """
        while True:
            target = await self._attachment.target()
            try:
                if isinstance(target, Owned):
                    handle, _ = await target.gateway.submit(request)
                    return handle
                acknowledged = await target.submit(request)
            except GatewayLost:
                continue  # the same id at the next owner is the same message
            except Draining:
                if isinstance(target, Owned):
                    raise
                await self._attachment.leave(target)
                continue
            key = SessionKey(str(acknowledged.get("session_key")))
            handle = RunHandle(RunId(str(acknowledged.get("run"))), key, request.client_message_id)
            handle.acknowledge_again()
            run = RemoteRun(self._attachment, request, handle)
            self._group.start_soon(run.follow, target, acknowledged)
            return handle

    def session(
        self,
        key: str | None = None,
        *,
        agent: str = MAIN_AGENT,
        cwd: str | Path | None = None,
    ) -> FaceSession:
        """Return a session by its key or bare name. Raises: UsageError for an impossible one."""
        name = session_name(key, agent=agent_id(agent))
        folder = None if cwd is None else str(Path(cwd).expanduser().absolute())
        return FaceSession(self, name, folder, self._ids)

    async def sessions(
        self, *, agent: str | None = None, limit: int = 50
    ) -> tuple[SessionRecord, ...]:
        """Return the sessions, the last used first. Raises: NotFound for an unknown agent."""
        answer = await self.ask(asked.ListSessions(agent=agent, limit=limit))
        return records_from(SessionRecord, answer.get("items"))

    async def search(self, request: asked.Search) -> tuple[SearchHit, ...]:
        """Return the entries that fit. Raises: NotFound."""
        return records_from(SearchHit, (await self.ask(request)).get("items"))

    async def health(self) -> JsonObject:
        """Return what is degraded right now."""
        health = (await self.ask(asked.GetStatus())).get("health")
        return health if isinstance(health, Mapping) else {}

    async def engine_of(self, agent: str) -> str:
        """Return the engine that an agent uses where nothing else is said."""
        engines = (await self.about()).get("engines")
        return str(engines.get(agent, "?")) if isinstance(engines, Mapping) else "?"


class FaceSession:
    """One session; it need not exist yet, the first message makes it."""

    def __init__(self, face: Face, name: SessionName, cwd: str | None, ids: Ids) -> None:
        self._face = face
        self._cwd = cwd
        self._ids = ids
        self.name = name
        """Its key, taken apart."""

    @property
    def key(self) -> SessionKey:
        """Its full key."""
        return self.name.key

    async def submit(self, text: str, options: MessageOptions | None = None) -> RunHandle:
        """Send a message and return its run once it is accepted. Raises: as `Face.submit`."""
        chosen = options or MessageOptions()
        return await self._face.submit(
            asked.Submit(
                session=self.key,
                text=text,
                client_message_id=self._ids.new("m"),
                engine=chosen.engine,
                model=chosen.model,
                effort=chosen.effort,
                native_tools=chosen.native_tools,
                cwd=self._cwd,
            )
        )

    async def record(self) -> SessionRecord | None:
        """Return what is stored of it, or None if nothing is yet."""
        found = (await self._face.ask(asked.GetSession(session=self.key))).get("session")
        return None if found is None else record_from(SessionRecord, found)

    async def entries(
        self, *, after_depth: int = -1, limit: int = 500, raw: bool = False
    ) -> tuple[Entry, ...]:
        """Return entries behind `after_depth`, maybe fewer; none at the end. Raises: NotFound."""
        request = asked.ListEntries(session=self.key, after_depth=after_depth, limit=limit, raw=raw)
        return records_from(Entry, (await self._face.ask(request)).get("items"))

    async def context(self, turn: int | None = None) -> ContextReport | None:
        """Return what the model was given in that turn, or in the last one. Raises: NotFound."""
        found = (await self._face.ask(asked.GetContext(session=self.key, turn=turn))).get("context")
        return None if found is None else record_from(ContextReport, found)

    async def reset(self) -> SessionRecord:
        """Begin a new generation. Raises: NotFound, GatewayLost where that is unknown."""
        answer = await self._face.ask(asked.ResetSession(session=self.key))
        return record_from(SessionRecord, answer.get("session"))

    async def compact(self) -> CompactionResult:
        """Have Codex compact its thread of the session, which ends at a deadline of the owner's.

        Raises: NotFound, SessionBusy, CompactionRefused, CompactionUnconfirmed, GatewayLost.
        """
        request = asked.CompactSession(session=self.key)
        answer = await self._face.ask(request, within_s=COMPACT_S)
        return record_from(CompactionResult, answer.get("result"))

    async def rewind(self, to: Place) -> Turnover:
        """Make an entry the last one. Raises: NotFound, InvalidCut, SessionBusy, GatewayLost."""
        answer = await self._face.ask(asked.RewindSession(session=self.key, to=to))
        return record_from(Turnover, answer.get("turned"))

    async def branch(self, to: str | None = None, *, at: Place | None = None) -> FaceSession:
        """Begin another session with what was said up to `at`, or with all, and return it.

        Raises: NotFound, InvalidCut, SessionExists, SessionBusy, GatewayLost.
        """
        answer = await self._face.ask(asked.BranchSession(session=self.key, to=to, at=at))
        made = record_from(SessionRecord, answer.get("session"))
        return self._face.session(made.key)

    async def rename(self, title: str) -> SessionRecord:
        """Give it another title. Raises: NotFound, UsageError for one without a sign."""
        answer = await self._face.ask(asked.RenameSession(session=self.key, title=title))
        return record_from(SessionRecord, answer.get("session"))

    async def delete(self) -> Turnover:
        """End the session. Raises: NotFound, SessionBusy, GatewayLost."""
        answer = await self._face.ask(asked.DeleteSession(session=self.key))
        return record_from(Turnover, answer.get("turned"))

    async def export(self) -> AsyncIterator[str]:
        """Yield the session as JSON lines, raw items included. Raises: NotFound."""
        record = await self.record()
        if record is None:
            raise NotFound(
                f"there is no session {self.key!r}",
                next_step="treadle sessions list shows those that there are.",
                session=self.key,
            )
        yield export_head(record)
        after = -1
        while page := await self.entries(after_depth=after, raw=True):
            for entry in page:
                yield export_entry(entry)
            after = page[-1].depth


@asynccontextmanager
async def open_face(
    state: Path, wish: Wish, own: Own, *, ids: Ids, tell: Callable[[str], None]
) -> AsyncIterator[Face]:
    """Attach to the owner of a state directory, or own it, until the block ends.

    Raises and cancel: as `attach`.
    """
    failure: BaseException | None = None
    async with attach(state, wish, own, tell) as attachment:
        async with anyio.create_task_group() as group:
            try:
                yield Face(attachment, group, ids)
            except BaseException as error:  # carried out of the group, which would wrap it
                failure = error
            group.cancel_scope.cancel()
        if failure is not None:
            raise failure
