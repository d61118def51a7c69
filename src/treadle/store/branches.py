"""Sessions as wholes: another generation, a way back, a way aside, an end; each one transaction.

Knows nothing of runs, engines or threads beyond removing a binding. Entries are neither moved nor
copied: a generation that keeps some of them gets a branch that leaves the branch where the last of
them lies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from treadle.clock import Clock, Ids
from treadle.contract.lives import LifeStore, Place, Turnover, session_busy
from treadle.contract.store import Binding, OpenTurn, SessionRecord
from treadle.failpoints import failpoint
from treadle.model.errors import SessionExists
from treadle.model.ids import SessionKey
from treadle.model.message import EntryKind, Message, NewEntry
from treadle.model.session import Origin
from treadle.store.driver import Connection, Driver
from treadle.store.events import SqlEvents
from treadle.store.places import active_path, find_place, fork_after, path_to, shared
from treadle.store.rows import prepared
from treadle.store.sessions import (
    SESSION_PREFIX,
    Fork,
    NewGeneration,
    add_generation,
    existing_session,
    session_streams,
    tell_of_session,
)
from treadle.store.threads import clear_binding, read_binding
from treadle.store.transcript import Appender

T = TypeVar("T")

UNSETTLED: Final = (
    "The session went on without this turn before it was known what became of it. Whether a tool"
    " did something is unknown."
)

DELETED: Final = "deleted:"
"""Begins the key under which a deleted session is kept; no key that anybody can give does."""


class SqlLives(LifeStore):
    """`LifeStore` over a driver."""

    def __init__(self, driver: Driver, events: SqlEvents, *, clock: Clock, ids: Ids) -> None:
        self._driver = driver
        self._events = events
        self._clock = clock
        self._ids = ids

    async def reset(self, key: SessionKey) -> Turnover:
        """See `LifeStore`."""

        def change(connection: Connection) -> Turnover:
            before = existing_session(connection, key)
            return self._turned_over(connection, before, "reset", Fork(), before.entry_count)

        return await self._written("reset", change, key)

    async def rewind(self, key: SessionKey, to: Place) -> Turnover:
        """See `LifeStore`."""

        def change(connection: Connection) -> Turnover:
            before = existing_session(connection, key)
            active = active_path(connection, before.id)
            last = find_place(connection, before, active, to)
            left = before.entry_count - shared(active, path_to(connection, last))
            if left == 0 and last.depth + 1 == before.entry_count:
                return Turnover(before=before, after=before)
            fork = fork_after(connection, last)
            return self._turned_over(connection, before, "rewind", fork, left)

        return await self._written("rewind", change, key)

    async def branch(
        self, key: SessionKey, new_key: SessionKey, *, at: Place | None = None
    ) -> SessionRecord:
        """See `LifeStore`."""

        def change(connection: Connection) -> SessionRecord:
            source = existing_session(connection, key)
            if connection.one("session_by_key", key=new_key) is not None:
                raise _exists(new_key)
            fork = Fork()
            if source.entry_count > 0 or at is not None:
                active = active_path(connection, source.id)
                place = source.entry_count - 1 if at is None else at
                fork = fork_after(connection, find_place(connection, source, active, place))
            now = self._clock.now()
            made = begin_beside(connection, source, new_key, fork, ids=self._ids, now=now)
            tell_of_session(self._events, connection, "session.created", made)
            more = {"to_key": new_key, "entry_id": fork.head}
            tell_of_session(self._events, connection, "session.branched", source, **more)
            return made

        return await self._written("branch", change, key, new_key)

    async def delete(self, key: SessionKey) -> Turnover:
        """See `LifeStore`."""

        def change(connection: Connection) -> Turnover:
            before = existing_session(connection, key)
            given_up = end_session(connection, before, ids=self._ids, now=self._clock.now())
            tell_of_session(self._events, connection, "session.deleted", before)
            return Turnover(
                before=before, after=None, given_up=given_up, left_behind=before.entry_count
            )

        return await self._written("delete", change, key)

    def _turned_over(
        self, connection: Connection, before: SessionRecord, origin: Origin, fork: Fork, left: int
    ) -> Turnover:
        now = self._clock.now()
        given_up = end_generation(connection, before, ids=self._ids, now=now)
        session_id, number = self._ids.new(SESSION_PREFIX), before.generation + 1
        new = NewGeneration(
            key=before.key, session_id=session_id, number=number, origin=origin, fork=fork
        )
        add_generation(connection, new, now)
        connection.run(
            "activate_generation", key=before.key, session_id=session_id, generation=number
        )
        connection.run("touch_session", key=before.key, now=now)
        after = existing_session(connection, before.key)
        connection.run("renew_stream", stream=before.key)
        tell_of_session(
            self._events,
            connection,
            "session.reset" if origin == "reset" else "session.rewound",
            after,
            previous_id=before.id,
            entry_id=fork.head,
            left_behind=left,
            binding="dropped" if given_up is not None else "none",
        )
        return Turnover(before=before, after=after, given_up=given_up, left_behind=left)

    async def _written(self, name: str, change: Callable[[Connection], T], *keys: SessionKey) -> T:
        def job(connection: Connection) -> T:
            changed = change(connection)
            failpoint(f"{name}-before-commit")
            return changed

        try:
            changed = await self._driver.write(job)
        finally:
            self._events.told(*session_streams(*keys))
        failpoint(f"{name}-after-commit")
        return changed


# ----------------------------------------------------------------------- inside a transaction


def begin_beside(
    connection: Connection,
    source: SessionRecord,
    key: SessionKey,
    fork: Fork,
    *,
    ids: Ids,
    now: float,
) -> SessionRecord:
    """Make a session like another one, with the entries up to the fork, and return it."""
    session_id = ids.new(SESSION_PREFIX)
    connection.run("copy_session", key=source.key, new_key=key, session_id=session_id, now=now)
    new = NewGeneration(key=key, session_id=session_id, number=1, origin="branch", fork=fork)
    add_generation(connection, new, now)
    return existing_session(connection, key)


def end_session(
    connection: Connection, session: SessionRecord, *, ids: Ids, now: float
) -> Binding | None:
    """Take a session out of sight and free its key; return the binding that it had.

    Raises: SessionBusy.
    """
    given_up = end_generation(connection, session, ids=ids, now=now)
    names = {"key": session.key, "new_key": f"{DELETED}{session.id}"}
    connection.run("set_aside_session", key=session.key)
    connection.run("add_deleted_session", session_id=session.id, now=now, **names)
    for move in ("move_generations", "move_inbox", "move_deliveries"):
        connection.run(move, **names)
    connection.run("drop_session", key=session.key)
    connection.run("child_is_over", key=session.key, reason="deleted", now=now)
    connection.run("children_are_over", parent_key=session.key, reason="released", now=now)
    connection.run("drop_events", stream=session.key)
    connection.run("renew_stream", stream=session.key)
    return given_up


def end_generation(
    connection: Connection, session: SessionRecord, *, ids: Ids, now: float
) -> Binding | None:
    """End the current generation: nobody may write it any more, and no thread is bound to it.

    A turn that was never settled gets a notice. Raises: SessionBusy.
    """
    row = connection.one("open_messages", key=session.key)
    if row is not None and row[0] > 0:
        raise session_busy(session.key, row[0])
    connection.run("fence_generation", session_id=session.id, now=now)
    binding = read_binding(connection, session.id)
    if binding is None:
        return None
    if binding.open_turn is not None:
        notice = _unsettled(binding.open_turn)
        Appender(connection, session.id, ids, now).add(prepared([notice]))
    clear_binding(connection, session.id, binding.thread_id, now)
    return binding


def _unsettled(turn: OpenTurn) -> NewEntry:
    """Return the entry that says that nobody will find out what became of a turn (INV-1)."""
    return NewEntry(
        key=f"treadle:run:{turn.run_id}:unknown",
        message=Message(role="notice", content=[{"type": "text", "text": UNSETTLED}]),
        kind=EntryKind.NOTICE,
        run_id=turn.run_id,
        meta={"notice": "unknown"},
    )


def _exists(key: SessionKey) -> SessionExists:
    return SessionExists(
        f"there is a session {key!r} already; nothing was changed",
        next_step="Choose another name.",
        session_key=key,
    )
