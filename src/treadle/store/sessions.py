"""Sessions and their generations, as rows.

Knows nothing of the grammar of session keys, nor of who may see which session.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from treadle.clock import Clock, Ids
from treadle.contract.events import GLOBAL_STREAM, NewEvent
from treadle.contract.store import SessionRecord, SessionStore
from treadle.model.errors import NotFound
from treadle.model.ids import AgentId, EntryId, SessionId, SessionKey, StreamId
from treadle.model.json import JsonObject, JsonValue
from treadle.model.session import Origin
from treadle.store.driver import Connection, Driver, Row
from treadle.store.events import SqlEvents
from treadle.store.rows import decoded_object, encoded

SESSION_PREFIX: Final = "ses"
"""Prefix of the ids of generations."""


class SqlSessions(SessionStore):
    """`SessionStore` over a driver."""

    def __init__(self, driver: Driver, events: SqlEvents, *, clock: Clock, ids: Ids) -> None:
        self._driver = driver
        self._events = events
        self._clock = clock
        self._ids = ids

    async def get(self, key: SessionKey) -> SessionRecord | None:
        """See `SessionStore`."""

        def find(connection: Connection) -> SessionRecord | None:
            row = connection.one("session_by_key", key=key)
            return None if row is None else _record(row)

        return self._driver.read_now(find)

    async def open(
        self, key: SessionKey, *, agent_id: AgentId, owner: str, cwd: str | None = None
    ) -> SessionRecord:
        """See `SessionStore`; agent and owner of a session that exists stay as they are."""
        found = await self.get(key)
        if found is not None and cwd in {None, found.cwd}:
            return found

        def find_or_make(connection: Connection) -> SessionRecord:
            if connection.one("session_by_key", key=key) is None:
                session_id, now = self._ids.new(SESSION_PREFIX), self._clock.now()
                connection.run(
                    "add_session",
                    key=key,
                    session_id=session_id,
                    agent_id=agent_id,
                    owner=owner,
                    cwd=cwd,
                    now=now,
                )
                new = NewGeneration(key=key, session_id=session_id, number=1, origin="new")
                add_generation(connection, new, now)
                tell_of_session(
                    self._events, connection, "session.created", existing_session(connection, key)
                )
            elif cwd is not None:
                connection.run("change_session", key=key, cwd=cwd, title=None, settings=None)
            return existing_session(connection, key)

        return await self._written(key, find_or_make)

    async def list(
        self, *, agent_id: AgentId | None = None, owner: str | None = None, limit: int = 200
    ) -> tuple[SessionRecord, ...]:
        """See `SessionStore`; a negative limit gives none."""

        def find(connection: Connection) -> tuple[SessionRecord, ...]:
            rows = connection.rows(
                "sessions_by_use", agent_id=agent_id, owner=owner, limit=max(0, limit)
            )
            return tuple(_record(row) for row in rows)

        return await self._driver.read(find)

    async def update(
        self, key: SessionKey, *, title: str | None = None, settings: JsonObject | None = None
    ) -> SessionRecord:
        """See `SessionStore`; settings given replace all that were stored."""
        text = None if settings is None else encoded(settings)

        def change(connection: Connection) -> SessionRecord:
            existing_session(connection, key)
            connection.run("change_session", key=key, cwd=None, title=title, settings=text)
            connection.run("touch_session", key=key, now=self._clock.now())
            record = existing_session(connection, key)
            tell_of_session(self._events, connection, "session.updated", record)
            return record

        return await self._written(key, change)

    async def _written(
        self, key: SessionKey, job: Callable[[Connection], SessionRecord]
    ) -> SessionRecord:
        try:
            return await self._driver.write(job)
        finally:
            self._events.told(*session_streams(key))


def tell_of_session(
    events: SqlEvents, connection: Connection, kind: str, record: SessionRecord, **more: JsonValue
) -> None:
    """Tell the session's watchers, and those of all sessions, within the transaction."""
    data: JsonObject = {
        "session_key": record.key,
        "session_id": record.id,
        "generation": record.generation,
        "agent": record.agent_id,
        "title": record.title,
        **more,
    }
    for stream in session_streams(record.key):
        events.add(connection, stream, (NewEvent(type=kind, data=data),))


def session_streams(*keys: SessionKey) -> tuple[StreamId, ...]:
    """Return the streams in which the coming and going of sessions is told."""
    return (*map(StreamId, keys), GLOBAL_STREAM)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """Where a branch leaves another one; with the defaults, a branch of its own."""

    parent: int | None = None
    depth: int = 0
    """Entries of the path that are kept."""

    position: int = 0
    """Messages among them."""

    head: EntryId | None = None
    """The last of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewGeneration:
    """A generation that is about to be stored."""

    key: SessionKey
    session_id: str
    number: int
    origin: Origin
    fork: Fork = Fork()


def add_generation(connection: Connection, new: NewGeneration, now: float) -> None:
    """Store a generation with its branch; its session is told of it elsewhere."""
    row = connection.one("next_branch")
    branch = 1 if row is None else row[0]
    connection.run(
        "add_generation",
        session_id=new.session_id,
        key=new.key,
        generation=new.number,
        branch=branch,
        now=now,
        origin=new.origin,
    )
    connection.run(
        "add_branch",
        branch=branch,
        session_id=new.session_id,
        parent=new.fork.parent,
        depth=new.fork.depth,
        position=new.fork.position,
        head=new.fork.head,
        now=now,
    )


def existing_session(connection: Connection, key: SessionKey) -> SessionRecord:
    """Return the session as it stands. Raises: NotFound."""
    row = connection.one("session_by_key", key=key)
    if row is None:
        raise NotFound(
            f"there is no session {key!r}",
            next_step="Run `treadle sessions list` to see what there is.",
            session_key=key,
        )
    return _record(row)


def _record(row: Row) -> SessionRecord:
    return SessionRecord(
        key=SessionKey(row[0]),
        id=SessionId(row[1]),
        generation=row[2],
        agent_id=AgentId(row[3]),
        owner=row[4],
        cwd=row[5],
        title=row[6],
        created_at=row[7],
        updated_at=row[8],
        entry_count=row[9],
        settings=decoded_object(row[10]),
        origin=row[11],
    )
