"""Child processes as they are kept: the suite that every registry must pass."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from treadle.contract.children import (
    ChildRecord,
    ChildRegistry,
    Closed,
    ProcessIdentity,
    StartedChild,
)
from treadle.model.errors import NotFound
from treadle.store.children import KEPT
from treadle.store.open import SqliteStore, open_store
from treadle.testing.clock import START, CountedIds, ManualClock

pytestmark = pytest.mark.anyio

PARENT = ProcessIdentity(pid=7, start_ticks=70, boot_id="boot")
STARTED = StartedChild(pid=8, start_ticks=80, process_group=8, command_digest="seen")
RECORD = ChildRecord(
    id="chd_1",
    parent=PARENT,
    pid=None,
    start_ticks=None,
    process_group=None,
    command_digest="told",
    home="/h",
    registered_at=START,
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def stored(folder: Path, clock: ManualClock) -> AbstractAsyncContextManager[SqliteStore]:
    return open_store(folder / "store.sqlite3", clock=clock, ids=CountedIds())


@pytest.fixture
async def children(tmp_path: Path, clock: ManualClock) -> AsyncIterator[ChildRegistry]:
    async with stored(tmp_path, clock) as store:
        yield store.children


async def registered(children: ChildRegistry, *ids: str) -> None:
    for child_id in ids:
        await children.register(child_id, parent=PARENT, command_digest="told", home="/h")


async def test_a_child_is_kept_before_and_after_it_was_started(
    tmp_path: Path, clock: ManualClock
) -> None:
    """Spec S-11: both identities, and the next opening of the store finds them."""
    async with stored(tmp_path, clock) as store:
        await registered(store.children, "chd_1")
        assert await store.children.open_children() == (RECORD,)
        await store.children.started("chd_1", STARTED)
    async with stored(tmp_path, clock) as store:
        (found,) = await store.children.open_children()
    assert found == replace(RECORD, pid=8, start_ticks=80, process_group=8, command_digest="seen")


async def test_a_closed_child_is_no_longer_open_and_keeps_its_first_reason(
    children: ChildRegistry, clock: ManualClock
) -> None:
    """Spec S-11; doctor shows the newest first."""
    await registered(children, "chd_1", "chd_2", "chd_3")
    await children.close("chd_2", Closed.STOPPED)
    clock.advance(5)
    await children.close("chd_2", Closed.GONE)
    await children.close("chd_1", Closed.REPLACED)
    await children.close("chd_9", Closed.GONE)  # of which nothing is known: no error
    assert [one.id for one in await children.open_children()] == ["chd_3"]
    assert [
        (one.id, one.closed_at, one.closed_because) for one in await children.closed_children()
    ] == [("chd_1", START + 5, Closed.REPLACED), ("chd_2", START, Closed.STOPPED)]
    assert [one.id for one in await children.closed_children(1)] == ["chd_1"]
    assert await children.closed_children(-1) == ()


async def test_a_child_that_was_not_registered_cannot_have_started(
    children: ChildRegistry,
) -> None:
    """Ours: a row that vanished would leave a process that nobody answers for."""
    with pytest.raises(NotFound, match="chd_1"):
        await children.started("chd_1", STARTED)


async def test_only_the_newest_closed_children_are_kept(
    children: ChildRegistry, clock: ManualClock
) -> None:
    """Ours: open ones are all kept, whatever their age."""
    await registered(children, "open")
    for number in range(KEPT + 3):
        await registered(children, f"chd_{number:04}")
        clock.advance(1)
        await children.close(f"chd_{number:04}", Closed.ENDED)
    kept = await children.closed_children(10 * KEPT)
    assert len(kept) == KEPT + 1  # the last one was closed after the last row was dropped
    assert [one.id for one in await children.open_children()] == ["open"]
