"""What the lifecycle is told and what it answers, as records.

Pure. Knows nothing of how an engine is called.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from treadle.contract.engine import (
    AbortSignal,
    Assembled,
    BootstrapResult,
    MaintainResult,
    ResolvedEngine,
    RewriteRequest,
)
from treadle.harness.settings import Surroundings, runtime_settings
from treadle.model.ids import SessionId, SessionKey
from treadle.model.json import JsonObject
from treadle.model.message import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleCall:
    """What all engine calls of one attempt are told; what is not known is None.

    Make it once an attempt, with `with_settings`: all its calls then get the same object (B-32).
    """

    session_id: SessionId
    session_key: SessionKey
    """The effective key (spec C-05, `effective_key`)."""

    harness_id: str | None = None
    model: str | None = None
    """The model that was resolved."""

    model_provider: str | None = None
    requested_model: str | None = None
    """The model that was asked for; None where it is the one resolved."""

    cwd: str | None = None
    workspace_dir: str | None = None
    agent_dir: str | None = None
    token_budget: int | None = None
    attempt: int | None = None
    is_heartbeat: bool = False
    """Also where a heartbeat or commitment run came by the way of a user's (spec I-14)."""

    session_target: JsonObject | None = None
    session_file: str | None = None
    transcript_storage: JsonObject | None = None
    abort: AbortSignal | None = None
    rewrite: Callable[[RewriteRequest], Awaitable[int]] | None = None
    """Given at any time: the guard withholds it before a turn (spec B-17)."""

    settings: JsonObject | None = None
    """`runtimeSettings`; None: they are made from the other fields (`with_settings`)."""


def with_settings(call: LifecycleCall, engine: ResolvedEngine) -> LifecycleCall:
    """Return the call with the `runtimeSettings` that follow from it, unless it has some (B-28)."""
    if call.settings is not None:
        return call
    surroundings = Surroundings(
        harness_id=call.harness_id,
        runtime_id=call.harness_id,
        requested_model=call.requested_model or call.model,
        resolved_model=call.model,
        provider=call.model_provider,
        selected_engine=engine.info.id,
        prompt_token_budget=call.token_budget,
    )
    return replace(call, settings=runtime_settings(surroundings))


def effective_key(session_key: str | None, session_id: SessionId) -> SessionKey:
    """Return the one key of a run: its session key, or the session id if that is blank (C-05)."""
    return (
        SessionKey(session_key) if session_key and session_key.strip() else SessionKey(session_id)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintainOutcome:
    """What became of maintenance."""

    result: MaintainResult | None = None
    """None where nothing ran or it failed."""

    skipped: str | None = None
    """Why it was not asked."""

    failed: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapOutcome:
    """What became of bootstrap and the maintenance behind it."""

    result: BootstrapResult | None = None
    maintenance: MaintainOutcome = MaintainOutcome(skipped="not reached")
    failed: str | None = None

    @property
    def engine_was_asked(self) -> bool:
        """Whether the engine was called at all, and so may have changed the transcript (C-04)."""
        done = (self.result, self.failed, self.maintenance.result, self.maintenance.failed)
        return any(one is not None for one in done)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssembleOutcome:
    """What became of assembly: both None means that no engine is active."""

    assembled: Assembled | None = None
    failed: str | None = None
    """Why the bare prompt goes out instead (spec S-02, D-57)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnd:
    """How the turn ended, as far as finalizing and maintenance care."""

    prompt_error: bool = False
    aborted: bool = False
    yield_aborted: bool = False

    @property
    def bad(self) -> str | None:
        """Why this was no good turn, or None."""
        if self.prompt_error:
            return "prompt error"
        if self.aborted:
            return "aborted"
        return "yield aborted" if self.yield_aborted else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnMessages:
    """The session's messages once the turn is over.

    `snapshot` is the transcript re-read after the mirror wrote it. Where it could not be read or
    written, `history` and the turn's own messages stand in for it (spec I-02, I-03).
    """

    history: Sequence[Message]
    """The mirrored history before this turn, re-read after bootstrap (spec C-04)."""

    turn: Sequence[Message]
    """The messages of this turn alone."""

    snapshot: Sequence[Message] | None = None
    mirrored: bool = True
    """Whether the mirror wrote the turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalizeOutcome:
    """What became of handing the turn over; no active engine is a success (spec I-12)."""

    succeeded: bool
    called: Literal["after_turn", "ingest_batch", "ingest"] | None = None
    handed_over: int = 0
    """Messages that the turn added, as the engine was told."""

    failed: str | None = None
