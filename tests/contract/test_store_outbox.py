"""The engine outbox in the store: rows that move with the turn's entries, and after them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from treadle.contract.outbox import (
    INTERRUPTED,
    MAX_ATTEMPTS,
    MAX_BYTES,
    MAX_MESSAGES,
    Admission,
    Advancement,
    CommitState,
    Fence,
    Unsendable,
    advancement_key,
)
from treadle.contract.store import Claim, SessionRecord
from treadle.model.errors import RevisionConflict
from treadle.model.ids import AgentId, EngineId, RunId, SessionKey
from treadle.model.message import EntryKind, Message, NewEntry, assistant_message, user_message
from treadle.store import outbox as rows
from treadle.store.driver import Connection
from treadle.store.open import SqliteStore, open_store
from treadle.testing.clock import CountedIds, ManualClock

pytestmark = pytest.mark.anyio

KEY = SessionKey("agent:main:work")
ENGINE = EngineId("engine")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "treadle.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    async with open_store(path, clock=ManualClock(), ids=CountedIds()) as opened:
        yield opened


@pytest.fixture
async def session(store: SqliteStore) -> SessionRecord:
    return await store.sessions.open(KEY, agent_id=AgentId("main"), owner="local")


async def claim_for(store: SqliteStore, session: SessionRecord, run: str) -> Claim:
    return await store.transcript.claim(session.id, RunId(run))


def said(run: str, message: Message, name: str, kind: EntryKind = EntryKind.MESSAGE) -> NewEntry:
    return NewEntry(key=f"{run}:{name}", message=message, kind=kind, run_id=RunId(run))


def admission(run: str, *, commits: bool = True, engine: EngineId = ENGINE) -> Admission:
    return Admission(
        run_id=RunId(run), engine_id=engine, commits=commits, prompt_key=f"{run}:prompt"
    )


async def begin(
    store: SqliteStore, claim: Claim, *, commits: bool = True, engine: EngineId = ENGINE
) -> None:
    """Store the user's entry and admit the turn (S5)."""
    run = claim.run_id
    await store.transcript.append(claim, [said(run, user_message(f"ask {run}"), "prompt")])
    given = admission(run, commits=commits, engine=engine)

    def admit(connection: Connection) -> None:
        rows.admit(connection, claim.session_id, given, 1.0)

    await store.driver.write(admit)


async def end(
    store: SqliteStore, claim: Claim, *texts: str, ended_well: bool = True
) -> Advancement | None:
    """Store what was answered and settle the turn (S10)."""
    run = claim.run_id
    news = [said(run, assistant_message(text), f"answer {at}") for at, text in enumerate(texts)]
    await store.transcript.append(claim, news)

    def accept(connection: Connection) -> None:
        rows.accept(connection, claim.session_id, run, ended_well=ended_well, now=2.0)

    await store.driver.write(accept)
    return store.engine_outbox.of_run(claim.session_id, run)


async def turn(
    store: SqliteStore,
    session: SessionRecord,
    run: str,
    *texts: str,
    commits: bool = True,
    engine: EngineId = ENGINE,
) -> Advancement:
    """Run a whole good turn through the store."""
    claim = await claim_for(store, session, run)
    await begin(store, claim, commits=commits, engine=engine)
    row = await end(store, claim, *(texts or (f"answer to {run}",)))
    assert row is not None
    return row


def keys(waiting: tuple[Advancement, ...]) -> list[str]:
    return [one.run_id for one in waiting]


async def test_an_accepted_turn_is_ready_with_all_that_a_commit_sends(
    store: SqliteStore, session: SessionRecord
) -> None:
    """Spec B-19, B-37, B-38: from the admitted entry to the last one, both included."""
    claim = await claim_for(store, session, "r0")
    await store.transcript.append(claim, [said("r0", user_message("before"), "x")])
    claim = await claim_for(store, session, "r1")
    await begin(store, claim)
    admitted = store.engine_outbox.of_run(session.id, RunId("r1"))
    assert admitted is not None
    assert (admitted.state, admitted.commits) == (CommitState.ADMITTED, True)
    assert store.engine_outbox.pending(KEY, ENGINE) == ()
    notice = said("r1", Message(role="notice", content="?"), "n", EntryKind.NOTICE)
    await store.transcript.append(claim, [notice])
    row = await end(store, claim, "one", "two")
    assert row is not None
    assert (row.state, row.key) == (CommitState.READY, f"{session.id}:r1")
    assert (row.session_key, row.engine_id, row.attempts) == (KEY, ENGINE, 0)
    assert store.engine_outbox.pending(KEY, ENGINE) == (row,)
    messages = await store.engine_outbox.messages(row)
    assert isinstance(messages, tuple)
    assert [one.content for one in messages] == [
        user_message("ask r1").content,
        assistant_message("one").content,
        assistant_message("two").content,
    ]
    assert (messages[0].entry_id, messages[-1].entry_id) == (row.first, row.last)


