"""Stand between the lifecycle and one engine for the length of one run.

Filters what the engine may know, calls it under a deadline, checks its answers and turns whatever
goes wrong into an `EngineError`. Knows nothing of turns, and decides nothing about what follows a
failure: after one, the same engine gets the later calls too (spec B-45, B-47).
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar

from treadle.config import Deadlines
from treadle.contract.engine import (
    HOST_PARAMS,
    LEGACY,
    AfterTurnParams,
    Assembled,
    AssembleParams,
    BootstrapParams,
    BootstrapResult,
    CommitTurnParams,
    CommitTurnResult,
    CompactParams,
    CompactResult,
    ContextEngine,
    EngineInfo,
    IngestBatchParams,
    IngestBatchResult,
    IngestParams,
    IngestResult,
    MaintainParams,
    MaintainResult,
    RuntimeContext,
    SessionCall,
    declares_durable_commit,
)
from treadle.contract.session_calls import (
    ForgetParams,
    Rollback,
    SessionEndedParams,
    SubagentEndedParams,
    SubagentPreparation,
    SubagentSpawnParams,
)
from treadle.contract.tool import DynamicTool
from treadle.engines import answers
from treadle.engines.answers import Answer
from treadle.foreign import (
    Abort,
    ForeignAborted,
    ForeignCalls,
    ForeignFailure,
    ForeignTimeout,
    is_async,
)
from treadle.model.errors import EngineContractError, EngineError, EngineTimeout
from treadle.model.ids import EngineId
from treadle.observe import emit

P = TypeVar("P", bound=SessionCall)
R = TypeVar("R")

_LACKS: Final = "legacy leaves this to Codex"

BEFORE_A_TURN: Final = frozenset({"bootstrap", "assemble"})
"""Operations that never get the transcript rewriter (spec B-17)."""

FailureSeen = Callable[[str, str], None]
"""Takes operation and reason of the first failure of the engine's own in its run."""


