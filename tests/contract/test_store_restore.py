"""What is put right in a store that came back from a backup."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import apsw
import pytest

from tests.contract.test_store_lives import add, bind, known, turn
from treadle.contract.events import NewEvent
from treadle.contract.restore import Restored
from treadle.contract.store import Binding, OpenTurn, SessionRecord
from treadle.model.errors import ClaimLost
from treadle.model.ids import AgentId, RunId, SessionKey, StreamId
from treadle.model.message import EntryKind
from treadle.store.open import SqliteStore, open_store
from treadle.testing.clock import START, CountedIds, ManualClock

pytestmark = pytest.mark.anyio

KEY = SessionKey("agent:main:work")
STREAM = StreamId(KEY)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "treadle.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    async with open_store(path, clock=ManualClock(), ids=CountedIds()) as opened:
        yield opened


@pytest.fixture
async def session(store: SqliteStore) -> SessionRecord:
    record = await store.sessions.open(KEY, agent_id=AgentId("main"), owner="anna")
    await add(store, record.id, "r1", *turn("r1"))
    return await known(store, KEY)


def moved(binding: Binding) -> Binding:
    return replace(binding, home="/new")


def gone(binding: Binding) -> None:
    del binding


def sql(path: Path, *statements: str) -> list[tuple[object, ...]]:
    """Write rows that other parts write, and read them, from another connection."""
    raw = apsw.Connection(str(path))
    try:
        return [tuple(row) for statement in statements for row in raw.execute(statement)]
    finally:
        raw.close()


async def notices(store: SqliteStore, session: SessionRecord) -> list[tuple[str | None, object]]:
    entries = await store.transcript.entries(session.id)
    return [(one.run_id, one.meta["notice"]) for one in entries if one.kind is EntryKind.NOTICE]


async def test_a_thread_that_came_back_whole_is_kept_in_its_new_place(
    store: SqliteStore, session: SessionRecord
) -> None:
    """Issue 4 done-when 3."""
    claim = await bind(store, session.id)
    before = await store.bindings.get(session.id)
    assert before is not None

    done = await store.restore.put_right(moved)

    assert done == Restored(
        kept_threads=1, given_up_threads=0, unknown_messages=0, unknown_deliveries=0
    )
    assert await store.bindings.get(session.id) == replace(before, home="/new")
    with pytest.raises(ClaimLost):
        await store.bindings.put(claim, before)
    assert await notices(store, session) == []


async def test_a_thread_that_did_not_is_given_up(
    store: SqliteStore, session: SessionRecord
) -> None:
    """Reliability, F10: the next turn gets a fresh one."""
    await bind(store, session.id)
    done = await store.restore.put_right(gone)
    assert (done.kept_threads, done.given_up_threads) == (0, 1)
    assert await store.bindings.get(session.id) is None
    assert [thread for thread, _ in await store.bindings.superseded(session.id)] == ["th-1"]


async def test_what_was_under_way_is_unknown_and_is_not_done_again(
    store: SqliteStore, session: SessionRecord, path: Path
) -> None:
    """INV-1, INV-9: whatever it was, it may have gone on behind the backup."""
    await add(store, session.id, "r2", turn("r2")[0])
    await bind(store, session.id, OpenTurn(run_id=RunId("r2"), client_message_id="m2"))
    message = (
        "INSERT INTO inbox (session_key, client_message_id, run_id, session_id, state, attempts,"
        " accepted_at, changed_at, request_hash, request) VALUES"
        f" ('{KEY}', '{{0}}', '{{0}}', NULL, '{{1}}', 1, 0, 0, 'h', '{{{{}}}}')"
    )
    delivery = (
        "INSERT INTO deliveries (id, session_key, run_id, channel, destination, state, attempts,"
        f" created_at, changed_at, payload) VALUES ('{{0}}', '{KEY}', '{{0}}', 'c', 'd', '{{1}}',"
        " 0, 0, 0, '{{}}')"
    )
    sql(
        path,
        message.format("r1", "answered"),
        message.format("r2", "running"),
        message.format("r3", "accepted"),
        delivery.format("d1", "done"),
        delivery.format("d2", "sending"),
        delivery.format("d3", "ready"),
    )

    done = await store.restore.put_right(moved)

    assert done == Restored(
        kept_threads=0, given_up_threads=1, unknown_messages=2, unknown_deliveries=2
    )
    assert sql(path, "SELECT run_id, state FROM inbox ORDER BY seq") == [
        ("r1", "answered"),
        ("r2", "unknown"),
        ("r3", "unknown"),
    ]
    assert sql(path, "SELECT id, state FROM deliveries ORDER BY seq") == [
        ("d1", "done"),
        ("d2", "unknown"),
        ("d3", "unknown"),
    ]
    assert await notices(store, session) == [("r2", "unknown"), ("r3", "unknown")]
    assert await store.bindings.get(session.id) is None
    again = await store.restore.put_right(moved)
    assert (again.unknown_messages, again.unknown_deliveries) == (0, 0)


async def test_no_event_cursor_from_before_fits_any_more(
    store: SqliteStore, session: SessionRecord
) -> None:
    """Issue 4 item 4: not even one of an epoch that began after the backup was made."""
    store.events.later(STREAM, NewEvent(type="notice"))
    await store.events.flush()
    head = store.events.head(STREAM)
    await store.restore.put_right(moved)
    assert store.events.head(STREAM).seq == head.seq
    assert store.events.head(STREAM).epoch == START
    await store.restore.put_right(moved)
    assert store.events.head(STREAM).epoch == START + 1
    del session
