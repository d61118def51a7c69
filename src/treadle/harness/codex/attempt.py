"""One attempt of one turn on the real app-server.

Drives the table of `machine` and carries its commands out.

Knows the order of things and leaves each thing to its module: prepare, opening, stream, finish.
Source: architecture section 4; spec A-17, A-18, C-01, S-09, S-13.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

import anyio

from treadle.contract.engine import Capability
from treadle.contract.harness import (
    AttemptParams,
    AttemptResult,
    CompactionResult,
    Emit,
    Support,
    SupportQuery,
)
from treadle.contract.store import Binding, OpenTurn
from treadle.failpoints import failpoint
from treadle.harness.codex import machine
from treadle.harness.codex.classify import client_closed
from treadle.harness.codex.compaction import NativeCompaction
from treadle.harness.codex.finish import Finisher, TurnRecord
from treadle.harness.codex.launch import NATIVE_PROVIDERS, codex_provider
from treadle.harness.codex.machine import TurnCommand, TurnInput, TurnState, step
from treadle.harness.codex.mirror import prompt_entry
from treadle.harness.codex.opening import Opened, ThreadOpener
from treadle.harness.codex.prepare import Gathered, gather, lifecycle_call, project
from treadle.harness.codex.recovery import Recovered, Recovery, cut_off
from treadle.harness.codex.services import CodexServices
from treadle.harness.codex.stream import TurnStream
from treadle.harness.codex.superseded import archive, let_go
from treadle.harness.selection import codex_support
from treadle.model.errors import (
    ProcessExited,
    RpcError,
    RpcTimeout,
    StoreError,
    TurnRejected,
    WireError,
)
from treadle.model.ids import AgentId, EngineId, ThreadId
from treadle.model.message import ASSISTANT, Entry, text_of, user_message
from treadle.model.turn import ContextAssembled, EntryCommitted, Notice, Outcome, ThreadChanged
from treadle.observe import bind, emit
from treadle.projection.context_report import decision_name
from treadle.projection.history import Reason, explain
from treadle.wire.binary import HISTORY_FLOOR
from treadle.wire.client import CodexClient

CAPABILITIES: Final[frozenset[Capability]] = frozenset({
    "bootstrap",
    "assemble-before-prompt",
    "after-turn",
    "maintain",
    "compact",
    "thread-bootstrap-projection",
})
"""What this harness offers to engines (spec B-26); `runtime-llm-complete` is not built yet."""


OVERFLOWED: Final = "the last try did not fit into its window"
"""Why a turn is sent once more on a fresh thread (spec D-41)."""


class CodexHarness:
    """Runs attempts on the codex app-server; implements `contract.harness.AgentHarness`."""

    def __init__(self, services: CodexServices) -> None:
        """Keep the parts that live as long as the service."""
        self._services = services

    @property
    def id(self) -> str:
        """Its name in selection."""
        return "codex"

    @property
    def capabilities(self) -> frozenset[Capability]:
        """See `CAPABILITIES`."""
        return CAPABILITIES

    def supports(self, query: SupportQuery) -> Support:
        """Codex's own route, providers of ours, and by name whatever has an address."""
        if not self._services.settings.plugins.entries.codex.enabled:
            return Support(supported=False, reason="the codex plugin is switched off")
        provider = query.model.provider
        if provider in self._services.builtin_providers:
            return Support(supported=True, priority=100)
        support = codex_support(query)
        has_address = provider in NATIVE_PROVIDERS or provider in self._services.providers
        if support.supported and not has_address:
            return Support(
                supported=False, reason=f"provider {provider!r} has no baseUrl in models.providers"
            )
        return support

    async def run_attempt(self, params: AttemptParams, emit_event: Emit) -> AttemptResult:
        """See `AgentHarness.run_attempt`."""
        with bind(attempt=params.attempt):
            return await _Attempt(self._services, params, emit_event).run()

    async def put_away(self, agent_id: AgentId, thread_ids: Sequence[ThreadId]) -> None:
        """See `AgentHarness.put_away`; what no app-server runs for is deleted when its time is."""
        key = self._services.launch_key(agent_id)
        if self._services.pool.is_warm(key):
            async with self._services.pool.lease(key) as client:
                await archive(client, thread_ids)

    async def compact_native(self, params: AttemptParams, emit_event: Emit) -> CompactionResult:
        """See `CompactsNatively.compact_native`."""
        return await NativeCompaction(self._services, params, emit_event).run()


