"""What is stored and how.

Sessions, transcript, thread bindings, what a thread holds, injections, context reports.

Knows nothing of SQL. Every write is all or nothing and durable when the call returns (claims and
context reports alone may be undone by a power cut until the next write); a cancelled
call has either happened whole or not at all. Readers never wait for the writer.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, Protocol

from treadle.contract.children import ChildRegistry
from treadle.contract.events import EventStore
from treadle.contract.inbox import Inbox, Settlement
from treadle.contract.outbox import EngineOutbox
from treadle.model.errors import StoreDamaged
from treadle.model.ids import AgentId, EntryId, RunId, SessionId, SessionKey, ThreadId, TurnId
from treadle.model.json import JsonObject
from treadle.model.message import Entry, Message, NewEntry
from treadle.model.session import Origin

if TYPE_CHECKING:
    from treadle.contract.lives import LifeStore
    from treadle.contract.subagents import SubagentStore

# ------------------------------------------------------------------------------------------
# sessions


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """A session and its current generation."""

    key: SessionKey
    id: SessionId
    generation: int
    """1 for the first; a reset or a rewind adds one and gives a new `id`."""

    agent_id: AgentId
    owner: str
    """Token name or channel sender (decision 31); `local` for the command line."""

    cwd: str | None
    """Working folder chosen for this session; None means the agent's workspace."""

    title: str
    created_at: float
    updated_at: float
    """Unix seconds."""

    entry_count: int
    settings: JsonObject = field(default_factory=dict)
    """Session overrides: `model`, `effort`, `engine`."""

    origin: Origin = "new"
    """How the current generation began."""


class SessionStore(Protocol):
    """Sessions by key."""

    async def get(self, key: SessionKey) -> SessionRecord | None:
        """Return the session, or None."""

    async def open(
        self, key: SessionKey, *, agent_id: AgentId, owner: str, cwd: str | None = None
    ) -> SessionRecord:
        """Return the session, made now if there is none; a `cwd` given replaces the stored one."""

    async def list(
        self, *, agent_id: AgentId | None = None, owner: str | None = None, limit: int = 200
    ) -> tuple[SessionRecord, ...]:
        """Return sessions, the last used first."""

    async def update(
        self, key: SessionKey, *, title: str | None = None, settings: JsonObject | None = None
    ) -> SessionRecord:
        """Change title or settings. Raises: NotFound."""


# ----------------------------------------------------------------------------------------
# transcript


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right to write one session generation.

    A newer claim makes an older one useless (spec A-16, INV-4).
    """

    session_id: SessionId
    run_id: RunId
    lease_epoch: int


class TranscriptSnapshot(Sequence[Message]):
    """The messages of one session as they stood at one moment.

    Lazy, read-only, oldest first (decision 12).

    `len` is free. An index or slice reads the pages it touches and decodes them anew on each
    access, so that nothing a reader does to a message reaches anybody else. Reading is synchronous.
    """

    @property
    @abstractmethod
    def rows_read(self) -> int:
        """Rows read so far through this snapshot; benchmarks and the conformance kit count them."""

    def shared(self, start: int, stop: int) -> Sequence[Message]:
        """Return messages `start…stop` as all readers share them: nobody may change what they hold.

        For code of ours; an engine of somebody else's takes a slice. Where the store keeps them
        from turn to turn, only those that came since are read.
        """
        return self[start:stop]

    @abstractmethod
    def prefix(self, count: int) -> TranscriptSnapshot:
        """Return the first `count` messages as a snapshot of its own, unread; all if fewer."""

    @abstractmethod
    def entries(self, start: int, stop: int) -> tuple[Entry, ...]:
        """Return the entries of messages `start…stop`, raw items included."""

    @abstractmethod
    def entries_by_id(self, ids: Sequence[EntryId]) -> dict[EntryId, Entry]:
        """Return those of the entries that this snapshot holds, raw items included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    """An entry that fits a search; `snippet` is plain text with the offsets of what matched."""

    session_key: SessionKey
    entry: Entry
    snippet: str
    matches: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchQuery:
    """Words (all must occur).

    Phrases in double quotes; works in any script, also without blanks between words.
    """

    text: str
    session_key: SessionKey | None = None
    agent_id: AgentId | None = None
    owner: str | None = None
    role: str | None = None
    since: float | None = None
    until: float | None = None
    limit: int = 20


