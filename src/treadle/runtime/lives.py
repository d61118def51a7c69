"""What a person does to a whole session: begin anew, go back, go aside, end it.

Each is done in the session's lane, never into a run: with a run that is not over it is refused, and
messages that come meanwhile wait for it. Knows nothing of SQL, of threads or of how it is shown.
Source: spec U; design of the terminal (exit 5).
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from treadle.contract.lives import Place, Turnover, session_busy
from treadle.contract.store import SessionRecord, Store
from treadle.model.errors import NotFound
from treadle.model.ids import SessionKey
from treadle.model.session import SessionName, session_name
from treadle.observe import emit
from treadle.queue.lanes import Lanes

NAME_CHARS: Final = 190
"""Characters of a session's name to which the number of its branch is added."""


class Lives:
    """Carries out what becomes of whole sessions."""

    def __init__(self, store: Store, lanes: Lanes, unfinished: Callable[[SessionKey], int]) -> None:
        """`unfinished` counts the runs of a session that are not over."""
        self._store = store
        self._lanes = lanes
        self._unfinished = unfinished

    async def reset(self, name: SessionName) -> Turnover:
        """Begin a new generation. Raises: NotFound, SessionBusy."""
        async with self._alone(name.key):
            turned = await self._store.lives.reset(name.key)
            _tell("session.reset", turned)
        return turned

    async def rewind(self, name: SessionName, to: Place) -> Turnover:
        """Go back to that entry. Raises: NotFound, InvalidCut, SessionBusy."""
        async with self._alone(name.key):
            turned = await self._store.lives.rewind(name.key, to)
            if turned.changed:
                _tell("session.rewound", turned)
        return turned

    async def branch(
        self, name: SessionName, new_name: SessionName | None, at: Place | None
    ) -> SessionRecord:
        """Begin another session with the entries up to `at`, under a free name if none is given.

        Raises: NotFound, InvalidCut, SessionExists, SessionBusy.
        """
        async with self._alone(name.key):
            key = new_name.key if new_name is not None else await self._free_key(name)
            made = await self._store.lives.branch(name.key, key, at=at)
            emit("session.branched", session_key=made.key, session_id=made.id)
        return made

    async def delete(self, name: SessionName) -> Turnover:
        """End the session; what was said stays stored. Raises: NotFound, SessionBusy."""
        async with self._alone(name.key):
            turned = await self._store.lives.delete(name.key)
            _tell("session.deleted", turned)
        return turned

    async def _free_key(self, name: SessionName) -> SessionKey:
        for number in itertools.count(2):
            wanted = f"{name.name[:NAME_CHARS]}-{number}"
            key = session_name(wanted, agent=name.agent_id).key
            if await self._store.sessions.get(key) is None:
                return key
        raise AssertionError("numbers do not end")

    @asynccontextmanager
    async def _alone(self, key: SessionKey) -> AsyncIterator[None]:
        """Hold the session's lane without a run in it. Raises: NotFound, SessionBusy."""
        if await self._store.sessions.get(key) is None:
            raise unknown_session(key)
        if count := self._unfinished(key):
            raise session_busy(key, count)
        async with self._lanes.hold_aside(key):
            yield


def _tell(event: str, turned: Turnover) -> None:
    after = turned.after
    emit(
        event,
        session_key=turned.before.key,
        session_id=after.id if after is not None else turned.before.id,
        left_behind_count=turned.left_behind,
        thread_id=turned.given_up.thread_id if turned.given_up is not None else None,
    )


def unknown_session(key: SessionKey) -> NotFound:
    """Return the error for a session that there is not."""
    return NotFound(
        f"there is no session {key!r}",
        next_step="treadle sessions list shows those that there are.",
        session=key,
    )
