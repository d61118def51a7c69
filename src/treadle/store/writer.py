"""The thread that makes all writes, one group of waiting jobs to a transaction.

Knows nothing of SQL or of a database library: `WriteConnection` is all it holds.

A job waits in line, is taken (from then on it cannot be withdrawn), runs inside a savepoint of the
group's transaction, and its caller goes on once the transaction is committed. A job that raises is
undone alone. If the whole group fails (no room, a failed commit), each of its jobs is run once more
in a transaction of its own, so that one that cannot be written does not fail its neighbours.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar, cast

import anyio
import anyio.from_thread
import anyio.to_thread
from anyio.lowlevel import EventLoopToken

from treadle.model.errors import StoreBusy, StoreDamaged, StoreError
from treadle.store.driver import Connection

T = TypeVar("T")

MAX_WAITING: Final = 256
"""Jobs that may stand in line; further callers wait before they join it."""

MAX_GROUP: Final = 64
"""Jobs in one transaction; bounds how long the first one waits for the others."""

STOP_S: Final = 60.0
"""Seconds to wait at most for the writer to end what it holds."""


class WriteConnection(Connection, Protocol):
    """The connection that may write, with its transactions."""

    def begin(self, *, durable: bool) -> None:
        """Begin a transaction that may write; a power cut may undo one that is not `durable`."""

    def commit(self) -> None:
        """Make it happen, and durable together with all before it if it was begun so."""

    def rollback(self) -> None:
        """Undo it; nothing happens without one."""

    def savepoint(self) -> None:
        """Begin a part that can be undone alone."""

    def release(self) -> None:
        """Keep the part."""

    def undo(self) -> None:
        """Undo the part."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open; a failing statement may have ended it."""

    def tidy(self) -> None:
        """Do what is due between transactions; never raises."""

    @property
    def log_bytes(self) -> int:
        """Size of the log that is not in the file yet; from any thread."""

    def leave_file(self) -> None:
        """Change the file itself no more, not even at the end; never raises."""

    def close(self) -> None:
        """Close it."""


@dataclass(slots=True, eq=False)
class _Job:
    work: Callable[[Connection], Any]
    done: anyio.Event
    durable: bool = True
    tickets: list[None] = field(default_factory=lambda: [None])
    """Whoever pops the one ticket decides: the writer runs the job, or the caller withdraws it."""

    value: Any = None
    error: BaseException | None = None

    def take(self) -> bool:
        """Take the ticket; False if it is gone. `list.pop` is atomic between threads."""
        try:
            self.tickets.pop()
        except IndexError:
            return False
        return True


class Writer:
    """Runs jobs on the one connection that writes; `stop` is the last call."""

    def __init__(self, connection: WriteConnection, loop: EventLoopToken) -> None:
        """Take over the connection and begin to work for callers on this loop."""
        self._connection = connection
        self._loop = loop
        self._line: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._room = anyio.Semaphore(MAX_WAITING, fast_acquire=True)
        self._fault: StoreDamaged | None = None
        self._stopping = False
        self._thread = threading.Thread(target=self._work, name="treadle-store-writer", daemon=True)
        self._thread.start()

    async def write(self, work: Callable[[Connection], T], *, durable: bool = True) -> T:
        """Run the job and return its value once it is committed, as durably as was asked for.

        Raises: what the job raised, or a StoreError. Cancel: see `Driver.write`.
        """
        job = _Job(work, anyio.Event(), durable)
        async with self._room:
            if self._stopping:
                raise StoreError("the store is closed")
            self._line.put(job)
            try:
                await job.done.wait()
            except BaseException:
                if not job.take():
                    with anyio.move_on_after(STOP_S, shield=True):
                        await job.done.wait()
                raise
        if job.error is not None:
            raise job.error
        return cast("T", job.value)  # the job's own value; the line holds jobs of all types

    @property
    def fault(self) -> StoreDamaged | None:
        """Why nothing is written any more; None as long as all is well."""
        return self._fault

    @property
    def log_bytes(self) -> int:
        """Size of the log after the last commit."""
        return self._connection.log_bytes

    def refuse(self, fault: StoreDamaged) -> None:
        """Write nothing more, since a reader found damage. From any thread."""
        self._fault = self._fault or fault

    async def stop(self) -> None:
        """Do what stands in line, close the connection, and end. Raises: StoreBusy."""
        self._stopping = True
        self._line.put(None)
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._thread.join, STOP_S)
        if self._thread.is_alive():
            raise StoreBusy(f"the store's writer did not end within {STOP_S:g} s")

    def _work(self) -> None:
        try:
            while group := self._next_group():
                self._run_group(group)
                self._tell(group)
                if self._fault is None:
                    self._connection.tidy()
        finally:
            if self._fault is not None:
                self._connection.leave_file()
            self._connection.close()

    def _next_group(self) -> list[_Job]:
        """Return the jobs that wait, at least one; none once the end of the line is reached."""
        group: list[_Job] = []
        job = self._line.get()
        while job is not None:
            if job.take():
                group.append(job)
            if len(group) == MAX_GROUP:
                return group
            try:
                job = self._line.get(block=not group)
            except queue.Empty:
                return group
        if group:
            self._line.put(None)
        return group

    def _run_group(self, group: list[_Job]) -> None:
        if self._transaction(group):
            return
        for job in group:
            self._transaction([job])

    def _transaction(self, group: list[_Job]) -> bool:
        """Run the jobs in one transaction; False if it was lost and more than one is to be tried.

        Errors end in the jobs. Nothing is caught and dropped here: `BaseException` too belongs to
        the caller who waits, since this thread has nobody else to tell.
        """
        if self._fault is not None:
            self._fail(group, self._fault)
            return True
        try:
            self._connection.begin(durable=any(job.durable for job in group))
        except BaseException as error:
            self._fail(group, error)
            return True  # no transaction was to be had: trying again would wait once more for each
        try:
            for job in group:
                self._part(job)
            self._connection.commit()
        except BaseException as error:
            with contextlib.suppress(StoreError):  # the connection is as good as it will get
                self._connection.rollback()
            self._fail(group, error)
            return len(group) == 1
        return True

    def _fail(self, group: list[_Job], error: BaseException) -> None:
        self._note(error)
        for job in group:
            job.value, job.error = None, error

    def _part(self, job: _Job) -> None:
        """Run one job in a savepoint. Raises only if the whole transaction was lost with it."""
        job.value, job.error = None, None
        self._connection.savepoint()
        try:
            job.value = job.work(self._connection)
        except BaseException as error:
            self._note(error)
            if not self._connection.in_transaction:
                raise
            self._connection.undo()
            job.error = error
        else:
            self._connection.release()

    def _note(self, error: BaseException) -> None:
        """Write nothing more once the store is known to be damaged (reliability, RS27)."""
        if isinstance(error, StoreDamaged):
            self._fault = error

    def _tell(self, group: list[_Job]) -> None:
        """Wake the callers; they are gone if the loop is."""
        with contextlib.suppress(RuntimeError):
            anyio.from_thread.run_sync(_wake, group, token=self._loop)


def _wake(group: list[_Job]) -> None:
    for job in group:
        job.done.set()