class TranscriptStore(Protocol):
    """The append-only tree of entries."""

    async def claim(self, session_id: SessionId, run_id: RunId) -> Claim:
        """Take the session over; whoever held it before can no longer write.

        The run's message, if it has one, counts as running from then on (S2). Raises: NotFound;
        ClaimLost for a generation that is no longer the session's (spec U-03).
        """

    async def release(self, claim: Claim) -> None:
        """Give the claim back; a lost one is no error."""

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
        """Append in order.

        All or none, and return the stored entries (earlier ones where the key existed).

        `held_by` records in the same transaction that this native thread now holds the message
        entries among them, behind those of `held_unwritten`; `binding` stores the binding if its
        revision is the stored one; `settlement` ends the message of the turn (S10), unless it had
        an end. Raises: ClaimLost, RevisionConflict, StoreFull.
        """

    async def snapshot(self, session_id: SessionId) -> TranscriptSnapshot:
        """Return the messages of the active branch as they stand now."""

    async def entries(
        self, session_id: SessionId, *, after_depth: int = -1, limit: int = 500
    ) -> tuple[Entry, ...]:
        """Return all kinds of entries of the active branch in order.

        From behind `after_depth` on.
        """

    async def search(self, query: SearchQuery) -> tuple[SearchHit, ...]:
        """Return what fits, best first, newest first among equals."""


# --------------------------------------------------------------------------- threads and injections


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTurn:
    """A turn that was sent and whose items are not mirrored yet.

    Found at the next run, it is settled first.
    """

    run_id: RunId
    client_message_id: str
    turn_id: TurnId | None = None
    replayed: bool = False
    """Whether it is the second try of a message that the thread had already (spec S-09)."""

    transient: bool = False
    """Whether it was sent on a thread of its own, where nobody can look it up (spec D-39)."""

    unwritten_prompt: str | None = None
    """Content hash of a prompt that the thread gets and the transcript does not (spec H-10)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """Which native thread carries a session generation.

    And what that thread was given (spec F-17, F-18, D-34).
    """

    session_id: SessionId
    thread_id: ThreadId
    revision: int
    """0 for one that is not stored yet; a write needs the stored revision and adds one."""

    home: str
    """The `CODEX_HOME` that the thread lives in."""

    cwd: str
    model: str | None
    model_provider: str | None
    tool_fingerprint: str | None
    instructions_hash: str
    """Of the composed developer instructions that the thread was given last (decision 6)."""

    addition_hash: str
    """Of the engine's addition that the thread was given last.

    Of the empty text if it has none (spec E-15).
    """

    engine: JsonObject | None = None
    """The engine record of D-34."""

    rollout_path: str | None = None
    rollout_offset: int = 0
    """Bytes of the rollout that are accounted for."""

    holding_known: bool = True
    """False once it is unknown what the thread holds (decision 3, D-58)."""

    open_turn: OpenTurn | None = None
    projection_epoch: int = 1
    successive_rebases: int = 0
    """Rebases in as many successive turns (spec D-54)."""

    compactions_seen: int = 0
    """Native compactions of this thread so far (spec D-55)."""

    rebased_for_compaction: bool = False
    """Whether the last native compaction was answered by a rebase already (decision 4)."""

    pinned: bool = False
    """Bound by hand or locked: never rebased (spec D-56)."""

    window: int | None = None
    """The model's context window as the app-server reported it last, in tokens."""

    last_total: int | None = None
    """Tokens of the thread's last model response, as reported; None right after a compaction.

    Source: spec D-40.
    """

    reference_hash: str = ""
    """Of the workspace files that the thread was given as text, if any (spec E-07)."""

    overflowed: bool = False
    """Whether its last turn did not fit: an engine's next turn gets a fresh thread (spec F-25)."""

    supersessions: int = 0
    """How often this thread was given a changed addition (spec E-15)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One message that a native thread holds."""

    content_hash: str
    entry_id: EntryId | None = None
    """None for a message of the engine's own, or a note of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What a thread holds: how many messages, and a chained hash over them.

    `chain(n) = SHA-256(chain(n-1) + content_hash(n))` in hex, with `chain(0) = ""`: two lists are
    equal when length and chain are, so a turn never has to read the list (decision 12).
    """

    count: int = 0
    chain: str = ""


