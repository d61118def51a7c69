"""The calls that an engine gets about a session as a whole, whichever harness runs its turns.

Each function makes one call, logs what came of it and answers with why it failed; a failure of the
engine is one warning, never an exception, but where a child cannot be prepared. Under an engine
that is not active no call is made at all (spec A-20). Knows nothing of harnesses or threads.
Source: spec B-20, B-21, U-02, U-08; decision 13.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from treadle.contract.engine import ResolvedEngine, RuntimeContext
from treadle.contract.session_calls import (
    ForgetParams,
    Rollback,
    SessionEnd,
    SessionEndedParams,
    SubagentContext,
    SubagentEnd,
    SubagentEndedParams,
    SubagentSpawnParams,
)
from treadle.harness.lifecycle import runtime_context
from treadle.harness.outcomes import LifecycleCall, with_settings
from treadle.model.errors import EngineError
from treadle.model.ids import SessionId, SessionKey
from treadle.model.json import JsonObject
from treadle.model.text import redact
from treadle.observe import emit


async def session_ended(
    engine: ResolvedEngine,
    call: LifecycleCall,
    *,
    reason: SessionEnd,
    next_session_id: SessionId | None,
) -> str | None:
    """Tell that the call's generation is over; return why that failed, or None."""
    if not engine.is_active:
        return None
    params = SessionEndedParams(
        **_fields(engine, call), reason=reason, next_session_id=next_session_id
    )
    try:
        await engine.on_session_ended(params)
    except EngineError as error:
        return _failed(engine, call, "on_session_ended", error)
    return None


async def forget(
    engine: ResolvedEngine, call: LifecycleCall, session_ids: Sequence[SessionId]
) -> str | None:
    """Ask to erase what was derived from the session; return why that failed, or None."""
    if not engine.is_active:
        return None
    params = ForgetParams(**_fields(engine, call), session_ids=tuple(session_ids))
    try:
        await engine.forget(params)
    except EngineError as error:
        return _failed(engine, call, "forget", error)
    return None


async def prepare_spawn(
    engine: ResolvedEngine,
    call: LifecycleCall,
    *,
    child_key: SessionKey,
    context_mode: SubagentContext,
    ttl_ms: int | None,
) -> Rollback | None:
    """Let the engine prepare a child of the call's session; None where it prepared nothing.

    Raises: EngineError; then the child does not begin (spec B-41).
    """
    if not engine.is_active:
        return None
    params = SubagentSpawnParams(
        **_fields(engine, call),
        parent_session_key=call.session_key,
        child_session_key=child_key,
        context_mode=context_mode,
        ttl_ms=ttl_ms,
    )
    return await engine.prepare_subagent_spawn(params)


async def subagent_ended(
    engine: ResolvedEngine, call: LifecycleCall, *, reason: SubagentEnd
) -> str | None:
    """Tell that the call's session, a child, is over; return why that failed, or None."""
    if not engine.is_active:
        return None
    params = SubagentEndedParams(
        **_fields(engine, call), child_session_key=call.session_key, reason=reason
    )
    try:
        await engine.on_subagent_ended(params)
    except EngineError as error:
        return _failed(engine, call, "on_subagent_ended", error)
    return None


class _Fields(TypedDict):
    session_id: SessionId
    session_key: SessionKey | None
    session_file: str | None
    runtime_settings: JsonObject | None
    runtime_context: RuntimeContext | None


def _fields(engine: ResolvedEngine, call: LifecycleCall) -> _Fields:
    return {
        "session_id": call.session_id,
        "session_key": call.session_key,
        "session_file": call.session_file,
        "runtime_settings": with_settings(call, engine).settings,
        "runtime_context": runtime_context(call),
    }


def _failed(engine: ResolvedEngine, call: LifecycleCall, operation: str, error: EngineError) -> str:
    reason = redact(error.message)
    emit(
        "engine.session_call_failed",
        engineId=engine.info.id,
        sessionId=call.session_id,
        session_key=call.session_key,
        operation=operation,
        code=error.code,
        reason=reason,
    )
    return reason