async def test_a_bad_turn_leaves_no_row(store: SqliteStore, session: SessionRecord) -> None:
    """Spec B-36; INV-7: never for a failed or aborted turn."""
    claim = await claim_for(store, session, "r1")
    await begin(store, claim)
    assert await end(store, claim, "half an answer", ended_well=False) is None
    assert store.engine_outbox.health().pending_count == 0


async def test_a_turn_without_its_entry_is_not_admitted(
    store: SqliteStore, session: SessionRecord
) -> None:
    """Ours: a hook kept the user's message out, so there is nothing to begin with."""
    claim = await claim_for(store, session, "r1")
    given = admission("r1")
    await store.driver.write(lambda connection: rows.admit(connection, session.id, given, 1.0))
    assert store.engine_outbox.of_run(session.id, RunId("r1")) is None
    assert await end(store, claim, "an answer") is None


async def test_what_nobody_goes_on_with_is_dropped_when_the_next_turn_begins(
    store: SqliteStore, session: SessionRecord
) -> None:
    """Spec B-38: an admitted turn is dropped on recovery."""
    await begin(store, await claim_for(store, session, "r1"))
    await begin(store, await claim_for(store, session, "r2"))
    assert store.engine_outbox.of_run(session.id, RunId("r1")) is None
    admitted = store.engine_outbox.of_run(session.id, RunId("r2"))
    assert admitted is not None


async def test_a_second_attempt_is_the_same_turn(
    store: SqliteStore, session: SessionRecord
) -> None:
    """Ours: the run is taken up again, under whichever engine serves it then."""
    claim = await claim_for(store, session, "r1")
    await begin(store, claim)
    await begin(store, claim, engine=EngineId("another"))
    row = await end(store, claim, "done")
    assert row is not None
    assert (row.engine_id, row.key) == ("another", advancement_key(session.id, RunId("r1")))
    assert store.engine_outbox.pending(KEY, ENGINE) == ()


@pytest.mark.parametrize("state", ["ready", "committed"])
async def test_a_key_that_was_accepted_is_not_admitted_again(
    state: str, store: SqliteStore, session: SessionRecord
) -> None:
    """Spec B-37; INV-8: a key already used by another engine or payload is an error."""
    row = await turn(store, session, "r1")
    if state == "committed":
        await store.engine_outbox.answered(row)
    with pytest.raises(RevisionConflict, match=row.key):
        await begin(store, await claim_for(store, session, "r1"), engine=EngineId("another"))
    kept = store.engine_outbox.of_run(session.id, RunId("r1"))
    assert kept is not None
    assert (kept.state, kept.engine_id) == (state, ENGINE)


async def test_settling_twice_changes_nothing(store: SqliteStore, session: SessionRecord) -> None:
    """INV-6: S10 that was written and not heard of is written again."""
    claim = await claim_for(store, session, "r1")
    await begin(store, claim)
    first = await end(store, claim, "done")
    assert await end(store, claim, "done", ended_well=False) == first


# ------------------------------------------------------------------------------------- draining


async def test_turns_wait_in_the_order_of_their_acceptance(
    store: SqliteStore, session: SessionRecord
) -> None:
    """Spec B-37: per session, oldest first; one more than a drain takes can be seen."""
    for number in range(20):
        await turn(store, session, f"r{number}")
    other = await store.sessions.open(
        SessionKey("agent:main:other"), agent_id=AgentId("main"), owner="local"
    )
    await turn(store, other, "elsewhere")
    assert keys(store.engine_outbox.pending(KEY, ENGINE)) == [f"r{n}" for n in range(17)]
    assert keys(store.engine_outbox.pending(KEY, ENGINE, limit=1)) == ["r0"]
    assert store.engine_outbox.pending(KEY, EngineId("another")) == ()


