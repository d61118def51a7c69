"""One run a session at a time, in the order of asking, and a cap over all sessions."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from treadle.model.ids import SessionKey
from treadle.queue.lanes import Lanes, default_capacity

pytestmark = pytest.mark.anyio

ONE, TWO, THREE = (SessionKey(f"agent:main:{name}") for name in ("one", "two", "three"))


async def test_runs_of_one_session_take_turns_in_the_order_of_asking() -> None:
    """Spec A-14: while one holds the session's lane, no other run touches the session."""
    lanes = Lanes(capacity=8)
    order: list[str] = []
    inside = anyio.Event()
    leave = anyio.Event()

    async def first() -> None:
        async with lanes.hold(ONE):
            order.append("first in")
            inside.set()
            await leave.wait()
            order.append("first out")

    async def later(name: str) -> None:
        async with lanes.hold(ONE):
            order.append(name)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(first)
            await inside.wait()
            for number, name in enumerate(("second", "third")):
                group.start_soon(later, name)
                while lanes.waiting(ONE) < number + 2:
                    await anyio.lowlevel.checkpoint()
            async with lanes.hold(TWO):
                order.append("another session")
            leave.set()
    assert order == ["first in", "another session", "first out", "second", "third"]
    assert lanes.waiting(ONE) == 0


async def test_the_cap_holds_over_all_sessions() -> None:
    """Spec A-14, A-15: with two places a third session waits for one of them."""
    lanes = Lanes(capacity=2)
    got_in = anyio.Event()

    async def third() -> None:
        async with lanes.hold(THREE):
            got_in.set()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group, lanes.hold(ONE):
            async with lanes.hold(TWO):
                group.start_soon(third)
                await anyio.wait_all_tasks_blocked()
                assert not got_in.is_set()
            await got_in.wait()


async def waits(lanes: Lanes) -> None:
    async with lanes.hold(ONE):
        pytest.fail("two runs in one lane")


async def test_a_run_that_gives_up_waiting_leaves_its_place() -> None:
    """Spec A-14: a cancelled waiter holds nobody up."""
    lanes = Lanes(capacity=8)
    with anyio.fail_after(5):
        async with lanes.hold(ONE):
            async with anyio.create_task_group() as group:
                group.start_soon(waits, lanes)
                await anyio.wait_all_tasks_blocked()
                assert lanes.waiting(ONE) == 2
                group.cancel_scope.cancel()
            assert lanes.waiting(ONE) == 1
        async with lanes.hold(ONE):
            pass


def test_the_usual_cap_follows_the_processors() -> None:
    """Spec A-15."""
    assert [default_capacity(cores) for cores in (1, 2, 16)] == [8, 8, 64]
