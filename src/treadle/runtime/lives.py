"""What a person does to a whole session: begin anew, go back, go aside, end it.

Each is done in the session's lane, never into a run: with a run that is not over it is refused, and
messages that come meanwhile wait for it. Once it is stored, the session's context engines are told,
and the harness puts the native thread away; a failure of either changes nothing of it. Knows
nothing of SQL, of threads or of how it is shown. Source: spec U; design of the terminal (exit 5).
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from treadle.contract.lives import Place, Turnover, session_busy
from treadle.contract.session_calls import SessionEnd
from treadle.contract.store import SessionRecord, Store
from treadle.harness.endings import session_ended
from treadle.model.errors import NotFound, TreadleError
from treadle.model.ids import SessionKey, ThreadId
from treadle.model.json import JsonValue
from treadle.model.session import SessionName, session_name
from treadle.observe import emit
from treadle.queue.lanes import Lanes
from treadle.runtime.choosing import Choosing
from treadle.runtime.session_engines import SessionEngines

NAME_CHARS: Final = 190
"""Characters of a session's name to which the number of its branch is added."""


class Lives:
    """Carries out what becomes of whole sessions."""

    def __init__(
        self,
        store: Store,
        lanes: Lanes,
        choosing: Choosing,
        unfinished: Callable[[SessionKey], int],
        ended: Callable[[], Awaitable[None]],
    ) -> None:
        """`unfinished` counts the runs of a session that are not over.

        `ended` is called once a session was deleted, for its children and if it was one itself.
        """
        self._store = store
        self._lanes = lanes
        self._choosing = choosing
        self._engines = SessionEngines(choosing)
        self._unfinished = unfinished
        self._ended = ended

    async def reset(self, name: SessionName) -> Turnover:
        """Begin a new generation. Raises: NotFound, SessionBusy."""
        async with self.alone(name.key):
            turned = await self._store.lives.reset(name.key)
            emit("session.reset", cause=None, **_fields(turned))
            await self._tell(turned, "reset")
        return turned

    async def rewind(self, name: SessionName, to: Place) -> Turnover:
        """Go back to that entry. Raises: NotFound, InvalidCut, SessionBusy."""
        async with self.alone(name.key):
            turned = await self._store.lives.rewind(name.key, to)
            if turned.changed:
                emit("session.rewound", cause=None, **_fields(turned))
                await self._tell(turned, "rewound")
        return turned

    async def branch(
        self, name: SessionName, new_name: SessionName | None, at: Place | None
    ) -> SessionRecord:
        """Begin another session with the entries up to `at`, under a free name if none is given.

        Raises: NotFound, InvalidCut, SessionExists, SessionBusy.
        """
        async with self.alone(name.key):
            key = new_name.key if new_name is not None else await self._free_key(name)
            made = await self._store.lives.branch(name.key, key, at=at)
            emit("session.branched", session_key=made.key, session_id=made.id)
        return made

    async def delete(self, name: SessionName) -> Turnover:
        """End the session; what was said stays stored. Raises: NotFound, SessionBusy."""
        async with self.alone(name.key):
            turned = await self._store.lives.delete(name.key)
            emit("session.deleted", cause=None, **_fields(turned))
            await self._tell(turned, "deleted")
            await self._ended()
        return turned

    async def _tell(self, turned: Turnover, reason: SessionEnd) -> None:
        """Tell the engines of the ended generation, then put its thread away (spec U-02, U-08)."""
        before, after, bound = turned.before, turned.after, turned.given_up
        next_id = after.id if after is not None else None
        job = partial(session_ended, reason=reason, next_session_id=next_id)
        await self._engines.each(before, bound, job)
        if bound is not None:
            await self._put_away(before, bound.thread_id)

    async def _put_away(self, session: SessionRecord, thread_id: ThreadId) -> None:
        for harness in self._choosing.harnesses.values():
            try:
                await harness.put_away(session.agent_id, (thread_id,))
            except TreadleError as error:  # it is given up either way, and deleted when its time is
                emit("thread.cleanup_failed", thread_id=thread_id, cause=error)

    async def _free_key(self, name: SessionName) -> SessionKey:
        for number in itertools.count(2):
            wanted = f"{name.name[:NAME_CHARS]}-{number}"
            key = session_name(wanted, agent=name.agent_id).key
            if await self._store.sessions.get(key) is None:
                return key
        raise AssertionError("numbers do not end")

    @asynccontextmanager
    async def alone(self, key: SessionKey) -> AsyncIterator[None]:
        """Hold the session's lane without a run in it. Raises: NotFound, SessionBusy."""
        if await self._store.sessions.get(key) is None:
            raise unknown_session(key)
        if count := self._unfinished(key):
            raise session_busy(key, count)
        async with self._lanes.hold_aside(key):
            yield


def _fields(turned: Turnover) -> dict[str, JsonValue]:
    after = turned.after
    return {
        "session_key": turned.before.key,
        "session_id": after.id if after is not None else turned.before.id,
        "left_behind_count": turned.left_behind,
        "thread_id": turned.given_up.thread_id if turned.given_up is not None else None,
    }


def unknown_session(key: SessionKey) -> NotFound:
    """Return the error for a session that there is not."""
    return NotFound(
        f"there is no session {key!r}",
        next_step="treadle sessions list shows those that there are.",
        session=key,
    )
