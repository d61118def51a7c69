"""Start children that are registered before they are spoken to, and stop what nobody owns any more.

Carries `policy` out: reads the table of processes, stops in two steps (the app-server first, which
ends most of its commands itself), looks again until nothing is left. Knows no protocol.
Source: spec S-11, S-12; reliability INV-19, F8.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from anyio import CancelScope, Lock, fail_after, sleep, to_thread

from treadle.clock import Ids
from treadle.contract.children import ChildRecord, ChildRegistry, Closed
from treadle.model.errors import OrphanUnconfirmed, StoreError
from treadle.observe import emit
from treadle.wire.children import table as processes
from treadle.wire.children.policy import (
    Close,
    ProcessTable,
    Pursued,
    Stop,
    Unconfirmed,
    Verdict,
    decide,
    decide_by_group,
    descendants,
)
from treadle.wire.children.stopping import StopLimits, stop_all
from treadle.wire.process import Child, Spawn, StopGrace, open_child

CHILD_PREFIX: Final = "chd"
"""Prefix of the ids of children, which are their markers."""

_GROUP_POLL_S: Final = 0.1
"""How often a process group is asked after where the system tells of no end (macOS)."""

ReadTable = Callable[[Collection[int]], ProcessTable]
"""Reads what runs, with command digests of these pids; blocks. Raises: OSError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildLimits:
    """How long looking and stopping may take, in seconds."""

    check_s: float = 10.0
    """All identity checks round one start together, stopping included (spec S-12)."""

    stop: StopLimits = field(default_factory=StopLimits)


