"""The writer's decisions, over a connection that records what is asked of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import anyio
import anyio.to_thread
import pytest
from anyio.lowlevel import current_token

from treadle.model.errors import StoreBusy, StoreDamaged, StoreError, StoreFull
from treadle.store.driver import Connection, Row, SqlValue
from treadle.store.writer import Writer

pytestmark = pytest.mark.anyio


class Recorder:
    """A `WriteConnection` that notes its calls, fails where told, and holds the first `begin`."""

    def __init__(self, failures: dict[str, list[StoreError | None]] | None = None) -> None:
        self.calls: list[str] = []
        self.failures = failures or {}
        self.begun = threading.Event()
        self.go = threading.Event()
        self.in_transaction = False

    def _note(self, call: str) -> None:
        self.calls.append(call)
        planned = self.failures.get(call, [])
        if planned and (error := planned.pop(0)) is not None:
            raise error

    def begin(self, *, durable: bool) -> None:
        self.begun.set()
        assert self.go.wait(20)
        self._note("begin" if durable else "begin relaxed")
        self.in_transaction = True

    def commit(self) -> None:
        self._note("commit")
        self.in_transaction = False

    def rollback(self) -> None:
        self._note("rollback")
        self.in_transaction = False

    def savepoint(self) -> None:
        self._note("savepoint")

    def release(self) -> None:
        self._note("release")

    def undo(self) -> None:
        self._note("undo")

    def tidy(self) -> None:
        """Nothing to tidy."""

    @property
    def log_bytes(self) -> int:
        return 0

    def leave_file(self) -> None:
        self._note("leave file")

    def close(self) -> None:
        self._note("close")

    def rows(self, query: str, **params: SqlValue) -> list[Row]:
        raise NotImplementedError

    def each(self, query: str, **params: SqlValue) -> Iterator[Row]:
        raise NotImplementedError

    def one(self, query: str, **params: SqlValue) -> Row | None:
        raise NotImplementedError

    def run(self, query: str, **params: SqlValue) -> int:
        self._note(query)
        return 0


def job(name: str) -> Callable[[Connection], str]:
    def run(connection: Connection) -> str:
        connection.run(name)
        return name.upper()

    return run


async def outcomes(connection: Recorder, *names: str) -> list[str | StoreError]:
    """Let the jobs stand in line together, then let the writer go; return how each one ended."""
    ended: dict[str, str | StoreError] = {}
    writer = Writer(connection, current_token())

    async def write(name: str) -> None:
        try:
            durable = not name.startswith("relaxed")
            ended[name] = await writer.write(job(name), durable=durable)
        except StoreError as error:
            ended[name] = error

    async with anyio.create_task_group() as group:
        group.start_soon(write, "first")  # is taken alone; the others gather behind it
        assert await anyio.to_thread.run_sync(connection.begun.wait, 20)
        for name in names:
            group.start_soon(write, name)
        await anyio.wait_all_tasks_blocked()
        connection.go.set()
    await writer.stop()
    return [ended[name] for name in names]


def after_first(connection: Recorder) -> list[str]:
    calls = [call for call in connection.calls if call not in {"savepoint", "release"}]
    return calls[calls.index("commit") + 1 :]


async def test_jobs_that_wait_together_share_a_transaction() -> None:
    connection = Recorder()

    assert await outcomes(connection, "a", "b", "c") == ["A", "B", "C"]
    assert after_first(connection) == ["begin", "a", "b", "c", "commit", "close"]


async def test_a_group_is_durable_as_soon_as_one_of_its_jobs_is_to_be() -> None:
    """Reliability, section 1: a durable commit makes all earlier ones durable too."""
    alone, mixed = Recorder(), Recorder()

    await outcomes(alone, "relaxed a", "relaxed b")
    await outcomes(mixed, "relaxed a", "b")

    assert after_first(alone)[0] == "begin relaxed"
    assert after_first(mixed)[0] == "begin"


async def test_a_job_that_raises_is_undone_alone() -> None:
    error = StoreError("of b")
    connection = Recorder({"b": [error]})

    assert await outcomes(connection, "a", "b", "c") == ["A", error, "C"]
    assert after_first(connection) == ["begin", "a", "b", "undo", "c", "commit", "close"]


async def test_when_a_group_is_lost_each_job_is_tried_alone() -> None:
    lost, full = StoreFull("group"), StoreFull("b")
    connection = Recorder({"commit": [None, lost, None, full, None]})

    assert await outcomes(connection, "a", "b", "c") == ["A", full, "C"]
    assert after_first(connection) == [
        *("begin", "a", "b", "c", "commit", "rollback"),
        *("begin", "a", "commit"),
        *("begin", "b", "commit", "rollback"),
        *("begin", "c", "commit"),
        "close",
    ]


async def test_a_transaction_that_cannot_begin_is_not_tried_for_each_job() -> None:
    busy = StoreBusy("held")
    connection = Recorder({"begin": [None, busy]})

    assert await outcomes(connection, "a", "b") == [busy, busy]
    assert after_first(connection) == ["begin", "close"]


async def test_after_damage_nothing_is_written_any_more() -> None:
    damaged = StoreDamaged("page")
    connection = Recorder({"first": [damaged]})

    assert await outcomes(connection, "a") == [damaged]
    assert connection.calls.count("begin") == 1
    assert connection.calls[-2:] == ["leave file", "close"]


async def test_damage_that_a_reader_found_stops_the_writer_too() -> None:
    """RS27: nothing is put into the damaged file any more, not even at the end."""
    damaged = StoreDamaged("page")
    connection = Recorder()
    connection.go.set()
    writer = Writer(connection, current_token())
    writer.refuse(damaged)
    with pytest.raises(StoreDamaged):
        await writer.write(job("late"))
    await writer.stop()
    assert writer.fault is damaged
    assert connection.calls == ["leave file", "close"]


async def test_a_job_cancelled_in_line_never_runs() -> None:
    connection = Recorder()
    writer = Writer(connection, current_token())
    async with anyio.create_task_group() as group:
        group.start_soon(writer.write, job("first"))
        assert await anyio.to_thread.run_sync(connection.begun.wait, 20)
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as doomed:
                doomed.start_soon(writer.write, job("doomed"))
                await anyio.wait_all_tasks_blocked()
                scope.cancel()
        connection.go.set()
    await writer.stop()

    assert connection.calls == ["begin", "savepoint", "first", "release", "commit", "close"]


async def test_a_job_cancelled_while_it_runs_has_ended_when_the_caller_goes_on() -> None:
    connection = Recorder()
    writer = Writer(connection, current_token())
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(writer.write, job("first"))
            assert await anyio.to_thread.run_sync(connection.begun.wait, 20)
            scope.cancel()
            connection.go.set()
    assert connection.calls[-1] == "commit"
    await writer.stop()