class GuardedEngine:
    """One engine for one run; implements `contract.engine.ResolvedEngine`.

    Every call may raise EngineContractError, EngineTimeout or EngineError; a call that ended
    because its run was stopped raises EngineError with the field `aborted` and is no failure of the
    engine's (spec B-43).
    """

    def __init__(
        self,
        engine: ContextEngine,
        info: EngineInfo,
        *,
        foreign: ForeignCalls,
        deadlines: Deadlines,
        engine_id: EngineId | None = None,
        tools: Sequence[DynamicTool] = (),
        on_failure: FailureSeen | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.engine = engine
        self._info = info
        self._engine_id = engine_id or EngineId(info.id)
        self._foreign = foreign
        self._deadlines = deadlines
        self._tools = tuple(tools)
        self._on_failure = on_failure
        self._monotonic = monotonic
        self._has_failed = False

    @property
    def has_failed(self) -> bool:
        """Whether a call of this run failed by the engine's own doing."""
        return self._has_failed

    @property
    def info(self) -> EngineInfo:
        """The engine's own info."""
        return self._info

    @property
    def engine_id(self) -> EngineId:
        """The id under which it is registered; its info's where nobody registered it."""
        return self._engine_id

    @property
    def is_active(self) -> bool:
        """Whether this is an engine and not `legacy` (spec A-21)."""
        return self._info.id != LEGACY

    @property
    def commits_durably(self) -> bool:
        """Whether it makes both declarations and has a `commit_turn` (spec B-34)."""
        declares = declares_durable_commit(self._info)
        return self.is_active and declares and self.implements("commit_turn")

    def implements(self, method: str) -> bool:
        """Whether the engine has this optional method."""
        return callable(getattr(self.engine, method, None))

    def tools(self) -> tuple[DynamicTool, ...]:
        """The dynamic tools that the engine offered when it was resolved."""
        return self._tools

    async def bootstrap(self, params: BootstrapParams) -> BootstrapResult | None:
        """Ask `bootstrap`; None where the engine has none, and legacy's own answer (B-42)."""
        if not self.implements("bootstrap"):
            return None if self.is_active else BootstrapResult(bootstrapped=False, reason=_LACKS)
        seconds = self._deadlines.engine_bootstrap_s
        return await self._ask("bootstrap", params, seconds, answers.bootstrap_result)

    async def assemble(self, params: AssembleParams) -> Assembled:
        """Ask `assemble`. What it answered is read where it was made, not on the loop."""
        given = params.messages

        def check(answer: Answer, value: object) -> Assembled:
            return answers.assembled(answer, value, given)

        seconds = self._deadlines.engine_call_s
        return await self._ask("assemble", params, seconds, check, answers.assembled_at_once)

    async def after_turn(self, params: AfterTurnParams) -> bool:
        """Tell `after_turn`, whose answer means nothing; False where the engine has none."""
        if not self.implements("after_turn"):
            return False
        return await self._ask("after_turn", params, self._deadlines.engine_call_s, _anything)

    async def ingest_batch(self, params: IngestBatchParams) -> IngestBatchResult | None:
        """Tell `ingest_batch`; None where the engine has none, 0 for legacy (B-42)."""
        if not self.implements("ingest_batch"):
            return None if self.is_active else IngestBatchResult(ingested_count=0)
        seconds = self._deadlines.engine_call_s
        return await self._ask("ingest_batch", params, seconds, answers.ingest_batch_result)

    async def ingest(self, params: IngestParams) -> IngestResult:
        """Tell `ingest`."""
        seconds = self._deadlines.engine_call_s
        return await self._ask("ingest", params, seconds, answers.ingest_result)

    async def commit_turn(self, params: CommitTurnParams) -> CommitTurnResult:
        """Ask `commit_turn`; an answer of another status is a broken contract (spec B-37)."""
        seconds = self._deadlines.engine_commit_s
        return await self._ask("commit_turn", params, seconds, answers.commit_turn_result)

    async def maintain(self, params: MaintainParams) -> MaintainResult | None:
        """Ask `maintain`; None where the engine has none, and legacy's own answer (B-42)."""
        if not self.implements("maintain"):
            return None if self.is_active else MaintainResult(changed=False, reason=_LACKS)
        seconds = self._deadlines.engine_maintain_s
        return await self._ask("maintain", params, seconds, answers.maintain_result)

    async def compact(self, params: CompactParams) -> CompactResult:
        """Ask `compact`; the abort signal is always passed (spec B-23, J-10)."""
        return await self._ask(
            "compact", params, self._deadlines.compaction_s, answers.compact_result
        )

    async def on_session_ended(self, params: SessionEndedParams) -> bool:
        """Tell `on_session_ended`; False where the engine has none (spec U-08)."""
        if not self.implements("on_session_ended"):
            return False
        return await self._ask("on_session_ended", params, self._deadlines.engine_call_s, _anything)

    async def forget(self, params: ForgetParams) -> bool:
        """Ask `forget`, which may take as long as upkeep; False where the engine has none."""
        if not self.implements("forget"):
            return False
        return await self._ask("forget", params, self._deadlines.engine_maintain_s, _anything)

    async def prepare_subagent_spawn(self, params: SubagentSpawnParams) -> Rollback | None:
        """Ask `prepare_subagent_spawn`; None where nothing was prepared (spec B-20)."""
        if not self.implements("prepare_subagent_spawn"):
            return None
        prepared = await self._ask(
            "prepare_subagent_spawn",
            params,
            self._deadlines.engine_call_s,
            answers.subagent_preparation,
        )
        return None if prepared is None else self._rollback(prepared)

    async def on_subagent_ended(self, params: SubagentEndedParams) -> bool:
        """Tell `on_subagent_ended`; False where the engine has none (spec B-21)."""
        if not self.implements("on_subagent_ended"):
            return False
        seconds = self._deadlines.engine_call_s
        return await self._ask("on_subagent_ended", params, seconds, _anything)

    def _rollback(self, prepared: SubagentPreparation) -> Rollback:
        """Return the way back, which works once and within a deadline (spec B-20)."""
        left = [prepared.rollback]

        async def undo() -> None:
            while left:
                await self._call_off("rollback", left.pop(), self._deadlines.engine_call_s)

        return undo

    async def dispose(self) -> None:
        """Tell `dispose`, within its deadline; a failure is logged and holds nobody back (B-46)."""
        if not self.implements("dispose"):
            return
        dispose: Callable[[], object] = getattr(self.engine, "dispose")  # noqa: B009 - optional
        if await self._call_off("dispose", dispose, self._deadlines.engine_dispose_s):
            emit("engine.disposed", engine=self._info.id)

    async def _call_off(self, operation: str, call: Callable[[], object], seconds: float) -> bool:
        """Make a call that gives something back or up; False, and logged, where it failed."""
        try:
            await self._foreign.call(self._info.id, operation, call, deadline_s=seconds)
        except ForeignTimeout as late:
            emit("engine.timed_out", engine=self._info.id, operation=operation, reason=late.reason)
            return False
        except (ForeignFailure, ForeignAborted) as fault:
            emit("plugin.failed", engine=self._info.id, operation=operation, reason=fault.reason)
            return False
        return True

    async def _ask(
        self,
        operation: str,
        params: P,
        seconds: float,
        check: Callable[[Answer, object], R],
        check_at_once: Callable[[Answer, object], R | None] | None = None,
    ) -> R:
        """Call the engine and check what it answers.

        `check_at_once` says that `check` may take time or run what is the engine's, and gives None
        where it has to.
        """
        abort = Abort(params.abort_signal)
        given = self._filtered(operation, params, abort)
        method: Callable[[P], object] = getattr(self.engine, operation)
        answer = Answer(engine_id=self._info.id, operation=operation)
        checking, at_once = partial(check, answer), partial(check_at_once or check, answer)
        ask = method if is_async(method) else _checking_where_it_was_made(method, checking)
        began = self._monotonic()
        try:
            value = await self._foreign.call(
                self._info.id, operation, ask, given, deadline_s=seconds, abort=abort
            )
            return await self._checked(operation, value, seconds, checking, at_once)
        except ForeignTimeout as late:
            raise self._failed(EngineTimeout, operation, late.reason) from late
        except ForeignAborted as aborted:
            raise EngineError(
                f"context engine {self._info.id!r} was not waited for in {operation!r}:"
                f" {aborted.reason}",
                engine_id=self._info.id,
                operation=operation,
                aborted=True,
            ) from aborted
        except ForeignFailure as failure:
            if isinstance(failure.__cause__, EngineContractError):
                self._note(operation, failure.__cause__.message)
                raise failure.__cause__ from None
            raise self._failed(EngineError, operation, failure.reason) from failure.__cause__
        finally:
            took = self._monotonic() - began
            if took >= self._deadlines.engine_slow_s:
                emit("engine.call_slowed", engine=self._info.id, operation=operation, took_s=took)

    async def _checked(
        self,
        operation: str,
        value: object,
        seconds: float,
        check: Callable[[object], R],
        at_once: Callable[[object], R | None],
    ) -> R:
        """Check an answer; a big one may hold foreign sequences, so it is read as foreign code."""
        if isinstance(value, _Checked):
            made: R = value.record
            return made
        try:
            checked = at_once(value)
        except EngineContractError as broken:
            self._note(operation, broken.message)
            raise
        if checked is not None:
            return checked
        read: R = await self._foreign.call(
            self._info.id, operation, check, value, deadline_s=seconds
        )
        return read

    def _filtered(self, operation: str, params: P, abort: Abort) -> P:
        """Return the parameters with our signal, and without what the engine does not take.

        Source: spec B-17, B-23, B-24.
        """
        accepted = self._info.accepted_host_params
        changes: dict[str, Any] = {"abort_signal": abort}
        if accepted is not None:
            hidden = HOST_PARAMS - accepted
            if operation == "compact":
                hidden -= {"abort_signal"}
            changes |= {name: None for name in hidden if hasattr(params, name)}
        context = params.runtime_context
        pre_turn = operation in BEFORE_A_TURN or (
            isinstance(params, MaintainParams) and params.reason == "bootstrap"
        )
        if pre_turn and context is not None and "runtime_context" not in changes:
            changes["runtime_context"] = _without_rewriter(context)
        return replace(params, **changes)

    def _failed(self, kind: type[EngineError], operation: str, reason: str) -> EngineError:
        self._note(operation, reason)
        return kind(
            f"context engine {self._info.id!r} failed in {operation!r}: {reason}",
            engine_id=self._info.id,
            operation=operation,
        )

    def _note(self, operation: str, reason: str) -> None:
        first, self._has_failed = not self._has_failed, True
        if first and self._on_failure is not None:
            self._on_failure(operation, reason)


def _without_rewriter(context: RuntimeContext) -> RuntimeContext:
    if context.rewrite_transcript_entries is None:
        return context
    return replace(context, rewrite_transcript_entries=None)


@dataclass(frozen=True, slots=True)
class _Checked:
    """An answer that was checked in the thread in which it was made."""

    record: Any


def _checking_where_it_was_made(
    method: Callable[[P], object], check: Callable[[object], object]
) -> Callable[[P], object]:
    def ask(params: P) -> object:
        value = method(params)
        return value if inspect.isawaitable(value) else _Checked(check(value))

    return ask


def _anything(answer: Answer, value: object) -> bool:
    del answer, value
    return True
