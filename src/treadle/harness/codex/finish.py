"""Settle a turn that is over: mirror it, tell the engine, keep the report, make the result.

The transcript first, in one transaction with what the thread now holds; then everything that may
fail without changing what was said. Source: architecture section 4; spec A-19, A-22…A-24, H-01,
I-01…I-15, S-04…S-06; decision 7.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

import anyio

from treadle.contract.harness import AttemptParams, AttemptResult, Emit
from treadle.contract.hook import AgentEnd
from treadle.contract.inbox import Settlement
from treadle.contract.store import Binding, ContextReport, TranscriptSnapshot
from treadle.failpoints import failpoint
from treadle.harness.codex.classify import classification_of, client_closed
from treadle.harness.codex.mirror import passed_by_hooks
from treadle.harness.codex.opening import Opened
from treadle.harness.codex.peer import CodexPeer
from treadle.harness.codex.prepare import PROJECTION_FAULTS, Gathered, hook_context
from treadle.harness.codex.recovery import UNKNOWN, after_compactions, turn_notice, unwritten_of
from treadle.harness.codex.report import report_of
from treadle.harness.codex.rollout import Rollout, read_rollout
from treadle.harness.codex.services import CodexServices
from treadle.harness.codex.stream import Played
from treadle.harness.codex.superseded import put_away
from treadle.harness.lifecycle import (
    FinalizeOutcome,
    LifecycleCall,
    TurnEnd,
    TurnMessages,
    finalize,
    maintain,
    runtime_context_from_usage,
)
from treadle.harness.settling import finished, settlement_of
from treadle.model.errors import ProcessExited, StoreError, TurnInterrupted, WireError
from treadle.model.json import JsonObject
from treadle.model.message import ASSISTANT, Entry, EntryKind, Message, NewEntry
from treadle.model.turn import EntryCommitted, Notice, Outcome, Usage
from treadle.observe import emit
from treadle.projection.history import Rebase
from treadle.projection.instructions import text_hash

ABORTED: Final = frozenset({Outcome.STOPPED, Outcome.TIMED_OUT})
"""Outcomes of a turn that was stopped, by a person or by its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRecord:
    """Everything that settling needs of a turn."""

    opened: Opened
    binding: Binding
    """As stored, with the turn open."""

    gathered: Gathered
    prompt: Entry | None
    played: Played

    @property
    def replay_safe(self) -> bool:
        """Whether the turn may be tried again; never where a loss took its thread along (D-39)."""
        lost_with_thread = self.opened.transient and self.played.lost is not None
        return self.played.projection.items.replay_safe and not lost_with_thread


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mirrored:
    entries: tuple[Entry, ...]
    messages: tuple[Message, ...]
    """The turn's messages, written or not."""

    written: bool
    """Whether the entries stand, and with them the end of the message (S10)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Before:
    """What stood before the turn."""

    call: LifecycleCall
    history: TranscriptSnapshot
    count: int
    """Messages before the prompt."""

    @classmethod
    def of(cls, gathered: Gathered) -> _Before:
        return cls(
            call=gathered.call,
            history=gathered.history,
            count=gathered.pre_prompt_message_count,
        )


class Finisher:
    """Settles one turn."""

    def __init__(
        self,
        services: CodexServices,
        params: AttemptParams,
        emit_event: Emit,
        peer: CodexPeer,
        *,
        began_s: float,
    ) -> None:
        """Keep the parts; `began_s` is when the attempt began, monotonic."""
        self._services = services
        self._peer = peer
        self._began_s = began_s
        self._params = params
        self._emit = emit_event

    async def finish(self, record: TurnRecord) -> AttemptResult:
        """Mirror, tell the engine, keep the report and return the result.

        Mirroring has `deadlines.settlement_s`, after an abort `deadlines.drain_s`; a complete
        answer survives its expiry as a degraded success, and what is not written by then is settled
        by the next run (spec A-19). Engine calls have deadlines of their own. Cancel: as expiry.
        """
        mirrored = _Mirrored(entries=(), messages=(), written=False)
        degraded: str | None = None
        if _is_final(record):
            with anyio.move_on_after(self._settlement_s(record)) as budget:
                mirrored = await self._mirror(record)
            if budget.cancelled_caught:
                degraded = "mirroring the turn took longer than its time"
                mirrored = _unwritten(record)
                await self._tell_late()
        result = replace(
            self._result(record, mirrored),
            degraded=degraded,
            message=_of_message(record, written=mirrored.written),
        )
        turn = self._turn_messages(record, mirrored)
        await self._tell_engine(
            _Before.of(record.gathered), turn, result, mirrored=mirrored.written
        )
        failpoint("S13")
        await self._save_report(record, result)
        await self._put_away(record, result)
        emit(
            "turn.settled",
            outcome=result.outcome.value,
            entries_count=len(result.entries),
            classification=result.classification,
        )
        return result

    async def refused(
        self, gathered: Gathered, prompt: Entry | None, result: AttemptResult
    ) -> AttemptResult:
        """Tell the engine of a turn that Codex refused: only the prompt is new (spec I-09, S3)."""
        entries = () if prompt is None else (prompt,)
        turn = tuple(entry.message for entry in entries)
        result = replace(result, messages_snapshot=turn, entries=entries)
        await self._tell_engine(_Before.of(gathered), turn, result, mirrored=True)
        emit("turn.settled", outcome=result.outcome.value, entries_count=len(entries))
        return result

    async def recovered(
        self,
        call: LifecycleCall,
        history: TranscriptSnapshot,
        before: int,
        result: AttemptResult,
    ) -> None:
        """Tell the engine of a turn that an earlier process ran and this one found ended.

        `before` is how many messages stood before its prompt; `history` holds the turn too.
        """
        handed = _Before(call=call, history=history, count=before)
        await self._tell_engine(handed, result.messages_snapshot, result, mirrored=True)
        emit("turn.settled", outcome=result.outcome.value, entries_count=len(result.entries))

    # ---------------------------------------------------------------------------------- mirror

    def _settlement_s(self, record: TurnRecord) -> float:
        """Return how long mirroring may take; whoever stopped a turn waits no longer (A-19)."""
        deadlines = self._services.settings.deadlines
        outcome, _ = _outcome(record)
        return deadlines.drain_s if outcome in ABORTED else deadlines.settlement_s

    async def _tell_late(self) -> None:
        emit("mirror.failed", reason="it took longer than its time")
        await self._notice(
            "mirror_failed",
            "The turn could not be written to the transcript in its time.",
            "The session's next run writes it.",
        )

    async def _mirror(self, record: TurnRecord) -> _Mirrored:
        services, params = self._services, self._params
        binding, played = record.binding, record.played
        rollout = (
            await read_rollout(binding.rollout_path, binding.rollout_offset)
            if binding.rollout_path
            else None
        )
        raw = rollout.of_turn(played.turn_id) if rollout is not None else ()
        fresh = played.projection.snapshot(raw or None)  # else what came as notifications
        entries = await passed_by_hooks(services, params, fresh)
        if played.lost is not None and binding.open_turn is not None:
            entries = (*entries, turn_notice(binding.open_turn, "unknown", UNKNOWN))
        prompt = () if record.prompt is None else (_again(record.prompt),)
        after = self._binding_after(record, rollout)
        try:
            stored = await services.store.transcript.append(
                params.claim,
                [*prompt, *entries],
                held_by=None if record.opened.transient else binding.thread_id,
                held_unwritten=unwritten_of(binding.open_turn),
                binding=after,
                settlement=self._settlement(record),
            )
        except StoreError as error:
            emit("mirror.failed", cause=error)
            await self._notice(
                "mirror_failed",
                f"The turn could not be written to the transcript: {error.message}",
                error.next_step,
            )
            messages = tuple(one.message for one in entries if one.kind is EntryKind.MESSAGE)
            return _Mirrored(entries=(), messages=messages, written=False)
        news = stored[len(prompt) :]
        emit("mirror.written", entries_count=len(news), raw_items_count=len(raw))
        for entry in news:
            await self._emit(EntryCommitted(run_id=params.run_id, entry=entry))
        if any(one.meta.get("rendered") for one in news if one.kind is EntryKind.MESSAGE):
            await self._notice(
                "raw_items_missing",
                "The turn's own items could not be read; its entries are renderings of them.",
            )
        messages = tuple(one.message for one in news if one.kind is EntryKind.MESSAGE)
        return _Mirrored(entries=news, messages=messages, written=True)

    def _settlement(self, record: TurnRecord) -> Settlement:
        nothing = _Mirrored(entries=(), messages=(), written=False)
        took_s = self._services.clock.monotonic() - self._began_s
        end = finished(self._params.run_id, self._result(record, nothing), took_s)
        return settlement_of(end, self._params.abort.reason)

    def _binding_after(self, record: TurnRecord, rollout: Rollout | None) -> Binding | None:
        """Return the binding to store; a transient thread leaves the session's as it is (D-39)."""
        if record.opened.transient:
            kept = record.opened.kept
            return replace(kept, open_turn=None) if kept is not None else None
        binding, projection = record.binding, record.played.projection
        compactions = projection.items.lifecycle.compaction_count
        usage = projection.usage.usage if projection.usage is not None else None
        return replace(
            after_compactions(binding, compactions),
            open_turn=None,
            rollout_offset=rollout.end_offset if rollout is not None else binding.rollout_offset,
            model=projection.model or binding.model,
            window=(usage.window if usage is not None else None) or binding.window,
            last_total=_last_total(binding, usage, compactions),
            overflowed=projection.overflowed,
            reference_hash=text_hash(record.gathered.reference) if compactions == 0 else "",
            rebased_for_compaction=_rebased_for_compaction(record, compactions),
        )

    async def _put_away(self, record: TurnRecord, result: AttemptResult) -> None:
        """Archive the thread that a fresh one has replaced, once that one has proved itself."""
        previous, now = record.opened.previous, record.binding.thread_id
        if result.outcome is Outcome.COMPLETED and previous is not None and previous != now:
            await put_away(self._services, self._peer, record.binding, previous)

    # ---------------------------------------------------------------------------------- engine

    async def _tell_engine(
        self,
        before: _Before,
        turn: tuple[Message, ...],
        result: AttemptResult,
        *,
        mirrored: bool,
    ) -> None:
        params = self._params
        end = TurnEnd(prompt_error=result.prompt_error is not None, aborted=result.aborted)
        call = before.call
        usage = result.attempt_usage
        context = runtime_context_from_usage(call, usage, observed_at=self._services.clock.now())
        finalized = FinalizeOutcome(succeeded=True)
        snapshot = None
        if params.engine.is_active or mirrored:
            try:
                snapshot = await self._services.store.transcript.snapshot(params.session.id)
            except StoreError as error:
                emit("mirror.failed", cause=error)
        if params.engine.is_active:
            finalized = await finalize(
                params.engine,
                call,
                messages=TurnMessages(
                    history=before.history,
                    turn=turn,
                    snapshot=snapshot,
                    mirrored=mirrored,
                ),
                pre_prompt_message_count=before.count,
                end=end,
                finalize_on_failure=self._services.settings.finalize_on_failure,
                context=context,
            )
        await self._services.hooks.observe(
            "agent_end",
            AgentEnd(
                ctx=hook_context(params),
                messages=snapshot if snapshot is not None else before.history,
                success=result.outcome is Outcome.COMPLETED,
                duration_s=self._services.clock.monotonic() - self._began_s,
            ),
        )
        if params.engine.is_active:
            await maintain(
                params.engine, call, reason="turn", end=end, finalized=finalized, context=context
            )

    def _turn_messages(self, record: TurnRecord, mirrored: _Mirrored) -> tuple[Message, ...]:
        prompt = () if record.prompt is None else (record.prompt.message,)
        return (*prompt, *mirrored.messages)

    # ---------------------------------------------------------------------------------- result

    def _result(self, record: TurnRecord, mirrored: _Mirrored) -> AttemptResult:
        played, projection = record.played, record.played.projection
        outcome, error = _outcome(record)
        prompt = () if record.prompt is None else (record.prompt,)
        said = [one for one in mirrored.messages if one.role == ASSISTANT]
        usage = projection.usage.usage if projection.usage is not None else None
        text = _visible(projection.items.final_text) or _partial(played)
        return AttemptResult(
            outcome=outcome,
            text=text,
            aborted=outcome in ABORTED,
            timed_out=played.timed_out,
            prompt_error=error,
            prompt_error_source="prompt" if error is not None else None,
            messages_snapshot=self._turn_messages(record, mirrored),
            entries=(*prompt, *mirrored.entries),
            assistant_texts=projection.items.assistant_texts,
            tool_metas=projection.items.tool_metas,
            last_assistant=said[-1] if said else None,
            attempt_usage=usage,
            item_lifecycle=projection.items.lifecycle,
            had_potential_side_effects=projection.items.had_potential_side_effects,
            replay_safe=record.replay_safe,
            classification=classification_of(outcome, text, projection.items),
            thread_id=record.binding.thread_id,
            turn_id=played.turn_id,
        )

    async def _save_report(self, record: TurnRecord, result: AttemptResult) -> None:
        try:
            report = report_of(self._services, self._params, record, result)
        except PROJECTION_FAULTS as error:  # counting what nobody could render is no turn's fault
            emit("projection.failed", cause=error)
            return
        try:
            await self._services.store.reports.save(
                ContextReport(
                    run_id=self._params.run_id,
                    session_id=self._params.session.id,
                    number=0,
                    created_at=self._services.clock.now(),
                    report=report,
                )
            )
        except StoreError as error:
            emit("store.write_failed", cause=error)

    async def _notice(self, code: str, text: str, next_step: str = "") -> None:
        await self._emit(
            Notice(run_id=self._params.run_id, code=code, text=text, next_step=next_step)
        )


