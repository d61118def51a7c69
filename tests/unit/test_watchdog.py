"""The watchdog names what blocks the loop."""

from __future__ import annotations

import threading

import anyio
import pytest

from treadle.model.json import JsonValue
from treadle.watchdog import LoopWatchdog

pytestmark = pytest.mark.anyio


async def test_a_blocked_loop_is_reported_once_with_its_stack() -> None:
    """Decision 14: the call that blocks is named while it still blocks."""
    reported = threading.Event()
    events: list[tuple[str, dict[str, JsonValue]]] = []

    def log(event: str, *, cause: BaseException | None = None, **fields: JsonValue) -> None:
        events.append((event, fields))
        reported.set()

    def block_the_loop() -> None:
        assert reported.wait(10), "nobody noticed the block"

    with anyio.fail_after(20):
        async with LoopWatchdog(log, after_s=0.05) as watchdog:
            block_the_loop()
            assert watchdog.blocked_for_s > 0
            while watchdog.blocked_for_s:
                await anyio.lowlevel.checkpoint()
    ((event, fields),) = events
    assert event == "loop.blocked"
    assert "in block_the_loop" in str(fields["stack"])


async def test_a_turning_loop_is_left_alone() -> None:
    events: list[str] = []

    def log(event: str, *, cause: BaseException | None = None, **fields: JsonValue) -> None:
        events.append(event)

    with anyio.fail_after(5):
        async with LoopWatchdog(log, after_s=60):
            await anyio.lowlevel.checkpoint()
    assert events == []
