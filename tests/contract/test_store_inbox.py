"""The inbox in the store: one row a message, one end a row, and the end stands with its entries."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TypeVar

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from treadle.contract.inbox import (
    FINAL,
    NEXT,
    InboxMessage,
    MessageState,
    NewMessage,
    Settlement,
    state_after,
)
from treadle.contract.store import SessionRecord
from treadle.model.errors import ClaimLost, MessageConflict
from treadle.model.ids import AgentId, RunId, SessionKey, StreamId
from treadle.model.message import NewEntry, assistant_message, user_message
from treadle.model.turn import Outcome
from treadle.store.open import SqliteStore, open_store
from treadle.testing.clock import CountedIds, ManualClock

T = TypeVar("T")
KEY = SessionKey("agent:main:work")
OTHER = SessionKey("agent:main:other")


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


def message(
    number: int, *, key: SessionKey = KEY, text: str = "hello", run: str | None = None
) -> NewMessage:
    return NewMessage(
        session_key=key,
        client_message_id=f"m{number}",
        run_id=RunId(run or f"r{number}"),
        request={"text": text},
    )


def end(run: str, state: MessageState = MessageState.ANSWERED) -> Settlement:
    return Settlement(run_id=RunId(run), state=state, outcome={"text": "hi"}, reason="because")


async def told(store: SqliteStore) -> list[str]:
    events = await store.events.read(StreamId(KEY), after=0, limit=100)
    return [event.type for event in events]


def stored(store: SqliteStore, number: int = 1) -> InboxMessage:
    found = store.inbox.find(KEY, f"m{number}")
    assert found is not None
    return found


# ------------------------------------------------------------------------------------- acceptance


@pytest.mark.anyio
async def test_an_accepted_message_is_stored_with_its_event(store: SqliteStore, path: Path) -> None:
    """INV-1: what accept returned is there when the store is opened again."""
    accepted = await store.inbox.accept(message(1))
    assert (accepted.state, accepted.attempts, accepted.run_id) == ("accepted", 0, "r1")
    assert await told(store) == ["message.accepted"]
    async with open_store(path, clock=ManualClock(), ids=CountedIds()) as again:
        assert await again.inbox.unfinished() == (accepted,)


@pytest.mark.anyio
async def test_the_same_id_again_is_the_same_message_and_its_end(store: SqliteStore) -> None:
    """INV-2, RS03: one row and one event, however often it comes, also behind its end."""
    first = await store.inbox.accept(message(1))
    for run in ("r2", "r3"):
        assert await store.inbox.accept(message(1, run=run)) == first
    await store.inbox.settle(end("r1"))
    known = await store.inbox.accept(message(1, run="r4"))
    assert (known.run_id, known.state, known.outcome) == ("r1", "answered", {"text": "hi"})
    assert await told(store) == ["message.accepted"]
    elsewhere = await store.inbox.accept(message(1, key=OTHER, run="r5"))
    assert elsewhere.run_id == "r5"


@pytest.mark.anyio
async def test_another_message_under_a_known_id_is_refused(store: SqliteStore) -> None:
    """INV-2: the stored one stays as it is."""
    first = await store.inbox.accept(message(1))
    with pytest.raises(MessageConflict, match=r"'m1'.*names another message") as refused:
        await store.inbox.accept(message(1, text="other", run="r2"))
    assert refused.value.next_step
    assert store.inbox.find(KEY, "m1") == first


# -------------------------------------------------------------------------------------- its course


def test_every_end_is_an_end() -> None:
    """INV-1: nothing follows a final state, and every other one leads to each of them."""
    assert all(not NEXT[state] for state in FINAL)
    assert all(NEXT[state] >= FINAL for state in NEXT if state not in FINAL)
    assert NEXT.keys() == set(MessageState)


@pytest.mark.parametrize(
    ("outcome", "replay_safe", "state"),
    [
        (Outcome.COMPLETED, False, "answered"),
        (Outcome.FAILED, False, "failed"),
        (Outcome.TIMED_OUT, False, "failed"),
        (Outcome.STOPPED, False, "cancelled"),
        (Outcome.CLIENT_LOST, True, "failed"),
        (Outcome.CLIENT_LOST, False, "unknown"),
    ],
)
def test_the_end_of_a_run_is_the_end_of_its_message(
    outcome: Outcome, replay_safe: bool, state: str
) -> None:
    """INV-9: what is lost and may have done something is unknown."""
    assert state_after(outcome, replay_safe=replay_safe) == state


@pytest.mark.anyio
async def test_a_claim_begins_its_message_and_counts_it(
    store: SqliteStore, session: SessionRecord
) -> None:
    """Ours: S2 marks the row; a requeued one has begun once all the same."""
    await store.inbox.accept(message(1))
    await store.transcript.claim(session.id, RunId("r1"))
    row = stored(store)
    assert (row.state, row.attempts, row.session_id) == ("running", 1, session.id)
    await store.inbox.requeue(RunId("r1"))
    assert (stored(store).state, stored(store).attempts) == ("accepted", 1)
    await store.transcript.claim(session.id, RunId("r1"))
    assert (stored(store).state, stored(store).attempts) == ("running", 2)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("state", "event"),
    [
        (MessageState.ANSWERED, None),
        (MessageState.FAILED, "message.failed"),
        (MessageState.CANCELLED, "message.cancelled"),
        (MessageState.UNKNOWN, "message.unconfirmed"),
    ],
)
async def test_a_message_ends_once(
    store: SqliteStore, state: MessageState, event: str | None
) -> None:
    """INV-1, INV-6: the first end stands, and only it is told; there is no way back."""
    await store.inbox.accept(message(1))
    assert await store.inbox.settle(end("r1", state)) is True
    first = stored(store)
    assert (first.state, first.outcome) == (state, {"text": "hi"})
    for other in FINAL:
        assert await store.inbox.settle(end("r1", other)) is False
    await store.inbox.requeue(RunId("r1"))
    assert stored(store) == first
    assert await told(store) == ["message.accepted", *([event] if event else [])]


@pytest.mark.anyio
async def test_a_run_without_a_message_has_nothing_to_end(store: SqliteStore) -> None:
    assert await store.inbox.settle(end("r9")) is False


def test_a_state_that_is_no_end_settles_nothing() -> None:
    with pytest.raises(ValueError, match="no final state"):
        end("r1", MessageState.RUNNING)


@pytest.mark.anyio
async def test_messages_without_an_end_are_listed_in_order_of_acceptance(
    store: SqliteStore,
) -> None:
    """INV-3."""
    for number in (3, 1, 2):
        await store.inbox.accept(message(number))
    await store.inbox.accept(message(4, key=OTHER))
    await store.inbox.settle(end("r1"))
    assert [one.run_id for one in await store.inbox.unfinished()] == ["r3", "r2", "r4"]
    assert [one.run_id for one in store.inbox.unfinished_of(KEY)] == ["r3", "r2"]


# ---------------------------------------------------------------------------------------------- S10


@pytest.mark.anyio
async def test_the_end_stands_with_the_entries_or_neither_does(
    store: SqliteStore, session: SessionRecord
) -> None:
    """INV-4, INV-6, RS05: the claim was taken over, so neither row nor entry is written."""
    await store.inbox.accept(message(1))
    old = await store.transcript.claim(session.id, RunId("r1"))
    new = await store.transcript.claim(session.id, RunId("r2"))
    answer = NewEntry(key="a", message=assistant_message("answer"))
    with pytest.raises(ClaimLost):
        await store.transcript.append(old, [answer], settlement=end("r1"))
    assert stored(store).state == "running"
    assert await store.transcript.entries(session.id) == ()
    await store.transcript.append(new, [answer], settlement=end("r1"))
    assert stored(store).state == "answered"
    assert len(await store.transcript.entries(session.id)) == 1


# ----------------------------------------------------------------------- any order, any crash


class Inboxes(RuleBasedStateMachine):
    """The inbox beside a dict of what its clients were told; `crash` keeps what was committed."""

    @initialize()
    def open(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="treadle-inbox-"))
        self.ids = CountedIds()
        self.stack = contextlib.ExitStack()
        self.portal: BlockingPortal = self.stack.enter_context(start_blocking_portal())
        self.store = self._open_store()
        self.session = self.call(
            lambda: self.store.sessions.open(KEY, agent_id=AgentId("main"), owner="local")
        )
        self.order: list[RunId] = []
        self.states: dict[RunId, MessageState] = {}
        self.attempts: dict[RunId, int] = {}

    def _open_store(self) -> SqliteStore:
        opening: AbstractAsyncContextManager[SqliteStore] = open_store(
            self.folder / "s.db", clock=ManualClock(), ids=self.ids, synchronous="NORMAL"
        )
        self.closing = self.portal.wrap_async_context_manager(opening)
        return self.closing.__enter__()

    def call(self, what: Callable[[], Awaitable[T]]) -> T:
        return self.portal.call(what)

    @rule(number=st.integers(1, 5), again=st.integers(0, 9))
    def accept(self, number: int, again: int) -> None:
        accepted = self.call(
            lambda: self.store.inbox.accept(message(number, run=f"r{number}.{again}"))
        )
        run = accepted.run_id
        if not any(known.startswith(f"r{number}.") for known in self.order):
            assert run == f"r{number}.{again}"
            self.order.append(run)
            self.states[run] = MessageState.ACCEPTED
            self.attempts[run] = 0
        assert (accepted.state, accepted.attempts) == (self.states[run], self.attempts[run])

    @precondition(lambda self: self.order)
    @rule(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        run = data.draw(st.sampled_from(self.order))
        self.call(lambda: self.store.transcript.claim(self.session.id, run))
        if self.states[run] not in FINAL:
            self.states[run] = MessageState.RUNNING
            self.attempts[run] += 1

    @precondition(lambda self: self.order)
    @rule(data=st.data())
    def requeue(self, data: st.DataObject) -> None:
        run = data.draw(st.sampled_from(self.order))
        self.call(lambda: self.store.inbox.requeue(run))
        if self.states[run] is MessageState.RUNNING:
            self.states[run] = MessageState.ACCEPTED

    @precondition(lambda self: self.order)
    @rule(data=st.data(), state=st.sampled_from(sorted(FINAL)), with_entry=st.booleans())
    def settle(self, data: st.DataObject, state: MessageState, with_entry: bool) -> None:
        run = data.draw(st.sampled_from(self.order))
        ended = end(run, state)
        if with_entry:
            news = [NewEntry(key=f"{run}:{state}", message=user_message(run))]
            another = RunId("another")
            claim = self.call(lambda: self.store.transcript.claim(self.session.id, another))
            self.call(lambda: self.store.transcript.append(claim, news, settlement=ended))
        else:
            self.call(lambda: self.store.inbox.settle(ended))
        if self.states[run] not in FINAL:
            self.states[run] = state

    @rule()
    def crash(self) -> None:
        self.closing.__exit__(None, None, None)
        self.store = self._open_store()

    @invariant()
    def nothing_acknowledged_is_lost_doubled_or_moved(self) -> None:
        found = self.call(self.store.inbox.unfinished)
        unfinished = [run for run in self.order if self.states[run] not in FINAL]
        assert [one.run_id for one in found] == unfinished
        assert list(self.store.inbox.unfinished_of(KEY)) == list(found)
        for run in self.order:
            one = self.store.inbox.find(KEY, f"m{run[1]}")
            assert one is not None
            assert (one.run_id, one.state) == (run, self.states[run])
            assert one.attempts == self.attempts[run]

    def teardown(self) -> None:
        if hasattr(self, "stack"):
            self.closing.__exit__(None, None, None)
            self.stack.close()
            shutil.rmtree(self.folder)


TestInboxes = Inboxes.TestCase
TestInboxes.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)
