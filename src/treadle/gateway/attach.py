"""Attach to the process that owns a state directory, or become its owner for a while.

Whoever comes first owns it; the others attach, and where the owner ends, the next one that needs it
becomes it. Knows nothing of requests. Source: INV-4, RS26.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
from anyio.abc import TaskGroup, TaskStatus

from treadle.config.state_dir import living_owner
from treadle.gateway.client import GatewayClient, open_client
from treadle.model.errors import (
    GatewayLost,
    GatewayUnreachable,
    OwnerRefused,
    StateDirectoryRefused,
)
from treadle.model.json import JsonObject

if TYPE_CHECKING:
    from treadle.gateway.server import Gateway
    from treadle.runtime.service import Runtime

POLL_S: Final = 0.1
"""Seconds between two tries while the owner starts or ends."""

STARTING_S: Final = 30.0
"""Seconds for an owner that does not listen yet: every session is usable within them (INV-18)."""

ENDING_S: Final = 600.0
"""Seconds for an owner that lets its last runs end."""

TELL_AFTER_S: Final = 1.0
"""Seconds of waiting after which a person is told why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """The state directory is ours: the open runtime, and the gateway that lets others in."""

    runtime: Runtime
    gateway: Gateway


Target = Owned | GatewayClient
Own = Callable[[], AbstractAsyncContextManager[Owned]]
"""Opens all as the owner. Raises: StateDirectoryRefused, with an `owner_pid` where it is held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What this process needs of its owner."""

    offline: bool = False
    """Whether the model has to be the offline one; without it, whichever the owner has."""

    config_file: Path | None = None
    """The configuration that somebody named; None where nobody did."""

    submits: bool = False
    """Whether messages will be sent; an owner that is about to end answers questions only."""


@dataclass(frozen=True, slots=True)
class _NotYet:
    """Nobody answers yet, or no longer."""

    why: str
    limit_s: float


@dataclass(slots=True, eq=False)
class _Held:
    target: Target
    done: anyio.Event


class Attachment:
    """Holds on to whoever owns the state directory; made by `attach`."""

    def __init__(
        self, state: Path, wish: Wish, own: Own, group: TaskGroup, tell: Callable[[str], None]
    ) -> None:
        self._state = state
        self._wish = wish
        self._own = own
        self._group = group
        self._tell = tell
        self._held: _Held | None = None
        self._changing = anyio.Lock()

    async def target(self) -> Target:
        """Return who answers now: the gateway that we are attached to, or what is ours.

        Raises: GatewayUnreachable, OwnerRefused, and whatever opening as the owner raises.
        """
        async with self._changing:
            held = self._held
            if held is not None and not _is_lost(held.target):
                return held.target
            self._held = await self._found()
            return self._held.target

    async def leave(self, target: Target) -> None:
        """Give a gateway up that is about to end; what is ours stays."""
        async with self._changing:
            if self._held is not None and self._held.target is target and not _is_ours(target):
                self._held.done.set()
                self._held = None

    def close(self) -> None:
        """Let go: end the connection, or what is ours once the runs of others are over."""
        if self._held is not None:
            self._held.done.set()

    async def _found(self) -> _Held:
        began = anyio.current_time()
        told = False
        while isinstance(found := await self._try(), _NotYet):
            waited_s = anyio.current_time() - began
            if waited_s > found.limit_s:
                raise GatewayUnreachable(
                    f"{self._holder()} owns the state directory {str(self._state)!r} and"
                    f" {found.why}",
                    next_step="Look with treadle status.",
                )
            if waited_s > TELL_AFTER_S and not told:
                self._tell(f"{self._holder()} owns the state directory and {found.why}; waiting.")
                told = True
            await anyio.sleep(POLL_S)
        return found

    async def _try(self) -> _Held | _NotYet:
        try:
            held: _Held = await self._group.start(self._connect)
        except GatewayUnreachable:
            return await self._try_to_own()
        except GatewayLost:
            return _NotYet("does not answer", STARTING_S)
        assert isinstance(held.target, GatewayClient)
        about = held.target.about
        if self._wish.submits and about.get("accepting") is not True:
            held.done.set()
            return _NotYet("is about to end", ENDING_S)
        try:
            check_owner(about, self._wish)
        except OwnerRefused:
            held.done.set()
            raise
        return held

    async def _try_to_own(self) -> _Held | _NotYet:
        try:
            held: _Held = await self._group.start(self._be_owner)
        except StateDirectoryRefused as error:
            if "owner_pid" not in error.fields or error.fields.get("owner_role") == "library":
                raise
            return _NotYet("does not listen yet", STARTING_S)
        return held

    def _holder(self) -> str:
        owner = living_owner(self._state)
        return "Another process" if owner is None else f"Process {owner['pid']}"

    async def _connect(self, *, task_status: TaskStatus[_Held] = anyio.TASK_STATUS_IGNORED) -> None:
        """Hold a connection until it is given up or lost."""
        async with open_client(self._state) as client:
            held = _Held(client, anyio.Event())
            task_status.started(held)
            await held.done.wait()

    async def _be_owner(
        self, *, task_status: TaskStatus[_Held] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Hold the state directory; at the end wait for the runs of those that attached."""
        async with self._own() as owned:
            held = _Held(owned, anyio.Event())
            task_status.started(held)
            await held.done.wait()
            await self._wait_for_others(owned)

    async def _wait_for_others(self, owned: Owned) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self._tell_of_others, owned)
            await owned.gateway.drain(None)
            group.cancel_scope.cancel()

    async def _tell_of_others(self, owned: Owned) -> None:
        await anyio.sleep(TELL_AFTER_S)
        count = len(owned.runtime.running)
        self._tell(
            f"Runs of other commands go on in this process ({count}); it ends with them."
            " Ctrl-C ends it now."
        )


def _is_ours(target: Target) -> bool:
    return isinstance(target, Owned)


def _is_lost(target: Target) -> bool:
    return isinstance(target, GatewayClient) and target.is_lost


def check_owner(about: JsonObject, wish: Wish) -> None:
    """Pass if the owner can do what this process needs.

    Raises: OwnerRefused for what only the owner can decide, when it starts. Pure.
    """
    pid = about.get("pid")
    if wish.offline and about.get("offline") is not True:
        raise OwnerRefused(
            f"process {pid} owns the state directory and does not run the offline model",
            next_step="Leave --offline out, or stop that process first: treadle stop.",
        )
    named, theirs = wish.config_file, about.get("config_file")
    if named is not None and str(named) != theirs:
        raise OwnerRefused(
            f"process {pid} owns the state directory and was started with the configuration"
            f" {theirs!r}, not {str(named)!r}",
            next_step="Leave the configuration out, or stop that process first: treadle stop.",
        )


@asynccontextmanager
async def attach(
    state: Path, wish: Wish, own: Own, tell: Callable[[str], None]
) -> AsyncIterator[Attachment]:
    """Attach to the owner of a state directory, or own it, until the block ends.

    `tell` is given one line at a time for a person who waits. At the end of what is ours, the runs
    of those that attached are waited for. Raises: as `Attachment.target`. Cancel: nobody is waited
    for.
    """
    failure: BaseException | None = None
    async with anyio.create_task_group() as group:
        attachment = Attachment(state, wish, own, group, tell)
        try:
            await attachment.target()
            yield attachment
        except BaseException as error:  # carried out of the group, which would wrap it
            failure = error
        attachment.close()
    if failure is not None:
        raise failure
