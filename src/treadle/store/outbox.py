"""The engine outbox as rows: written with the turn's entries, moved by what the engine answers.

`admit` and `accept` work inside a transaction of the transcript's. Knows nothing of how engines are
called; which state follows which is `contract.outbox`'s table.

What becomes of open rows when a session changes: a reset leaves them, and they go out before the
next run of the session, whatever its generation; a rewind leaves them, since the turn did happen
and its entries stay where they are, on the branch that was left; another engine in the slot leaves
them until theirs serves the session again; a purge of the session deletes them with its entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from treadle.clock import Clock
from treadle.contract.outbox import (
    DRAIN_MOST,
    INTERRUPTED,
    MAX_MESSAGES,
    Accepted,
    Admission,
    Advancement,
    Answered,
    CommitEvent,
    CommitState,
    Dropped,
    EngineOutbox,
    Failed,
    Fence,
    HandedOver,
    Measure,
    OutboxHealth,
    Unsendable,
    advancement_key,
    payload_hash,
    step,
)
from treadle.model.errors import RevisionConflict, StoreError
from treadle.model.ids import EngineId, EntryId, RunId, SessionId, SessionKey
from treadle.model.message import Message
from treadle.model.text import redact, truncate
from treadle.store.driver import Connection, Driver, Row
from treadle.store.rows import message_from_row

REASON_CHARS: Final = 500
"""Characters of a reason that are kept."""

NO_RANGE: Final = "its first entry is not on the session's branch any more"


# ------------------------------------------------------------- inside the transcript's transactions


def admit(connection: Connection, session_id: SessionId, admission: Admission, now: float) -> None:
    """Store that a turn begins under an engine; its entry must be stored already (S5).

    What earlier runs left admitted is forgotten; the same run admitted again, by a second attempt,
    stays as it is. Without an entry there is nothing that a turn could begin with, and no row.
    Raises: RevisionConflict where the key was used up (spec B-37).
    """
    ids = {"session_id": session_id, "run_id": admission.run_id}
    connection.run("drop_other_turns", **ids)
    entry = connection.one("entry_by_key", session_id=session_id, key=admission.prompt_key)
    key = advancement_key(session_id, admission.run_id)
    found = connection.one("turn_of_key", key=key)
    if found is not None:
        known = _advancement(found)
        if known.state is not CommitState.ADMITTED:
            raise _used_up(known, "its turn was accepted before")
        connection.run("drop_turn", **ids)
    if entry is None:
        return
    connection.run(
        "add_turn",
        **ids,
        engine_id=admission.engine_id,
        key=key,
        commits=admission.commits,
        is_heartbeat=admission.is_heartbeat,
        first_entry=entry[0],
        first_hash=entry[9],
        now=now,
    )


def accept(
    connection: Connection, session_id: SessionId, run_id: RunId, *, ended_well: bool, now: float
) -> None:
    """Move the row of a run whose turn has ended, once its entries are stored (S10).

    A turn without a row had no engine. One that was accepted before is left as it is.
    """
    found = connection.one("turn_of_run", session_id=session_id, run_id=run_id)
    if found is None or found[6] != CommitState.ADMITTED:
        return
    row = _advancement(found)
    if not ended_well:
        step(row.state, Dropped())
        connection.run("drop_turn", session_id=session_id, run_id=run_id)
        return
    measured = _measured(connection, row)
    measure = _measure(measured)
    state = step(row.state, Accepted(commits=row.commits, measure=measure))
    fault = NO_RANGE if measure is None else measure.fault
    connection.run(
        "accept_turn",
        seq=row.seq,
        state=state,
        last_entry=measured[-1][0] if measured else None,
        payload_hash=_hash_of(row, measured),
        reason=fault if state is CommitState.BLOCKED else None,
        now=now,
    )


def _measured(connection: Connection, row: Advancement) -> list[Row]:
    """Return id, hash and bytes of the turn's messages, none if they do not stand as they should.

    At most one more than may be sent is read.
    """
    place = connection.one("place_of_entry", id=row.first)
    active = connection.one("active_branch", session_id=row.session_id)
    if place is None or active is None or place[1] != active[0]:
        return []
    _, branch, position, _ = place
    stop = min(active[2] - 1, position + MAX_MESSAGES)
    return connection.rows("range_measures", branch=branch, start=position, stop=stop)


def _measure(measured: Sequence[Row]) -> Measure | None:
    if not measured:
        return None
    return Measure(message_count=len(measured), size_bytes=sum(size for _, _, size in measured))


def _hash_of(row: Advancement, measured: Sequence[Row]) -> str:
    entries = [(EntryId(entry_id), str(found)) for entry_id, found, _ in measured]
    return payload_hash(row.key, entries, is_heartbeat=row.is_heartbeat)


def _used_up(row: Advancement, why: str) -> RevisionConflict:
    return RevisionConflict(
        f"advancement key {row.key!r} of engine {row.engine_id!r} was used already: {why}",
        next_step="This is a fault of Treadle's; please report it.",
        key=row.key,
        engine_id=row.engine_id,
        state=row.state.value,
    )


# ------------------------------------------------------------------------------------ by itself


class SqlEngineOutbox(EngineOutbox):
    """`EngineOutbox` over a driver."""

    def __init__(self, driver: Driver, *, clock: Clock) -> None:
        self._driver = driver
        self._clock = clock

    def of_run(self, session_id: SessionId, run_id: RunId) -> Advancement | None:
        """See `EngineOutbox`."""
        row = self._driver.read_now(
            lambda connection: connection.one("turn_of_run", session_id=session_id, run_id=run_id)
        )
        return None if row is None else _advancement(row)

    def fence(self, session_id: SessionId, run_id: RunId) -> Fence:
        """See `EngineOutbox`; entries never change and nobody else writes under our claim."""
        return self._driver.read_now(lambda connection: _fence(connection, session_id, run_id))

    def pending(
        self, session_key: SessionKey, engine_id: EngineId, *, limit: int = DRAIN_MOST + 1
    ) -> tuple[Advancement, ...]:
        """See `EngineOutbox`."""
        rows = self._driver.read_now(
            lambda connection: connection.rows(
                "pending_turns", session_key=session_key, engine_id=engine_id, limit=limit
            )
        )
        return tuple(map(_advancement, rows))

    async def messages(self, row: Advancement) -> tuple[Message, ...] | Unsendable:
        """See `EngineOutbox`."""
        return await self._driver.read(lambda connection: _messages(connection, row))

    async def answered(self, row: Advancement) -> None:
        """See `EngineOutbox`; a row that was moved meanwhile is left as it is."""
        await self._move(row, Answered(), attempts=row.attempts + 1)

    async def failed(self, row: Advancement, reason: str) -> CommitState:
        """See `EngineOutbox`."""
        attempts = row.attempts + 1
        event = Failed(attempts=attempts)
        return await self._move(row, event, attempts=attempts, reason=reason)

    async def block(self, row: Advancement, why: Unsendable) -> None:
        """See `EngineOutbox`."""
        await self._move(row, why, attempts=row.attempts, reason=why.reason)

    async def handed_over(
        self, session_id: SessionId, run_id: RunId, *, reason: str | None = None
    ) -> None:
        """See `EngineOutbox`."""
        row = self.of_run(session_id, run_id)
        if row is not None and row.state is CommitState.ACCEPTED:
            await self._move(row, HandedOver(), attempts=1, reason=reason, durable=False)

    async def settle_interrupted(self) -> int:
        """See `EngineOutbox`."""

        def settle(connection: Connection) -> int:
            row = connection.one("count_interrupted_turns")
            assert row is not None
            if row[0]:
                now = self._clock.now()
                connection.run("settle_interrupted_turns", reason=INTERRUPTED, now=now)
            return int(row[0])

        return await self._driver.write(settle, durable=False)

    def health(self, *, limit: int = 20) -> OutboxHealth:
        """See `EngineOutbox`; the counts may be those of a moment later than the rows."""

        def look(connection: Connection) -> OutboxHealth:
            counts = connection.one("count_troubled_turns")
            assert counts is not None
            if counts == (0, 0):
                return OutboxHealth()
            rows = connection.rows("troubled_turns", limit=limit)
            return OutboxHealth(
                pending_count=counts[0],
                blocked_count=counts[1],
                named=tuple(map(_advancement, rows)),
            )

        return self._driver.read_now(look)

    async def _move(
        self,
        row: Advancement,
        event: CommitEvent,
        *,
        attempts: int,
        reason: str | None = None,
        durable: bool | None = None,
    ) -> CommitState:
        """Store what follows from the event; durable where the state changes (S11)."""
        state = step(row.state, event)
        assert state is not None, "only an admitted row goes, and that is the transcript's to do"
        kept = None if reason is None else truncate(redact(reason), REASON_CHARS)

        def move(connection: Connection) -> CommitState:
            connection.run(
                "move_turn",
                seq=row.seq,
                before=row.state,
                state=state,
                attempts=attempts,
                reason=kept,
                now=self._clock.now(),
            )
            found = connection.one("state_of_turn", seq=row.seq)
            if found is None:
                raise StoreError(f"commit {row.key!r} is not there any more", key=row.key)
            return CommitState(found[0])

        changes = state is not row.state
        return await self._driver.write(move, durable=changes if durable is None else durable)


def _fence(connection: Connection, session_id: SessionId, run_id: RunId) -> Fence:
    found = connection.one("turn_of_run", session_id=session_id, run_id=run_id)
    if found is None:
        return Fence()
    place = connection.one("place_of_entry", id=found[9])
    active = connection.one("active_branch", session_id=session_id)
    if place is None or active is None or place[1] != active[0] or place[2] >= active[2]:
        return Fence(fault="the turn's own entry is missing from the session")
    _, branch, position, content_hash = place
    if content_hash != found[15]:
        return Fence(fault="the turn's own entry was rewritten")
    behind = {"branch": branch, "position": position, "run_id": run_id}
    if connection.one("next_turn_begins", **behind) is not None:
        return Fence(fault="another turn stands behind the turn's own entry")
    return Fence(position=position)


def _messages(connection: Connection, row: Advancement) -> tuple[Message, ...] | Unsendable:
    first = connection.one("place_of_entry", id=row.first)
    last = connection.one("place_of_entry", id=row.last)
    if first is None or last is None or first[1] != last[1]:
        return Unsendable(reason="its first or last entry cannot be found")
    rows = connection.rows("range_messages", branch=first[1], start=first[2], stop=last[2])
    messages = tuple(map(message_from_row, rows))
    entries = [(EntryId(one[0]), m.content_hash) for one, m in zip(rows, messages, strict=True)]
    if payload_hash(row.key, entries, is_heartbeat=row.is_heartbeat) != row.payload_hash:
        return Unsendable(reason="its entries are not those that were accepted")
    return messages


def _advancement(row: Row) -> Advancement:
    return Advancement(
        seq=row[0],
        session_key=SessionKey(row[1]),
        session_id=SessionId(row[2]),
        run_id=RunId(row[3]),
        engine_id=EngineId(row[4]),
        key=row[5],
        state=CommitState(row[6]),
        commits=bool(row[7]),
        is_heartbeat=bool(row[8]),
        first=EntryId(row[9]),
        last=None if row[10] is None else EntryId(row[10]),
        payload_hash=row[11],
        attempts=row[12],
        changed_at=row[13],
        reason=row[14],
    )
