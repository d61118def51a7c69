"""Streams of durable events: numbers without a gap, in the transaction of the fact."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from treadle.contract.events import GLOBAL_STREAM, REPLAY_MOST, NewEvent, StreamEvent, StreamHead
from treadle.contract.store import Claim, SessionRecord
from treadle.model.errors import ClaimLost, UsageError
from treadle.model.ids import AgentId, RunId, SessionKey, StreamId
from treadle.model.message import NewEntry, user_message
from treadle.store.driver import Connection
from treadle.store.events import FORGET_EVERY, MAX_WAITING, SqlEvents
from treadle.store.open import SqliteStore, open_store
from treadle.testing.clock import START, CountedIds, ManualClock

pytestmark = pytest.mark.anyio

KEY = SessionKey("agent:main:work")
STREAM = StreamId(KEY)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    async with open_store(tmp_path / "treadle.db", clock=ManualClock(), ids=CountedIds()) as opened:
        yield opened


@pytest.fixture
async def session(store: SqliteStore) -> SessionRecord:
    return await store.sessions.open(KEY, agent_id=AgentId("main"), owner="local")


@pytest.fixture
async def claim(store: SqliteStore, session: SessionRecord) -> Claim:
    return await store.transcript.claim(session.id, RunId("r_1"))


def noted(name: str) -> NewEvent:
    return NewEvent(type=name, data={"n": name}, run_id=RunId("r_1"))


def entry(key: str) -> NewEntry:
    return NewEntry(key=key, message=user_message(f"text of {key}"))


async def types(store: SqliteStore, after: int = 0) -> list[tuple[int, str]]:
    return [(one.seq, one.type) for one in await store.events.read(STREAM, after=after)]


async def test_a_stream_without_events_stands_at_its_beginning(store: SqliteStore) -> None:
    """Ours."""
    assert store.events.head(STREAM) == StreamHead(stream=STREAM, epoch=1, seq=0)
    assert await store.events.read(STREAM, after=0) == ()


async def test_an_entry_and_its_event_are_written_together(
    store: SqliteStore, claim: Claim
) -> None:
    """Ours: the event of a fact is in the fact's transaction, and its data is the entry."""
    [first] = await store.transcript.append(claim, [entry("a")])
    created, event = await store.events.read(STREAM, after=0)
    assert created.type == "session.created"
    assert event == StreamEvent(
        stream=STREAM,
        epoch=1,
        seq=2,
        type="entry.committed",
        at=START,
        data=event.data,
        run_id=RunId("r_1"),
    )
    told = event.data["entry"]
    assert isinstance(told, dict)
    assert (told["id"], told["content"]) == (first.id, first.message.content)


async def test_an_entry_that_is_there_already_has_no_second_event(
    store: SqliteStore, claim: Claim
) -> None:
    """INV-5: what was seen once is not told again."""
    await store.transcript.append(claim, [entry("a")])
    await store.transcript.append(claim, [entry("a"), entry("b")])
    assert [kind for _, kind in await types(store)] == [
        "session.created",
        "entry.committed",
        "entry.committed",
    ]


async def test_what_waits_comes_before_the_next_fact_in_its_order(
    store: SqliteStore, claim: Claim
) -> None:
    """Ours: an event that was told first has the smaller number."""
    store.events.later(STREAM, noted("run.started"))
    store.events.later(STREAM, noted("context.assembled"))
    await store.transcript.append(claim, [entry("a")])
    store.events.later(STREAM, noted("run.finished"))
    await store.events.flush()
    assert await types(store, after=1) == [
        (2, "run.started"),
        (3, "context.assembled"),
        (4, "entry.committed"),
        (5, "run.finished"),
    ]
    assert store.events.waiting(STREAM) == 0
    assert store.events.head(STREAM).seq == 5


async def test_an_undone_fact_takes_no_number_and_no_event_with_it(
    store: SqliteStore, claim: Claim
) -> None:
    """INV-6: all or nothing, and what waited still waits."""
    store.events.later(STREAM, noted("run.started"))
    with pytest.raises(UsageError):
        await store.transcript.append(claim, [entry("a"), entry("half \ud800")])
    stale = Claim(session_id=claim.session_id, run_id=claim.run_id, lease_epoch=99)
    with pytest.raises(ClaimLost):
        await store.transcript.append(stale, [entry("b")])
    assert store.events.waiting(STREAM) == 1
    await store.transcript.append(claim, [entry("c")])
    assert await types(store, after=1) == [(2, "run.started"), (3, "entry.committed")]


