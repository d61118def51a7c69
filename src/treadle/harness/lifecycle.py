"""The calls that every harness makes to the context engine round one turn.

bootstrap → maintenance → assemble → (the turn) → finalize → maintenance. Each function makes its
calls, logs what came of them and answers with a record; a failure of the engine is one warning and
a field of that record, never an exception (spec S-01…S-06). Under an engine that is not active no
call is made at all (spec A-20). Knows nothing of harnesses, threads or projection.

Cancel: the engine's call is cancelled and nothing else was changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, TypedDict

from treadle.contract.engine import (
    AbortSignal,
    AfterTurnParams,
    AssembleParams,
    BootstrapParams,
    IngestBatchParams,
    IngestParams,
    LastCallUsage,
    MaintainParams,
    MaintenanceReason,
    PromptCache,
    ResolvedEngine,
    RuntimeContext,
)
from treadle.contract.store import TranscriptSnapshot
from treadle.harness.outcomes import (
    AssembleOutcome,
    BootstrapOutcome,
    FinalizeOutcome,
    LifecycleCall,
    MaintainOutcome,
    TurnEnd,
    TurnMessages,
    effective_key,
    with_settings,
)
from treadle.harness.views import MessageView, visible_count
from treadle.model.errors import EngineError
from treadle.model.ids import SessionId, SessionKey
from treadle.model.json import JsonObject, JsonValue
from treadle.model.message import Message
from treadle.model.text import redact
from treadle.model.turn import Usage
from treadle.observe import emit

__all__ = [
    "AssembleOutcome",
    "BootstrapOutcome",
    "FinalizeOutcome",
    "LifecycleCall",
    "MaintainOutcome",
    "TurnEnd",
    "TurnMessages",
    "assemble",
    "bootstrap",
    "effective_key",
    "finalize",
    "maintain",
    "runtime_context",
    "runtime_context_from_usage",
    "with_settings",
]

ABORTED: Final = "aborted"
"""Reason of an outcome where the run was stopped while the engine was asked."""


# ------------------------------------------------------------------------------- runtime context


def runtime_context(
    call: LifecycleCall, *, current_token_count: int | None = None
) -> RuntimeContext:
    """Return what engines are told of a run; what is not known is None (spec B-33, I-13)."""
    return RuntimeContext(
        workspace_dir=call.workspace_dir,
        agent_dir=call.agent_dir,
        cwd=call.cwd,
        token_budget=call.token_budget,
        agent_harness_id=call.harness_id,
        current_token_count=current_token_count,
        transcript_storage=call.transcript_storage,
        attempt=call.attempt,
        rewrite_transcript_entries=call.rewrite,
    )


def runtime_context_from_usage(
    call: LifecycleCall, usage: Usage | None, *, observed_at: float
) -> RuntimeContext:
    """Return the same with the tokens of the last model call, where they were reported.

    `observed_at` is in Unix seconds. What was not reported stays None, never zero. Source: spec
    I-13, I-22, G-28.
    """
    base = runtime_context(call)
    if usage is None:
        return base
    cache = None
    if usage.cache_read is not None or usage.cache_write is not None:
        cache = PromptCache(
            model=call.model,
            observed_at=observed_at,
            read=usage.cache_read,
            write=usage.cache_write,
        )
    last = LastCallUsage(
        input=usage.input,
        output=usage.output,
        total=usage.total,
        cache_read=usage.cache_read,
        cache_write=usage.cache_write,
    )
    return replace(base, last_call_usage=last, current_token_count=usage.total, prompt_cache=cache)


# ------------------------------------------------------------------------------- before the turn


async def bootstrap(
    engine: ResolvedEngine,
    call: LifecycleCall,
    *,
    had_transcript: bool,
    messages: Sequence[Message],
    context: RuntimeContext | None = None,
) -> BootstrapOutcome:
    """Ask `bootstrap`, then its maintenance, where a transcript existed before this run.

    `had_transcript` is decided before any write of this run (spec C-03, C-08). Maintenance follows
    also where the engine has no `bootstrap`, and not where that failed. Re-read the history
    afterwards (spec C-04). Source: spec B-08, B-09, S-01.
    """
    if not engine.is_active:
        return BootstrapOutcome()
    if not had_transcript:
        _tell(engine, call, "engine.maintenance_skipped", reason="no transcript before this run")
        return BootstrapOutcome()
    result = None
    if engine.implements("bootstrap"):
        _tell(engine, call, "engine.bootstrap_started")
        params = BootstrapParams(**_call_fields(engine, call, context), messages=_shared(messages))
        try:
            result = await engine.bootstrap(params)
        except EngineError as error:
            failed = _warn(engine, call, "engine.bootstrap_failed", error)
            return BootstrapOutcome(failed=failed)
        _tell(
            engine,
            call,
            "engine.bootstrap_completed",
            bootstrapped=result.bootstrapped if result else None,
            imported_count=result.imported_messages if result else None,
        )
    maintenance = await maintain(engine, call, reason="bootstrap", context=context)
    return BootstrapOutcome(result=result, maintenance=maintenance)


async def assemble(
    engine: ResolvedEngine,
    call: LifecycleCall,
    *,
    messages: Sequence[Message],
    available_tools: frozenset[str],
    prompt: str,
    token_budget: int | None = None,
    model: str | None = None,
    citations_mode: str | None = None,
    context: RuntimeContext | None = None,
) -> AssembleOutcome:
    """Ask what the model shall see; `messages` is the history re-read after bootstrap.

    `available_tools` are the final names, so build the tools first (spec C-02). Budget and model
    are the call's own unless given here. Source: spec B-10,
    C-04, S-02.
    """
    if not engine.is_active:
        return AssembleOutcome()
    params = AssembleParams(
        **_call_fields(engine, call, context),
        messages=_shared(messages),
        token_budget=token_budget if token_budget is not None else call.token_budget,
        available_tools=available_tools,
        citations_mode=citations_mode,
        model=model if model is not None else call.model,
        prompt=prompt,
    )
    try:
        assembled = await engine.assemble(params)
    except EngineError as error:
        return AssembleOutcome(failed=_warn(engine, call, "engine.assemble_failed", error))
    _tell(
        engine,
        call,
        "engine.assemble_applied",
        assembledMessageCount=len(assembled.messages),
        estimatedTokens=assembled.estimated_tokens,
        hasSystemPromptAddition=assembled.system_prompt_addition is not None,
    )
    return AssembleOutcome(assembled=assembled)


# -------------------------------------------------------------------------------- after the turn


async def finalize(
    engine: ResolvedEngine,
    call: LifecycleCall,
    *,
    messages: TurnMessages,
    pre_prompt_message_count: int,
    end: TurnEnd,
    auto_compaction_summary: str | None = None,
    finalize_on_failure: bool = True,
    context: RuntimeContext | None = None,
) -> FinalizeOutcome:
    """Hand the finished turn to the engine: `after_turn`, else `ingest_batch`, else `ingest` each.

    Called once the mirror was tried, whether that worked or not (spec I-01), also after a failed or
    stopped turn unless `finalize_on_failure` is off (spec S3). The run's abort signal is not passed
    on: a stopped turn still is to be handed over. Source: spec I-02…I-07, I-12, I-21, S-04, S-05.
    """
    if not engine.is_active:
        return FinalizeOutcome(succeeded=True)
    if end.bad is not None and not finalize_on_failure:
        return FinalizeOutcome(succeeded=True)
    whole = messages.snapshot if messages.mirrored else None
    if whole is None:  # what was re-read, if it was, does not hold this turn
        whole = MessageView(messages.history, messages.turn)
        _tell(engine, call, "mirror.failed", reason="fallback data is ingested")
    before = visible_count(whole, pre_prompt_message_count)
    handing = _HandOver(
        engine=engine,
        call=call,
        fields=_call_fields(engine, call, context, with_abort=False),
        whole=_shared(whole),
        before=before,
        is_heartbeat=call.is_heartbeat,
    )
    if engine.implements("after_turn"):
        outcome = await handing.after_turn(auto_compaction_summary)
    else:
        outcome = await handing.ingest()
    if outcome.succeeded:
        _tell(
            engine,
            call,
            "engine.finalize_completed",
            called=outcome.called,
            handed_over_count=outcome.handed_over,
        )
    return outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class _HandOver:
    """One turn on its way to the engine."""

    engine: ResolvedEngine
    call: LifecycleCall
    fields: _CallFields
    whole: Sequence[Message]
    before: int
    is_heartbeat: bool

    async def after_turn(self, auto_compaction_summary: str | None) -> FinalizeOutcome:
        params = AfterTurnParams(
            **self.fields,
            messages=self.whole,
            pre_prompt_message_count=self.before,
            token_budget=self.call.token_budget,
            auto_compaction_summary=auto_compaction_summary,
            is_heartbeat=self.is_heartbeat,
        )
        try:
            await self.engine.after_turn(params)
        except EngineError as error:
            failed = _warn(self.engine, self.call, "engine.finalize_failed", error)
            return FinalizeOutcome(succeeded=False, called="after_turn", failed=failed)
        added = max(0, len(self.whole) - self.before)
        return FinalizeOutcome(succeeded=True, called="after_turn", handed_over=added)

    async def ingest(self) -> FinalizeOutcome:
        added = self.whole[self.before :]
        if not added:
            return FinalizeOutcome(succeeded=True)
        if self.engine.implements("ingest_batch"):
            return await self._batch(added)
        return await self._each(added)

    async def _batch(self, added: Sequence[Message]) -> FinalizeOutcome:
        params = IngestBatchParams(
            **self.fields, messages=MessageView(tuple(added)), is_heartbeat=self.is_heartbeat
        )
        try:
            await self.engine.ingest_batch(params)
        except EngineError as error:
            failed = _warn(self.engine, self.call, "engine.finalize_failed", error)
            return FinalizeOutcome(succeeded=False, called="ingest_batch", failed=failed)
        return FinalizeOutcome(succeeded=True, called="ingest_batch", handed_over=len(added))

    async def _each(self, added: Sequence[Message]) -> FinalizeOutcome:
        """Hand over one by one; a failing one does not stop the others (spec I-07)."""
        failures: list[str] = []
        for message in added:
            params = IngestParams(**self.fields, message=message, is_heartbeat=self.is_heartbeat)
            try:
                await self.engine.ingest(params)
            except EngineError as error:
                failures.append(_warn(self.engine, self.call, "engine.ingest_failed", error))
        if failures:
            _tell(
                self.engine,
                self.call,
                "engine.finalize_failed",
                reason=failures[0],
                failed_count=len(failures),
            )
        return FinalizeOutcome(
            succeeded=not failures,
            called="ingest",
            handed_over=len(added) - len(failures),
            failed=failures[0] if failures else None,
        )


async def maintain(
    engine: ResolvedEngine,
    call: LifecycleCall,
    *,
    reason: MaintenanceReason,
    end: TurnEnd | None = None,
    finalized: FinalizeOutcome | None = None,
    context: RuntimeContext | None = None,
) -> MaintainOutcome:
    """Ask `maintain` and wait for it.

    For the reason `turn` give `end` and `finalized`: it runs only behind a good turn that was
    handed over, and a skip is logged with its reason. An engine without `maintain` is skipped in
    silence. Source: spec B-16, I-08, I-15, I-18, I-19, S-06.
    """
    if not engine.is_active or not engine.implements("maintain"):
        return MaintainOutcome(skipped="nothing to ask")
    blocked = end.bad if end is not None else None
    if blocked is None and finalized is not None and not finalized.succeeded:
        blocked = "finalization failed"
    if blocked is not None:
        _tell(engine, call, "engine.maintenance_skipped", reason=blocked)
        return MaintainOutcome(skipped=blocked)
    params = MaintainParams(**_call_fields(engine, call, context), reason=reason)
    try:
        result = await engine.maintain(params)
    except EngineError as error:
        failed = _warn(engine, call, "engine.maintenance_failed", error, maintenance=reason)
        return MaintainOutcome(failed=failed)
    if result is not None and result.changed:
        _tell(
            engine,
            call,
            "engine.maintenance_completed",
            maintenance=reason,
            reason=result.reason,
            rewritten_count=result.rewritten_entries,
            freed_bytes=result.bytes_freed,
        )
    return MaintainOutcome(result=result)


# ----------------------------------------------------------------------------------- in common


class _CallFields(TypedDict):
    session_id: SessionId
    session_key: SessionKey | None
    session_target: JsonObject | None
    session_file: str | None
    runtime_settings: JsonObject | None
    runtime_context: RuntimeContext | None
    abort_signal: AbortSignal | None


def _call_fields(
    engine: ResolvedEngine,
    call: LifecycleCall,
    context: RuntimeContext | None,
    *,
    with_abort: bool = True,
) -> _CallFields:
    return {
        "session_id": call.session_id,
        "session_key": call.session_key,
        "session_target": call.session_target,
        "session_file": call.session_file,
        "runtime_settings": with_settings(call, engine).settings,
        "runtime_context": context if context is not None else runtime_context(call),
        "abort_signal": call.abort if with_abort else None,
    }


def _shared(messages: Sequence[Message]) -> Sequence[Message]:
    """Return messages with which a reader can do nothing to anybody else (spec B-13)."""
    if isinstance(messages, TranscriptSnapshot | MessageView):
        return messages
    return MessageView(messages)


def _tell(engine: ResolvedEngine, call: LifecycleCall, event: str, **fields: JsonValue) -> None:
    """Log an event with the ids of every event (spec T-02); the log masks the key."""
    ids = {
        "engineId": engine.info.id,
        "sessionId": call.session_id,
        "session_key": call.session_key,
    }
    emit(event, cause=None, **{**ids, **fields})


def _warn(
    engine: ResolvedEngine,
    call: LifecycleCall,
    event: str,
    error: EngineError,
    **fields: JsonValue,
) -> str:
    """Log the one warning of a failed call and return its reason; a stopped run is told softly."""
    if error.fields.get("aborted"):
        return ABORTED
    reason = redact(error.message)
    _tell(engine, call, event, **fields, code=error.code, reason=reason)
    return reason
