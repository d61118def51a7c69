"""The context-engine contract: what an engine is asked, with what, and what it may answer.

Knows nothing of Codex, of threads or of how engines are found. The names of the documents
(`assemble({sessionId, …})`) are kept in snake_case; each call takes one frozen record. Methods may
be plain or async: a plain one runs in a worker thread (decision 14). Source: spec B-07…B-33,
decisions 12–16.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, runtime_checkable

from treadle.contract.tool import DynamicTool
from treadle.model.ids import EngineId, EntryId, SessionId, SessionKey
from treadle.model.json import JsonObject
from treadle.model.message import Message

if TYPE_CHECKING:
    from treadle.contract.session_calls import (
        ForgetParams,
        Rollback,
        SessionEndedParams,
        SubagentEndedParams,
        SubagentSpawnParams,
    )

LEGACY: Final = EngineId("legacy")
"""The engine that leaves everything to Codex; the default of the slot (spec B-01, B-02)."""

REQUIRED_METHODS: Final = ("ingest", "assemble", "compact")
OPTIONAL_METHODS: Final = (
    "bootstrap",
    "maintain",
    "ingest_batch",
    "after_turn",
    "commit_turn",
    "on_session_ended",
    "prepare_subagent_spawn",
    "on_subagent_ended",
    "dispose",
    "tools",
    "forget",
)

CURRENT_TURN_FENCE: Final = "before-current-turn-entry-v1"
"""What an engine reads before a turn ends before that turn's own entry (spec B-34, B-35)."""

TURN_ADVANCEMENT_IDEMPOTENCY: Final = "atomic-idempotent-v1"
"""A commit is taken whole or not at all, and once for a key, however often it comes (B-34)."""

HOST_PARAMS: Final = frozenset({
    "session_key",
    "prompt",
    "runtime_settings",
    "session_target",
    "runtime_context",
    "abort_signal",
})
"""Host-added fields that `EngineInfo.accepted_host_params` filters.

Others are never filtered (B-23).
"""

Capability = Literal[
    "bootstrap",
    "assemble-before-prompt",
    "after-turn",
    "maintain",
    "compact",
    "runtime-llm-complete",
    "thread-bootstrap-projection",
]
Operation = Literal["agent-run", "manual-compact", "subagent-spawn"]
MaintenanceReason = Literal["bootstrap", "compaction", "turn"]


class AbortSignal(Protocol):
    """Says that the caller no longer wants the answer. Source: decision 15."""

    @property
    def aborted(self) -> bool:
        """Whether it was raised."""

    @property
    def reason(self) -> str | None:
        """Why, once raised."""

    async def wait(self) -> None:
        """Return once it is raised. Cancel: nothing is consumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRequirement:
    """What an engine needs of its host for one operation (spec B-25)."""

    required_capabilities: frozenset[Capability]
    unsupported_message: str = ""
    """Shown when something is missing (spec B-27)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineInfo:
    """Who an engine is and what it declares (spec B-22, B-34)."""

    id: str
    name: str
    version: str | None = None
    owns_compaction: bool = False
    turn_maintenance_mode: Literal["foreground", "background"] = "foreground"
    accepted_host_params: frozenset[str] | None = None
    """None.

    All host fields are passed; a set: only those of `HOST_PARAMS` that it names (B-23, B-24).
    """

    transcript_semantics: str | None = None
    host_requirements: Mapping[Operation, HostRequirement] = field(default_factory=dict)
    current_turn_fence: Literal["before-current-turn-entry-v1"] | None = None
    turn_advancement_idempotency: Literal["atomic-idempotent-v1"] | None = None


