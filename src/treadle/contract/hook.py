"""Hook names.

Their payloads and results: the seam that plugins use round a prompt, a write and a compaction.

Knows nothing of ordering, deadlines or trust; those belong to the bus. Source: spec C-11, C-16,
E-11…E-13, H-07, L-01.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from treadle.model.ids import EngineId, RunId, SessionId, SessionKey
from treadle.model.json import JsonObject
from treadle.model.message import Message

HookName = Literal[
    "before_prompt_build",
    "before_message_write",
    "before_compaction",
    "after_compaction",
    "agent_end",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class HookContext:
    """Which run a hook is called for."""

    session_key: SessionKey
    session_id: SessionId
    run_id: RunId
    agent_id: str
    engine_id: EngineId
    cwd: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptBuild:
    """What Codex is about to receive (spec C-11, C-16).

    `messages` is the mirrored history, not the assembled list; `planned_items` is empty but in
    `history` projection.
    """

    prompt: str
    developer_instructions: str
    messages: Sequence[Message]
    ctx: HookContext
    current_user_message: str
    planned_items: Sequence[JsonObject] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptBuildResult:
    """What a handler changes (spec E-11).

    None leaves a field as it is, and an empty `system_prompt` withdraws it.
    """

    system_prompt: str | None = None
    prepend_system_context: str | None = None
    append_system_context: str | None = None
    prepend_context: str | None = None
    append_context: str | None = None
    tools_allow: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageWrite:
    """A message about to be written to the transcript (spec H-07)."""

    message: Message
    ctx: HookContext


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionObserved:
    """A compaction that begins or ended; nobody can veto it (spec G-19, L-04, L-25)."""

    ctx: HookContext
    backend: str
    message_count: int = -1
    compacted_count: int = -1
    details: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEnd:
    """A finalized attempt (spec L-22)."""

    ctx: HookContext
    messages: Sequence[Message]
    success: bool
    duration_s: float


HookHandler = Callable[..., object | Awaitable[object]]
"""Takes the payload of its name; answers the result of its name, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRegistration:
    """One handler.

    A higher priority runs first, equal ones in order of registration (spec L-01).
    """

    name: HookName
    handler: HookHandler
    priority: int = 0
    owner: str = "host"


class Hooks(Protocol):
    """What the lifecycle calls; a failing or slow handler is logged and skipped (spec E-13)."""

    async def before_prompt_build(self, payload: PromptBuild) -> PromptBuildResult:
        """Merge what the handlers change (spec E-12)."""

    async def before_message_write(self, payload: MessageWrite) -> Message | None:
        """Return the message to write, or None to leave this one out (spec H-07)."""

    async def observe(
        self,
        name: Literal["before_compaction", "after_compaction", "agent_end"],
        payload: CompactionObserved | AgentEnd,
    ) -> None:
        """Tell observers; their results are ignored."""
