"""What is done to a run: kills and other faults, by one seed, each written down before it is done.

Knows nothing of what should become of it.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

import anyio
import anyio.to_thread
import apsw

from bench.reliability.damage import try_damaged
from bench.reliability.logserver import LogLine
from bench.reliability.model import ChaosModel, Trouble
from bench.reliability.world import Gateway, World

WEIGHTS: Final[dict[str, float]] = {
    "kill_gateway": 6,
    "kill_codex": 5,
    "kill_both": 4,
    "stop_gateway": 1,
    "stop_codex": 1,
    "model_refuses": 0.6,
    "model_cuts": 0.6,
    "model_limits": 0.4,
    "model_slow": 0.6,
    "disk_full": 0.6,
    "locked": 0.6,
    "engine_throws": 0.6,
    "engine_hangs": 0.4,
    "client_stalls": 0.4,
    "damaged": 0.1,
}
"""How often each is chosen; `kill_both` counts as two kills."""

TROUBLES: Final[dict[str, Trouble]] = {
    "model_refuses": "refuses",
    "model_cuts": "cuts",
    "model_limits": "limits",
    "model_slow": "slow",
}

PAUSE_S: Final = (0.02, 2.5)
"""Seconds between the end of one fault, with the gateway serving, and the next one."""

HOLD_S: Final = (0.2, 2.0)
"""Seconds that a fault lasts which is no kill."""

HURRY: Final = 0.15
"""How often a started gateway is struck before it serves."""

TINY_BYTES: Final = 4096
"""Size beyond which no file may be written, where the disk cannot really be filled."""

FILL_BYTES: Final = 2**20

REST: Final = 0.05
"""How often everybody is let come to an end before the next fault."""


@dataclass(kw_only=True)
class Nemesis:
    """The maker of faults; `run` goes on until it has made enough kills or time is up."""

    world: World
    gateway: Gateway
    model: ChaosModel
    log: LogLine
    chance: Random
    kills: int
    """How many kills to make."""

    sessions: Callable[[], Sequence[str]]
    """Keys of the sessions in use now."""

    rest: Callable[[], Awaitable[None]]
    """Waits until every session has got on, between faults."""

    is_small_disk: bool = False
    """Whether the state lies on a file system of its own that may be filled."""

    made: Counter[str] = field(default_factory=Counter)
    killed: int = 0
    _number: int = 0

    async def run(self) -> None:
        """Make faults, one after the other. Raises: NotReady if a gateway does not come back."""
        kinds, weights = list(WEIGHTS), list(WEIGHTS.values())
        while self.killed < self.kills:
            await anyio.sleep(self.chance.uniform(*PAUSE_S))
            (kind,) = self.chance.choices(kinds, weights)
            self.made[kind] += 1
            await self._do(kind)
            await self._serve_again()
            if self.chance.random() < REST:
                await self.rest()

    async def make_good(self) -> None:
        """Undo what a fault that was cut short may have left, and see that a gateway serves."""
        self.model.break_with(None)
        self.world.order({})
        await self._serve_again()
        if not self.gateway.ready.is_set():
            await self.gateway.become_ready()

    async def _do(self, kind: str) -> None:
        if kind in {"kill_gateway", "kill_codex", "kill_both"}:
            await self._kill(gateway=kind != "kill_codex", codex=kind != "kill_gateway")
        elif kind == "damaged":
            await self._damaged()
        elif kind in {"engine_throws", "engine_hangs"}:
            session = self.chance.choice(list(self.sessions()))
            await self._held(kind, self._engine_broken(kind, session), session)
        elif kind in TROUBLES:
            await self._held(kind, self._model_broken(TROUBLES[kind]))
        else:
            session = "nobody" if kind == "client_stalls" else ""
            await self._held(kind, self._lasting(kind), session)

    def _lasting(self, kind: str) -> contextlib.AbstractAsyncContextManager[None]:
        match kind:
            case "stop_gateway":
                return self._stopped([self.gateway.pid])
            case "stop_codex":
                return self._stopped(self.gateway.codex_pids())
            case "disk_full":
                return self._disk_full()
            case "locked":
                return self._locked()
            case "client_stalls":
                return self._client_stalls()
            case _:
                raise ValueError(f"{kind!r} is no fault")

    # kills

    async def _kill(self, *, gateway: bool = False, codex: bool = False) -> None:
        """End one or both at once; the codex without its group, as an accident would."""
        victims = self.gateway.codex_pids() if codex else []
        if not gateway and not victims:
            return
        if gateway:
            self._tell_kill("kill_gateway", self.gateway.pid)
        for pid in victims:
            self._tell_kill("kill_codex", pid)
        for pid in [*([self.gateway.pid] if gateway else []), *victims]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if gateway:
            await self.gateway.kill()

    def _tell_kill(self, kind: str, pid: int) -> None:
        self.killed += 1
        self._number += 1
        self.log.tell("began", number=self._number, kind=kind, process=pid)

    async def _serve_again(self) -> None:
        """Start the gateway where it is gone; now and then kill it before it serves."""
        process = self.gateway.process
        while process is None or process.returncode is not None:
            await self.gateway.start()
            process = self.gateway.process
            if self.killed < self.kills and self.chance.random() < HURRY:
                await anyio.sleep(self.chance.uniform(0.05, 0.8))
                await self._kill(gateway=True)
            else:
                await self.gateway.become_ready()

    # faults that last

    async def _held(
        self,
        kind: str,
        fault: contextlib.AbstractAsyncContextManager[None],
        session: str = "",
    ) -> None:
        """Let a fault last for a while, and half the time kill somebody meanwhile."""
        async with self._told(kind, session=session), fault:
            await anyio.sleep(self.chance.uniform(*HOLD_S))
            if self.chance.random() < 0.5:
                both = self.chance.random() < 0.5
                await self._kill(gateway=True, codex=both)

    @asynccontextmanager
    async def _told(self, kind: str, *, session: str = "") -> AsyncIterator[dict[str, str]]:
        self._number += 1
        number = self._number
        self.log.tell("began", number=number, kind=kind, session=session)
        more: dict[str, str] = {}
        try:
            yield more
        finally:
            self.log.tell("ended", number=number, kind=kind, **more)

    @asynccontextmanager
    async def _stopped(self, pids: Sequence[int]) -> AsyncIterator[None]:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    @asynccontextmanager
    async def _model_broken(self, trouble: Trouble) -> AsyncIterator[None]:
        self.model.break_with(trouble)
        try:
            yield
        finally:
            self.model.break_with(None)

    @asynccontextmanager
    async def _disk_full(self) -> AsyncIterator[None]:
        """Fill the disk, or where that cannot be, let the gateway write no file any further."""
        if self.is_small_disk:
            async with self._filled(self.world.state / "filler"):
                yield
            return
        pid = self.gateway.pid
        before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (TINY_BYTES, before[1]))
        try:
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, before)

    @asynccontextmanager
    async def _filled(self, filler: Path) -> AsyncIterator[None]:
        await anyio.to_thread.run_sync(_fill, filler)
        try:
            yield
        finally:
            await anyio.to_thread.run_sync(filler.unlink)

    @asynccontextmanager
    async def _locked(self) -> AsyncIterator[None]:
        """Hold the store's write lock from this process."""
        raw = apsw.Connection(str(self.world.database), flags=apsw.SQLITE_OPEN_READWRITE)
        raw.set_busy_timeout(5000)
        try:
            # Where somebody else writes all the time, or the disk is full: not this once.
            with contextlib.suppress(apsw.BusyError, apsw.FullError, apsw.IOError):
                await anyio.to_thread.run_sync(raw.execute, "BEGIN IMMEDIATE")
            yield
        finally:
            with contextlib.suppress(apsw.Error):
                raw.execute("ROLLBACK")
            raw.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            raw.close()

    @asynccontextmanager
    async def _engine_broken(self, kind: str, session: str) -> AsyncIterator[None]:
        self.world.order({session: kind.removeprefix("engine_")})
        try:
            yield
        finally:
            self.world.order({})

    @asynccontextmanager
    async def _client_stalls(self) -> AsyncIterator[None]:
        """Follow every session and read nothing."""
        try:
            stream = await anyio.connect_unix(self.world.socket)
        except OSError:
            yield  # the gateway is not there
            return
        async with stream:
            streams = ", ".join(
                f'{{"id": "{one}", "epoch": 1, "after": 0}}' for one in self.sessions()
            )
            frames = (
                '{"id": 1, "type": "hello", "v": 1}\n'
                f'{{"id": 2, "type": "subscribe", "streams": [{streams}]}}\n'
            )
            with contextlib.suppress(anyio.BrokenResourceError):
                await stream.send(frames.encode())
            yield

    async def _damaged(self) -> None:
        """Give a damaged copy of the store to a gateway of its own, which has to refuse it."""
        async with self._told("damaged", session="nobody") as told:
            told |= await try_damaged(self.world, self.chance)


def _fill(filler: Path) -> None:
    with filler.open("wb", buffering=0) as file:
        for size in (FILL_BYTES, 4096, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"\0" * size)
