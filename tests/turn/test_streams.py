"""The streams of a service: what a run's watcher sees is what is stored, in the same order."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from tests.turn.rig import Rig
from treadle.contract.events import GLOBAL_STREAM, StreamEvent
from treadle.model.ids import StreamId
from treadle.model.turn import EntryCommitted, PartDelta, PartValue
from treadle.runtime.service import Runtime
from treadle.runtime.streams import Watch

pytestmark = pytest.mark.anyio

STREAM = StreamId("agent:main:t")


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(root=tmp_path)


async def stored(runtime: Runtime, after: int = 0) -> list[StreamEvent]:
    await runtime.streams.flush()
    return list(await runtime.streams.read(STREAM, after=after, limit=1000))


async def test_a_turn_is_stored_event_by_event_in_the_order_of_its_watcher(rig: Rig) -> None:
    """Ours: durable events are numbered without a gap, and name their run and turn."""
    async with rig.opened() as runtime:
        rig.answers("Good morning.", "And again.")
        session = runtime.session("t")
        await rig.say(session, "first")
        before = (await stored(runtime))[-1].seq
        turn = await rig.say(session, "second")
        events = await stored(runtime, before)
    durable = [one for one in turn.events if not isinstance(one, PartDelta | PartValue)]
    assert [one.type for one in events] == [one.type for one in durable]
    assert [one.seq for one in events] == list(range(before + 1, before + 1 + len(durable)))
    assert {one.run_id for one in events} == {turn.finished.run_id}
    told = [one.data["entry"] for one in events if one.type == "entry.committed"]
    seen = [one.entry.id for one in durable if isinstance(one, EntryCommitted)]
    assert [one["id"] for one in told if isinstance(one, dict)] == seen
    assert events[-1].data["text"] == "And again."
    assert events[-1].turn_id is not None


async def test_a_watcher_is_given_deltas_between_the_events_they_came_between(rig: Rig) -> None:
    """Ours: a delta carries the number of the last durable event before it."""
    seen: list[tuple[int, str]] = []

    async def follow(watch: Watch, runtime: Runtime) -> None:
        cursor = 0
        while not seen or seen[-1][1] != "run.finished":
            await watch.changed()
            for one in await runtime.streams.read(STREAM, after=cursor, limit=100):
                seen.extend((p.base, "delta") for p in watch.backlog.take(cursor))
                seen.append((one.seq, one.type))
                cursor = one.seq

    async with rig.opened() as runtime:
        rig.answers("one two", deltas=["one", " two"])
        with anyio.fail_after(20), runtime.streams.watch(STREAM) as watch:
            async with anyio.create_task_group() as group:
                group.start_soon(follow, watch, runtime)
                await rig.say(runtime.session("t"), "hello")
    kinds = [kind for _, kind in seen]
    assert kinds.index("turn.started") < kinds.index("delta") < kinds.index("run.finished")
    assert [number for number, _ in seen] == sorted(number for number, _ in seen)


async def test_nothing_waits_in_memory_for_a_stream_that_nobody_watches(rig: Rig) -> None:
    """INV-17."""
    async with rig.opened() as runtime:
        rig.answers("Good morning.")
        with runtime.streams.watch(GLOBAL_STREAM) as watch:
            await rig.say(runtime.session("t"), "hello")
            await runtime.streams.flush()
        assert watch.backlog.waiting == []
        assert runtime.store.events.waiting(STREAM) == 0
        assert runtime.streams.snapshot(STREAM) == {"runs": []}


async def test_what_a_client_saw_before_a_restart_is_still_there(rig: Rig) -> None:
    """INV-5, cursor rule 2: closing stores what waits, and the numbers go on."""
    async with rig.opened() as runtime:
        rig.answers("one", "two")
        await rig.say(runtime.session("t"), "hello")
    async with rig.opened() as runtime:
        before = await stored(runtime)
        assert before[-1].type == "run.finished"
        head = runtime.streams.head(STREAM)
        await rig.say(runtime.session("t"), "again")
        assert (await stored(runtime))[: len(before)] == before
        assert runtime.streams.head(STREAM).epoch == head.epoch


async def test_a_power_cut_begins_a_new_epoch_of_every_stream(rig: Rig) -> None:
    """Ours: what a client saw may be undone by one, so it is told to look anew."""
    async with rig.opened() as runtime:
        rig.answers("one")
        await rig.say(runtime.session("t"), "hello")
        epoch = runtime.streams.head(STREAM).epoch
    lock = rig.state / "owner.lock"
    lock.write_text(lock.read_text("ascii").replace("boot_id ", "boot_id x"), "ascii")
    async with rig.opened() as runtime:
        assert runtime.streams.head(STREAM).epoch == epoch + 1
