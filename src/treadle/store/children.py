"""Child processes as rows.

Knows nothing of processes, nor of which of them may be stopped.
"""

from __future__ import annotations

from typing import Final

from treadle.clock import Clock
from treadle.contract.children import (
    ChildRecord,
    ChildRegistry,
    Closed,
    ProcessIdentity,
    StartedChild,
)
from treadle.model.errors import NotFound
from treadle.store.driver import Connection, Driver, Row

KEPT: Final = 200
"""Closed children that are kept for a person to look at."""


class SqlChildren(ChildRegistry):
    """`ChildRegistry` over a driver."""

    def __init__(self, driver: Driver, *, clock: Clock) -> None:
        self._driver = driver
        self._clock = clock

    async def register(
        self, child_id: str, *, parent: ProcessIdentity, command_digest: str, home: str
    ) -> None:
        """See `ChildRegistry`; rows closed long ago are dropped with it."""

        def add(connection: Connection) -> None:
            connection.run("forget_children", keep=KEPT)
            connection.run(
                "register_child",
                id=child_id,
                boot_id=parent.boot_id,
                parent_pid=parent.pid,
                parent_start_ticks=parent.start_ticks,
                command_digest=command_digest,
                home=home,
                now=self._clock.now(),
            )

        await self._driver.write(add)

    async def started(self, child_id: str, child: StartedChild) -> None:
        """See `ChildRegistry`."""

        def note(connection: Connection) -> None:
            found = connection.rows(
                "note_child",
                id=child_id,
                pid=child.pid,
                start_ticks=child.start_ticks,
                process_group=child.process_group,
                command_digest=child.command_digest,
            )
            if not found:
                raise NotFound(f"no child {child_id!r} is registered", child_id=child_id)

        await self._driver.write(note)

    async def close(self, child_id: str, because: Closed) -> None:
        """See `ChildRegistry`."""

        def note(connection: Connection) -> None:
            connection.run("close_child", id=child_id, because=because, now=self._clock.now())

        await self._driver.write(note)

    async def open_children(self) -> tuple[ChildRecord, ...]:
        """See `ChildRegistry`."""

        def find(connection: Connection) -> tuple[ChildRecord, ...]:
            return tuple(map(_record, connection.rows("open_children")))

        return self._driver.read_now(find)

    async def closed_children(self, limit: int = 20) -> tuple[ChildRecord, ...]:
        """See `ChildRegistry`; a negative limit gives none."""

        def find(connection: Connection) -> tuple[ChildRecord, ...]:
            return tuple(map(_record, connection.rows("closed_children", limit=max(0, limit))))

        return self._driver.read_now(find)


def _record(row: Row) -> ChildRecord:
    return ChildRecord(
        id=row[0],
        parent=ProcessIdentity(pid=row[2], start_ticks=row[3], boot_id=row[1]),
        pid=row[4],
        start_ticks=row[5],
        process_group=row[6],
        command_digest=row[7],
        home=row[8],
        registered_at=row[9],
        closed_at=row[10],
        closed_because=None if row[11] is None else Closed(row[11]),
    )
