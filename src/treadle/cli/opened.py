"""Carry a command out on an open face: here, or in the process that owns the state directory.

Knows nothing of what the command does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from treadle.cli.invocation import Invocation

if TYPE_CHECKING:
    from treadle.gateway.face import Face


def with_face(invocation: Invocation, job: Callable[[Face], Awaitable[int]]) -> int:
    """Open the face, do the job with it, close it, and return the job's exit code."""
    from treadle.cli.running import Stop, run_async

    async def opened(stop: Stop) -> int:
        del stop
        async with invocation.face() as face:
            return await job(face)

    return run_async(opened)
