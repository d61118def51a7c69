"""Child sessions over the store: the rows of the table in `contract.subagents`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.contract.test_store_lives import TURN_1, TURN_2, add, bind, keys, known, notice, turn
from treadle.contract.store import OpenTurn, SessionRecord
from treadle.contract.subagents import Subagent
from treadle.model.errors import NotFound
from treadle.model.ids import AgentId, RunId, SessionKey
from treadle.store.open import SqliteStore, open_store
from treadle.testing.clock import START, CountedIds, ManualClock

pytestmark = pytest.mark.anyio

PARENT = SessionKey("agent:main:work")
CHILD = SessionKey("agent:main:sub:1")
FORK = Subagent(key=CHILD, parent_key=PARENT, context_mode="fork", engine_id="e")
ISOLATED = replace(FORK, context_mode="isolated")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(tmp_path: Path, clock: ManualClock) -> AsyncIterator[SqliteStore]:
    async with open_store(tmp_path / "treadle.db", clock=clock, ids=CountedIds()) as opened:
        yield opened


@pytest.fixture
async def parent(store: SqliteStore) -> SessionRecord:
    record = await store.sessions.open(PARENT, agent_id=AgentId("main"), owner="anna", cwd="/a")
    await store.sessions.update(PARENT, title="T", settings={"model": "x"})
    for run in ("r1", "r2"):
        await add(store, record.id, run, *turn(run))
    await add(store, record.id, "r2", notice("r2"))
    return await known(store, PARENT)


async def begun(store: SqliteStore, child: Subagent) -> SessionRecord:
    await store.subagents.prepare(child)
    return await store.subagents.begin(child.key)


async def test_an_isolated_child_begins_empty_in_its_parents_surroundings(
    store: SqliteStore, parent: SessionRecord
) -> None:
    """Spec B-20."""
    made = await begun(store, ISOLATED)
    assert (made.entry_count, made.title, made.owner, made.cwd) == (0, "", "anna", "/a")
    assert made.settings == {"model": "x"}
    child = await store.subagents.get(CHILD)
    assert child == replace(ISOLATED, state="live")
    assert await store.subagents.of(PARENT) == (child,)
    assert await store.subagents.get(PARENT) is None


async def test_a_fork_holds_what_its_parent_does(store: SqliteStore, parent: SessionRecord) -> None:
    """Spec B-20."""
    made = await begun(store, FORK)
    assert await keys(store, made.id) == TURN_1 + TURN_2
    await add(store, made.id, "c", *turn("c"))
    assert await keys(store, parent.id) == TURN_1 + TURN_2
    assert (await store.check()).faults == ()


async def test_a_fork_leaves_out_the_turn_that_is_still_running(
    store: SqliteStore, parent: SessionRecord
) -> None:
    """Ours: a tool of that very turn may spawn the child, and a call is never parted."""
    await add(store, parent.id, "r3", turn("r3")[0])
    await bind(store, parent.id, OpenTurn(run_id=RunId("r3"), client_message_id="m"))
    made = await begun(store, FORK)
    assert await keys(store, made.id) == TURN_1 + TURN_2


async def test_a_fork_of_the_first_turn_begins_empty(store: SqliteStore) -> None:
    record = await store.sessions.open(PARENT, agent_id=AgentId("main"), owner="anna")
    await add(store, record.id, "r1", turn("r1")[0])
    await bind(store, record.id, OpenTurn(run_id=RunId("r1"), client_message_id="m"))
    made = await begun(store, FORK)
    assert await keys(store, made.id) == []


async def test_a_child_that_did_not_begin_leaves_nothing(
    store: SqliteStore, parent: SessionRecord
) -> None:
    """Spec B-20."""
    await store.subagents.prepare(FORK)
    await store.subagents.abandon(CHILD)
    assert await store.subagents.get(CHILD) is None
    await begun(store, FORK)
    await store.subagents.abandon(CHILD)
    assert await store.subagents.get(CHILD) is None
    assert await store.sessions.get(CHILD) is None
    assert [one.key for one in await store.sessions.list()] == [PARENT]
    with pytest.raises(NotFound):
        await store.subagents.begin(CHILD)


async def test_a_child_without_a_parent_does_not_begin(store: SqliteStore) -> None:
    await store.subagents.prepare(FORK)
    with pytest.raises(NotFound):
        await store.subagents.begin(CHILD)
    assert await store.sessions.get(CHILD) is None


async def test_a_child_ends_once(store: SqliteStore, parent: SessionRecord) -> None:
    """Spec B-21."""
    await begun(store, FORK)
    over = await store.subagents.end(CHILD, "completed")
    assert over is not None
    assert (over.state, over.reason) == ("ending", "completed")
    assert await store.subagents.end(CHILD, "released") is None
    assert await store.subagents.ending() == (over,)
    await store.subagents.told(CHILD)
    assert await store.subagents.ending() == ()
    assert await store.subagents.of(PARENT) == ()
    assert await store.subagents.end(PARENT, "completed") is None


async def test_what_outlived_its_time_or_never_began_is_swept(
    store: SqliteStore, parent: SessionRecord, clock: ManualClock
) -> None:
    """Spec B-21."""
    short = replace(FORK, key=SessionKey("agent:main:sub:2"), expires_at=START + 10)
    await begun(store, FORK)
    await begun(store, short)
    await store.subagents.prepare(replace(FORK, key=SessionKey("agent:main:sub:3")))
    clock.advance(9)
    await store.subagents.sweep()
    assert [one.key for one in await store.subagents.ending()] == ["agent:main:sub:3"]
    clock.advance(1)
    await store.subagents.sweep()
    swept = await store.subagents.ending()
    assert [(one.key, one.reason) for one in swept] == [
        ("agent:main:sub:2", "swept"),
        ("agent:main:sub:3", "swept"),
    ]
    assert [one.key for one in await store.subagents.of(PARENT)] == [CHILD]


async def test_deleting_a_child_or_its_parent_ends_it(
    store: SqliteStore, parent: SessionRecord
) -> None:
    """Spec B-21, U-05: in the transaction of the deletion."""
    other = SessionKey("agent:main:sub:2")
    await begun(store, FORK)
    await begun(store, replace(FORK, key=other))
    await store.lives.delete(CHILD)
    await store.lives.delete(PARENT)
    over = await store.subagents.ending()
    assert [(one.key, one.reason) for one in over] == [(CHILD, "deleted"), (other, "released")]
