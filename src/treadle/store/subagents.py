"""Child sessions as rows; a forked one refers to the entries of its parent.

Knows nothing of engines or of who spawns. See `contract.subagents` for the table of states.
"""

from __future__ import annotations

from treadle.clock import Clock, Ids
from treadle.contract.session_calls import SubagentEnd
from treadle.contract.store import SessionRecord
from treadle.contract.subagents import Subagent, SubagentStore
from treadle.model.errors import NotFound
from treadle.model.ids import SessionKey
from treadle.store.branches import begin_beside, end_session
from treadle.store.driver import Connection, Driver, Row
from treadle.store.events import SqlEvents
from treadle.store.places import last_whole_turn
from treadle.store.sessions import Fork, existing_session, session_streams, tell_of_session


class SqlSubagents(SubagentStore):
    """`SubagentStore` over a driver."""

    def __init__(self, driver: Driver, events: SqlEvents, *, clock: Clock, ids: Ids) -> None:
        self._driver = driver
        self._events = events
        self._clock = clock
        self._ids = ids

    async def prepare(self, child: Subagent) -> None:
        """See `SubagentStore`."""

        def add(connection: Connection) -> None:
            connection.run(
                "add_child",
                key=child.key,
                parent_key=child.parent_key,
                context_mode=child.context_mode,
                engine_id=child.engine_id,
                expires_at=child.expires_at,
                now=self._clock.now(),
            )

        await self._driver.write(add)

    async def begin(self, key: SessionKey) -> SessionRecord:
        """See `SubagentStore`."""

        def make(connection: Connection) -> SessionRecord:
            child = _existing(connection, key)
            parent = existing_session(connection, child.parent_key)
            forks = child.context_mode == "fork"
            fork = last_whole_turn(connection, parent) if forks else Fork()
            now = self._clock.now()
            begin_beside(connection, parent, key, fork, ids=self._ids, now=now)
            if not forks:
                connection.run("untitle_session", key=key)
            connection.run("child_is_live", key=key, now=now)
            made = existing_session(connection, key)
            tell_of_session(
                self._events, connection, "session.created", made, parent=child.parent_key
            )
            return made

        try:
            return await self._driver.write(make)
        finally:
            self._events.told(*session_streams(key))

    async def abandon(self, key: SessionKey, *, in_doubt: bool = False) -> None:
        """See `SubagentStore`."""

        def forget(connection: Connection) -> None:
            if in_doubt:
                connection.run("sweep_child", key=key, now=self._clock.now())
                return
            connection.run("drop_child", key=key)
            if connection.one("session_by_key", key=key) is not None:
                session = existing_session(connection, key)
                end_session(connection, session, ids=self._ids, now=self._clock.now())
                tell_of_session(self._events, connection, "session.deleted", session)

        try:
            await self._driver.write(forget)
        finally:
            self._events.told(*session_streams(key))

    async def end(self, key: SessionKey, reason: SubagentEnd) -> Subagent | None:
        """See `SubagentStore`."""

        def finish(connection: Connection) -> Subagent | None:
            row = connection.one("child_by_key", key=key)
            if row is None or _child(row).state != "live":
                return None
            connection.run("child_is_over", key=key, reason=reason, now=self._clock.now())
            return _existing(connection, key)

        return await self._driver.write(finish)

    async def told(self, key: SessionKey) -> None:
        """See `SubagentStore`."""

        def settle(connection: Connection) -> None:
            connection.run("child_was_told", key=key, now=self._clock.now())

        await self._driver.write(settle)

    async def sweep(self) -> None:
        """See `SubagentStore`."""
        now = self._clock.now()
        if self._driver.read_now(lambda connection: connection.one("any_to_sweep", now=now)):
            await self._driver.write(lambda connection: connection.run("sweep_children", now=now))

    async def ending(self) -> tuple[Subagent, ...]:
        """See `SubagentStore`."""

        def find(connection: Connection) -> tuple[Subagent, ...]:
            return tuple(map(_child, connection.rows("ending_children")))

        return await self._driver.read(find)

    async def get(self, key: SessionKey) -> Subagent | None:
        """See `SubagentStore`."""
        row = self._driver.read_now(lambda connection: connection.one("child_by_key", key=key))
        return None if row is None else _child(row)

    async def of(self, parent_key: SessionKey) -> tuple[Subagent, ...]:
        """See `SubagentStore`."""

        def find(connection: Connection) -> tuple[Subagent, ...]:
            return tuple(map(_child, connection.rows("live_children", parent_key=parent_key)))

        return await self._driver.read(find)


def _existing(connection: Connection, key: SessionKey) -> Subagent:
    row = connection.one("child_by_key", key=key)
    if row is None:
        raise NotFound(f"session {key!r} is no child session", session_key=key)
    return _child(row)


def _child(row: Row) -> Subagent:
    return Subagent(
        key=SessionKey(row[0]),
        parent_key=SessionKey(row[1]),
        context_mode=row[2],
        engine_id=row[3],
        expires_at=row[4],
        state=row[5],
        reason=row[6],
    )
