"""Stop a process that is not our child, and see its end; decides nothing.

It is held by a pidfd from before the last look at its identity until after the last signal, so that
no signal can reach another process that was given the same pid meanwhile.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass

from anyio import create_task_group, move_on_after, to_thread, wait_readable

from treadle.observe import emit
from treadle.wire.children.policy import Target
from treadle.wire.children.table import start_ticks_of


@dataclass(frozen=True, slots=True, kw_only=True)
class StopLimits:
    """How long each step may take, in seconds."""

    term_s: float = 2.0
    """From SIGTERM to the end; then SIGKILL."""

    kill_s: float = 5.0
    """From SIGKILL to the end; only the kernel can be late then."""


async def stop_all(targets: Sequence[Target], limits: StopLimits) -> tuple[Target, ...]:
    """Stop them side by side; return those whose end could not be seen.

    Raises: OSError where the system has no pidfd or refuses the signal. Cancel: some may still run.
    """
    left: list[Target] = []
    failures: list[OSError] = []

    async def stop(target: Target) -> None:
        try:
            if not await _stopped(target, limits):
                left.append(target)
        except OSError as error:  # carried out of the group, which would wrap it
            failures.append(error)

    async with create_task_group() as group:
        for target in targets:
            group.start_soon(stop, target)
    if failures:
        raise failures[0]
    return tuple(left)


async def _stopped(target: Target, limits: StopLimits) -> bool:
    held = await to_thread.run_sync(_hold, target)
    if held is None:
        return True
    try:
        if not target.is_deaf and _signalled(held, signal.SIGTERM):
            emit("wire.orphan_signalled", pid=target.pid, signal="SIGTERM")
            if await _ended(held, limits.term_s):
                return True
        _signalled(held, signal.SIGKILL)
        emit("wire.orphan_signalled", pid=target.pid, signal="SIGKILL")
        return await _ended(held, limits.kill_s)
    finally:
        os.close(held)


def _hold(target: Target) -> int | None:
    """Return a pidfd of exactly this process; None if it is gone. Raises: OSError."""
    try:
        held = os.pidfd_open(target.pid)
    except ProcessLookupError:
        return None
    if start_ticks_of(target.pid) == target.start_ticks:
        return held
    os.close(held)
    return None


def _signalled(held: int, number: signal.Signals) -> bool:
    """Send it; False if the process has ended. Raises: OSError (PermissionError)."""
    try:
        signal.pidfd_send_signal(held, number)
    except ProcessLookupError:
        return False
    return True


async def _ended(held: int, within_s: float) -> bool:
    """Wait for the end: the descriptor of an ended process is readable."""
    with move_on_after(within_s):
        await wait_readable(held)
        return True
    return False
