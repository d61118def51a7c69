"""Sessions as wholes, over the store: another generation, a way back, a way aside, an end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from treadle.contract.events import GLOBAL_STREAM
from treadle.contract.lives import Turnover
from treadle.contract.store import Binding, Claim, OpenTurn, SearchQuery, SessionRecord
from treadle.model.errors import ClaimLost, InvalidCut, NotFound, SessionExists, StoreError
from treadle.model.ids import (
    AgentId,
    EntryId,
    RunId,
    SessionId,
    SessionKey,
    StreamId,
    ThreadId,
    TurnId,
)
from treadle.model.message import (
    Entry,
    EntryKind,
    Message,
    NewEntry,
    assistant_message,
    tool_call_part,
    tool_result_message,
    user_message,
)
from treadle.store.open import SqliteStore, open_store
from treadle.testing.clock import CountedIds, ManualClock

pytestmark = pytest.mark.anyio

KEY = SessionKey("agent:main:work")
ASIDE = SessionKey("agent:main:aside")
MAIN = AgentId("main")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "treadle.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    async with open_store(path, clock=ManualClock(), ids=CountedIds()) as opened:
        yield opened


@pytest.fixture
async def session(store: SqliteStore) -> SessionRecord:
    """Give a session with two turns of three entries each; the second ends with a notice."""
    record = await store.sessions.open(KEY, agent_id=MAIN, owner="anna", cwd="/a")
    await store.sessions.update(KEY, title="T", settings={"model": "x"})
    for run in ("r1", "r2"):
        await add(store, record.id, run, *turn(run))
    await add(store, record.id, "r2", notice("r2"))
    return await known(store, KEY)


def turn(run: str) -> list[NewEntry]:
    """Return what a turn with a tool leaves behind."""
    call = Message(role="assistant", content=[tool_call_part("c", "look", {})])
    result = tool_result_message("c", "look", f"seen by {run}", is_error=False)
    said = [user_message(f"ask {run}"), call, result, assistant_message(f"answer {run}")]
    return [
        NewEntry(key=f"{run}:{at}", message=one, run_id=RunId(run), turn_id=TurnId(f"t-{run}"))
        for at, one in enumerate(said)
    ]


def notice(run: str) -> NewEntry:
    message = Message(role="notice", content=[{"type": "text", "text": "unknown"}])
    return NewEntry(key=f"{run}:notice", message=message, kind=EntryKind.NOTICE, run_id=RunId(run))


async def add(
    store: SqliteStore, session_id: SessionId, run: str, *entries: NewEntry
) -> tuple[Entry, ...]:
    claim = await store.transcript.claim(session_id, RunId(run))
    return await store.transcript.append(claim, entries)


async def known(store: SqliteStore, key: SessionKey) -> SessionRecord:
    record = await store.sessions.get(key)
    assert record is not None
    return record


async def bind(
    store: SqliteStore, session_id: SessionId, open_turn: OpenTurn | None = None
) -> Claim:
    """Bind the generation to a thread, under a claim that is still held."""
    claim = await store.transcript.claim(session_id, RunId("binder"))
    await store.bindings.put(claim, binding(session_id, open_turn=open_turn))
    return claim


def binding(
    session_id: SessionId, thread: str = "th-1", open_turn: OpenTurn | None = None
) -> Binding:
    return Binding(
        session_id=session_id,
        thread_id=ThreadId(thread),
        revision=0,
        home="/home",
        cwd="/work",
        model="m",
        model_provider=None,
        tool_fingerprint=None,
        instructions_hash="i",
        addition_hash="a",
        open_turn=open_turn,
    )


async def keys(store: SqliteStore, session_id: SessionId) -> list[str]:
    return [entry.key for entry in await store.transcript.entries(session_id)]


async def after(turned: Turnover) -> SessionRecord:
    assert turned.after is not None
    return turned.after


TURN_1 = ["r1:0", "r1:1", "r1:2", "r1:3"]
TURN_2 = ["r2:0", "r2:1", "r2:2", "r2:3", "r2:notice"]


# ----------------------------------------------------------------------------------------- reset


async def test_a_reset_removes_the_binding_and_keeps_what_was_said(
    store: SqliteStore, session: SessionRecord
) -> None:
    """Spec U-01; INV-5."""
    await bind(store, session.id)

    turned = await store.lives.reset(KEY)

    fresh = await after(turned)
    assert (fresh.generation, fresh.origin, fresh.entry_count) == (2, "reset", 0)
    assert (fresh.owner, fresh.cwd, fresh.title, fresh.settings) == (
        session.owner,
        session.cwd,
        session.title,
        session.settings,
    )
    assert turned.given_up is not None
    assert (turned.given_up.thread_id, turned.left_behind) == ("th-1", 9)
    assert await store.bindings.get(session.id) is None
    assert await store.bindings.get(fresh.id) is None
    assert [thread for thread, _ in await store.bindings.superseded(session.id)] == ["th-1"]
    assert await keys(store, session.id) == TURN_1 + TURN_2
    assert (await store.check()).faults == ()


@pytest.mark.parametrize("operation", ["reset", "rewind", "delete"])
async def test_a_generation_that_is_over_takes_no_binding_and_no_entry(
    store: SqliteStore, session: SessionRecord, operation: str
) -> None:
    """Spec U-03: neither by the claim that was held, nor by a new one."""
    claim = await bind(store, session.id)
    stored = await store.bindings.get(session.id)
    assert stored is not None

    match operation:
        case "reset":
            await store.lives.reset(KEY)
        case "rewind":
            await store.lives.rewind(KEY, 3)
        case _:
            await store.lives.delete(KEY)

    with pytest.raises(ClaimLost):
        await store.bindings.put(claim, stored)
    with pytest.raises(ClaimLost):
        await store.transcript.append(claim, turn("late"), binding=stored)
    with pytest.raises(ClaimLost):
        await store.transcript.claim(session.id, RunId("later"))
    assert await store.bindings.get(session.id) is None
    assert await keys(store, session.id) == TURN_1 + TURN_2


async def test_a_turn_that_was_not_settled_leaves_a_notice(
    store: SqliteStore, session: SessionRecord
) -> None:
    """INV-1: never silence."""
    unsettled = OpenTurn(run_id=RunId("r3"), client_message_id="m3")
    await bind(store, session.id, unsettled)

    await store.lives.reset(KEY)

    last = (await store.transcript.entries(session.id))[-1]
    assert (last.kind, last.run_id, last.meta) == (EntryKind.NOTICE, "r3", {"notice": "unknown"})


# ---------------------------------------------------------------------------------------- rewind


@pytest.mark.parametrize("by_id", [False, True])
async def test_a_rewind_keeps_exactly_what_stands_up_to_the_entry(
    store: SqliteStore, session: SessionRecord, by_id: bool
) -> None:
    """Spec U-04; INV-5: a generation of its own, the one before stays as it was."""
    await bind(store, session.id)
    before = await store.transcript.entries(session.id)

    turned = await store.lives.rewind(KEY, before[3].id if by_id else 3)

    back = await after(turned)
    assert (back.generation, back.origin, back.entry_count, turned.left_behind) == (
        2,
        "rewind",
        4,
        5,
    )
    assert await store.transcript.entries(back.id) == before[:4]
    assert await store.transcript.entries(session.id) == before
    assert turned.given_up is not None
    assert await store.bindings.get(session.id) is None
    snapshot = await store.transcript.snapshot(back.id)
    assert list(snapshot.entries_by_id([before[0].id, before[4].id])) == [before[0].id]
    (new,) = await add(store, back.id, "r3", turn("r3")[0])
    assert (new.depth, new.position, new.parent) == (4, 4, before[3].id)
    assert await keys(store, back.id) == [*TURN_1, "r3:0"]
    assert (await store.check()).faults == ()


@pytest.mark.parametrize("depth", [0, 1, 2, 4, 6, 7])
async def test_a_cut_within_a_turn_is_refused_and_keeps_the_binding(
    store: SqliteStore, session: SessionRecord, depth: int
) -> None:
    """Spec U-04."""
    await bind(store, session.id)

    with pytest.raises(InvalidCut) as refused:
        await store.lives.rewind(KEY, depth)

    expected = "Cut behind entry 3." if depth < 4 else "Cut behind entry 3 or 8."
    assert refused.value.next_step == expected
    assert await known(store, KEY) == session
    kept = await store.bindings.get(session.id)
    assert kept is not None
    assert kept.thread_id == "th-1"


@pytest.mark.parametrize("where", [-1, 9, 1000, EntryId("ent_nobody")])
async def test_an_unknown_place_is_told_with_what_there_is(
    store: SqliteStore, session: SessionRecord, where: int | EntryId
) -> None:
    with pytest.raises(NotFound):
        await store.lives.rewind(KEY, where)
    assert await known(store, KEY) == session


async def test_an_entry_of_another_session_is_no_place(
    store: SqliteStore, session: SessionRecord
) -> None:
    other = await store.sessions.open(ASIDE, agent_id=MAIN, owner="anna")
    (foreign,) = await add(store, other.id, "o", turn("o")[0])
    with pytest.raises(NotFound):
        await store.lives.rewind(KEY, foreign.id)
    assert await known(store, KEY) == session


async def test_going_back_to_the_last_entry_changes_nothing(
    store: SqliteStore, session: SessionRecord
) -> None:
    await bind(store, session.id)
    turned = await store.lives.rewind(KEY, 8)
    assert not turned.changed
    assert await known(store, KEY) == session
    assert await store.bindings.get(session.id) is not None


async def test_a_rewind_and_a_reset_can_be_undone_by_the_last_entrys_id(
    store: SqliteStore, session: SessionRecord
) -> None:
    """Ours: nothing that was left behind is out of reach."""
    before = await store.transcript.entries(session.id)
    await store.lives.rewind(KEY, 3)
    again = await store.lives.rewind(KEY, before[-1].id)
    assert again.left_behind == 0
    assert await store.transcript.entries((await after(again)).id) == before
    await store.lives.reset(KEY)
    once_more = await store.lives.rewind(KEY, before[-1].id)
    assert await store.transcript.entries((await after(once_more)).id) == before


async def test_rewinds_of_rewinds_stay_whole(store: SqliteStore, session: SessionRecord) -> None:
    """INV-5: order and places hold over many branches."""
    for number in range(3, 9):
        turned = await store.lives.rewind(KEY, 3 if number == 3 else 4 * (number - 2) - 1)
        await add(store, (await after(turned)).id, f"r{number}", *turn(f"r{number}"))
        await add(store, (await after(turned)).id, f"x{number}", *turn(f"x{number}"))
    record = await known(store, KEY)
    entries = await store.transcript.entries(record.id)
    assert [entry.key.partition(":")[0] for entry in entries[::4]] == [
        "r1", "r3", "r4", "r5", "r6", "r7", "r8", "x8",
    ]  # fmt: skip
    assert [entry.depth for entry in entries] == list(range(len(entries)))
    snapshot = await store.transcript.snapshot(record.id)
    assert len(snapshot) == len(list(snapshot)) == 32
    assert (await store.check()).faults == ()


# ---------------------------------------------------------------------------------------- branch


async def test_a_branch_shares_what_it_keeps_and_then_goes_its_own_way(
    store: SqliteStore, session: SessionRecord
) -> None:
    """Ours: no row is copied, so 100,000 entries cost as little as one."""
    await bind(store, session.id)
    before = await store.transcript.entries(session.id)
    rows = (await store.check()).entry_count

    made = await store.lives.branch(KEY, ASIDE, at=3)

    assert (made.key, made.generation, made.origin, made.entry_count) == (ASIDE, 1, "branch", 4)
    assert (made.owner, made.cwd, made.title, made.settings) == ("anna", "/a", "T", {"model": "x"})
    assert (await store.check()).entry_count == rows
    assert await store.transcript.entries(made.id) == before[:4]
    await add(store, made.id, "b1", *turn("b1"))
    await add(store, session.id, "r3", *turn("r3"))
    assert await keys(store, made.id) == [*TURN_1, "b1:0", "b1:1", "b1:2", "b1:3"]
    assert (await keys(store, session.id))[-4:] == ["r3:0", "r3:1", "r3:2", "r3:3"]
    assert await store.bindings.get(made.id) is None
    kept = await store.bindings.get(session.id)
    assert kept is not None
    assert (await store.check()).faults == ()


async def test_a_branch_without_a_place_keeps_all_also_of_an_empty_session(
    store: SqliteStore, session: SessionRecord
) -> None:
    whole = await store.lives.branch(KEY, ASIDE)
    assert whole.entry_count == session.entry_count
    await store.sessions.open(SessionKey("agent:main:new"), agent_id=MAIN, owner="anna")
    empty = await store.lives.branch(SessionKey("agent:main:new"), SessionKey("agent:main:new-2"))
    assert empty.entry_count == 0


async def test_a_branch_does_not_take_another_ones_name(
    store: SqliteStore, session: SessionRecord
) -> None:
    await store.lives.branch(KEY, ASIDE)
    with pytest.raises(SessionExists):
        await store.lives.branch(KEY, ASIDE)
    with pytest.raises(SessionExists):
        await store.lives.branch(KEY, KEY)


async def test_a_search_in_a_branch_finds_what_it_shares(
    store: SqliteStore, session: SessionRecord
) -> None:
    await store.lives.branch(KEY, ASIDE, at=3)
    found = await search(store, "ask", session_key=ASIDE)
    assert found == [(ASIDE, "r1:0")]
    assert sorted(await search(store, "ask")) == [(KEY, "r1:0"), (KEY, "r2:0")]
    assert await search(store, "", session_key=ASIDE, role="user") == [(ASIDE, "r1:0")]


# ---------------------------------------------------------------------------------------- delete


async def test_a_deleted_session_is_gone_from_lists_and_searches_and_its_key_is_free(
    store: SqliteStore, session: SessionRecord
) -> None:
    """Spec U-05."""
    await bind(store, session.id)

    turned = await store.lives.delete(KEY)

    assert turned.after is None
    assert turned.given_up is not None
    assert await store.sessions.get(KEY) is None
    assert await store.sessions.list() == ()
    assert await search(store, "ask") == []
    assert await store.bindings.get(session.id) is None
    with pytest.raises(NotFound):
        await store.lives.delete(KEY)
    anew = await store.sessions.open(KEY, agent_id=MAIN, owner="boris")
    assert (anew.generation, anew.owner, anew.title, anew.entry_count) == (1, "boris", "", 0)
    await store.lives.delete(KEY)
    assert await keys(store, session.id) == TURN_1 + TURN_2, "nothing is erased but by a purge"
    assert (await store.check()).faults == ()


async def test_a_deletion_that_fails_keeps_the_binding(
    store: SqliteStore, session: SessionRecord, path: Path
) -> None:
    """Spec U-05: failure of the row deletion restores it."""
    claim = await bind(store, session.id)
    other = apsw.Connection(str(path))
    other.execute(
        "CREATE TRIGGER stuck BEFORE DELETE ON sessions"
        " BEGIN SELECT RAISE(ABORT, 'the row cannot be deleted'); END"
    )
    other.close()

    with pytest.raises(StoreError, match="cannot be deleted"):
        await store.lives.delete(KEY)

    assert await known(store, KEY) == session
    kept = await store.bindings.get(session.id)
    assert kept is not None
    assert kept.thread_id == "th-1"
    assert await store.bindings.superseded(session.id) == ()
    await store.bindings.put(claim, kept)


async def test_what_a_branch_shares_with_a_deleted_session_is_found_as_its_own(
    store: SqliteStore, session: SessionRecord
) -> None:
    made = await store.lives.branch(KEY, ASIDE, at=3)
    further = SessionKey("agent:main:further")
    await store.lives.branch(ASIDE, further)
    await store.lives.delete(KEY)
    await store.lives.delete(ASIDE)
    assert await search(store, "ask") == [(further, "r1:0")]
    assert await search(store, "", role="user") == [(further, "r1:0")]
    assert await keys(store, made.id) == TURN_1


async def search(store: SqliteStore, text: str, **more: object) -> list[tuple[str, str]]:
    hits = await store.transcript.search(SearchQuery(text=text, **more))  # type: ignore[arg-type]
    return [(hit.session_key, hit.entry.key) for hit in hits]


# ---------------------------------------------------------------------------------------- events


async def test_watchers_are_told_and_take_a_snapshot_where_what_they_saw_is_no_prefix(
    store: SqliteStore, session: SessionRecord
) -> None:
    """INV-5: a rewrite is an explicit record; design of the page, section 5."""
    stream = StreamId(KEY)
    start = store.events.head(stream)
    last = await store.transcript.entries(session.id)
    await bind(store, session.id)

    await store.lives.branch(KEY, ASIDE, at=3)
    assert store.events.head(stream).epoch == start.epoch
    back = await after(await store.lives.rewind(KEY, 3))
    assert store.events.head(stream).epoch == start.epoch + 1
    await store.lives.reset(KEY)
    await store.lives.delete(KEY)
    assert store.events.head(stream).epoch == start.epoch + 3

    told = await store.events.read(GLOBAL_STREAM, after=2)
    assert [one.type for one in told] == [
        "session.created",
        "session.branched",
        "session.rewound",
        "session.reset",
        "session.deleted",
    ]
    assert told[1].data["to_key"] == ASIDE
    assert told[2].data == {
        "session_key": KEY,
        "session_id": back.id,
        "generation": 2,
        "agent": "main",
        "title": "T",
        "previous_id": session.id,
        "entry_id": last[3].id,
        "left_behind": 5,
        "binding": "dropped",
    }
    [only] = await store.events.read(stream, after=0)
    assert (only.type, only.seq) == ("session.deleted", store.events.head(stream).seq)