async def test_an_event_written_by_an_undone_part_of_a_group_is_written_once(
    store: SqliteStore,
) -> None:
    """Ours: parts of one transaction see each other's numbers."""
    events = store.events
    events.later(STREAM, noted("first"))

    def fails(connection: Connection) -> None:
        events.add(connection, STREAM, [noted("undone")])
        raise ValueError("undo me")

    def holds(connection: Connection) -> None:
        events.add(connection, STREAM, [noted("second")])

    async def expect_failure() -> None:
        with pytest.raises(ValueError, match="undo me"):
            await store.driver.write(fails)

    async with anyio.create_task_group() as group:  # one transaction takes all three
        group.start_soon(store.driver.write, holds)
        group.start_soon(expect_failure)
        group.start_soon(store.driver.write, holds)
    events.told(STREAM)
    assert await types(store) == [(1, "first"), (2, "second"), (3, "second")]
    assert events.waiting(STREAM) == 0


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=st.lists(st.sampled_from("lllafx"), max_size=30))
async def test_numbers_have_no_gap_and_keep_the_order_of_telling(
    steps: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Ours: whatever is told, stored, flushed or undone in whichever order."""
    path = tmp_path_factory.mktemp("events") / "treadle.db"
    async with open_store(path, clock=ManualClock(), ids=CountedIds()) as store:
        expected: list[str] = []
        for number, step in enumerate(steps):
            name = f"n{number}"
            match step:
                case "l":
                    store.events.later(STREAM, noted(name))
                    expected.append(name)
                case "a":
                    await _add(store.events, store, name)
                    expected.append(name)
                case "x":
                    with pytest.raises(ValueError, match="undo"):
                        await _add(store.events, store, name, fail=True)
                case _:
                    await store.events.flush()
        await store.events.flush()
        found = await store.events.read(STREAM, after=0)
        assert [one.type for one in found] == expected
        assert [one.seq for one in found] == list(range(1, len(expected) + 1))


async def _add(events: SqlEvents, store: SqliteStore, name: str, *, fail: bool = False) -> None:
    def write(connection: Connection) -> None:
        events.add(connection, STREAM, [noted(name)])
        if fail:
            raise ValueError("undo")

    try:
        await store.driver.write(write)
    finally:
        events.told(STREAM)


async def test_a_reset_begins_a_new_epoch_and_goes_on_counting(
    store: SqliteStore, session: SessionRecord
) -> None:
    """Ours: a client with an old cursor is given a snapshot, and no number ever comes twice."""
    await store.lives.reset(session.key)
    assert store.events.head(STREAM) == StreamHead(stream=STREAM, epoch=2, seq=2)
    [created, reset] = await store.events.read(STREAM, after=0)
    assert (created.epoch, reset.epoch, reset.type) == (1, 2, "session.reset")
    assert [one.type for one in await store.events.read(GLOBAL_STREAM, after=0)] == [
        "session.created",
        "session.reset",
    ]


async def test_all_streams_can_begin_anew(store: SqliteStore, session: SessionRecord) -> None:
    """Ours: after a power cut, which may have undone what a client saw."""
    del session
    await store.events.renew()
    assert store.events.head(STREAM).epoch == 2
    assert store.events.head(GLOBAL_STREAM).epoch == 2


async def test_only_what_can_be_caught_up_with_is_kept(store: SqliteStore) -> None:
    """Cursor rule 2: 2,000 events back are there; the database does not grow with all of them."""
    for number in range(REPLAY_MOST + 350):
        store.events.later(STREAM, noted(f"n{number}"))
        if number % 50 == 0:
            await store.events.flush()
    await store.events.flush()
    head = store.events.head(STREAM).seq
    assert head == REPLAY_MOST + 350
    kept = await store.events.read(STREAM, after=0, limit=10_000)
    assert REPLAY_MOST <= len(kept) <= REPLAY_MOST + FORGET_EVERY
    assert kept[-1].seq == head


async def test_what_waits_for_a_store_that_takes_nothing_is_bounded(store: SqliteStore) -> None:
    """INV-17: the newest are dropped."""
    for number in range(MAX_WAITING + 5):
        store.events.later(STREAM, noted(f"n{number}"))
    assert store.events.waiting(STREAM) == MAX_WAITING


async def test_an_event_that_json_cannot_say_undoes_nothing(
    store: SqliteStore, claim: Claim
) -> None:
    """Ours: it is stored empty, and the fact with it."""
    store.events.later(STREAM, NewEvent(type="odd", data={"text": "half \ud800"}))
    await store.transcript.append(claim, [entry("a")])
    assert await types(store, after=1) == [(2, "odd"), (3, "entry.committed")]


async def test_listeners_are_told_of_facts_and_of_flushes(store: SqliteStore, claim: Claim) -> None:
    """Ours."""
    told: list[StreamId] = []
    store.events.listen(told.append)
    await store.transcript.append(claim, [entry("a")])
    store.events.later(GLOBAL_STREAM, noted("health.changed"))
    await store.events.flush()
    assert told == [STREAM, GLOBAL_STREAM]
