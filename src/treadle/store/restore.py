"""Puts a store right that was brought back from a backup, in one transaction.

Knows nothing of files; which threads came back whole it is told.
"""

from __future__ import annotations

from typing import Final

from treadle.clock import Clock, Ids
from treadle.contract.restore import Keep, Restored, RestoreStore
from treadle.model.ids import RunId, SessionId
from treadle.model.json import JsonObject
from treadle.model.message import EntryKind, Message, NewEntry
from treadle.store.driver import Connection, Driver
from treadle.store.rows import encoded, prepared
from treadle.store.threads import clear_binding, encode_binding, read_binding
from treadle.store.transcript import Appender

LOST: Final = (
    "Treadle was restored from a backup that was made while this message waited or was answered."
    " Whether it was answered, and what a tool did, is unknown."
)
AGAIN: Final = "Say it again if you still need the answer."

NOT_SENT_AGAIN: Final = "Treadle was restored from a backup; whether it was sent is unknown"

OUTCOME: Final[JsonObject] = {
    "outcome": "client_lost",
    "text": "",
    "error": {"code": "restored", "message": LOST, "next_step": AGAIN, "retry": False},
    "replay_safe": False,
    "partial": False,
    "usage": None,
    "duration_s": 0.0,
}
"""What the sender of such a message is told."""


class SqlRestore(RestoreStore):
    """`RestoreStore` over a driver."""

    def __init__(self, driver: Driver, *, clock: Clock, ids: Ids) -> None:
        self._driver = driver
        self._clock = clock
        self._ids = ids

    async def put_right(self, keep: Keep) -> Restored:
        """See `RestoreStore`."""
        now = self._clock.now()

        def change(connection: Connection) -> Restored:
            connection.run("end_claims")
            kept, given_up, noticed = self._threads(connection, keep, now)
            unknown = self._messages(connection, noticed, now)
            row = connection.one("count_open_deliveries")
            connection.run("lose_deliveries", now=now, reason=NOT_SENT_AGAIN)
            connection.run("begin_late_epochs", floor=int(now))
            return Restored(
                kept_threads=kept,
                given_up_threads=given_up,
                unknown_messages=unknown,
                unknown_deliveries=0 if row is None else int(row[0]),
            )

        return await self._driver.write(change)

    def _threads(
        self, connection: Connection, keep: Keep, now: float
    ) -> tuple[int, int, set[RunId]]:
        kept = given_up = 0
        noticed: set[RunId] = set()
        for (session_id,) in connection.rows("all_bindings"):
            binding = read_binding(connection, SessionId(session_id))
            assert binding is not None, "it was listed a moment ago"
            moved = keep(binding) if binding.open_turn is None else None
            if moved is not None:
                doc = encode_binding(moved)
                connection.run("move_binding", session_id=session_id, doc=doc)
                kept += 1
                continue
            if binding.open_turn is not None:
                self._notice(connection, binding.session_id, binding.open_turn.run_id, now)
                noticed.add(binding.open_turn.run_id)
            clear_binding(connection, binding.session_id, binding.thread_id, now)
            given_up += 1
        return kept, given_up, noticed

    def _messages(self, connection: Connection, noticed: set[RunId], now: float) -> int:
        rows = connection.rows("unfinished_runs")
        for run_id, session_id in rows:
            if session_id is not None and run_id not in noticed:
                self._notice(connection, SessionId(session_id), RunId(run_id), now)
        connection.run("lose_messages", now=now, outcome=encoded(OUTCOME))
        return len(rows)

    def _notice(
        self, connection: Connection, session_id: SessionId, run_id: RunId, now: float
    ) -> None:
        notice = NewEntry(
            key=f"treadle:run:{run_id}:restored",
            message=Message(role="notice", content=[{"type": "text", "text": LOST}]),
            kind=EntryKind.NOTICE,
            run_id=run_id,
            meta={"notice": "unknown"},
        )
        Appender(connection, session_id, self._ids, now).add(prepared([notice]))
