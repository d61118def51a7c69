"""What a harness is: it runs one attempt of one turn, given the same parameters whichever it is.

Knows nothing of any harness in particular. Source: spec A-01…A-13, A-24, A-26.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

from treadle.contract.engine import AbortSignal, Capability, ResolvedEngine
from treadle.contract.store import Claim, SessionRecord
from treadle.model.ids import AgentId, RunId, SessionKey, ThreadId, TurnId
from treadle.model.json import JsonObject
from treadle.model.message import Entry, Message
from treadle.model.turn import Outcome, RunEvent, Usage

Runtime = Literal["openclaw", "codex", "auto"]
ProjectionMode = Literal["auto", "history", "prompt"]
Classification = Literal["empty", "reasoning-only", "planning-only"]
"""What a good turn without any visible text consisted of (spec A-22)."""

Emit = Callable[[RunEvent], Awaitable[None]]
"""Takes each event in order; it never raises and never waits long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRef:
    """A model reference `provider/model`.

    Split (spec F-08); None means the app-server's own default.
    """

    provider: str | None = None
    model: str | None = None


def model_ref(text: str | None) -> ModelRef:
    """Split `provider/model` at the first slash; a bare name has no provider (spec A-06, F-08)."""
    if text is None:
        return ModelRef()
    provider, slash, model = text.partition("/")
    return ModelRef(provider=provider, model=model) if slash else ModelRef(model=text)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptParams:
    """One attempt; the same record for every harness (spec A-02)."""

    run_id: RunId
    session: SessionRecord
    session_key: SessionKey
    """The effective key of this run.

    Engine, mirror, hooks, tools and logs get this one (spec C-05).
    """

    agent_id: AgentId
    claim: Claim
    prompt: str
    engine: ResolvedEngine
    context_token_budget: int | None
    model: ModelRef
    effort: str | None
    cwd: str
    abort: AbortSignal
    client_message_id: str
    """Ours.

    Codex gives it back with the stored user item, so it is the key to reconcile by (F5).
    """

    attempt: int = 1
    saw_nothing_done: bool = False
    """Whether this process watched the attempt before to its loss and saw nothing done (S-09)."""

    trigger: str = "user"
    is_heartbeat: bool = False
    lightweight: bool = False
    """No project docs, no extra context (spec A-25)."""

    native_tools: bool = True
    """False: this turn goes without the harness's own tools (spec D-39)."""

    persist_prompt: bool = True
    """False: the prompt does not become an entry; the answer does (spec H-10)."""

    projection: ProjectionMode = "auto"
    output_schema: JsonObject | None = None
    sender: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemLifecycle:
    """How many items began, ended and are open (spec A-24)."""

    started_count: int = 0
    completed_count: int = 0
    active_count: int = 0
    compaction_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptResult:
    """How an attempt ended (spec A-24)."""

    outcome: Outcome
    text: str
    """The final answer; empty if there was none."""

    aborted: bool = False
    timed_out: bool = False
    prompt_error: JsonObject | None = None
    """`{code, message, next_step, retry}`."""

    prompt_error_source: Literal["prompt"] | None = None
    messages_snapshot: tuple[Message, ...] = ()
    """The messages of this turn alone (spec G-01)."""

    entries: tuple[Entry, ...] = ()
    assistant_texts: tuple[str, ...] = ()
    tool_metas: tuple[JsonObject, ...] = ()
    last_assistant: Message | None = None
    attempt_usage: Usage | None = None
    tool_media_urls: tuple[str, ...] = ()
    item_lifecycle: ItemLifecycle = ItemLifecycle()
    had_potential_side_effects: bool = False
    replay_safe: bool = True
    yield_detected: bool = False
    classification: Classification | None = None
    degraded: str | None = None
    """Why this result is less than it should be, or None (spec A-19)."""

    thread_id: ThreadId | None = None
    turn_id: TurnId | None = None
    message: Literal["due", "ended", "open"] = "due"
    """What of the inbox is left to its caller: to end the message, nothing more, or nothing yet.

    `ended` was written with the turn's entries (S10). `open`: the entries could not be written, so
    the message stays as it is until they are (INV-6).
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionResult:
    """What came of a native compaction that was begun (spec J-33)."""

    compacted: bool
    reason: str | None
    """Why not, as a word: `timed_out`, `interrupted`, `failed`, `no_compaction_item`."""

    details: JsonObject
    """`{backend, threadId, turnId, signal, pending, completed}`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """Whether a harness can run something (spec A-10)."""

    supported: bool
    priority: int = 0
    reason: str | None = None
    """Why it is not supported, in words for a person."""

    fallback_runtime: Literal["openclaw"] | None = None
    """Named by a harness that refuses, where the built-in one can take exactly this request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportQuery:
    """What a run would need."""

    model: ModelRef
    provider_config: JsonObject | None = None
    requested: Runtime = "auto"


class AgentHarness(Protocol):
    """Runs attempts."""

    @property
    def id(self) -> str:
        """`codex` or `openclaw`, or a plugin's."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What it offers to engines (spec B-25, B-26)."""

    def supports(self, query: SupportQuery) -> Support:
        """Say whether it can run this."""

    async def run_attempt(self, params: AttemptParams, emit: Emit) -> AttemptResult:
        """Run one attempt to its end and report every event on the way.

        But `RunStarted` and `RunFinished`.

        A turn that fails is a result, not an exception. Raises: TreadleError only for what comes
        before any model work (spec A-09). Cancel: the turn is interrupted and the claim, lease and
        transcript are left whole.
        """

    async def put_away(self, agent_id: AgentId, thread_ids: Sequence[ThreadId]) -> None:
        """Archive native threads that their sessions have given up; ids of others are no error.

        Best effort: starts nothing, and what fails is logged (spec U-01).
        """


@runtime_checkable
class CompactsNatively(Protocol):
    """A harness whose native threads can be compacted by themselves."""

    async def compact_native(self, params: AttemptParams, emit: Emit) -> CompactionResult:
        """Compact the session's idle native thread, whoever owns compaction (spec D-38, J-18).

        Raises: CompactionRefused, where nothing was begun; CompactionUnconfirmed. Cancel: it is
        interrupted.
        """