def declares_durable_commit(info: EngineInfo) -> bool:
    """Whether it makes both declarations; a `commit_turn` is needed besides (spec B-34)."""
    return (
        info.current_turn_fence == CURRENT_TURN_FENCE
        and info.turn_advancement_idempotency == TURN_ADVANCEMENT_IDEMPOTENCY
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCallUsage:
    """Tokens of the last model call; what was not reported is None (spec I-22)."""

    input: int
    output: int
    total: int
    cache_read: int | None = None
    cache_write: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptCache:
    """What the model's host said of its prompt cache at this call (spec G-28)."""

    model: str | None
    observed_at: float
    """Unix seconds."""

    read: int | None = None
    write: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeContext:
    """Facts of this run that an engine may use; an unknown one is None (spec B-33, I-13, I-22)."""

    workspace_dir: str | None = None
    agent_dir: str | None = None
    cwd: str | None = None
    token_budget: int | None = None
    agent_harness_id: str | None = None
    current_token_count: int | None = None
    last_call_usage: LastCallUsage | None = None
    prompt_cache: PromptCache | None = None
    transcript_storage: JsonObject | None = None
    attempt: int | None = None
    allow_deferred_compaction_execution: bool = False
    rewrite_transcript_entries: Callable[[RewriteRequest], Awaitable[int]] | None = None
    """The only safe rewrite; absent before a turn (spec B-17)."""

    llm_complete: Callable[..., Awaitable[str]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteRequest:
    """Replacements of transcript entries by id (spec B-17)."""

    replacements: tuple[tuple[EntryId, Message], ...]
    allowed_rewrite_suffix_entry_ids: frozenset[EntryId] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCall:
    """What every call says of the session."""

    session_id: SessionId
    session_key: SessionKey | None = None
    session_target: JsonObject | None = None
    session_file: str | None = None
    """A locator of the stored session for messages to people, not a file to open."""

    runtime_settings: JsonObject | None = None
    runtime_context: RuntimeContext | None = None
    abort_signal: AbortSignal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapParams(SessionCall):
    """Asked before assembly where a transcript existed before this run (spec B-08).

    `messages` is the mirrored history; it may be asked on every run, so an engine has to be
    idempotent (S14).
    """

    messages: Sequence[Message] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapResult:
    """What bootstrap did."""

    bootstrapped: bool
    imported_messages: int | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AssembleParams(SessionCall):
    """Asked before each turn: what shall the model see? Source: spec B-10.

    `messages` is a read-only lazy sequence over a snapshot of the transcript: `len`, index, slice
    and `reversed` read only what they touch, so a turn costs what the engine reads (decision 12).
    """

    messages: Sequence[Message]
    token_budget: int | None
    available_tools: frozenset[str]
    citations_mode: str | None
    model: str | None
    prompt: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextProjection:
    """How the engine wants its context carried (spec B-11, D-30)."""

    mode: Literal["per_turn", "thread_bootstrap"] = "per_turn"
    epoch: str | None = None
    fingerprint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """The engine's answer (spec B-11).

    `messages` are oldest first and without the current prompt.
    """

    messages: Sequence[Message]
    estimated_tokens: int
    system_prompt_addition: str | None = None
    prompt_authority: Literal["assembled", "preassembly_may_overflow"] = "assembled"
    context_projection: ContextProjection = ContextProjection()


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterTurnParams(SessionCall):
    """Told after each finalized turn; `messages` is the whole session (spec B-14, I-21)."""

    messages: Sequence[Message]
    pre_prompt_message_count: int
    token_budget: int | None = None
    auto_compaction_summary: str | None = None
    is_heartbeat: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestBatchParams(SessionCall):
    """The messages that a turn added.

    In order; only for engines without `after_turn` (spec B-15, I-04).
    """

    messages: Sequence[Message]
    is_heartbeat: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestBatchResult:
    """How many were taken."""

    ingested_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestParams(SessionCall):
    """One message that a turn added (spec B-15)."""

    message: Message
    is_heartbeat: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestResult:
    """Whether it was taken."""

    ingested: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitTurnParams(SessionCall):
    """An accepted turn, to be taken exactly once by `advancement_key` (spec B-19).

    It may be asked again with the same key, after a restart too: then everything but
    `runtime_settings` and `runtime_context` is the same.
    """

    advancement_key: str
    admission: EntryId
    """The user's entry that began the turn: the first of `messages`."""

    terminal: EntryId
    """The entry that ended it: the last of `messages`."""

    messages: Sequence[Message]
    is_heartbeat: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitTurnResult:
    """`committed` only when it is as durable as the host's record (decision 16)."""

    status: Literal["committed", "duplicate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintainParams(SessionCall):
    """Time for upkeep (spec B-16, I-08, I-15)."""

    reason: MaintenanceReason


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintainResult:
    """What upkeep changed."""

    changed: bool
    bytes_freed: int = 0
    rewritten_entries: int = 0
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactParams(SessionCall):
    """Asked to make the context smaller (spec B-18)."""

    agent_id: str | None = None
    token_budget: int | None = None
    force: bool = False
    current_token_count: int | None = None
    compaction_target: Literal["budget", "threshold"] | None = None
    custom_instructions: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """What a compaction came to."""

    tokens_before: int
    tokens_after: int | None = None
    summary: str | None = None
    first_kept_entry_id: EntryId | None = None
    details: JsonObject | None = None
    session_id: SessionId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactResult:
    """The answer to `compact`."""

    ok: bool
    compacted: bool
    reason: str | None = None
    result: Compaction | None = None


@runtime_checkable
class ContextEngine(Protocol):
    """What every engine has.

    The optional methods of `OPTIONAL_METHODS` are found by name (spec B-07).

    A method may be plain or async and may answer with the record named here or with a mapping of
    its fields (snake_case or camelCase). Anything else is refused with the engine's id and the type
    seen (spec B-12).
    """

    @property
    def info(self) -> EngineInfo:
        """Who this is."""

    def ingest(self, params: IngestParams) -> Any:
        """Take one message."""

    def assemble(self, params: AssembleParams) -> Any:
        """Choose what the model sees: an `Assembled`."""

    def compact(self, params: CompactParams) -> Any:
        """Make the context smaller: a `CompactResult`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineContext:
    """What a factory is given (spec B-01)."""

    config: JsonObject
    """`plugins.entries.<id>.config` of this engine."""

    agent_dir: str | None = None
    workspace_dir: str | None = None
    data_dir: str | None = None
    """A private directory of this engine's own, made before it is used."""


EngineFactory = Callable[[EngineContext], "ContextEngine | Awaitable[ContextEngine]"]
"""Makes an engine.

Registered under an id, as an entry point of the group `treadle.context_engines`.
"""


class ResolvedEngine(Protocol):
    """The engine of one run.

    As the lifecycle sees it: checked, guarded and with the filtered host fields.

    Every method raises `EngineError` (`EngineContractError`, `EngineTimeout`) for a failure of the
    engine and never turns one into a success (spec B-45, B-47). An optional method that the engine
    lacks answers None.
    """

    @property
    def info(self) -> EngineInfo:
        """The engine's own info, or legacy's where it stands in (spec B-41)."""

    @property
    def engine_id(self) -> EngineId:
        """The id under which it is registered, whatever its info says (spec B-03)."""

    @property
    def is_active(self) -> bool:
        """Whether this is an engine and not `legacy` (spec A-21)."""

    @property
    def commits_durably(self) -> bool:
        """Whether accepted turns go to it by `commit_turn` (spec B-34)."""

    def implements(self, method: str) -> bool:
        """Whether the engine has this optional method."""

    def tools(self) -> tuple[DynamicTool, ...]:
        """The dynamic tools that it offers (decision 13); empty if it fails, which is logged."""

    async def bootstrap(self, params: BootstrapParams) -> BootstrapResult | None:
        """Ask `bootstrap`."""

    async def assemble(self, params: AssembleParams) -> Assembled:
        """Ask `assemble`."""

    async def after_turn(self, params: AfterTurnParams) -> bool:
        """Tell `after_turn`; False where the engine has none."""

    async def ingest_batch(self, params: IngestBatchParams) -> IngestBatchResult | None:
        """Tell `ingest_batch`."""

    async def ingest(self, params: IngestParams) -> IngestResult:
        """Tell `ingest`."""

    async def commit_turn(self, params: CommitTurnParams) -> CommitTurnResult:
        """Ask `commit_turn`; only of an engine that commits durably (spec B-19, B-36, B-37)."""

    async def maintain(self, params: MaintainParams) -> MaintainResult | None:
        """Ask `maintain`."""

    async def compact(self, params: CompactParams) -> CompactResult:
        """Ask `compact`; the abort signal is always passed (spec B-23)."""

    async def on_session_ended(self, params: SessionEndedParams) -> bool:
        """Tell `on_session_ended`; False where the engine has none (spec U-08)."""

    async def forget(self, params: ForgetParams) -> bool:
        """Ask `forget`; False where the engine has none (decision 13)."""

    async def prepare_subagent_spawn(self, params: SubagentSpawnParams) -> Rollback | None:
        """Ask `prepare_subagent_spawn`; None where it prepared nothing (spec B-20)."""

    async def on_subagent_ended(self, params: SubagentEndedParams) -> bool:
        """Tell `on_subagent_ended`; False where the engine has none (spec B-21)."""