class _Attempt:
    def __init__(self, services: CodexServices, params: AttemptParams, emit_event: Emit) -> None:
        self._services = services
        self._params = params
        self._emit = emit_event
        self._state = TurnState()
        self._is_beyond_proof = False
        """Whether a turn was sent on a thread where nobody can look for it (spec D-39, INV-10)."""

        self._is_second_try = False
        """Whether the thread had the message and showed nothing that was done about it."""

        self._began_s = services.clock.monotonic()

    async def run(self) -> AttemptResult:
        services, params = self._services, self._params
        emit("attempt.started")
        self._step(machine.ClaimHeld())
        async with services.pool.lease(services.launch_key(params.agent_id)) as client:
            try:
                result = await self._on(client)
            except (ProcessExited, RpcTimeout) as lost:
                self._step(machine.WireLost())
                replay_safe = not self._is_beyond_proof
                emit("turn.lost", cause=lost, replay_safe=replay_safe)
                result = _lost(lost, self._state.thread_id, replay_safe=replay_safe)
        emit("attempt.settled", outcome=result.outcome.value)
        return result

    async def _on(self, client: CodexClient) -> AttemptResult:
        services, params = self._services, self._params
        if codex_provider(params.model) is None:
            await services.sign_in.require(client, params.agent_id)
        binding = await services.store.bindings.get(params.session.id)
        unfit_because: str | None = None
        if binding is not None:
            recovered = await Recovery(services, params, self._emit).settle(client, binding)
            binding = recovered.binding
            ours = recovered.open_run == params.run_id and recovered.reached_thread
            if ours and not recovered.goes_on:
                # This run's own first attempt: it is never sent a second time (INV-9, INV-10).
                return await self._first_attempt_counts(client, recovered)
            self._is_second_try = ours
            unfit_because = recovered.unfit_because if ours else None
        gathered = await gather(
            services, params, supports_inject=client.info.version >= HISTORY_FLOOR
        )
        projected = await project(services, params, gathered, binding, unfit_because=unfit_because)
        if self._is_second_try and not projected.turn.fresh_thread:
            projected = replace(projected, prompt_text="")  # a turn without input answers it
        if params.abort.aborted:
            self._step(machine.CancelAsked())
            return AttemptResult(outcome=Outcome.STOPPED, text="", aborted=True)
        self._step(machine.PromptReady())
        failpoint("S3")
        opener = ThreadOpener(services, params, client, gathered)
        opened = await opener.open(binding, projected)
        failpoint("S4")
        sent = await self._on_thread(client, gathered, opened)
        if isinstance(sent, Binding):
            opened = await opener.fresh(replace(opened, binding=sent), OVERFLOWED)
            sent = await self._on_thread(client, gathered, opened)
            assert not isinstance(sent, Binding), "a turn is sent again only once (machine)"
        return sent

    async def _on_thread(
        self, client: CodexClient, gathered: Gathered, opened: Opened
    ) -> AttemptResult | Binding:
        """Run the turn; the stored binding where it has to be sent again on a fresh thread."""
        self._step(machine.ThreadOpened(thread_id=opened.binding.thread_id, resumed=opened.resumed))
        with bind(thread_id=opened.binding.thread_id):
            async with self._released(client, opened):
                if self._params.abort.aborted:
                    return await self._stopped_before_it_began(client, opened)
                await self._announce(gathered, opened)
                return await self._turn(client, gathered, opened)

    @asynccontextmanager
    async def _released(self, client: CodexClient, opened: Opened) -> AsyncIterator[None]:
        """Give the subscription back where the attempt ends on an error of ours (spec C-15).

        A transient thread's in any case: with it Codex lets go of the thread (spec D-39).
        """
        try:
            yield
        except (StoreError, RpcError):
            await self._leave(client, opened)
            raise
        finally:
            if opened.transient:
                cleanup_s = self._services.settings.deadlines.cleanup_s
                with anyio.move_on_after(cleanup_s, shield=True):
                    await let_go(self._services, client, opened.binding)

    async def _leave(self, client: CodexClient, opened: Opened) -> None:
        if not opened.transient:
            await self._services.threads.unsubscribe(client, opened.binding.thread_id)

    async def _stopped_before_it_began(self, client: CodexClient, opened: Opened) -> AttemptResult:
        """Nothing was sent, and nobody waits for this thread any more (spec S-13)."""
        self._step(machine.CancelAsked())
        self._step(machine.TurnRejected())
        await self._leave(client, opened)
        return AttemptResult(outcome=Outcome.STOPPED, text="", aborted=True)

    async def _first_attempt_counts(
        self, client: CodexClient, recovered: Recovered
    ) -> AttemptResult:
        """Return what became of the first attempt, whose message the thread holds."""
        page = await self._services.store.transcript.snapshot(self._params.session.id)
        newest = page.entries(max(0, len(page) - 200), len(page))
        ours = tuple(entry for entry in newest if entry.run_id == self._params.run_id)
        said = [text_of(one.message) for one in ours if one.message.role == ASSISTANT]
        completed = recovered.turn_ended == "completed"
        result = AttemptResult(
            outcome=Outcome.COMPLETED if completed else Outcome.CLIENT_LOST,
            text=said[-1] if said else "",
            prompt_error=None if completed else cut_off().to_json(),
            prompt_error_source=None if completed else "prompt",
            messages_snapshot=tuple(entry.message for entry in ours),
            entries=ours,
            replay_safe=False,
            thread_id=recovered.binding.thread_id,
            message="ended",
        )
        positions = [entry.position for entry in ours if entry.position is not None]
        before = min(positions, default=len(page))
        finisher = Finisher(self._services, self._params, self._emit, client, began_s=self._began_s)
        call = lifecycle_call(self._services, self._params)
        await finisher.recovered(call, page, before, result)
        return result

    async def _turn(
        self, client: CodexClient, gathered: Gathered, opened: Opened
    ) -> AttemptResult | Binding:
        services, params = self._services, self._params
        opened, prompt = await self._mirror_prompt(opened)
        self._is_beyond_proof = opened.transient
        stream = TurnStream(services, params, self._emit, client, opened, self._state)
        try:
            played = await stream.play()
        except RpcError as refused:
            self._step(machine.TurnRejected())
            emit("turn.rejected", cause=refused)
            await self._withdraw_open_turn(opened)
            await self._leave(client, opened)
            finisher = Finisher(services, params, self._emit, client, began_s=self._began_s)
            return await finisher.refused(gathered, prompt, _rejected(refused))
        self._state = played.state
        if played.goes_again:
            return opened.binding
        record = TurnRecord(
            opened=opened, binding=opened.binding, gathered=gathered, prompt=prompt, played=played
        )
        finisher = Finisher(services, params, self._emit, client, began_s=self._began_s)
        return await finisher.finish(record)

    async def _mirror_prompt(self, opened: Opened) -> tuple[Opened, Entry | None]:
        """Write the user's entry and, in the same transaction, that a turn is about to be sent.

        A store that cannot take that stops the turn here: nothing was sent (spec C-12; durability
        point S5). A turn on a transient thread is noted in the session's binding, if it has one.
        """
        params = self._params
        entry = await prompt_entry(self._services, params, opened.binding.thread_id)
        unwritten = user_message(params.prompt).content_hash if entry is None else None
        turn = OpenTurn(
            run_id=params.run_id,
            client_message_id=params.client_message_id,
            replayed=self._is_second_try,
            transient=opened.transient,
            unwritten_prompt=unwritten,
        )
        noted = opened.kept if opened.transient else opened.binding
        if noted is not None:
            noted = replace(noted, open_turn=turn)
        stored = await self._services.store.transcript.append(
            params.claim, [entry] if entry is not None else [], binding=noted
        )
        if noted is not None:
            noted = replace(noted, revision=noted.revision + 1)  # as each write does
        if not self._state.retried_fresh:  # watchers hear of it once (spec H-09)
            for one in stored:
                await self._emit(EntryCommitted(run_id=params.run_id, entry=one))
        if opened.transient:
            opened = replace(opened, binding=replace(opened.binding, open_turn=turn), kept=noted)
        else:
            assert noted is not None, "a thread that stays is bound"
            opened = replace(opened, binding=noted)
        return opened, stored[0] if stored else None

    async def _withdraw_open_turn(self, opened: Opened) -> None:
        """The turn was refused, so nothing of it will come."""
        noted = opened.kept if opened.transient else opened.binding
        if noted is None:
            return
        try:
            await self._services.store.bindings.put(
                self._params.claim, replace(noted, open_turn=None)
            )
        except StoreError as error:
            emit("binding.conflicted", cause=error)

    async def _announce(self, gathered: Gathered, opened: Opened) -> None:
        params = self._params
        decision, reason = (
            decision_name(opened.projected.turn.plan),
            explain(opened.projected.turn.plan),
        )
        await self._emit(
            ContextAssembled(
                run_id=params.run_id,
                engine_id=EngineId(params.engine.info.id),
                decision=decision,
                reason=reason,
                report={
                    "same_start": {
                        "messages": opened.projected.held_count if opened.resumed else 0
                    },
                    "new": {
                        "messages": len(
                            opened.projected.turn.inject or opened.projected.turn.quoted
                        )
                    },
                    "items": len(opened.projected.items),
                    "left_out": opened.projected.turn.left_out_count,
                    "estimated_tokens": (
                        gathered.assembled.estimated_tokens if gathered.assembled else None
                    ),
                    "superseded_addition": opened.superseded_addition,
                },
            )
        )
        if opened.previous is not None and opened.previous != opened.binding.thread_id:
            emit("thread.rotated", previous_thread=opened.previous, reason=reason)
            await self._emit(
                ThreadChanged(
                    run_id=params.run_id,
                    previous=opened.previous,
                    thread_id=opened.binding.thread_id,
                    reason=reason,
                )
            )
        for code, text in _notices(gathered, opened):
            await self._emit(Notice(run_id=params.run_id, code=code, text=text))

    def _step(self, event: TurnInput) -> tuple[TurnCommand, ...]:
        self._state, commands = step(self._state, event)
        return commands


