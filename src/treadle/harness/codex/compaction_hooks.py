"""Tell hooks of the compactions that Codex makes of its own history in the middle of a turn.

Observers are told in order and beside the turn, so that a slow one holds no notification up. Knows
nothing of what a compaction does. Source: spec C-13, G-19.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Literal

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from treadle.contract.harness import Emit
from treadle.contract.hook import CompactionObserved, HookContext, Hooks
from treadle.model.turn import CompactionFinished, CompactionStarted, RunEvent
from treadle.projection.items import BACKEND

_WAITING: Final = 100
"""Compactions that may wait to be told; past that the turn's notifications wait too."""

_Told = tuple[Literal["before_compaction", "after_compaction"], CompactionObserved]


@asynccontextmanager
async def telling_hooks(hooks: Hooks, ctx: HookContext, emit: Emit) -> AsyncIterator[Emit]:
    """Give an `emit` that also notes compactions; leave once hooks were told of all of them.

    Cancel: the rest is not told.
    """
    send, receive = anyio.create_memory_object_stream[_Told](_WAITING)

    async def take(event: RunEvent) -> None:
        await emit(event)
        match event:
            case CompactionStarted(details=details):
                observed = CompactionObserved(ctx=ctx, backend=BACKEND, details=details)
                await send.send(("before_compaction", observed))
            case CompactionFinished(details=details):
                observed = CompactionObserved(ctx=ctx, backend=BACKEND, details=details)
                await send.send(("after_compaction", observed))
            case _:
                pass

    async with anyio.create_task_group() as group:
        group.start_soon(_tell, hooks, receive)
        with send:
            yield take


async def _tell(hooks: Hooks, receive: MemoryObjectReceiveStream[_Told]) -> None:
    with receive:
        async for name, observed in receive:
            await hooks.observe(name, observed)
