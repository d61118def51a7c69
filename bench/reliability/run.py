"""One run under faults from its start to its verdict.

Everything that it starts is gone at the end, whatever happened. Knows the order of things; what is
done and what is right is the business of the other modules.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from bench.reliability.check import check
from bench.reliability.client import Client, Lost, Plan, all_open
from bench.reliability.found import Violation
from bench.reliability.history import Decoy, History, Left
from bench.reliability.logserver import LogLine
from bench.reliability.model import ChaosModel
from bench.reliability.nemesis import Nemesis
from bench.reliability.reading import history_from, read_effects, read_log, read_store
from bench.reliability.world import Decoys, Gateway, NotReady, World, wait_until_gone
from treadle.clock import RandomIds, SystemClock
from treadle.store.open import open_store
from treadle.testing.model import ScriptedModel

SESSIONS: Final = 6

MESSAGES: Final = 60
"""Messages of a session, after which its client goes on in a new one."""

REST_S: Final = 60.0
"""Seconds in which every session has to get on while nothing is done to it; the checker judges the
30 s that were promised."""

QUIET_S: Final = 180.0
"""Seconds for everything to come to rest in the end."""

SMALL_DISK: Final = "size=512m,mode=0700"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What was asked for."""

    seed: int
    kills: int
    seconds: float | None
    """None: as long as the kills take."""

    small_disk: bool
    """Whether to put the state on a small file system of its own, where that may be done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How a run went."""

    history: History
    violations: list[Violation]
    kills: int
    made: dict[str, int]
    """Faults by kind."""

    exit_status: int
    """Of the last gateway, which was asked to end."""

    seconds: float


class Broken(Exception):
    """The run could not be brought to its end; what it left lies in its folder."""


@dataclass(kw_only=True)
class _Run:
    wanted: Wanted
    world: World
    gateway: Gateway
    model: ChaosModel
    plan: Plan
    tell: Callable[[str], None]
    clients: list[Client] = field(default_factory=list)
    retired: list[Client] = field(default_factory=list)

    async def everybody(self, group: TaskGroup) -> None:
        """Keep a client at work on each of the sessions; one with enough of them makes place."""
        for number in range(SESSIONS):
            group.start_soon(self._lane, f"s{number + 1}")

    async def _lane(self, name: str) -> None:
        for turn in range(1, 10_000):
            client = Client(self.plan, f"{name}-{turn}", most=MESSAGES)
            self.clients.append(client)
            await client.run()
            self.clients.remove(client)
            self.retired.append(client)

    @property
    def everyone(self) -> list[Client]:
        """All clients there were."""
        return [*self.retired, *self.clients]

    def sessions(self) -> list[str]:
        """Keys of the sessions in use."""
        return [client.stream for client in self.clients]

    async def rest(self) -> None:
        """Wait until each client saw an end, or time is over: that is for the checker to judge."""
        with anyio.move_on_after(REST_S):
            async with anyio.create_task_group() as group:
                for client in tuple(self.clients):
                    group.start_soon(client.next_end)

    async def quiet(self) -> None:
        """Let nobody send anything new, and wait for all ends. Raises: Broken."""
        self.plan.stopping = True
        with anyio.move_on_after(QUIET_S) as waiting:
            for client in tuple(self.clients):
                await client.wait_for_ends()
        if waiting.cancelled_caught:
            left = [one.nonce for one in all_open(self.clients)]
            self.tell(f"no end within {QUIET_S:g} s: {', '.join(left)}")
            return  # the checker says so in its own words
        for client in self.everyone:
            try:
                await client.check_again()
            except* (Lost, OSError) as error:
                raise Broken(f"the last gateway did not answer: {error.exceptions}") from error


async def run_under_faults(
    wanted: Wanted, root: Path, codex: Path, tell: Callable[[str], None]
) -> Verdict:
    """Do a run in `root` and judge it. Raises: Broken, NotReady."""
    began = time.monotonic()
    world = World(root=root, codex=codex)
    with _small_disk(world, wanted=wanted.small_disk) as is_small_disk:
        world.make()
        async with AsyncStack() as stack:
            server = await stack.enter_async_context(_log_server(world))
            decoys = stack.enter_context(_decoys(world))
            model_server = await stack.enter_async_context(ScriptedModel())
            world.configure(model_server.base_url)
            run = _Run(
                wanted=wanted,
                world=world,
                gateway=Gateway(world=world, log=LogLine(world.log, "gateway")),
                model=ChaosModel(model_server, LogLine(world.log, "model"), world.log),
                plan=Plan(
                    log=LogLine(world.log, "client"),
                    socket=world.socket,
                    work=world.work,
                    seed=wanted.seed,
                ),
                tell=tell,
            )
            nemesis = Nemesis(
                world=world,
                gateway=run.gateway,
                model=run.model,
                log=LogLine(world.log, "nemesis"),
                chance=Random(f"{wanted.seed} faults"),
                kills=wanted.kills,
                sessions=run.sessions,
                rest=run.rest,
                is_small_disk=is_small_disk,
            )
            status = await _played(run, nemesis)
            ours = [server, *decoys.pids]
            left = await wait_until_gone(world, *ours)
            _end(left)
            ends = decoys.end()
        await anyio.to_thread.run_sync(_keep_log, world)
        history = await _history(world, wanted.seed, left, ends)
    return Verdict(
        history=history,
        violations=await anyio.to_thread.run_sync(check, history),
        kills=nemesis.killed,
        made=dict(nemesis.made),
        exit_status=status,
        seconds=time.monotonic() - began,
    )


