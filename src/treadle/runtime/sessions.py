"""A session as its caller holds it.

Run a message, read what was said, see what the model was given.

Knows nothing of harnesses or threads.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final, Unpack

from treadle.contract.harness import CompactionResult
from treadle.contract.lives import Turnover
from treadle.contract.store import ContextReport, SessionRecord, Store
from treadle.model.errors import UsageError
from treadle.model.ids import EntryId, SessionKey
from treadle.model.message import Entry
from treadle.model.session import SessionName, session_name
from treadle.model.text import truncate, without_surrogates
from treadle.runtime.export import export_entry, export_head
from treadle.runtime.handle import RunHandle
from treadle.runtime.lives import unknown_session
from treadle.runtime.requests import RunOptions, RunRequest
from treadle.runtime.runs import TITLE_CHARS, RunSite

if TYPE_CHECKING:
    from treadle.runtime.service import Runtime

_PAGE: Final = 500


class Session:
    """One session of a runtime; it need not exist yet, the first message makes it."""

    def __init__(self, runtime: Runtime, store: Store, site: RunSite) -> None:
        """Hold the runtime and where runs of this session happen."""
        self._runtime = runtime
        self._store = store
        self._site = site

    @property
    def key(self) -> SessionKey:
        """Its full key."""
        return self._site.name.key

    @property
    def name(self) -> SessionName:
        """Its key, taken apart."""
        return self._site.name

    def run(self, text: str, **options: Unpack[RunOptions]) -> RunHandle:
        """Take a message and return its run at once; runs of one session go one after another.

        The message is being stored meanwhile: `await handle.accepted()`, or `submit`, waits for
        that. The options are those of `RunOptions`. The same `client_message_id` again is the same
        message and gives the same run (INV-2).

        Raises: UsageError for a message that cannot be sent, MessageTooLarge, QueueFull where too
        many wait in this session, Draining, MessageConflict for another message under a known id.
        Everything later is the run's result.
        """
        return self._runtime.submit(RunRequest(text=text, **options), self._site)

    async def submit(self, text: str, **options: Unpack[RunOptions]) -> RunHandle:
        """Take a message as `run` does, and return its run once the message is stored (S1).

        From then on it reaches an end, whatever is killed: a process that opens this state
        directory later takes it up. Raises: as `run`, and StoreFull or another StoreError where it
        could not be stored. Cancel: the run goes on.
        """
        handle = self.run(text, **options)
        await handle.accepted()
        return handle

    async def record(self) -> SessionRecord | None:
        """Return what is stored of it, or None if nothing is yet."""
        return await self._store.sessions.get(self.key)

    async def entries(self, *, after_depth: int = -1, limit: int = _PAGE) -> tuple[Entry, ...]:
        """Return stored entries in order, from behind `after_depth` on. Raises: NotFound."""
        record = await self._known()
        return await self._store.transcript.entries(record.id, after_depth=after_depth, limit=limit)

    async def context(self, turn: int | None = None) -> ContextReport | None:
        """Return what the model was given in that turn, or in the last one. Raises: NotFound."""
        record = await self._known()
        return await self._store.reports.get(record.id, turn)

    async def compact(self) -> CompactionResult:
        """Have Codex compact its thread of this session; the transcript stays as it is.

        Only under an engine that leaves compaction to Codex. The engine's context is projected anew
        with the next turn where it had been projected once (spec D-38). Raises: NotFound,
        SessionBusy, CompactionRefused where nothing was begun, CompactionUnconfirmed.
        """
        return await self._runtime.compact(self.name)

    async def reset(self) -> SessionRecord:
        """Begin a new generation, without entries and on a fresh thread; the old one stays stored.

        Raises: NotFound, SessionBusy while a run is not over.
        """
        turned = await self._runtime.lives.reset(self.name)
        assert turned.after is not None, "a reset ends a generation, not the session"
        return turned.after

    async def rewind(self, to: EntryId | int) -> Turnover:
        """Go back: `to`, an entry by its id or its number (`depth`), becomes the last one.

        The next turn sees exactly what is kept, on a fresh thread. What was left behind stays
        stored, in the generation that this one replaces; its last entry's id leads back. Raises:
        NotFound, InvalidCut within a turn, SessionBusy.
        """
        return await self._runtime.lives.rewind(self.name, to)

    async def branch(self, to: str | None = None, *, at: EntryId | int | None = None) -> Session:
        """Begin another session with what was said up to `at`, or with all, and return it.

        `to` is its name or key; without one it gets this one's name and a number. Raises:
        NotFound, InvalidCut within a turn, SessionExists, SessionBusy.
        """
        agent = self.name.agent_id
        new = session_name(to, agent=agent) if to is not None else None
        made = await self._runtime.lives.branch(self.name, new, at)
        return self._runtime.session(made.key, owner=made.owner)

    async def rename(self, title: str) -> SessionRecord:
        """Give it another title. Raises: NotFound, UsageError for one without a sign."""
        text = truncate(" ".join(without_surrogates(title).split()), TITLE_CHARS, "…")
        if not text:
            raise UsageError("the title is empty", next_step="Say what the session is about.")
        await self._known()
        return await self._store.sessions.update(self.key, title=text)

    async def delete(self) -> Turnover:
        """End the session: no list or search finds it, and its key is free.

        What was said stays stored until it is purged. Raises: NotFound, SessionBusy.
        """
        return await self._runtime.lives.delete(self.name)

    async def export(self) -> AsyncIterator[str]:
        """Yield the session as JSON lines without line feeds.

        A head, then every entry in order. Raises: NotFound.
        """
        record = await self._known()
        yield export_head(record)
        after = -1
        while page := await self._store.transcript.entries(
            record.id, after_depth=after, limit=_PAGE
        ):
            for entry in page:
                yield export_entry(entry)
            after = page[-1].depth

    async def _known(self) -> SessionRecord:
        record = await self.record()
        if record is None:
            raise unknown_session(self.key)
        return record
