"""Bindings of session generations to native threads, what the threads hold, and injections.

Knows nothing of what a binding is used for; every write is under a claim and conditional.
"""

from __future__ import annotations

from dataclasses import replace

from treadle.clock import Clock
from treadle.contract.store import (
    Binding,
    BindingStore,
    Claim,
    Held,
    Holding,
    Injection,
    InjectionState,
)
from treadle.model.errors import NotFound, RevisionConflict
from treadle.model.ids import EntryId, SessionId, ThreadId
from treadle.model.json import JsonValue
from treadle.store.claims import check_claim
from treadle.store.driver import Connection, Driver, Row
from treadle.store.rows import decoded, encoded
from treadle.store.threads import add_held, clear_binding, put_binding, read_binding, read_holding


class SqlBindings(BindingStore):
    """`BindingStore` over a driver."""

    def __init__(self, driver: Driver, *, clock: Clock) -> None:
        self._driver = driver
        self._clock = clock

    async def get(self, session_id: SessionId) -> Binding | None:
        """See `BindingStore`."""
        return self._driver.read_now(lambda connection: read_binding(connection, session_id))

    async def put(self, claim: Claim, binding: Binding) -> Binding:
        """See `BindingStore`; the first revision after a `clear` goes on from the last one."""

        def store(connection: Connection) -> Binding:
            check_claim(connection, claim, binding.session_id)
            return put_binding(connection, binding, self._clock.now())

        return await self._driver.write(store)

    async def clear(self, claim: Claim, thread_id: ThreadId) -> bool:
        """See `BindingStore`; the thread is kept as superseded. Raises: ClaimLost."""

        def remove(connection: Connection) -> bool:
            check_claim(connection, claim)
            return clear_binding(connection, claim.session_id, thread_id, self._clock.now())

        return await self._driver.write(remove)

    async def superseded(self, session_id: SessionId) -> tuple[tuple[ThreadId, float], ...]:
        """See `BindingStore`."""

        def find(connection: Connection) -> tuple[tuple[ThreadId, float], ...]:
            rows = connection.rows("superseded_threads", session_id=session_id)
            return tuple((ThreadId(thread_id), given_up_at) for thread_id, given_up_at in rows)

        return await self._driver.read(find)

    async def forget_superseded(self, thread_id: ThreadId) -> None:
        """See `BindingStore`."""

        def forget(connection: Connection) -> None:
            connection.run("forget_thread", thread_id=thread_id)

        await self._driver.write(forget)

    async def holding(self, thread_id: ThreadId) -> Holding:
        """See `BindingStore`."""
        return self._driver.read_now(lambda connection: read_holding(connection, thread_id))

    async def held(self, thread_id: ThreadId) -> tuple[Held, ...]:
        """See `BindingStore`."""

        def find(connection: Connection) -> tuple[Held, ...]:
            rows = connection.rows("held_by", thread_id=thread_id)
            return tuple(
                Held(content_hash=content_hash, entry_id=entry_id)
                for content_hash, entry_id in rows
            )

        return await self._driver.read(find)

    async def intend(self, claim: Claim, injection: Injection) -> None:
        """See `BindingStore`; the same intent again is no error.

        Raises: ClaimLost; RevisionConflict for another injection of the same id.
        """
        item_ids = encoded(list(injection.item_ids))
        held = encoded([[one.content_hash, one.entry_id] for one in injection.held])

        def store(connection: Connection) -> None:
            check_claim(connection, claim)
            row = connection.one("injection_by_id", id=injection.id)
            if row is None:
                connection.run(
                    "add_injection",
                    id=injection.id,
                    session_id=claim.session_id,
                    thread_id=injection.thread_id,
                    purpose=injection.purpose,
                    now=self._clock.now(),
                    item_ids=item_ids,
                    held=held,
                )
            elif _injection(row) != replace(injection, state=InjectionState.INTENDED):
                raise _conflict(injection.id, f"it is stored and {row[5]}")

        await self._driver.write(store)

    async def confirm(self, claim: Claim, injection_id: str, binding: Binding) -> Binding:
        """See `BindingStore`. What a confirmed one holds is not added again.

        Raises: ClaimLost, NotFound; RevisionConflict for the binding, or an abandoned injection.
        """

        def store(connection: Connection) -> Binding:
            check_claim(connection, claim, binding.session_id)
            injection = _own_injection(connection, claim, injection_id)
            match injection.state:
                case InjectionState.ABANDONED:
                    raise _conflict(injection_id, "it was abandoned")
                case InjectionState.INTENDED:
                    add_held(connection, injection.thread_id, injection.held)
                    self._settle(connection, injection_id, InjectionState.CONFIRMED)
                case InjectionState.CONFIRMED:
                    pass  # the answer came twice, or this write is tried again
            return put_binding(connection, binding, self._clock.now())

        return await self._driver.write(store)

    async def abandon(self, claim: Claim, injection_id: str) -> None:
        """See `BindingStore`; twice is no error.

        Raises: ClaimLost, NotFound; RevisionConflict for a confirmed one.
        """

        def store(connection: Connection) -> None:
            check_claim(connection, claim)
            injection = _own_injection(connection, claim, injection_id)
            if injection.state is InjectionState.CONFIRMED:
                raise _conflict(injection_id, "it was confirmed")
            self._settle(connection, injection_id, InjectionState.ABANDONED)

        await self._driver.write(store)

    async def pending_injections(self, thread_id: ThreadId) -> tuple[Injection, ...]:
        """See `BindingStore`."""

        def find(connection: Connection) -> tuple[Injection, ...]:
            rows = connection.rows("pending_injections", thread_id=thread_id)
            return tuple(_injection(row) for row in rows)

        return self._driver.read_now(find)

    def _settle(self, connection: Connection, injection_id: str, state: InjectionState) -> None:
        connection.run("settle_injection", id=injection_id, state=state, now=self._clock.now())


def _own_injection(connection: Connection, claim: Claim, injection_id: str) -> Injection:
    """Return the injection if it is of the claimed session. Raises: NotFound."""
    row = connection.one("injection_by_id", id=injection_id)
    if row is None or row[6] != claim.session_id:
        raise NotFound(
            f"session {claim.session_id!r} has no injection {injection_id!r}",
            injection_id=injection_id,
        )
    return _injection(row)


def _conflict(injection_id: str, found: str) -> RevisionConflict:
    return RevisionConflict(
        f"injection {injection_id!r} cannot be changed: {found}", injection_id=injection_id
    )


def _injection(row: Row) -> Injection:
    return Injection(
        id=row[0],
        thread_id=ThreadId(row[1]),
        purpose=row[2],
        item_ids=tuple(str(item_id) for item_id in _list(row[3])),
        held=tuple(_held(pair) for pair in _list(row[4])),
        state=InjectionState(row[5]),
    )


def _list(text: str) -> list[JsonValue]:
    value = decoded(text)
    assert isinstance(value, list)
    return value


def _held(value: JsonValue) -> Held:
    match value:
        case [str(content_hash), str(entry_id)]:
            return Held(content_hash=content_hash, entry_id=EntryId(entry_id))
        case [str(content_hash), None]:
            return Held(content_hash=content_hash)
        case _:
            raise AssertionError(f"not what a thread holds: {value!r}")
