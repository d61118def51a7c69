"""Tell hooks of the compactions that Codex makes of its own history in the middle of a turn.

Observers are told in order and beside the turn, so that a slow one holds no notification up. Knows
nothing of what a compaction does. Source: spec C-13, G-19.
"""

from __future__ import annotations

from typing import Final, Literal

import anyio

from treadle.contract.hook import CompactionObserved, HookContext, Hooks
from treadle.model.turn import CompactionFinished, CompactionStarted, RunEvent
from treadle.projection.items import BACKEND

_WAITING: Final = 100
"""Compactions that may wait to be told; past that the turn's notifications wait too."""

_Told = tuple[Literal["before_compaction", "after_compaction"], CompactionObserved]


class CompactionHooks:
    """Tells hooks of one turn's compactions; `run` belongs in a task of its own."""

    def __init__(self, hooks: Hooks, ctx: HookContext) -> None:
        """Say whom to tell, and which run it is."""
        self._hooks = hooks
        self._ctx = ctx
        self._send, self._receive = anyio.create_memory_object_stream[_Told](_WAITING)

    async def take(self, event: RunEvent) -> None:
        """Take an event of the turn; what is no compaction tells nobody anything."""
        match event:
            case CompactionStarted(details=details):
                observed = CompactionObserved(ctx=self._ctx, backend=BACKEND, details=details)
                await self._send.send(("before_compaction", observed))
            case CompactionFinished(details=details):
                observed = CompactionObserved(ctx=self._ctx, backend=BACKEND, details=details)
                await self._send.send(("after_compaction", observed))
            case _:
                pass

    async def run(self) -> None:
        """Tell until `close` was called and everything is told. Cancel: the rest is not told."""
        async with self._receive:
            async for name, observed in self._receive:
                await self._hooks.observe(name, observed)

    def close(self) -> None:
        """Say that no more will come."""
        self._send.close()
