"""Accepted messages as rows.

Knows nothing of runs, queues or what a message asks for. Every change is conditional on the state
before it (see `contract.inbox`), so nothing that has an end gets another one.
"""

from __future__ import annotations

from typing import Final

from treadle.clock import Clock
from treadle.contract.events import NewEvent
from treadle.contract.inbox import (
    NEXT,
    Inbox,
    InboxMessage,
    MessageState,
    NewMessage,
    Settlement,
    message_conflict,
)
from treadle.failpoints import failpoint
from treadle.model.ids import RunId, SessionId, SessionKey, StreamId
from treadle.model.turn import (
    MessageAccepted,
    MessageCancelled,
    MessageFailed,
    MessageUnconfirmed,
)
from treadle.store.driver import Connection, Driver, Row
from treadle.store.events import SqlEvents
from treadle.store.rows import decoded_object, encoded

ENDS: Final = {
    MessageState.FAILED: MessageFailed.type,
    MessageState.CANCELLED: MessageCancelled.type,
    MessageState.UNKNOWN: MessageUnconfirmed.type,
}
"""Events that tell of an end; that of an answered message is its run's."""


class SqlInbox(Inbox):
    """`Inbox` over a driver."""

    def __init__(self, driver: Driver, events: SqlEvents, *, clock: Clock) -> None:
        self._driver = driver
        self._events = events
        self._clock = clock

    async def accept(self, message: NewMessage) -> InboxMessage:
        """See `Inbox`."""
        request = encoded(message.request)
        stream = StreamId(message.session_key)

        def store(connection: Connection) -> InboxMessage:
            known = _find(connection, message.session_key, message.client_message_id)
            if known is not None:
                return known
            connection.run(
                "add_message",
                session_key=message.session_key,
                client_message_id=message.client_message_id,
                run_id=message.run_id,
                now=self._clock.now(),
                request_hash=message.request_hash,
                request=request,
            )
            told = NewEvent(
                type=MessageAccepted.type,
                run_id=message.run_id,
                data={
                    "client_message_id": message.client_message_id,
                    "place": message.place,
                },
            )
            self._events.add(connection, stream, (told,))
            stored = _find(connection, message.session_key, message.client_message_id)
            assert stored is not None, "it was written a moment ago in this transaction"
            failpoint("S1-before-commit")
            return stored

        try:
            stored = await self._driver.write(store)
            failpoint("S1-after-commit")
        finally:
            self._events.told(stream)
        if stored.request_hash != message.request_hash:
            raise message_conflict(message.session_key, message.client_message_id)
        return stored

    async def requeue(self, run_id: RunId) -> None:
        """See `Inbox`."""

        def wait_again(connection: Connection) -> None:
            connection.run("requeue_message", run_id=run_id, now=self._clock.now())

        await self._driver.write(wait_again, durable=False)

    async def settle(self, settlement: Settlement) -> bool:
        """See `Inbox`."""
        told: list[StreamId] = []

        def end(connection: Connection) -> bool:
            told.clear()
            told.extend(settle_message(connection, self._events, settlement, self._clock.now()))
            return bool(told)

        try:
            return await self._driver.write(end)
        finally:
            self._events.told(*told)

    async def unfinished(self) -> tuple[InboxMessage, ...]:
        """See `Inbox`."""

        def find(connection: Connection) -> tuple[InboxMessage, ...]:
            return tuple(_message(row) for row in connection.rows("unfinished_messages"))

        return await self._driver.read(find)

    def unfinished_of(self, session_key: SessionKey) -> tuple[InboxMessage, ...]:
        """See `Inbox`."""

        def find(connection: Connection) -> tuple[InboxMessage, ...]:
            rows = connection.rows("unfinished_messages_of", session_key=session_key)
            return tuple(_message(row) for row in rows)

        return self._driver.read_now(find)

    def find(self, session_key: SessionKey, client_message_id: str) -> InboxMessage | None:
        """See `Inbox`."""
        return self._driver.read_now(
            lambda connection: _find(connection, session_key, client_message_id)
        )


def start_message(connection: Connection, run_id: RunId, session_id: SessionId, now: float) -> None:
    """Note in the claim's transaction that the run of a message begins; it may have none."""
    connection.run("start_message", run_id=run_id, session_id=session_id, now=now)


def settle_message(
    connection: Connection, events: SqlEvents, settlement: Settlement, now: float
) -> tuple[StreamId, ...]:
    """Write a message's end in the transaction of its facts; return the streams that have grown.

    Empty where the run has no message (it was never acknowledged), or that had an end before.
    """
    row = connection.one("message_of_run", run_id=settlement.run_id)
    if row is None or settlement.state not in NEXT[MessageState(row[0])]:
        return ()
    connection.run(
        "settle_message",
        run_id=settlement.run_id,
        state=settlement.state.value,
        outcome=encoded(settlement.outcome),
        now=now,
    )
    stream = StreamId(row[1])
    name = ENDS.get(settlement.state)
    if name is not None:
        told = NewEvent(
            type=name,
            run_id=settlement.run_id,
            data={"client_message_id": row[2], "reason": settlement.reason},
        )
        events.add(connection, stream, (told,))
    return (stream,)


def _find(
    connection: Connection, session_key: SessionKey, client_message_id: str
) -> InboxMessage | None:
    row = connection.one(
        "message_by_client_id", session_key=session_key, client_message_id=client_message_id
    )
    return None if row is None else _message(row)


def _message(row: Row) -> InboxMessage:
    return InboxMessage(
        seq=row[0],
        session_key=SessionKey(row[1]),
        client_message_id=row[2],
        run_id=RunId(row[3]),
        session_id=None if row[4] is None else SessionId(row[4]),
        state=MessageState(row[5]),
        attempts=row[6],
        accepted_at=row[7],
        request_hash=row[8],
        request=decoded_object(row[9]),
        outcome=None if row[10] is None else decoded_object(row[10]),
    )