class RegisteredChildren:
    """Children of one state directory; build one per service."""

    def __init__(
        self,
        registry: ChildRegistry,
        ids: Ids,
        limits: ChildLimits | None = None,
        *,
        read: ReadTable | None = None,
    ) -> None:
        """`read` is given where the table is not that of this machine's `/proc`."""
        usual = processes.read_table if sys.platform == "linux" else None
        self._registry = registry
        self._ids = ids
        self._limits = limits or ChildLimits()
        self._read: ReadTable | None = read or usual
        self._in_use: set[str] = set()
        self._pursued: dict[str, Pursued] = {}
        self._lock = Lock()
        """Two looks at once would stop the same processes twice and tell of both."""

    @asynccontextmanager
    async def open(
        self, spawn_for: Callable[[str], Spawn], *, home: Path, grace: StopGrace
    ) -> AsyncIterator[Child]:
        """Start a child, registered before anybody speaks to it, and stop all of it at the end.

        First whatever earlier owners left is stopped. `spawn_for` says what is started, given the
        marker. Raises: OrphanUnconfirmed, ProcessStartError, StoreError; then nothing runs. Cancel:
        the child, and every process that bears its marker, is stopped.
        """
        child_id = self._ids.new(CHILD_PREFIX)
        spawn = spawn_for(child_id)
        async with AsyncExitStack() as stack:
            with self._in_time():
                async with self._lock:
                    await self._settle()
                await self._register(child_id, spawn, home)
                stack.push_async_callback(self._over, child_id)
                look = partial(self._look, child_id)
                child = await stack.enter_async_context(
                    open_child(spawn, grace=grace, before_stop=look)
                )
                await self._note(child_id, child, spawn)
            yield child

    async def settle(self) -> None:
        """Stop what runs of children whose owner is gone, and close their rows.

        Raises: OrphanUnconfirmed if that could not be done or seen; StoreError. Cancel: what was
        not closed is looked at again at the next call.
        """
        async with self._lock:
            with self._in_time():
                await self._settle()

    async def tidy(self) -> None:
        """Do as `settle`; what fails is logged, and found again before the next start."""
        try:
            await self.settle()
        except (OrphanUnconfirmed, StoreError) as error:
            emit("wire.orphan_unconfirmed", cause=error)

    # one child

    async def _register(self, child_id: str, spawn: Spawn, home: Path) -> None:
        self._in_use.add(child_id)
        try:
            await self._registry.register(
                child_id,
                parent=await to_thread.run_sync(processes.this_process),
                command_digest=processes.digest_of(spawn.argv),
                home=str(home),
            )
        except BaseException:
            self._in_use.discard(child_id)
            raise

    async def _note(self, child_id: str, child: Child, spawn: Spawn) -> None:
        assert child.pid is not None, "a child that was started has a pid"
        found = await to_thread.run_sync(processes.started_child, child.pid, spawn.argv)
        await self._registry.started(child_id, found)
        emit("wire.child_registered", child_id=child_id, pid=found.pid)

    async def _look(self, child_id: str) -> None:
        """Remember what the child has started, as long as that stands below it."""
        if self._read is None:
            return
        try:
            records = [one for one in await self._registry.open_children() if one.id == child_id]
            pids = [one.pid for one in records if one.pid is not None]
            table = await to_thread.run_sync(self._read, pids)
        except (OSError, StoreError) as error:
            emit("wire.orphan_unconfirmed", child_id=child_id, cause=error)
            return
        self._pursue(child_id, _below(table, pids))

    async def _over(self, child_id: str) -> None:
        """The child has ended: stop what it left, and close its row."""
        self._in_use.discard(child_id)
        with CancelScope(shield=True):  # bounded by `check_s`
            await self.tidy()

    # all children

    async def _settle(self) -> None:
        while True:
            records = await self._registry.open_children()
            if all(one.id in self._in_use for one in records):
                return
            verdicts = await self._verdicts(records)
            for verdict in verdicts:
                if isinstance(verdict, Close):
                    await self._close(verdict)
            stops = [one for one in verdicts if isinstance(one, Stop)]
            for stop in stops:
                await self._stop(stop)
            unclear = [one for one in verdicts if isinstance(one, Unconfirmed)]
            if not stops and not unclear:
                return
            if unclear:
                await sleep(_GROUP_POLL_S)

    async def _verdicts(self, records: Sequence[ChildRecord]) -> tuple[Verdict, ...]:
        if self._read is None:
            return decide_by_group(
                records,
                our_pid=os.getpid(),
                running=_alive(os.kill, (one.parent.pid for one in records)),
                groups=_alive(os.killpg, (one.process_group for one in records)),
                in_use=self._in_use,
            )
        pids = [one.pid for one in records if one.pid is not None]
        table = await to_thread.run_sync(self._read, pids)
        return decide(records, table, in_use=self._in_use, pursued=self._pursued)

    async def _close(self, verdict: Close) -> None:
        await self._registry.close(verdict.child_id, verdict.because)
        self._pursued.pop(verdict.child_id, None)
        if verdict.because is Closed.STOPPED:
            emit("wire.orphan_stopped", child_id=verdict.child_id)
        emit("wire.child_closed", child_id=verdict.child_id, because=verdict.because.value)

    async def _stop(self, stop: Stop) -> None:
        first = (stop.app_server,) if stop.app_server is not None else stop.others
        self._pursue(stop.child_id, ((one.pid, one.start_ticks) for one in stop.targets))
        emit(
            "wire.orphan_found",
            child_id=stop.child_id,
            app_server=stop.app_server.pid if stop.app_server is not None else None,
            pids=[one.pid for one in stop.others],
        )
        left = await stop_all(first, self._limits.stop)
        if left:
            raise _unconfirmed(
                f"processes {', '.join(str(one.pid) for one in left)}, which an earlier Codex of"
                " Treadle's left, did not end when they were killed",
                left[0].pid,
            )

    def _pursue(self, child_id: str, found: Iterable[tuple[int, int]]) -> None:
        known = self._pursued.get(child_id, Pursued()).targets
        self._pursued[child_id] = Pursued(targets=known | frozenset(found))

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        limit_s = self._limits.check_s
        try:
            with fail_after(limit_s):
                yield
        except TimeoutError as error:
            raise _unconfirmed(
                f"looking for what earlier ones left, and stopping it, took more than {limit_s:g} s"
            ) from error
        except OSError as error:
            raise _unconfirmed(
                f"what earlier ones left could not be looked at or stopped ({error})"
            ) from error


def _below(table: ProcessTable, pids: Sequence[int]) -> Iterator[tuple[int, int]]:
    for pid in descendants(table, pids):
        yield pid, table.entries[pid].start_ticks


def _alive(ask: Callable[[int, int], None], ids: Iterable[int | None]) -> frozenset[int]:
    """Return those of the pids, or groups, that exist; signal 0 only asks."""
    found = set()
    for one in ids:
        if one is None:
            continue
        with suppress(ProcessLookupError):  # there is none
            with suppress(PermissionError):  # there is one, of somebody else
                ask(one, 0)
            found.add(one)
    return frozenset(found)


def _unconfirmed(found: str, pid: int | None = None) -> OrphanUnconfirmed:
    step = f"Look at it (ps -fp {pid}), end it, then try again." if pid is not None else ""
    return OrphanUnconfirmed(
        f"No app-server was started: {found}.",
        next_step=step or "Try again; treadle doctor shows what is registered.",
        pid=pid,
    )
