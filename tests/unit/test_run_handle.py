"""Watching a run: every event once, in order, however late or slowly somebody looks."""

from __future__ import annotations

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.model.ids import ItemId, RunId, SessionKey
from treadle.model.turn import Notice, Outcome, PartDelta, RunEvent, RunFinished
from treadle.runtime.handle import RunHandle

pytestmark = pytest.mark.anyio

RUN = RunId("r_1")


def delta(at: int, text: str) -> PartDelta:
    return PartDelta(run_id=RUN, part=ItemId("m"), kind="text", at=at, text=text)


def finished(text: str = "") -> RunFinished:
    return RunFinished(
        run_id=RUN,
        outcome=Outcome.COMPLETED,
        text=text,
        error=None,
        replay_safe=True,
        partial=False,
        usage=None,
        duration_s=0.0,
    )


def handle() -> RunHandle:
    return RunHandle(RUN, SessionKey("agent:main:x"), "m_1")


async def test_a_watcher_that_comes_late_sees_everything() -> None:
    run = handle()
    await run.publish(delta(0, "ab"))
    await run.publish(delta(2, "cd"))
    await run.publish(finished("abcd"))
    seen = [event async for event in run]
    assert seen == [delta(0, "abcd"), finished("abcd")]
    assert [event async for event in run] == seen


async def test_a_watcher_gets_only_the_rest_of_a_delta_that_grew() -> None:
    run = handle()
    seen: list[RunEvent] = []
    first = anyio.Event()

    async def watch() -> None:
        async for event in run:
            seen.append(event)
            first.set()

    async with anyio.create_task_group() as group:
        await run.publish(delta(0, "ab"))
        group.start_soon(watch)
        with anyio.fail_after(5):
            await first.wait()
        await run.publish(delta(2, "cd"))
        await run.publish(finished())
    assert seen == [delta(0, "ab"), delta(2, "cd"), finished()]


async def test_a_delta_of_another_offset_is_not_joined() -> None:
    run = handle()
    await run.publish(delta(0, "ab"))
    await run.publish(delta(0, "ab"))
    await run.publish(finished())
    assert len([event async for event in run]) == 3


async def test_nothing_follows_the_end() -> None:
    run = handle()
    await run.publish(finished())
    await run.publish(Notice(run_id=RUN, code="late", text="late"))
    assert [event async for event in run] == [finished()]
    assert await run.result() == finished()


async def test_an_interrupt_is_asked_once() -> None:
    run = handle()
    run.interrupt("first")
    run.interrupt("second")
    assert run.abort.reason == "first"


@given(st.lists(st.text(min_size=1, max_size=900), max_size=40))
def test_the_text_of_all_deltas_is_whole(texts: list[str]) -> None:
    async def play() -> None:
        run = handle()
        at = 0
        for text in texts:
            await run.publish(delta(at, text))
            at += len(text)
        await run.publish(finished())
        parts = [event.text async for event in run if isinstance(event, PartDelta)]
        assert "".join(parts) == "".join(texts)

    anyio.run(play)