AsyncStack = contextlib.AsyncExitStack


async def _played(run: _Run, nemesis: Nemesis) -> int:
    """Play the run, let it come to rest, and return the last gateway's exit status."""
    await run.gateway.start()
    try:
        await run.gateway.become_ready()
        async with anyio.create_task_group() as group:
            await run.everybody(group)
            group.start_soon(_progress, run, nemesis)
            with anyio.move_on_after(run.wanted.seconds):
                await nemesis.run()
            run.tell(f"{nemesis.killed} kills are made; waiting for all ends")
            await nemesis.make_good()
            await run.quiet()
            group.cancel_scope.cancel()
        return await run.gateway.stop()
    finally:
        with anyio.CancelScope(shield=True):
            await run.gateway.kill()


async def _progress(run: _Run, nemesis: Nemesis) -> None:
    """Say now and then how far it is."""
    while True:
        await anyio.sleep(30)
        ends = Counter(m.state or "open" for client in run.everyone for m in client.messages)
        states = ", ".join(f"{count} {state}" for state, count in sorted(ends.items()))
        run.tell(f"{nemesis.killed} kills, {run.gateway.starts} starts; messages: {states}")


async def _history(world: World, seed: int, left: list[Left], decoys: list[Decoy]) -> History:
    """Read what everybody left."""
    clock = SystemClock()
    async with open_store(world.database, clock=clock, ids=RandomIds(clock)) as store:
        report = await store.check()

    def read() -> History:
        return history_from(
            read_log(world.log_file),
            read_store(world.database, [str(fault) for fault in report.faults]),
            read_effects(world.engine_database),
            seed=seed,
            left=left,
            decoys=decoys,
        )

    return await anyio.to_thread.run_sync(read)


@asynccontextmanager
async def _log_server(world: World) -> AsyncIterator[int]:
    """Run the log server; it ends with the block. Yields its pid."""
    process = await anyio.open_process(
        [sys.executable, "-m", "bench.reliability.logserver", str(world.log)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=None,
    )
    try:
        assert process.stdout is not None
        assert process.stdin is not None
        await process.stdout.receive()
        yield process.pid
        await process.stdin.aclose()
        with anyio.fail_after(10):
            await process.wait()
    finally:
        with anyio.CancelScope(shield=True):
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.aclose()


@contextmanager
def _decoys(world: World) -> Iterator[Decoys]:
    decoys = Decoys(world)
    try:
        yield decoys
    finally:
        decoys.end()


@contextmanager
def _small_disk(world: World, *, wanted: bool) -> Iterator[bool]:
    """Put the state on a small file system of its own, if it is wanted and may be; say if it is."""
    world.state.mkdir(mode=0o700, parents=True)
    if not wanted or os.geteuid() != 0:
        yield False
        return
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", SMALL_DISK, "tmpfs", str(world.state)],
        check=False,
        capture_output=True,
    )
    try:
        yield mounted.returncode == 0
    finally:
        if mounted.returncode == 0:
            subprocess.run(["umount", "--lazy", str(world.state)], check=False)


def _keep_log(world: World) -> None:
    """Copy Treadle's own log from a disk that is about to go."""
    logs = world.state / "logs"
    if logs.is_dir():
        shutil.copytree(logs, world.root / "logs", dirs_exist_ok=True)


def _end(left: list[Left]) -> None:
    """End what a broken product left, so that the run leaves nothing; the checker knows of it."""
    for one in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(one.pid, 9)


def summary_of(verdict: Verdict, wanted: Wanted, commit: str | None) -> dict[str, object]:
    """Return the numbers of a run as JSON."""
    history = verdict.history
    states = Counter(row.state for row in history.database.inbox)
    served = [one for one in history.processes if one.kind == "gateway" and one.ready_at]
    return {
        "seed": wanted.seed,
        "commit": commit,
        "seconds": round(verdict.seconds, 1),
        "kills": verdict.kills,
        "kills_by_kind": {
            kind: sum(one.kind == kind for one in history.faults)
            for kind in ("kill_gateway", "kill_codex")
        },
        "faults": dict(sorted(verdict.made.items())),
        "gateways_served": len(served),
        "app_servers": sum(one.kind == "codex" for one in history.processes),
        "sessions": len({row.session for row in history.database.inbox}),
        "messages": dict(sorted(states.items())),
        "turns_answered": states["answered"],
        "acknowledged": len({(one.session, one.client_id) for one in history.acked}),
        "entries": len(history.database.entries),
        "engine_commits": sum(one.effect for one in history.engine),
        "effects": len(history.effects),
        "model_requests": len(history.asked),
        "exit_status": verdict.exit_status,
        "violations": dict(Counter(f"{one.promise} {one.what}" for one in verdict.violations)),
    }


__all__ = ["Broken", "NotReady", "Verdict", "Wanted", "run_under_faults", "summary_of"]
