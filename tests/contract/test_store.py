"""The suite that every store must pass; SQLite is the one there is."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import apsw
import pytest

from treadle.contract.store import (
    Binding,
    Claim,
    ContextReport,
    Held,
    Holding,
    Injection,
    InjectionState,
    OpenTurn,
    SearchQuery,
    SessionRecord,
)
from treadle.model.errors import ClaimLost, NotFound, RevisionConflict, StoreError, UsageError
from treadle.model.ids import AgentId, EntryId, RunId, SessionId, SessionKey, ThreadId, TurnId
from treadle.model.json import JsonObject
from treadle.model.message import (
    Entry,
    EntryKind,
    Message,
    NewEntry,
    assistant_message,
    content_hash,
    tool_call_part,
    tool_result_message,
    user_message,
)
from treadle.store.driver import load_queries
from treadle.store.open import SqliteStore, open_store
from treadle.store.snapshot import PAGE_ROWS
from treadle.testing.clock import START, CountedIds, ManualClock

pytestmark = pytest.mark.anyio

KEY = SessionKey("agent:main:work")
MAIN = AgentId("main")
THREAD = ThreadId("th-1")
QUERIES = load_queries()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(tmp_path: Path, clock: ManualClock) -> AsyncIterator[SqliteStore]:
    async with open_store(tmp_path / "treadle.db", clock=clock, ids=CountedIds()) as opened:
        yield opened


@pytest.fixture
async def session(store: SqliteStore) -> SessionRecord:
    return await store.sessions.open(KEY, agent_id=MAIN, owner="local")


@pytest.fixture
async def claim(store: SqliteStore, session: SessionRecord) -> Claim:
    return await store.transcript.claim(session.id, RunId("run-1"))


def entry(key: str, text: str = "", **more: object) -> NewEntry:
    return NewEntry(key=key, message=user_message(text or f"text of {key}"), **more)  # type: ignore[arg-type]


def binding(session: SessionRecord, thread_id: ThreadId = THREAD, **more: object) -> Binding:
    fields: dict[str, object] = {
        "session_id": session.id,
        "thread_id": thread_id,
        "revision": 0,
        "home": "/home",
        "cwd": "/work",
        "model": "m",
        "model_provider": None,
        "tool_fingerprint": None,
        "instructions_hash": "i",
        "addition_hash": "a",
        **more,
    }
    return Binding(**fields)  # type: ignore[arg-type]


def keys(entries: tuple[Entry, ...]) -> list[str]:
    return [one.key for one in entries]


def texts(messages: object) -> list[str]:
    return [message.content[0]["text"] for message in messages]  # type: ignore[attr-defined]


# ---------------------------------------------------------------------------------- sessions


async def test_a_session_is_made_once_and_keeps_its_owner(store: SqliteStore) -> None:
    """Spec A; decision 31."""
    made = await store.sessions.open(KEY, agent_id=MAIN, owner="anna", cwd="/a")
    again = await store.sessions.open(KEY, agent_id=MAIN, owner="boris")

    assert made == again
    assert (made.generation, made.owner, made.cwd, made.entry_count) == (1, "anna", "/a", 0)
    assert (made.created_at, made.title, made.settings) == (START, "", {})
    assert (await store.sessions.open(KEY, agent_id=MAIN, owner="anna", cwd="/b")).cwd == "/b"
    assert await store.sessions.get(SessionKey("agent:main:other")) is None


async def test_many_who_open_one_session_at_once_get_the_same(store: SqliteStore) -> None:
    found: list[SessionRecord] = []

    async def open_it() -> None:
        found.append(await store.sessions.open(KEY, agent_id=MAIN, owner="local"))

    async with anyio.create_task_group() as group:
        for _ in range(300):  # more than may wait in line
            group.start_soon(open_it)

    assert len(found) == 300
    assert len({record.id for record in found}) == 1


async def test_sessions_are_listed_by_last_use_even_when_the_clock_goes_back(
    store: SqliteStore, clock: ManualClock
) -> None:
    """Reliability, fault matrix: order by sequence, not time."""
    first, second = SessionKey("agent:main:1"), SessionKey("agent:two:2")
    one = await store.sessions.open(first, agent_id=MAIN, owner="anna")
    clock.set_now(START - 86_400)
    await store.sessions.open(second, agent_id=AgentId("two"), owner="boris")
    assert [record.key for record in await store.sessions.list()] == [second, first]

    run = await store.transcript.claim(one.id, RunId("r"))
    await store.transcript.append(run, [entry("k")])

    assert [record.key for record in await store.sessions.list()] == [first, second]
    assert [record.key for record in await store.sessions.list(owner="anna")] == [first]
    assert [record.key for record in await store.sessions.list(agent_id=AgentId("two"))] == [second]
    assert [record.key for record in await store.sessions.list(limit=1)] == [first]


async def test_title_and_settings_change_and_an_unknown_session_is_told(
    store: SqliteStore, session: SessionRecord
) -> None:
    changed = await store.sessions.update(KEY, title="T", settings={"model": "x"})

    assert (changed.title, changed.settings) == ("T", {"model": "x"})
    assert (await store.sessions.update(KEY, title="U")).settings == {"model": "x"}
    with pytest.raises(NotFound):
        await store.sessions.update(SessionKey("agent:main:no"), title="T")
    with pytest.raises(NotFound):
        await store.lives.reset(SessionKey("agent:main:no"))


async def test_a_new_generation_is_empty_and_the_old_one_stays_readable(
    store: SqliteStore, session: SessionRecord, claim: Claim
) -> None:
    await store.transcript.append(claim, [entry("k", "old words")])

    fresh = (await store.lives.reset(KEY)).after

    assert fresh is not None

    assert (fresh.generation, fresh.entry_count) == (2, 0)
    assert fresh.id != session.id
    assert len(await store.transcript.snapshot(fresh.id)) == 0
    assert texts(await store.transcript.snapshot(session.id)) == ["old words"]
    assert [hit.session_key for hit in await store.transcript.search(SearchQuery(text="old"))] == [
        KEY
    ]
    run = await store.transcript.claim(fresh.id, RunId("run-2"))
    await store.transcript.append(run, [entry("k", "new words")])
    assert texts(await store.transcript.snapshot(fresh.id)) == ["new words"]


# -------------------------------------------------------------------------- claims and appends


async def test_entries_come_back_whole(
    store: SqliteStore, claim: Claim, session: SessionRecord
) -> None:
    """Decision 7; spec D-12."""
    raw: JsonObject = {"type": "message", "z": 1.0, "a": [None, True, 2**70, "\x00ü"], "id": "x"}
    content = [
        {"type": "text", "text": "hi\x00 \U0001f680"},
        tool_call_part("c", "f", {"z": 1, "a": 2}),
    ]
    new = NewEntry(
        key="k",
        message=Message(role="assistant", content=content, created_at=12.5),
        raw_items=(raw, {}),
        thread_id=THREAD,
        turn_id=TurnId("turn"),
        run_id=RunId("run-1"),
        meta={"status": "ok", "nested": {"b": [1]}},
    )

    (stored,) = await store.transcript.append(claim, [new])

    assert stored == Entry(
        id=stored.id,
        session_id=session.id,
        depth=0,
        position=0,
        parent=None,
        kind=EntryKind.MESSAGE,
        key="k",
        message=replace(new.message, entry_id=stored.id),
        content_hash=content_hash("assistant", content),
        raw_items=(raw, {}),
        thread_id=THREAD,
        turn_id=TurnId("turn"),
        run_id=RunId("run-1"),
        created_at=12.5,
        meta=new.meta,
    )
    assert list(stored.raw_items[0]) == ["type", "z", "a", "id"]  # the order of keys too
    assert await store.transcript.entries(session.id) == (stored,)
    assert (await store.transcript.snapshot(session.id)).entries(0, 9) == (stored,)


async def test_depth_counts_all_entries_and_position_only_what_engines_see(
    store: SqliteStore, claim: Claim, session: SessionRecord
) -> None:
    """Spec B-13, H-13."""
    hidden = NewEntry(key="c", message=Message(role="user", content="ctx", host_only=True))
    stored = await store.transcript.append(
        claim,
        [entry("a"), entry("b", kind=EntryKind.NOTICE), hidden, entry("d")],
        held_by=THREAD,
    )

    assert [(one.depth, one.position) for one in stored] == [(0, 0), (1, None), (2, None), (3, 1)]
    assert [one.parent for one in stored] == [None, stored[0].id, stored[1].id, stored[2].id]
    assert stored[2].message.host_only
    assert [m.entry_id for m in await store.transcript.snapshot(session.id)] == [
        stored[0].id,
        stored[3].id,
    ]
    assert (await store.bindings.holding(THREAD)).count == 2
    assert keys(await store.transcript.entries(session.id, after_depth=0, limit=2)) == ["b", "c"]
    found = await store.sessions.get(KEY)
    assert found is not None
    assert found.entry_count == 4


async def test_the_same_key_is_stored_once_and_the_first_text_stays(
    store: SqliteStore, claim: Claim, session: SessionRecord
) -> None:
    """Spec H-03, H-04, H-06, H-14; INV-5."""
    first = await store.transcript.append(claim, [entry("a", "one"), entry("b"), entry("a", "two")])
    again = await store.transcript.append(claim, [entry("b"), entry("c"), entry("a", "rewritten")])

    assert keys(first) == ["a", "b", "a"]
    assert first[0] == first[2]
    assert keys(again) == ["b", "c", "a"]
    assert (again[0], again[2]) == (first[1], first[0])
    assert keys(await store.transcript.entries(session.id)) == ["a", "b", "c"]


async def test_equal_text_under_two_keys_is_kept_twice(
    store: SqliteStore, claim: Claim, session: SessionRecord
) -> None:
    """Spec H-04."""
    one, two = await store.transcript.append(claim, [entry("a", "ok"), entry("b", "ok")])

    assert one.content_hash == two.content_hash
    assert texts(await store.transcript.snapshot(session.id)) == ["ok", "ok"]


async def test_a_newer_claim_makes_the_older_one_useless(
    store: SqliteStore, claim: Claim, session: SessionRecord
) -> None:
    """Spec A-16; INV-4."""
    newer = await store.transcript.claim(session.id, RunId("run-2"))
    assert newer.lease_epoch > claim.lease_epoch

    with pytest.raises(ClaimLost):
        await store.transcript.append(claim, [entry("a")])
    with pytest.raises(ClaimLost):
        await store.bindings.put(claim, binding(session))
    with pytest.raises(ClaimLost):
        await store.bindings.clear(claim, THREAD)
    await store.transcript.release(claim)  # no error, and it takes nothing from the newer one
    await store.transcript.append(newer, [entry("b")])
    await store.transcript.release(newer)
    with pytest.raises(ClaimLost):
        await store.transcript.append(newer, [entry("c")])

    assert keys(await store.transcript.entries(session.id)) == ["b"]
    with pytest.raises(NotFound):
        await store.transcript.claim(SessionId("nobody"), RunId("r"))


async def test_an_append_that_fails_at_its_end_leaves_nothing(
    store: SqliteStore, claim: Claim, session: SessionRecord
) -> None:
    """INV-6."""
    with pytest.raises(RevisionConflict):
        await store.transcript.append(
            claim, [entry("a")], held_by=THREAD, binding=binding(session, revision=7)
        )

    assert await store.transcript.entries(session.id) == ()
    assert await store.bindings.holding(THREAD) == Holding()
    assert await store.transcript.search(SearchQuery(text="text")) == ()


async def test_half_a_character_is_refused_before_anything_is_written(
    store: SqliteStore, claim: Claim, session: SessionRecord
) -> None:
    for bad in (entry("k", "\ud800"), entry("\ud800"), entry("k", meta={"a": "\udfff"})):
        with pytest.raises(UsageError):
            await store.transcript.append(claim, [entry("first"), bad])
    assert await store.transcript.entries(session.id) == ()


async def test_ten_megabytes_of_text_are_no_trouble(
    store: SqliteStore, claim: Claim, session: SessionRecord
) -> None:
    text = "zeichenkette ü " * 700_000

    await store.transcript.append(claim, [entry("k", text)])

    assert texts(await store.transcript.snapshot(session.id)) == [text]


async def test_appends_that_wait_together_fail_alone(store: SqliteStore) -> None:
    """One transaction serves many; one that raises is undone alone."""
    claims = []
    for number in range(20):
        key = SessionKey(f"agent:main:{number}")
        record = await store.sessions.open(key, agent_id=MAIN, owner="local")
        claims.append(await store.transcript.claim(record.id, RunId("r")))
    lost = {number for number in range(20) if number % 3 == 0}
    for number in lost:
        await store.transcript.claim(claims[number].session_id, RunId("other"))
    failed: set[int] = set()

    async def append(number: int) -> None:
        try:
            await store.transcript.append(claims[number], [entry("a"), entry("b")])
        except ClaimLost:
            failed.add(number)

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(append, number)

    assert failed == lost
    for number, one in enumerate(claims):
        expected = [] if number in lost else ["a", "b"]
        assert keys(await store.transcript.entries(one.session_id)) == expected


async def test_a_cancelled_append_is_whole_or_absent_and_never_comes_later(
    store: SqliteStore, claim: Claim, session: SessionRecord
) -> None:
    for number in range(60):
        key = f"k{number}"
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:

                async def append(key: str = key) -> None:
                    await store.transcript.append(claim, [entry(key + "a"), entry(key + "b")])

                group.start_soon(append)
                for _ in range(number):  # another moment of the loop each time
                    await anyio.lowlevel.checkpoint()
                scope.cancel()
        found = keys(await store.transcript.entries(session.id))
        mine = [one for one in found if one.startswith((key + "a", key + "b"))]
        assert mine in ([], [key + "a", key + "b"])
        await store.transcript.append(claim, [entry(f"after {number}")])
        assert keys(await store.transcript.entries(session.id))[:-1] == found
    assert (await store.check()).faults == ()


# -------------------------------------------------------------------------------- snapshots


@pytest.fixture
async def long_session(store: SqliteStore, claim: Claim, session: SessionRecord) -> SessionRecord:
    await store.transcript.append(claim, [entry(f"{n}", f"{n}") for n in range(700)])
    return session


async def test_a_snapshot_is_a_sequence_that_reads_only_what_it_is_asked_for(
    store: SqliteStore, long_session: SessionRecord
) -> None:
    """Decision 12."""
    all_texts = [str(n) for n in range(700)]

    async def rows(look: object, expected: list[str]) -> int:
        snapshot = await store.transcript.snapshot(long_session.id)
        assert len(snapshot) == 700
        assert snapshot.rows_read == 0
        assert texts(look(snapshot)) == expected  # type: ignore[operator]
        return snapshot.rows_read

    assert await rows(lambda s: [s[5], s[-1]], ["5", "699"]) == 2
    assert await rows(lambda s: s[-200:], all_texts[-200:]) == 200
    assert await rows(lambda s: s[10:3:-2], all_texts[10:3:-2]) == 7
    assert await rows(lambda s: s[::300], all_texts[::300]) == 3
    assert await rows(lambda s: s[5:5], []) == 0
    assert await rows(list, all_texts) == 700
    assert await rows(lambda s: list(reversed(s)), all_texts[::-1]) == 700
    assert await rows(lambda s: [next(reversed(s))], ["699"]) == PAGE_ROWS  # from the end
    assert await rows(lambda s: [next(iter(s))], ["0"]) == PAGE_ROWS


async def test_a_snapshot_stays_as_it_was_while_entries_are_added(
    store: SqliteStore, claim: Claim, long_session: SessionRecord
) -> None:
    """INV-5: what was seen is a prefix of what is seen later."""
    snapshot = await store.transcript.snapshot(long_session.id)
    reading = iter(snapshot)
    seen = [next(reading) for _ in range(100)]

    added = await store.transcript.append(claim, [entry("late")])

    seen += reading
    assert texts(seen) == [str(n) for n in range(700)]
    with pytest.raises(IndexError):
        snapshot[700]
    assert snapshot.entries_by_id([added[0].id]) == {}
    later = await store.transcript.snapshot(long_session.id)
    assert list(later)[:-1] == seen


async def test_changing_a_message_that_was_read_changes_nothing(
    store: SqliteStore, long_session: SessionRecord
) -> None:
    """Spec B-13."""
    snapshot = await store.transcript.snapshot(long_session.id)
    snapshot[0].content[0]["text"] = "forged"  # type: ignore[index]

    assert texts([snapshot[0]]) == ["0"]


async def test_what_readers_share_is_read_once_and_then_only_what_came_since(
    store: SqliteStore, claim: Claim, long_session: SessionRecord
) -> None:
    """Decision 12: a turn costs what is new."""

    async def shared(start: int, stop: int) -> tuple[list[str], int]:
        snapshot = await store.transcript.snapshot(long_session.id)
        return texts(snapshot.shared(start, stop)), snapshot.rows_read

    assert await shared(600, 700) == ([str(n) for n in range(600, 700)], 100)
    assert await shared(650, 5000) == ([str(n) for n in range(650, 700)], 0)
    await store.transcript.append(claim, [entry("late", "late")])
    assert await shared(650, 701) == ([*map(str, range(650, 700)), "late"], 1)
    assert await shared(640, 642) == (["640", "641"], 2), "what was cut off is read again"
    assert await shared(0, 700) == ([str(n) for n in range(700)], 700)
    assert await shared(0, 700) == ([str(n) for n in range(700)], 700), "too many to keep"


async def test_a_changed_copy_of_a_shared_message_is_hashed_anew(
    store: SqliteStore, long_session: SessionRecord
) -> None:
    [shared] = (await store.transcript.snapshot(long_session.id)).shared(0, 1)
    changed = replace(shared, content="other")

    assert changed == Message(
        role="user", content="other", entry_id=shared.entry_id, created_at=shared.created_at
    )
    assert changed.content_hash == content_hash("user", "other") != shared.content_hash


async def test_entries_are_found_by_place_and_by_id(
    store: SqliteStore, long_session: SessionRecord, claim: Claim
) -> None:
    snapshot = await store.transcript.snapshot(long_session.id)
    found = snapshot.entries(698, 5000)
    assert keys(found) == ["698", "699"]

    other = await store.sessions.open(SessionKey("agent:main:o"), agent_id=MAIN, owner="local")
    run = await store.transcript.claim(other.id, RunId("r"))
    (foreign,) = await store.transcript.append(run, [entry("f")])
    by_id = snapshot.entries_by_id([found[1].id, EntryId("nobody"), found[0].id, foreign.id])

    assert by_id == {found[1].id: found[1], found[0].id: found[0]}


async def test_a_snapshot_reads_over_several_branches(
    store: SqliteStore, claim: Claim, session: SessionRecord
) -> None:
    old = await store.transcript.append(claim, [entry(f"{n}", f"{n}") for n in range(300)])
    before = await store.transcript.snapshot(session.id)

    def fork(connection: object) -> None:
        run = connection.run  # type: ignore[attr-defined]
        run(
            "add_branch",
            branch=90,
            session_id=session.id,
            parent=1,
            depth=200,
            position=200,
            head=old[199].id,
            now=START,
        )
        run("activate_branch", branch=90, session_id=session.id)

    await store.driver.write(fork)
    (new,) = await store.transcript.append(claim, [entry("new", "new")])

    after = await store.transcript.snapshot(session.id)
    assert texts(after) == [*map(str, range(200)), "new"]
    assert texts(after[195:]) == ["195", "196", "197", "198", "199", "new"]
    assert texts(before.shared(198, 202)) == ["198", "199", "200", "201"]
    assert texts(after.shared(198, 202)) == ["198", "199", "new"]
    assert (new.depth, new.position, new.parent) == (200, 200, old[199].id)
    assert after.entries_by_id([old[199].id, old[200].id, new.id]).keys() == {old[199].id, new.id}
    assert keys(await store.transcript.entries(session.id, after_depth=197)) == [
        "198",
        "199",
        "new",
    ]
    assert texts(before) == [str(n) for n in range(300)]
    assert (await store.check()).faults == ()


async def test_an_unknown_generation_has_no_transcript(store: SqliteStore) -> None:
    with pytest.raises(NotFound):
        await store.transcript.snapshot(SessionId("nobody"))
    with pytest.raises(NotFound):
        await store.transcript.entries(SessionId("nobody"))


# ------------------------------------------------------------------------------------ search


async def search(store: SqliteStore, text: str, **filters: object) -> list[str]:
    hits = await store.transcript.search(SearchQuery(text=text, **filters))  # type: ignore[arg-type]
    return [hit.entry.key for hit in hits]


@pytest.fixture
async def said(store: SqliteStore, claim: Claim, clock: ManualClock) -> None:
    call = Message(
        role="assistant", content=[tool_call_part("c1", "exec_command", {"cmd": "grep -r needle"})]
    )
    result = tool_result_message("c1", "exec_command", "found in haystack.py", is_error=False)
    said = [
        NewEntry(key="deploy", message=user_message("Please deploy the Café page on Monday")),
        NewEntry(key="answer", message=assistant_message("The page was deployed. 部署完成了")),
        NewEntry(key="call", message=call),
        NewEntry(key="result", message=result),
        NewEntry(key="japanese", message=user_message("東京都の天気はどうですか🚀")),
        NewEntry(key="korean", message=user_message("서울에서 만나요")),
        NewEntry(key="thai", message=user_message("สวัสดีครับ")),
    ]
    for one in said:
        await store.transcript.append(claim, [one])
        clock.advance(10)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("monday", ["deploy"]),
        ("page deploy", ["deploy", "answer"]),  # from the beginning of a word on
        ('"deploy"', ["deploy"]),  # exactly
        ('"page was"', ["answer"]),
        ('"was page"', []),
        ("CAFE", ["deploy"]),
        ("needle", ["call"]),
        ("exec_command", ["call", "result"]),
        ("haystack.py", ["result"]),
        ("部", ["answer"]),
        ("完成", ["answer"]),
        ("東京", ["japanese"]),
        ("京都", ["japanese"]),  # a substring: it is the city of Tokyo that was named
        ("天気は", ["japanese"]),
        ("🚀", ["japanese"]),
        ("서울", ["korean"]),
        ("วัสดี", ["thai"]),
        ("page 部署", ["answer"]),
        ("page 東京", []),
    ],
)
@pytest.mark.usefixtures("said")
async def test_words_phrases_and_any_script_are_found(
    store: SqliteStore, text: str, expected: list[str]
) -> None:
    assert sorted(await search(store, text)) == sorted(expected)


@pytest.mark.parametrize(
    "text",
    ['"', '""', "a OR", "NEAR(", "deploy AND", "^page", "col:x", "*", "-x", "'; --", "(((", "\x00"],
)
@pytest.mark.usefixtures("said")
async def test_no_query_is_a_syntax_error(store: SqliteStore, text: str) -> None:
    await search(store, text)


@pytest.mark.usefixtures("said")
async def test_a_search_is_narrowed_by_what_is_known(store: SqliteStore) -> None:
    """Decision 31."""
    other = await store.sessions.open(SessionKey("agent:two:x"), agent_id=AgentId("two"), owner="b")
    run = await store.transcript.claim(other.id, RunId("r"))
    await store.transcript.append(run, [entry("theirs", "page")])

    assert set(await search(store, "page")) == {"deploy", "answer", "theirs"}
    assert await search(store, "page", owner="b") == ["theirs"]
    assert await search(store, "page", agent_id=AgentId("two")) == ["theirs"]
    assert await search(store, "page", session_key=SessionKey("agent:two:x")) == ["theirs"]
    assert await search(store, "page", role="assistant") == ["answer"]
    assert await search(store, "page", since=START + 5, until=START + 20) == ["answer"]
    assert len(await search(store, "page", limit=2)) == 2
    assert await search(store, "", limit=2) == ["theirs", "thai"]


async def test_the_newest_of_equals_comes_first(store: SqliteStore, claim: Claim) -> None:
    await store.transcript.append(claim, [entry(f"{n}", "same words") for n in range(5)])

    assert await search(store, "same") == ["4", "3", "2", "1", "0"]


@pytest.mark.usefixtures("said")
async def test_a_hit_shows_where_it_matches(store: SqliteStore) -> None:
    (hit,) = await store.transcript.search(SearchQuery(text="cafe monday"))

    assert hit.session_key == KEY
    assert [hit.snippet[a:b] for a, b in hit.matches] == ["Café", "Monday"]


# ---------------------------------------------------------------- bindings, holdings, injections


async def test_a_binding_is_stored_under_its_revision_only(
    store: SqliteStore, claim: Claim, session: SessionRecord
) -> None:
    """Spec F-17."""
    new = binding(
        session,
        engine={"schemaVersion": 1, "engineId": "legacy"},
        open_turn=OpenTurn(
            run_id=RunId("r"),
            client_message_id="m",
            turn_id=TurnId("t"),
            transient=True,
            unwritten_prompt="hash",
        ),
        pinned=True,
    )
    first = await store.bindings.put(claim, new)
    assert first == replace(new, revision=1)
    assert await store.bindings.get(session.id) == first

    with pytest.raises(RevisionConflict):
        await store.bindings.put(claim, new)
    second = await store.bindings.put(claim, replace(first, open_turn=None))
    assert second.revision == 2
    with pytest.raises(RevisionConflict):
        await store.bindings.put(claim, first)
    assert await store.bindings.get(session.id) == second


async def test_threads_given_up_are_kept_in_order(
    store: SqliteStore, claim: Claim, session: SessionRecord, clock: ManualClock
) -> None:
    one = await store.bindings.put(claim, binding(session, ThreadId("a")))
    clock.advance(1)
    two = await store.bindings.put(claim, replace(one, thread_id=ThreadId("b")))
    clock.advance(1)
    assert await store.bindings.clear(claim, ThreadId("a")) is False
    assert await store.bindings.clear(claim, ThreadId("b")) is True
    assert await store.bindings.get(session.id) is None
    assert await store.bindings.superseded(session.id) == (
        (ThreadId("a"), START + 1),
        (ThreadId("b"), START + 2),
    )

    with pytest.raises(RevisionConflict):  # an old revision hits nothing, also after a new start
        await store.bindings.put(claim, two)
    fresh = await store.bindings.put(claim, binding(session, ThreadId("a")))
    assert fresh.revision > two.revision
    assert await store.bindings.superseded(session.id) == ((ThreadId("b"), START + 2),)


async def test_a_claim_of_one_session_cannot_write_another_ones_binding(
    store: SqliteStore, claim: Claim
) -> None:
    other = await store.sessions.open(SessionKey("agent:main:o"), agent_id=MAIN, owner="local")
    with pytest.raises(ClaimLost):
        await store.bindings.put(claim, binding(other))
    with pytest.raises(ClaimLost):
        await store.transcript.append(claim, [], binding=binding(other))


async def test_what_a_thread_holds_is_chained_and_an_entry_counts_once(
    store: SqliteStore, claim: Claim, session: SessionRecord
) -> None:
    first = await store.transcript.append(claim, [entry("a"), entry("b")])
    stored = await store.transcript.append(
        claim,
        [entry("a"), entry("b"), entry("c"), entry("a")],
        held_by=THREAD,
        binding=binding(session),
    )
    await store.transcript.append(claim, [entry("c"), entry("d")], held_by=THREAD)

    held = await store.bindings.held(THREAD)
    assert [one.entry_id for one in held][:3] == [first[0].id, first[1].id, stored[2].id]
    assert len(held) == 4
    chain = ""
    for one in held:
        chain = hashlib.sha256((chain + one.content_hash).encode()).hexdigest()
    assert await store.bindings.holding(THREAD) == Holding(count=4, chain=chain)
    assert await store.bindings.holding(ThreadId("other")) == Holding()
    bound = await store.bindings.get(session.id)
    assert bound is not None
    assert bound.revision == 1


async def test_what_the_transcript_does_not_have_is_held_in_front_of_the_entries(
    store: SqliteStore, claim: Claim
) -> None:
    """Spec H-10: the thread got it all the same."""
    unwritten = Held(content_hash="hash of a prompt")
    [stored] = await store.transcript.append(
        claim, [entry("a")], held_by=THREAD, held_unwritten=[unwritten]
    )
    held = await store.bindings.held(THREAD)
    assert held == (unwritten, Held(content_hash=stored.content_hash, entry_id=stored.id))


async def test_an_injection_is_intended_then_confirmed_with_its_binding(
    store: SqliteStore, claim: Claim, session: SessionRecord
) -> None:
    """Decision 3."""
    (one,) = await store.transcript.append(claim, [entry("a")])
    held = (Held(content_hash="h1"), Held(content_hash=one.content_hash, entry_id=one.id))
    injection = Injection(
        id="inj", thread_id=THREAD, purpose="messages", item_ids=("i1", "i2"), held=held
    )
    await store.bindings.intend(claim, injection)
    await store.bindings.intend(claim, injection)
    assert await store.bindings.pending_injections(THREAD) == (injection,)
    with pytest.raises(RevisionConflict):
        await store.bindings.intend(claim, replace(injection, item_ids=("other",)))

    with pytest.raises(RevisionConflict):
        await store.bindings.confirm(claim, "inj", binding(session, revision=3))
    assert await store.bindings.holding(THREAD) == Holding()
    assert await store.bindings.pending_injections(THREAD) == (injection,)

    stored = await store.bindings.confirm(claim, "inj", binding(session))
    again = await store.bindings.confirm(claim, "inj", stored)

    assert (stored.revision, again.revision) == (1, 2)
    assert await store.bindings.held(THREAD) == held
    assert await store.bindings.pending_injections(THREAD) == ()
    with pytest.raises(RevisionConflict):
        await store.bindings.abandon(claim, "inj")


async def test_an_abandoned_injection_is_held_by_nobody(
    store: SqliteStore, claim: Claim, session: SessionRecord
) -> None:
    injection = Injection(
        id="inj", thread_id=THREAD, purpose="instructions", item_ids=("i",), held=()
    )
    await store.bindings.intend(claim, injection)
    await store.bindings.abandon(claim, "inj")
    await store.bindings.abandon(claim, "inj")

    assert await store.bindings.pending_injections(THREAD) == ()
    with pytest.raises(RevisionConflict):
        await store.bindings.confirm(claim, "inj", binding(session))
    with pytest.raises(NotFound):
        await store.bindings.abandon(claim, "nobody")
    assert injection.state is InjectionState.INTENDED


# ----------------------------------------------------------------------------------- reports


async def test_reports_are_numbered_and_replaced_by_run(
    store: SqliteStore, session: SessionRecord
) -> None:
    def report(run: str, number: int = 0, **values: object) -> ContextReport:
        return ContextReport(
            run_id=RunId(run),
            session_id=session.id,
            number=number,
            created_at=START,
            report=values,  # type: ignore[arg-type]
        )

    assert await store.reports.get(session.id) is None
    one = await store.reports.save(report("a", x=1))
    two = await store.reports.save(report("b", x=2))
    again = await store.reports.save(report("a", x=3))

    assert (one.number, two.number, again.number) == (1, 2, 1)
    assert await store.reports.get(session.id) == two
    assert await store.reports.get(session.id, 1) == again
    assert await store.reports.get(session.id, 9) is None
    with pytest.raises(RevisionConflict):
        await store.reports.save(report("c", 2))
    with pytest.raises(NotFound):
        await store.reports.save(replace(report("a"), session_id=SessionId("nobody")))


# -------------------------------------------------------------------------------- whole store


async def test_what_was_written_is_there_after_opening_again(
    tmp_path: Path, clock: ManualClock
) -> None:
    path = tmp_path / "treadle.db"
    ids = CountedIds()
    async with open_store(path, clock=clock, ids=ids) as store:
        record = await store.sessions.open(KEY, agent_id=MAIN, owner="local")
        run = await store.transcript.claim(record.id, RunId("r"))
        stored = await store.transcript.append(run, [entry("a"), entry("b")], held_by=THREAD)
        snapshot = await store.transcript.snapshot(record.id)
    with pytest.raises(StoreError):
        snapshot[0]
    with pytest.raises(StoreError):
        await store.transcript.append(run, [entry("c")])

    async with open_store(path, clock=clock, ids=ids, synchronous="NORMAL") as store:
        assert await store.transcript.entries(record.id) == stored
        check = await store.check()

    assert check.faults == ()
    assert (check.session_count, check.entry_count, check.message_count) == (1, 2, 2)
    assert os.listdir(tmp_path) == ["treadle.db"]


async def test_an_error_of_the_callers_own_comes_out_as_it_is(
    tmp_path: Path, clock: ManualClock
) -> None:
    class Own(Exception):
        pass

    with pytest.raises(Own):
        async with open_store(tmp_path / "s.db", clock=clock, ids=CountedIds()):
            raise Own


async def test_reading_goes_on_while_the_writer_waits_for_another_process(
    store: SqliteStore, claim: Claim, session: SessionRecord
) -> None:
    """Readers never wait for the writer; here a job holds the writer mid-flight."""
    entered, leave = threading.Event(), threading.Event()

    def hold(connection: object) -> None:
        del connection
        entered.set()
        assert leave.wait(20)

    async with anyio.create_task_group() as group:
        group.start_soon(store.driver.write, hold)
        await anyio.to_thread.run_sync(entered.wait, 20)
        with anyio.fail_after(5):
            assert await store.sessions.get(KEY) == session
            assert len(await store.transcript.snapshot(session.id)) == 0
        leave.set()


class AnyParameter(dict[str, None]):
    def __missing__(self, name: str) -> None:
        return None


NO_SCAN = (
    "active_branch",
    "branch_path",
    "claim_of",
    "entries_by_depth",
    "entries_by_id",
    "entries_by_position",
    "entry_by_key",
    "holds_entry",
    "last_held",
    "messages_by_position",
    "pending_injections",
    "recent_entries",
    "session_by_key",
)
"""Queries on the way of a turn: each finds its rows through an index, however many there are."""


async def test_every_query_fits_the_schema_and_those_of_a_turn_use_indexes(
    store: SqliteStore,
) -> None:
    raw = apsw.Connection(str(store.path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        for name, query in QUERIES.items():
            plan = raw.execute(f"EXPLAIN QUERY PLAN {query}", AnyParameter())
            steps = [str(step[3]) for step in plan]
            sorts = [step for step in steps if "USE TEMP B-TREE" in step]
            scans = [step for step in steps if step.startswith("SCAN e")]
            if name in NO_SCAN and name != "branch_path":  # which sorts a handful of branches
                assert not sorts, name
            if name in NO_SCAN and name != "recent_entries":  # which walks backwards, to its limit
                assert not scans, name
    finally:
        raw.close()
