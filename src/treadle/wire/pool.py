"""Share app-servers: one for each home and set of launch settings, held by leases.

A client lives in a task of its own and ends when it is retired and its last lease is over, when its
app-server is lost, or when the pool closes. A new start after a failure waits by full-jitter
backoff. Knows no session.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from anyio import (
    TASK_STATUS_IGNORED,
    Event,
    Lock,
    create_task_group,
    current_time,
    move_on_after,
    sleep,
    to_thread,
)
from anyio.abc import TaskGroup, TaskStatus

from treadle.model.errors import ProcessExited, ProcessStartError
from treadle.observe import emit
from treadle.wire.client import CodexClient
from treadle.wire.launch import LaunchKey

BACKOFF_BASE_S: Final = 0.25
"""Longest wait after the first failure, in seconds; doubles with each further one."""

BACKOFF_CAP_S: Final = 8.0
"""Longest wait of all, in seconds."""

STEADY_S: Final = 60.0
"""A client that lived this long, in seconds, wipes out the failures before it."""

Connect = Callable[[LaunchKey], AbstractAsyncContextManager[CodexClient]]
"""Opens a client for a key (`compose` binds binary, environment and settings)."""


def backoff_s(failures: int, chance: float) -> float:
    """Return the wait before the next start in seconds: `chance` (0 to 1) of a doubling bound."""
    if failures <= 0:
        return 0.0
    return chance * min(BACKOFF_CAP_S, BACKOFF_BASE_S * 2.0 ** min(failures - 1, 16))


@dataclass(slots=True, eq=False)
class _Held:
    """A running client and who has it."""

    client: CodexClient
    leases: int = 0
    released: Event = field(default_factory=Event)
    """Set when it is retired or closing and no lease is left."""
    ended: Event = field(default_factory=Event)
    """Set when its app-server, and all that this had started, is gone."""


@dataclass(slots=True)
class _Place:
    """What the pool knows of one key."""

    lock: Lock = field(default_factory=lambda: Lock(fast_acquire=True))
    held: _Held | None = None
    failures: int = 0


class ClientPool:
    """Leases of clients; made by `open_pool`."""

    def __init__(self, group: TaskGroup, connect: Connect, chance: Callable[[], float]) -> None:
        self._group = group
        self._connect = connect
        self._chance = chance
        self._places: dict[LaunchKey, _Place] = {}
        self._all: set[_Held] = set()
        self._is_draining = False
        self._idle = Event()

    @property
    def clients(self) -> tuple[CodexClient, ...]:
        """Every client that runs, retired ones too."""
        return tuple(held.client for held in self._all)

    @asynccontextmanager
    async def lease(self, key: LaunchKey) -> AsyncIterator[CodexClient]:
        """Give a usable client of that key; several leases share one.

        The client may be lost or become doubtful while it is held; a new lease then gets a fresh
        one. Raises: ProcessStartError, VersionUnsupported, ProcessExited while draining. Cancel:
        nothing is held.
        """
        held = await self._acquire(key)
        try:
            yield held.client
        finally:
            self._release(held)

    def is_warm(self, key: LaunchKey) -> bool:
        """Whether a lease would start nothing."""
        place = self._places.get(key)
        return place is not None and place.held is not None and place.held.client.is_usable

    async def drain(self, timeout_s: float) -> bool:
        """Give no new lease and wait until none is held; False if some still were at the end."""
        self._is_draining = True
        with move_on_after(timeout_s):
            while any(held.leases for held in self._all):
                self._idle = Event()
                await self._idle.wait()
        return not any(held.leases for held in self._all)

    async def _acquire(self, key: LaunchKey) -> _Held:
        place = self._places.setdefault(key, _Place())
        async with place.lock:
            if self._is_draining:
                raise ProcessExited("Treadle is shutting down and starts nothing new.")
            if place.held is not None and not place.held.client.is_usable:
                await self._give_up(place.held)
                place.held = None
            if place.held is None:
                await self._start(key, place)
            assert place.held is not None
            place.held.leases += 1
            return place.held

    @staticmethod
    async def _give_up(held: _Held) -> None:
        """Wait for its end, so that no command of a dead app-server runs beside the next one.

        A doubtful one that somebody still has ends later, when it is given back.
        """
        if held.leases == 0:
            held.released.set()
        if held.leases == 0 or held.client.is_lost:
            await held.ended.wait()

    async def _start(self, key: LaunchKey, place: _Place) -> None:
        wait_s = backoff_s(place.failures, self._chance())
        if wait_s > 0:
            emit("wire.backed_off", wait_s=wait_s, failures=place.failures)
            await sleep(wait_s)
        outcome: _Held | Exception = await self._group.start(self._keep, key, place)
        if isinstance(outcome, Exception):
            place.failures += 1
            raise outcome
        place.held = outcome

    async def _keep(
        self,
        key: LaunchKey,
        place: _Place,
        *,
        task_status: TaskStatus[_Held | Exception] = TASK_STATUS_IGNORED,
    ) -> None:
        """Own one client from its start to its end."""
        held: _Held | None = None
        began = current_time()
        try:
            async with self._connect(key) as client:
                held = _Held(client)
                self._all.add(held)
                task_status.started(held)
                await self._until_over(held)
                self._count_failure(place, held, current_time() - began)
        except Exception as error:
            if held is not None:
                raise
            task_status.started(error)
        finally:
            if held is not None:
                self._forget(place, held)
                held.ended.set()

    @staticmethod
    async def _until_over(held: _Held) -> None:
        async with create_task_group() as group:

            async def watch() -> None:
                await held.client.wait_lost()
                group.cancel_scope.cancel()

            group.start_soon(watch)
            await held.released.wait()
            group.cancel_scope.cancel()

    @staticmethod
    def _count_failure(place: _Place, held: _Held, lived_s: float) -> None:
        if lived_s >= STEADY_S:
            place.failures = 0
        if held.client.is_lost:
            place.failures += 1

    def _release(self, held: _Held) -> None:
        held.leases -= 1
        if held.leases == 0:
            self._idle.set()
            if not held.client.is_usable:
                held.released.set()

    def _forget(self, place: _Place, held: _Held) -> None:
        self._all.discard(held)
        if place.held is held:
            place.held = None
        self._idle.set()


@asynccontextmanager
async def open_pool(connect: Connect, chance: Callable[[], float]) -> AsyncIterator[ClientPool]:
    """Open a pool; at the end every client is stopped and its exit observed.

    `chance` gives numbers from 0 to 1 for the backoff's jitter. Cancel: as at the end.
    """
    failure: Exception | None = None
    async with create_task_group() as group:
        pool = ClientPool(group, connect, chance)
        try:
            yield pool
        except Exception as error:  # carried out of the group, which would wrap it
            failure = error
        finally:
            group.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def prepare_home(home: Path) -> None:
    """Make a `CODEX_HOME` that only its user may enter. Raises: ProcessStartError.

    Codex makes folders 0755 (F11), so an existing one is closed again. A link is refused: it could
    lead anywhere.
    """
    await to_thread.run_sync(_prepare_home, home)


def _prepare_home(home: Path) -> None:
    try:
        for folder in reversed((home, *home.parents)):
            folder.mkdir(mode=0o700, exist_ok=True)  # `parents=True` would leave those open
        if home.is_symlink():
            raise ProcessStartError(f"CODEX_HOME {str(home)!r} is a link, which is not followed.")
        if home.stat().st_mode & 0o077:
            home.chmod(0o700)
    except OSError as error:
        raise ProcessStartError(
            f"CODEX_HOME {str(home)!r} cannot be made private: {error}",
            next_step="Choose a folder of yours, or repair its owner and modes.",
        ) from error
