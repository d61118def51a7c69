"""Carry an async command out: the loop, the signals, and what they come to.

The first Ctrl-C or SIGTERM asks the command to stop in its own way, if it has said how; the second,
or the first where it has not, cancels it. Knows nothing of what the command does.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio

from treadle.cli.exit_codes import Exit

Gentle = Callable[[int], bool]
"""Asks what runs to stop, for a signal; False: nothing runs, so that the command is cancelled."""


class Stop:
    """What the signals have asked for so far."""

    def __init__(self, scope: anyio.CancelScope) -> None:
        self._scope = scope
        self._gentle: Gentle | None = None
        self._asked = 0
        self.signal: int | None = None
        """The signal that ends the command; None as long as none does."""

    def gently(self, ask: Gentle | None) -> None:
        """Say how the command is asked to stop; None takes it back."""
        self._gentle, self._asked = ask, 0

    def take(self, number: int) -> None:
        """Act on a signal."""
        self._asked += 1
        if self._asked == 1 and self._gentle is not None and self._gentle(number):
            return
        self.signal = number
        self._scope.cancel()


@asynccontextmanager
async def stoppable() -> AsyncIterator[Stop]:
    """Listen to SIGINT and SIGTERM until the block ends; cancelled, it ends without an error."""
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        stop = Stop(group.cancel_scope)
        await group.start(_listen, stop)
        try:
            yield stop
        except Exception as error:  # carried out of the group, which would wrap it
            failure = error
        finally:
            group.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _listen(
    stop: Stop, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for number in signals:
            stop.take(number)


def run_async(job: Callable[[Stop], Awaitable[int]]) -> int:
    """Run the job and return its exit code, or that of the signal that ended it."""
    return anyio.run(_stopped, job)


async def _stopped(job: Callable[[Stop], Awaitable[int]]) -> int:
    code = int(Exit.INTERRUPTED)
    async with stoppable() as stop:
        code = await job(stop)
    return code if stop.signal is None else 128 + stop.signal
