"""Opens a store and closes it again.

Knows nothing of who owns the state directory: one process at a time is its caller's duty (INV-4).
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import anyio
import anyio.to_thread
from anyio.lowlevel import current_token

from treadle.clock import Clock, Ids
from treadle.contract.store import Store
from treadle.model.errors import StoreDamaged
from treadle.store.bindings import SqlBindings
from treadle.store.branches import SqlLives
from treadle.store.check import StoreCheck, check_store
from treadle.store.children import SqlChildren
from treadle.store.driver import Connection, Driver, load_migrations, load_queries
from treadle.store.events import SqlEvents
from treadle.store.inbox import SqlInbox
from treadle.store.outbox import SqlEngineOutbox
from treadle.store.readers import ReaderPool
from treadle.store.reports import SqlReports
from treadle.store.restore import SqlRestore
from treadle.store.sessions import SqlSessions
from treadle.store.sqlite import SqliteConnection, Synchronous, open_writer
from treadle.store.subagents import SqlSubagents
from treadle.store.transcript import SqlTranscript
from treadle.store.writer import Writer

T = TypeVar("T")

LOOK_S: Final = 0.5
"""Seconds that one look for damage takes at most; the next one goes on with the next table."""

READ_THREADS: Final = 4
"""Reads at the same time on worker threads; more would only share the same cores."""


class SqliteDriver(Driver):
    """A writer and the readers beside it."""

    def __init__(self, writer: Writer, readers: ReaderPool) -> None:
        self._writer = writer
        self._readers = readers
        self._threads = anyio.CapacityLimiter(READ_THREADS)
        self._looked_at = ""

    @property
    def fault(self) -> StoreDamaged | None:
        """Why nothing is written any more; None as long as all is well."""
        return self._writer.fault

    @property
    def log_bytes(self) -> int:
        """Size of the log that has not been put into the database."""
        return self._writer.log_bytes

    async def write(self, job: Callable[[Connection], T], *, durable: bool = True) -> T:
        """See `Driver`."""
        return await self._writer.write(job, durable=durable)

    async def read(self, job: Callable[[SqliteConnection], T]) -> T:
        """See `Driver`."""
        read = partial(self._read, job, one_view=True)
        return await anyio.to_thread.run_sync(read, limiter=self._threads)

    def read_now(self, job: Callable[[SqliteConnection], T]) -> T:
        """See `Driver`."""
        return self._read(job, one_view=False)

    def _read(self, job: Callable[[SqliteConnection], T], *, one_view: bool) -> T:
        try:
            return self._readers.read(job, one_view=one_view)
        except StoreDamaged as error:
            self._writer.refuse(error)
            raise

    async def look(self) -> None:
        """See `Store`. Cancel: the look is finished all the same, and its finding kept."""
        await anyio.to_thread.run_sync(self._look, limiter=self._threads, abandon_on_cancel=True)

    def _look(self) -> None:
        tables = [str(row[0]) for row in self.read_now(lambda c: c.rows("tables_with_pages"))]
        behind = [one for one in tables if one > self._looked_at]
        until = time.monotonic() + LOOK_S
        for table in [*behind, *(one for one in tables if one not in behind)]:
            try:
                self._readers.look(table, until - time.monotonic())
            except StoreDamaged as error:
                self._writer.refuse(error)
                raise
            self._looked_at = table
            if time.monotonic() > until:
                return


class SqliteStore(Store):
    """All that is kept, in one SQLite file."""

    def __init__(self, driver: SqliteDriver, path: Path, *, clock: Clock, ids: Ids) -> None:
        self._driver = driver
        self._path = path
        self._events = SqlEvents(driver, clock=clock)
        self._sessions = SqlSessions(driver, self._events, clock=clock, ids=ids)
        self._transcript = SqlTranscript(driver, self._events, clock=clock, ids=ids)
        self._bindings = SqlBindings(driver, clock=clock)
        self._reports = SqlReports(driver)
        self._inbox = SqlInbox(driver, self._events, clock=clock)
        self._engine_outbox = SqlEngineOutbox(driver, clock=clock)
        self._lives = SqlLives(driver, self._events, clock=clock, ids=ids)
        self._restore = SqlRestore(driver, clock=clock, ids=ids)
        self._subagents = SqlSubagents(driver, self._events, clock=clock, ids=ids)
        self._children = SqlChildren(driver, clock=clock)

    @property
    def path(self) -> Path:
        """The database file."""
        return self._path

    @property
    def driver(self) -> Driver:
        """The database itself, for other rooms' records that live in the same file."""
        return self._driver

    @property
    def sessions(self) -> SqlSessions:
        """Sessions."""
        return self._sessions

    @property
    def transcript(self) -> SqlTranscript:
        """Transcripts."""
        return self._transcript

    @property
    def bindings(self) -> SqlBindings:
        """Threads and injections."""
        return self._bindings

    @property
    def reports(self) -> SqlReports:
        """Context reports."""
        return self._reports

    @property
    def inbox(self) -> SqlInbox:
        """Accepted messages."""
        return self._inbox

    @property
    def engine_outbox(self) -> SqlEngineOutbox:
        """Turns on their way to a context engine that commits them."""
        return self._engine_outbox

    @property
    def events(self) -> SqlEvents:
        """Streams of durable events."""
        return self._events

    @property
    def lives(self) -> SqlLives:
        """What happens to whole sessions."""
        return self._lives

    @property
    def restore(self) -> SqlRestore:
        """Puts a store right that came back from a backup."""
        return self._restore

    @property
    def subagents(self) -> SqlSubagents:
        """Child sessions."""
        return self._subagents

    @property
    def children(self) -> SqlChildren:
        """Child processes."""
        return self._children

    @property
    def fault(self) -> StoreDamaged | None:
        """See `Store`."""
        return self._driver.fault

    @property
    def log_bytes(self) -> int:
        """See `Store`."""
        return self._driver.log_bytes

    async def look(self) -> None:
        """See `Store`; tables are taken in turn, on a connection that remembers no page."""
        await self._driver.look()

    async def check(self) -> StoreCheck:
        """Check the whole store and count what is in it; reads all of it, changes nothing."""
        return await self._driver.read(partial(check_store, path=self._path))


@asynccontextmanager
async def open_store(
    path: Path, *, clock: Clock, ids: Ids, synchronous: Synchronous = "FULL"
) -> AsyncIterator[SqliteStore]:
    """Open the store at this path, made or migrated if need be, and close it at the end.

    With `FULL` what a call has written survives a power cut; with `NORMAL` the last writes may not
    (they survive the death of the process). Raises: StateDirectoryRefused, StoreDamaged,
    MigrationNeeded, StoreFull, StoreBusy. Cancel: writes that stand in line are done before it
    closes.
    """

    def prepare() -> tuple[SqliteConnection, ReaderPool]:
        queries = load_queries()
        connection = open_writer(
            path, queries, load_migrations("sqlite"), now=clock.now(), synchronous=synchronous
        )
        try:
            return connection, ReaderPool(path, queries)
        except BaseException:
            connection.close()
            raise

    connection, readers = await anyio.to_thread.run_sync(prepare)
    writer = Writer(connection, current_token())
    try:
        yield SqliteStore(SqliteDriver(writer, readers), path, clock=clock, ids=ids)
    finally:
        readers.close()
        await writer.stop()