class InjectionState(StrEnum):
    """How far an injection got (decision 3)."""

    INTENDED = "intended"
    CONFIRMED = "confirmed"
    ABANDONED = "abandoned"
    """It never reached the thread, or the thread was given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Injection:
    """Items that are about to be, or were, injected into a thread; stored before the call."""

    id: str
    thread_id: ThreadId
    purpose: Literal["messages", "instructions"]
    item_ids: tuple[str, ...]
    held: tuple[Held, ...]
    """What the thread holds more once it is confirmed; empty for instructions."""

    state: InjectionState = InjectionState.INTENDED


class BindingStore(Protocol):
    """Bindings, what threads hold, and injections; all writes are conditional."""

    async def get(self, session_id: SessionId) -> Binding | None:
        """Return the session's binding, or None."""

    async def put(self, claim: Claim, binding: Binding) -> Binding:
        """Store it if the stored revision is `binding.revision` (0.

        None stored) and return it with the new one.

        The thread replaced by another one is kept as superseded. Raises: ClaimLost,
        RevisionConflict.
        """

    async def clear(self, claim: Claim, thread_id: ThreadId) -> bool:
        """Remove the binding if it still names this thread; False if it does not."""

    async def superseded(self, session_id: SessionId) -> tuple[tuple[ThreadId, float], ...]:
        """Return the threads that this session used before, in any generation.

        Those of deleted sessions of its agent too, which run no more turns. Each with when it was
        given up, oldest first.
        """

    async def forget_superseded(self, thread_id: ThreadId) -> None:
        """Take a thread off that list, once Codex deleted it; one that is not there is no error."""

    async def holding(self, thread_id: ThreadId) -> Holding:
        """Return count and chain."""

    async def held(self, thread_id: ThreadId) -> tuple[Held, ...]:
        """Return the whole list in order; for explanations only."""

    async def intend(self, claim: Claim, injection: Injection) -> None:
        """Store an intent, durably, before the call."""

    async def confirm(self, claim: Claim, injection_id: str, binding: Binding) -> Binding:
        """Mark it confirmed.

        Append what it holds to the thread's list and store the binding, in one transaction.
        """

    async def abandon(self, claim: Claim, injection_id: str) -> None:
        """Mark that it never arrived, or does not matter any more."""

    async def pending_injections(self, thread_id: ThreadId) -> tuple[Injection, ...]:
        """Return the intents that were neither confirmed nor abandoned, oldest first."""


# ---------------------------------------------------------------------------------- context reports


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextReport:
    """What the model was given in one turn, for `context show`."""

    run_id: RunId
    session_id: SessionId
    number: int
    """Turn number within the generation, from 1; 0 to let the store choose."""

    created_at: float
    report: JsonObject


class ReportStore(Protocol):
    """Context reports of turns."""

    async def save(self, report: ContextReport) -> ContextReport:
        """Store it, replacing one of the same run, and return it with its number."""

    async def get(self, session_id: SessionId, number: int | None = None) -> ContextReport | None:
        """Return the report of that turn, or of the last one."""


class Store(Protocol):
    """All of it, over one database."""

    @property
    def sessions(self) -> SessionStore:
        """Sessions."""

    @property
    def transcript(self) -> TranscriptStore:
        """Transcripts."""

    @property
    def bindings(self) -> BindingStore:
        """Threads and injections."""

    @property
    def reports(self) -> ReportStore:
        """Context reports."""

    @property
    def inbox(self) -> Inbox:
        """Accepted messages."""

    @property
    def engine_outbox(self) -> EngineOutbox:
        """Turns on their way to a context engine that commits them."""

    @property
    def events(self) -> EventStore:
        """Streams of durable events."""

    @property
    def lives(self) -> LifeStore:
        """What happens to whole sessions."""

    @property
    def subagents(self) -> SubagentStore:
        """Child sessions."""

    @property
    def children(self) -> ChildRegistry:
        """Child processes."""

    @property
    def fault(self) -> StoreDamaged | None:
        """Why nothing is written any more; None while nothing is known to be damaged (RS27)."""

    @property
    def log_bytes(self) -> int:
        """Size of the log that has not been put into the database; it grows while a reader stays.

        Source: RS28.
        """

    async def look(self) -> None:
        """Look for damage for a moment, each time a little further. Raises: StoreDamaged."""
