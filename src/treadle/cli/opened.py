"""Carry a command out on an open runtime.

Knows nothing of what the command does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from treadle.cli.invocation import Invocation

if TYPE_CHECKING:
    from treadle.runtime.service import Runtime


def with_runtime(invocation: Invocation, job: Callable[[Runtime], Awaitable[int]]) -> int:
    """Open the runtime, do the job with it, close it, and return the job's exit code."""
    from treadle.cli.running import Stop, run_async

    async def opened(stop: Stop) -> int:
        del stop
        async with invocation.runtime() as runtime:
            return await job(runtime)

    return run_async(opened)
