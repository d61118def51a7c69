"""Load every context engine once, as `engines list` and `doctor` do; no engine is made."""

from __future__ import annotations

import anyio.to_thread

from treadle.clock import SystemClock
from treadle.config.settings import Settings
from treadle.engines.registry import EngineRegistry
from treadle.engines.resolution import EngineFault, EngineListing
from treadle.foreign import ForeignCalls
from treadle.observe import emit


async def checked_engines(
    settings: Settings,
) -> tuple[tuple[EngineListing, ...], tuple[EngineFault, ...]]:
    """Return all engines, those that fail to load quarantined, and the refused entry points."""
    clock = SystemClock()
    async with ForeignCalls(emit, monotonic=clock.monotonic) as foreign:
        registry = EngineRegistry(foreign, settings.deadlines, clock)
        await anyio.to_thread.run_sync(registry.discover)
        listed = await registry.check()
        return listed, registry.refused
