"""An app-server that says nothing for long is waited for; only time budgets end a turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from anyio.lowlevel import checkpoint

from tests.turn.rig import Rig
from treadle.model.turn import Outcome, TurnStarted
from treadle.testing.clock import ManualClock

pytestmark = pytest.mark.anyio

SILENCE_S = 600.0
"""Ten minutes."""

CYCLES = 200
"""Rounds of the event loop in which everything that has come due gets its turn."""


class ShiftedLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock a test can put forward, so that deadlines come due."""

    def __init__(self) -> None:
        super().__init__()
        self._shift_s = 0.0

    def time(self) -> float:
        """Return the monotonic time of a machine on which that much more has passed."""
        return super().time() + self._shift_s

    def pass_time(self, seconds: float) -> None:
        """Let so much time pass at once."""
        self._shift_s += seconds


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Callable[[], asyncio.AbstractEventLoop]]]:
    """Run on a loop of shifted time."""
    return ("asyncio", {"loop_factory": ShiftedLoop})


async def let_pass(clock: ManualClock, seconds: float) -> None:
    """Let time pass for the product and for the loop, and let what is due be done."""
    clock.advance(seconds)
    loop = asyncio.get_running_loop()
    assert isinstance(loop, ShiftedLoop)
    loop.pass_time(seconds)
    for _ in range(CYCLES):
        await checkpoint()


BEGUN: list[dict[str, Any]] = [
    {"answer": {"turn": {"id": "$turn", "items": [], "status": "inProgress", "error": None}}},
    {
        "tell": {
            "method": "turn/started",
            "params": {"threadId": "$thread", "turn": {"id": "$turn", "status": "inProgress"}},
        }
    },
]
"""A turn that has begun, and of which nothing more is heard."""


async def test_ten_minutes_of_silence_end_no_turn(tmp_path: Path) -> None:
    """RS11, spec A-18: no idle time-out; the turn completes when the app-server goes on."""
    rig = Rig(root=tmp_path)
    clock = ManualClock()
    rig.codex.once("turn/start", BEGUN)
    async with rig.opened(clock=clock) as runtime:
        handle = runtime.session("t").run("hello")
        async for event in handle:
            if isinstance(event, TurnStarted):
                await let_pass(clock, SILENCE_S)
                assert handle.finished is None
                rig.links[-1].play([{"turn": {"text": "at last"}}], thread="thread-1")
        end = await handle.result()
    assert (end.outcome, end.text) == (Outcome.COMPLETED, "at last")
    assert "turn/interrupt" not in rig.methods()
    assert len(rig.links) == 1


async def test_the_same_silence_over_a_budget_ends_the_turn(tmp_path: Path) -> None:
    """Spec A-17: so the deadlines of this loop do come due."""
    rig = Rig(root=tmp_path, keys={("agents", "defaults", "timeoutSeconds"): 300})
    clock = ManualClock()
    rig.codex.once("turn/start", BEGUN)
    rig.codex.on("turn/interrupt", [{"answer": {}}, {"turn": {"status": "interrupted"}}])
    async with rig.opened(clock=clock) as runtime:
        handle = runtime.session("t").run("hello")
        async for event in handle:
            if isinstance(event, TurnStarted):
                await let_pass(clock, SILENCE_S)
        end = await handle.result()
    assert end.outcome is Outcome.TIMED_OUT
    assert "turn/interrupt" in rig.methods()