def _unwritten(record: TurnRecord) -> _Mirrored:
    """Return the turn's messages as its notifications told them (spec I-02, I-03)."""
    entries = record.played.projection.snapshot(None)
    messages = tuple(one.message for one in entries if one.kind is EntryKind.MESSAGE)
    return _Mirrored(entries=(), messages=messages, written=False)


def _is_final(record: TurnRecord) -> bool:
    """Whether nothing more can come of the turn.

    After a loss the process must be gone, and something must have been done: a turn that did
    nothing is left open, so that a second attempt looks for its message in the thread before it
    sends anything. There is nowhere to look after the loss of a transient thread.
    """
    played = record.played
    if played.lost is None or record.opened.transient:
        return True
    return isinstance(played.lost, ProcessExited) and not played.projection.items.replay_safe


def _of_message(record: TurnRecord, *, written: bool) -> Literal["due", "ended", "open"]:
    """Return what is left to do about the turn's message."""
    if written:
        return "ended"
    return "open" if _is_final(record) else "due"


def _again(entry: Entry) -> NewEntry:
    """Return the prompt's entry as it stands.

    So that the thread is recorded to hold it now (spec C-12).
    """
    return NewEntry(
        key=entry.key,
        message=entry.message,
        kind=entry.kind,
        thread_id=entry.thread_id,
        turn_id=entry.turn_id,
        run_id=entry.run_id,
        meta=entry.meta,
    )