async def test_a_reset_leaves_what_waits(store: SqliteStore, session: SessionRecord) -> None:
    """Ours: the turn was accepted; it goes out under the generation that it belongs to."""
    row = await turn(store, session, "r1")
    fresh = (await store.lives.reset(KEY)).after
    assert fresh is not None
    await turn(store, fresh, "r2")
    waiting = store.engine_outbox.pending(KEY, ENGINE)
    assert keys(waiting) == ["r1", "r2"]
    assert [one.session_id for one in waiting] == [session.id, fresh.id]
    assert isinstance(await store.engine_outbox.messages(row), tuple)


async def test_an_answered_turn_waits_no_more(store: SqliteStore, session: SessionRecord) -> None:
    """Spec B-37."""
    row = await turn(store, session, "r1")
    await store.engine_outbox.answered(row)
    assert store.engine_outbox.pending(KEY, ENGINE) == ()
    kept = store.engine_outbox.of_run(session.id, RunId("r1"))
    assert kept is not None
    assert (kept.state, kept.attempts) == (CommitState.COMMITTED, 1)
    assert await store.engine_outbox.failed(row, "too late") is CommitState.COMMITTED


async def test_a_failed_turn_waits_on_until_its_last_attempt(
    store: SqliteStore, session: SessionRecord
) -> None:
    """Spec B-37; reliability, fault matrix: blocked after so many, with the reason, and seen."""
    row = await turn(store, session, "r1")
    for _ in range(MAX_ATTEMPTS - 1):
        assert await store.engine_outbox.failed(row, "no, Bearer abcdef123456") is CommitState.READY
        [row] = store.engine_outbox.pending(KEY, ENGINE)
    assert row.reason is not None
    assert "abcdef123456" not in row.reason
    assert await store.engine_outbox.failed(row, "no") is CommitState.BLOCKED
    assert store.engine_outbox.pending(KEY, ENGINE) == ()
    health = store.engine_outbox.health()
    assert (health.pending_count, health.blocked_count) == (0, 1)
    assert [(one.run_id, one.reason, one.attempts) for one in health.named] == [
        ("r1", "no", MAX_ATTEMPTS)
    ]


async def test_a_turn_whose_entries_changed_is_never_sent(
    store: SqliteStore, session: SessionRecord, path: Path
) -> None:
    """INV-8: what lies in the file is compared with what was accepted, byte for byte."""
    row = await turn(store, session, "r1")
    other = apsw.Connection(str(path))
    other.execute("DROP TRIGGER entries_never_change")
    other.execute("UPDATE entries SET content = '\"other\"' WHERE id = ?", (row.last,))
    other.close()
    found = await store.engine_outbox.messages(row)
    assert isinstance(found, Unsendable)
    await store.engine_outbox.block(row, found)
    kept = store.engine_outbox.of_run(session.id, RunId("r1"))
    assert kept is not None
    assert (kept.state, kept.reason) == (
        CommitState.BLOCKED,
        "its entries are not those that were accepted",
    )


async def test_a_turn_whose_entries_are_gone_is_never_sent(
    store: SqliteStore, session: SessionRecord, path: Path
) -> None:
    """Spec B-38: an unreadable range."""
    row = await turn(store, session, "r1")
    other = apsw.Connection(str(path))
    other.execute("DELETE FROM entries WHERE id = ?", (row.last,))
    other.close()
    assert isinstance(await store.engine_outbox.messages(row), Unsendable)


async def test_too_much_for_one_commit_is_blocked_and_said(
    store: SqliteStore, session: SessionRecord
) -> None:
    """Spec B-38: 20 000 events and 8 MiB, the user's entry included."""
    claim = await claim_for(store, session, "long")
    await begin(store, claim)
    row = await end(store, claim, *(["-"] * MAX_MESSAGES))
    assert row is not None
    assert (row.state, row.reason) == (
        CommitState.BLOCKED,
        "the turn has 20,001 messages, more than 20,000",
    )
    big = await turn(store, session, "big", "x" * (MAX_BYTES - 100), "y" * 100)
    assert big.state is CommitState.BLOCKED
    assert "bytes, more than" in (big.reason or "")
    just = await turn(store, session, "just", "x" * (MAX_BYTES - 100))
    assert just.state is CommitState.READY
    assert store.engine_outbox.health().blocked_count == 2


