"""The append-only tree of entries, written under a live claim.

Knows nothing of what entries mean, of engines or of Codex; keys, hashes and order are all it needs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import anyio.to_thread

from treadle.clock import Clock, Ids
from treadle.contract.events import ENTRY_COMMITTED, NewEvent, StreamHead
from treadle.contract.inbox import Settlement
from treadle.contract.store import (
    Binding,
    Claim,
    Held,
    SearchHit,
    SearchQuery,
    TranscriptStore,
)
from treadle.failpoints import failpoint
from treadle.model.ids import EntryId, RunId, SessionId, SessionKey, StreamId, ThreadId
from treadle.model.message import Entry, Message, NewEntry
from treadle.store.claims import check_claim, check_current, check_generation, no_generation
from treadle.store.driver import Connection, Driver, Row
from treadle.store.events import SqlEvents
from treadle.store.inbox import settle_message, start_message
from treadle.store.recent import RecentMessages
from treadle.store.rows import PreparedEntry, entry_from_row, prepared
from treadle.store.search import Term, match_expression, snippet, terms, words_of
from treadle.store.snapshot import SqlSnapshot, segments_of
from treadle.store.threads import add_held, holds_entry, put_binding

SMALL_CHARS: Final = 4096
"""Characters of a prompt up to which it is prepared on the event loop: some 50 µs."""

ENTRY_PREFIX: Final = "ent"
"""Prefix of the ids of entries."""


class SqlTranscript(TranscriptStore):
    """`TranscriptStore` over a driver."""

    def __init__(self, driver: Driver, events: SqlEvents, *, clock: Clock, ids: Ids) -> None:
        self._driver = driver
        self._events = events
        self._recent = RecentMessages()
        self._clock = clock
        self._ids = ids

    async def claim(self, session_id: SessionId, run_id: RunId) -> Claim:
        """See `TranscriptStore`."""

        def take(connection: Connection) -> Claim:
            check_current(connection, session_id)
            now = self._clock.now()
            connection.run("take_claim", session_id=session_id, run_id=run_id, now=now)
            connection.run("touch_generation", session_id=session_id, now=now)
            start_message(connection, run_id, session_id, now)
            row = connection.one("claim_of", session_id=session_id)
            assert row is not None
            return Claim(session_id=session_id, run_id=run_id, lease_epoch=row[0])

        # A power cut ends the claim's holder too, and what it writes takes the claim along.
        claim = await self._driver.write(take, durable=False)
        failpoint("S2")
        return claim

    async def release(self, claim: Claim) -> None:
        """See `TranscriptStore`; nothing can be written under the claim any more."""

        def give_back(connection: Connection) -> None:
            connection.run(
                "give_claim_back",
                session_id=claim.session_id,
                run_id=claim.run_id,
                lease_epoch=claim.lease_epoch,
            )

        await self._driver.write(give_back, durable=False)

    async def append(
        self,
        claim: Claim,
        entries: Sequence[NewEntry],
        *,
        held_by: ThreadId | None = None,
        held_unwritten: Sequence[Held] = (),
        binding: Binding | None = None,
        settlement: Settlement | None = None,
    ) -> tuple[Entry, ...]:
        """See `TranscriptStore`.

        An entry takes its time from its message where that has one. The first entry of a key stays
        as it was stored, whatever comes later under that key. Raises besides: UsageError for text
        that holds half a character, or what JSON cannot say.
        """
        if _is_small(entries):
            new = prepared(entries)
        else:
            new = await anyio.to_thread.run_sync(prepared, entries)

        heads: list[StreamHead] = []

        def store(connection: Connection) -> tuple[Entry, ...]:
            check_claim(connection, claim)
            stream = _stream_of(connection, claim.session_id)
            appender = Appender(connection, claim.session_id, self._ids, self._clock.now())
            stored = appender.add(new)
            told = (_committed(entry, claim.run_id) for entry in appender.added)
            heads.append(self._events.add(connection, stream, told))
            if held_by is not None:
                add_held(connection, held_by, held_unwritten)
                _hold(connection, held_by, stored)
            if binding is not None:
                check_claim(connection, claim, binding.session_id)
                put_binding(connection, binding, self._clock.now())
            if settlement is not None:
                settle_message(connection, self._events, settlement, self._clock.now())
            failpoint(f"{point}-before-commit")
            return stored

        point = _durability_point(binding, settlement)
        try:
            stored = await self._driver.write(store)
            failpoint(f"{point}-after-commit")
        except BaseException:  # a caller that was cancelled has had it written all the same
            self._events.told(*(head.stream for head in heads[-1:]))
            raise
        self._events.written(heads[-1])
        return stored

    async def snapshot(self, session_id: SessionId) -> SqlSnapshot:
        """See `TranscriptStore`. Raises: NotFound."""
        path = self._driver.read_now(lambda connection: _path(connection, session_id))
        return SqlSnapshot(self._driver, session_id, segments_of(path), self._recent)

    async def entries(
        self, session_id: SessionId, *, after_depth: int = -1, limit: int = 500
    ) -> tuple[Entry, ...]:
        """See `TranscriptStore`. Raises: NotFound."""

        def find(connection: Connection) -> tuple[Entry, ...]:
            found: list[Row] = []
            for part in segments_of(_path(connection, session_id)):
                if part.stop_depth > after_depth + 1 and len(found) < limit:
                    found += connection.rows(
                        "entries_by_depth",
                        branch=part.branch,
                        start=max(part.start_depth, after_depth + 1),
                        stop=part.stop_depth,
                        limit=limit - len(found),
                    )
            return tuple(entry_from_row(row) for row in found)

        return await self._driver.read(find)

    async def search(self, query: SearchQuery) -> tuple[SearchHit, ...]:
        """See `TranscriptStore`; how text becomes words is told in `store.search`.

        All generations and branches are searched, and in one session what it shares with the one
        that it branched from; what only deleted sessions hold is not found. A query without any
        text lists the newest entries that fit the rest; one of signs alone fits nothing. Both ends
        of the time count in.
        """
        wanted = terms(query.text)
        if not wanted and query.text.strip():
            return ()

        def find(connection: Connection) -> tuple[SearchHit, ...]:
            filters = {
                "session_key": query.session_key,
                "agent_id": query.agent_id,
                "owner": query.owner,
                "role": query.role,
                "since": query.since,
                "until": query.until,
                "limit": max(0, query.limit),
                "inherited": _inherited(connection, query.session_key),
            }
            if wanted:
                rows = connection.rows("search_entries", words=match_expression(wanted), **filters)
            else:
                rows = connection.rows("recent_entries", **filters)
            return tuple(_hit(row, wanted) for row in rows)

        return await self._driver.read(find)


@dataclass(slots=True)
class Appender:
    """Appends to one branch inside one transaction."""

    connection: Connection
    session_id: SessionId
    ids: Ids
    now: float
    added: list[Entry] = field(default_factory=list)
    """Those that were not stored before."""

    def add(self, entries: Sequence[PreparedEntry]) -> tuple[Entry, ...]:
        """Append what is new, and return the stored entries in the order given."""
        row = self.connection.one("active_branch", session_id=self.session_id)
        assert row is not None, "a claim refers to a generation, and that to its branch"
        branch, depth, position, head = row
        first = depth
        stored = []
        for entry in entries:
            found = self._find(entry.new.key)
            if found is None:
                self._insert(entry, branch, depth, position, head)
                found = self._find(entry.new.key)
                assert found is not None
                self.added.append(found)
                head, depth, position = found.id, depth + 1, position + entry.has_position
            stored.append(found)
        if depth > first:
            self.connection.run(
                "grow_branch", branch=branch, entry_count=depth, message_count=position, head=head
            )
            self.connection.run("touch_generation", session_id=self.session_id, now=self.now)
        return tuple(stored)

    def _find(self, key: str) -> Entry | None:
        row = self.connection.one("entry_by_key", session_id=self.session_id, key=key)
        return None if row is None else entry_from_row(row)

    def _insert(
        self, entry: PreparedEntry, branch: int, depth: int, position: int, head: EntryId | None
    ) -> None:
        new = entry.new
        given = new.message.created_at
        seq = self.connection.run(
            "add_entry",
            id=self.ids.new(ENTRY_PREFIX),
            session_id=self.session_id,
            branch=branch,
            depth=depth,
            position=position if entry.has_position else None,
            parent=head,
            kind=new.kind,
            key=new.key,
            role=new.message.role,
            host_only=new.message.host_only,
            content_hash=entry.content_hash,
            thread_id=new.thread_id,
            turn_id=new.turn_id,
            run_id=new.run_id,
            created_at=self.now if given is None else given,
            meta=entry.meta,
            content=entry.content,
            raw_items=entry.raw_items,
        )
        self.connection.run("index_entry", seq=seq, words=entry.words)


def _committed(entry: Entry, run_id: RunId) -> NewEvent:
    return NewEvent(type=ENTRY_COMMITTED, run_id=run_id, turn_id=entry.turn_id, entry_id=entry.id)


def _stream_of(connection: Connection, session_id: SessionId) -> StreamId:
    row = connection.one("session_key_of", session_id=session_id)
    if row is None:
        raise no_generation(session_id)
    return StreamId(row[0])


def _is_small(entries: Sequence[NewEntry]) -> bool:
    """Whether preparing takes less time than a worker thread costs: a short text and no more."""
    match entries:
        case []:
            return True
        case [
            NewEntry(raw_items=(), message=Message(content=[{"type": "text", "text": str(text)}]))
        ]:
            return len(text) <= SMALL_CHARS
        case _:
            return False


def _hold(connection: Connection, thread_id: ThreadId, entries: Sequence[Entry]) -> None:
    """Note that the thread holds those messages among the entries that it is not known to hold."""
    new = {
        entry.id: Held(content_hash=entry.content_hash, entry_id=entry.id)
        for entry in entries
        if entry.position is not None and not holds_entry(connection, thread_id, entry.id)
    }
    add_held(connection, thread_id, new.values())


def _path(connection: Connection, session_id: SessionId) -> list[Row]:
    path = connection.rows("branch_path", session_id=session_id)
    if not path:
        check_generation(connection, session_id)
    return path


def _durability_point(binding: Binding | None, settlement: Settlement | None) -> str:
    if settlement is not None:
        return "S10"
    return "S5" if binding is not None and binding.open_turn is not None else "S8"


def _inherited(connection: Connection, key: SessionKey | None) -> str:
    """Return the path of a session as JSON: pairs of a branch and the depth at which it ends."""
    row = None if key is None else connection.one("session_by_key", key=key)
    if row is None:
        return "[]"
    path = segments_of(connection.rows("branch_path", session_id=row[1]))
    return json.dumps([[part.branch, part.stop_depth] for part in path])


def _hit(row: Row, wanted: Sequence[Term]) -> SearchHit:
    entry = entry_from_row(row)
    piece, matches = snippet(words_of(entry.message), wanted)
    return SearchHit(session_key=SessionKey(row[17]), entry=entry, snippet=piece, matches=matches)
