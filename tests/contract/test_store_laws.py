"""Laws of the transcript under any order of claims, appends, looks and reopenings."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from treadle.contract.store import Claim, TranscriptSnapshot
from treadle.model.errors import ClaimLost
from treadle.model.ids import AgentId, RunId, SessionKey, ThreadId
from treadle.model.message import EntryKind, Message, NewEntry, content_hash
from treadle.store.open import SqliteStore, open_store
from treadle.store.threads import next_chain
from treadle.testing.clock import CountedIds, ManualClock

T = TypeVar("T")
THREAD = ThreadId("thread")

new_entries = st.lists(
    st.builds(
        NewEntry,
        key=st.integers(0, 30).map("key {}".format),
        kind=st.sampled_from(list(EntryKind)),
        message=st.builds(
            Message,
            role=st.sampled_from(["user", "assistant", "toolResult"]),
            content=st.one_of(st.none(), st.text(st.characters(codec="utf-8"), max_size=10)),
        ),
    ),
    max_size=6,
)


class Transcripts(RuleBasedStateMachine):
    """The store beside a list of keys, which is all that a transcript is in the end."""

    @initialize()
    def open(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="treadle-laws-"))
        self.ids = CountedIds()
        self.stack = contextlib.ExitStack()
        self.portal: BlockingPortal = self.stack.enter_context(start_blocking_portal())
        self.store = self._open_store()
        opened = self.call(
            lambda: self.store.sessions.open(
                SessionKey("agent:main:s"), agent_id=AgentId("main"), owner="local"
            )
        )
        self.session_id = opened.id
        self.claims: list[Claim] = []
        self.expected: list[NewEntry] = []
        self.held: list[str] = []
        self.snapshots: list[tuple[TranscriptSnapshot, list[Message]]] = []

    def _open_store(self) -> SqliteStore:
        opening: AbstractAsyncContextManager[SqliteStore] = open_store(
            self.folder / "s.db", clock=ManualClock(), ids=self.ids, synchronous="NORMAL"
        )
        self.closing = self.portal.wrap_async_context_manager(opening)
        return self.closing.__enter__()

    def call(self, what: Callable[[], Awaitable[T]]) -> T:
        return self.portal.call(what)

    @rule()
    def take_over(self) -> None:
        run = RunId(f"run {len(self.claims)}")
        self.claims.append(self.call(lambda: self.store.transcript.claim(self.session_id, run)))

    @precondition(lambda self: self.claims)
    @rule(entries=new_entries, back=st.integers(0, 2), holds=st.booleans())
    def append(self, entries: list[NewEntry], back: int, holds: bool) -> None:
        claim = self.claims[max(0, len(self.claims) - 1 - back)]
        held_by = THREAD if holds else None
        try:
            stored = self.call(
                lambda: self.store.transcript.append(claim, entries, held_by=held_by)
            )
        except ClaimLost:
            assert claim != self.claims[-1]
            return
        assert claim == self.claims[-1]
        known = {one.key for one in self.expected}
        for new, entry in zip(entries, stored, strict=True):
            if new.key not in known:
                known.add(new.key)
                self.expected.append(new)
            assert entry.key == new.key
            is_message = entry.kind is EntryKind.MESSAGE
            if holds and is_message and entry.id not in self.held:
                self.held.append(entry.id)

    @rule()
    def look(self) -> None:
        snapshot = self.call(lambda: self.store.transcript.snapshot(self.session_id))
        self.snapshots.append((snapshot, list(snapshot)))

    @precondition(lambda self: self.snapshots)
    @rule(data=st.data())
    def slices_are_those_of_a_list(self, data: st.DataObject) -> None:
        snapshot, messages = self.snapshots[-1]
        part = data.draw(st.slices(len(messages)))
        assert snapshot[part] == messages[part]

    @precondition(lambda self: self.snapshots)
    @rule(data=st.data())
    def what_is_shared_is_what_a_slice_gives(self, data: st.DataObject) -> None:
        snapshot, messages = data.draw(st.sampled_from(self.snapshots))
        part = data.draw(st.slices(len(messages)).filter(lambda found: found.step in {None, 1}))
        start, stop, _ = part.indices(len(messages))
        shared = snapshot.shared(start, stop)
        assert list(shared) == messages[start:stop]
        for one in shared:
            assert one.content_hash == content_hash(one.role, one.content)

    @rule()
    def open_again(self) -> None:
        self.snapshots.clear()
        self.closing.__exit__(None, None, None)
        self.store = self._open_store()

    @invariant()
    def nothing_is_lost_doubled_moved_or_changed(self) -> None:
        entries = self.call(lambda: self.store.transcript.entries(self.session_id))
        assert [one.key for one in entries] == [one.key for one in self.expected]
        assert [one.message.content for one in entries] == [
            one.message.content for one in self.expected
        ]
        assert [one.depth for one in entries] == list(range(len(entries)))
        positions = [one.position for one in entries if one.position is not None]
        assert positions == list(range(len(positions)))

    @invariant()
    def every_look_is_a_prefix_of_the_next_and_never_changes(self) -> None:
        now = self.call(lambda: self.store.transcript.snapshot(self.session_id))
        for snapshot, messages in self.snapshots:
            assert list(snapshot) == messages == now[: len(messages)]

    @invariant()
    def the_thread_holds_what_it_was_given_once(self) -> None:
        held = self.call(lambda: self.store.bindings.held(THREAD))
        assert [one.entry_id for one in held] == self.held
        chain = ""
        for one in held:
            chain = next_chain(chain, one.content_hash)
        holding = self.call(lambda: self.store.bindings.holding(THREAD))
        assert (holding.count, holding.chain) == (len(held), chain)

    def teardown(self) -> None:
        assert self.call(self.store.check).faults == ()
        self.closing.__exit__(None, None, None)
        self.stack.close()
        shutil.rmtree(self.folder)


TestTranscripts = Transcripts.TestCase
TestTranscripts.settings = settings(max_examples=20, stateful_step_count=25, deadline=None)