def _notices(gathered: Gathered, opened: Opened) -> Sequence[tuple[str, str]]:
    notices: list[tuple[str, str]] = []
    if gathered.assemble_failed is not None:
        notices.append((
            "assemble_failed",
            f"The context engine gave no context for this turn: {gathered.assemble_failed}",
        ))
    if opened.projected.failed is not None:
        notices.append((
            "projection_failed",
            "The context engine's messages could not be put into Codex's terms"
            f" ({opened.projected.failed}); the turn runs without them.",
        ))
    if opened.injection_failed is not None:
        is_quoted = bool(opened.projected.turn.quoted) or not opened.resumed
        how = "gets it as quoted text" if is_quoted else "goes without it"
        notices.append((
            "injection_failed",
            f"Codex refused to take the context as items; the turn {how}:"
            f" {opened.injection_failed}",
        ))
    if opened.projected.turn.plan.reason is Reason.NEEDS_SMALLER_CONTEXT:
        notices.append(("needs_smaller_context", explain(opened.projected.turn.plan)))
    if opened.projected.dropped_chars:
        notices.append((
            "context_cut",
            f"{opened.projected.dropped_chars:,} characters did not fit and were left out.",
        ))
    return notices


def _lost(error: WireError, thread_id: ThreadId | None, *, replay_safe: bool) -> AttemptResult:
    return AttemptResult(
        outcome=Outcome.CLIENT_LOST,
        text="",
        prompt_error=client_closed(error, thread_id, replay_safe=replay_safe),
        prompt_error_source="prompt",
        replay_safe=replay_safe,
    )


def _rejected(error: RpcError) -> AttemptResult:
    rejected = TurnRejected(
        f"Codex refused the turn: {error.rpc_message}",
        next_step="treadle doctor shows what is wrong.",
        rpc_code=error.rpc_code,
    )
    return AttemptResult(
        outcome=Outcome.FAILED,
        text="",
        prompt_error=rejected.to_json(),
        prompt_error_source="prompt",
    )