def _last_total(binding: Binding, usage: Usage | None, compactions: int) -> int | None:
    """Return how full the thread is; after a compaction the next turn has to tell (D-40)."""
    if compactions > 0:
        return None
    return usage.total if usage is not None else binding.last_total


def _rebased_for_compaction(record: TurnRecord, compactions: int) -> bool:
    """A new native compaction may be answered once more.

    A rebase for one answers it (decision 4).
    """
    if compactions > 0:
        return False
    plan = record.opened.projected.turn.plan
    if isinstance(plan, Rebase) and plan.reason == "native-compaction":
        return True
    return record.binding.rebased_for_compaction


def _outcome(record: TurnRecord) -> tuple[Outcome, JsonObject | None]:
    played = record.played
    if played.lost is not None:
        return _lost_outcome(played.lost, record)
    end = played.projection.end
    status = end.status if end is not None else "failed"
    if status == "completed":
        return Outcome.COMPLETED, None
    if played.timed_out:
        return Outcome.TIMED_OUT, TurnInterrupted("the turn reached its time limit").to_json()
    if status == "interrupted":
        return Outcome.STOPPED, None
    error = end.error if end is not None else None
    return Outcome.FAILED, error or played.projection.error


def _lost_outcome(lost: WireError, record: TurnRecord) -> tuple[Outcome, JsonObject | None]:
    played = record.played
    if played.timed_out:
        return Outcome.TIMED_OUT, lost.to_json()
    if played.state.cancelled:
        return Outcome.STOPPED, lost.to_json()
    told = client_closed(lost, played.state.thread_id, replay_safe=record.replay_safe)
    return Outcome.CLIENT_LOST, told


def _visible(text: str) -> str:
    """Return the answer without a raw silent token (spec A-23)."""
    return "" if text.strip() == "NO_REPLY" else text


def _partial(played: Played) -> str:
    """Return what was said last where there is no final answer (spec S-10)."""
    texts = played.projection.items.assistant_texts
    return texts[-1] if texts else ""