# ----------------------------------------------------------------- engines that do not commit


async def test_an_engine_without_commits_is_settled_by_what_came_of_handing_over(
    store: SqliteStore, session: SessionRecord
) -> None:
    """Spec B-48: never pending, never replayed."""
    row = await turn(store, session, "r1", commits=False)
    assert row.state is CommitState.ACCEPTED
    assert store.engine_outbox.pending(KEY, ENGINE) == ()
    await store.engine_outbox.handed_over(session.id, RunId("r1"), reason="it threw")
    await store.engine_outbox.handed_over(session.id, RunId("r1"))  # a second time: nothing
    await store.engine_outbox.handed_over(session.id, RunId("r0"))  # no row: nothing
    kept = store.engine_outbox.of_run(session.id, RunId("r1"))
    assert kept is not None
    assert (kept.state, kept.reason) == (CommitState.SETTLED, "it threw")
    assert store.engine_outbox.health().named == ()


async def test_what_a_dead_process_left_half_handed_over_is_settled(
    store: SqliteStore, session: SessionRecord
) -> None:
    """Spec B-48: nobody knows whether it was handed over, so it is not again."""
    await turn(store, session, "r1", commits=False)
    waiting = await turn(store, session, "r2")
    assert await store.engine_outbox.settle_interrupted() == 1
    assert await store.engine_outbox.settle_interrupted() == 0
    kept = store.engine_outbox.of_run(session.id, RunId("r1"))
    assert kept is not None
    assert (kept.state, kept.reason) == (CommitState.SETTLED, INTERRUPTED)
    assert store.engine_outbox.pending(KEY, ENGINE) == (waiting,)


# ---------------------------------------------------------------------------------- the fence


async def test_the_fence_stands_before_the_admitted_entry(
    store: SqliteStore, session: SessionRecord
) -> None:
    """Spec B-35."""
    await turn(store, session, "r1")
    claim = await claim_for(store, session, "r2")
    assert store.engine_outbox.fence(session.id, RunId("r2")) == Fence(), "it is not stored yet"
    await begin(store, claim)
    fence = store.engine_outbox.fence(session.id, RunId("r2"))
    assert fence == Fence(position=2)
    snapshot = await store.transcript.snapshot(session.id)
    assert len(snapshot) == 3
    prefix = snapshot.prefix(2)
    assert list(prefix) == list(snapshot)[:2]
    assert [len(snapshot.prefix(count)) for count in (0, 1, 9)] == [0, 1, 3]
    assert prefix.entries_by_id([one.entry_id for one in snapshot if one.entry_id]).keys() == {
        one.entry_id for one in prefix
    }


async def test_a_crossed_fence_is_a_fault(store: SqliteStore, session: SessionRecord) -> None:
    """Spec B-35: another turn's message stands behind the admitted entry."""
    claim = await claim_for(store, session, "r1")
    await begin(store, claim)
    own = said("r1", assistant_message("part of the same turn"), "own")
    await store.transcript.append(claim, [own])
    assert store.engine_outbox.fence(session.id, RunId("r1")).fault is None
    await store.transcript.append(claim, [said("r9", user_message("another"), "prompt")])
    assert "another turn" in (store.engine_outbox.fence(session.id, RunId("r1")).fault or "")


async def test_a_rewritten_or_missing_entry_is_a_fault(
    store: SqliteStore, session: SessionRecord, path: Path
) -> None:
    """Spec B-35."""
    await begin(store, await claim_for(store, session, "r1"))
    row = store.engine_outbox.of_run(session.id, RunId("r1"))
    assert row is not None
    other = apsw.Connection(str(path))
    other.execute("DROP TRIGGER entries_never_change")
    other.execute("UPDATE entries SET content_hash = 'x' WHERE id = ?", (row.first,))
    assert "rewritten" in (store.engine_outbox.fence(session.id, RunId("r1")).fault or "")
    other.execute("DELETE FROM entries WHERE id = ?", (row.first,))
    other.close()
    assert "missing" in (store.engine_outbox.fence(session.id, RunId("r1")).fault or "")
