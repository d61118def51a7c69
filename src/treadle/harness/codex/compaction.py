"""Compact a session's idle native thread because somebody asked for it.

The marker of what was projected goes first, then comes `thread/compact/start`, then the wait for
the compaction's item and for the end of its turn, under one deadline. Decides nothing about who
compacts: whoever calls has. Source: spec D-38, J-18…J-23, J-32…J-34; facts section 5.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import anyio

from treadle.contract.harness import AttemptParams, CompactionResult, Emit
from treadle.contract.store import Binding
from treadle.harness.codex.compaction_hooks import telling_hooks
from treadle.harness.codex.launch import codex_provider
from treadle.harness.codex.opening import thread_options
from treadle.harness.codex.prepare import hook_context
from treadle.harness.codex.recovery import Recovery, after_compactions
from treadle.harness.codex.rollout import read_rollout
from treadle.harness.codex.services import CodexServices
from treadle.harness.codex.thread import ThreadGone
from treadle.model.errors import (
    CompactionRefused,
    CompactionUnconfirmed,
    RemoteProtocolError,
    RpcError,
    RpcTimeout,
    WireError,
)
from treadle.model.ids import ThreadId, TurnId
from treadle.model.json import JsonObject
from treadle.model.message import EntryKind
from treadle.model.turn import EntryCommitted
from treadle.observe import emit
from treadle.projection.bootstrap import without_projection
from treadle.projection.items import BACKEND, TurnProjection, TurnScope
from treadle.wire.client import CodexClient
from treadle.wire.subscription import Closed, Subscription

START: Final = "thread/compact/start"

_INTERRUPT_ANSWER_S: Final = 5.0
"""Seconds for the answer to an interrupt; what counts is the end of the turn."""


class NativeCompaction:
    """Compacts one session's thread."""

    def __init__(self, services: CodexServices, params: AttemptParams, emit_event: Emit) -> None:
        """Keep the parts; of `params` the session, its claim and how its thread is loaded."""
        self._services = services
        self._params = params
        self._emit = emit_event

    async def run(self) -> CompactionResult:
        """Compact, and return once the compaction's turn is over.

        Raises: CompactionRefused, where nothing was begun and the binding is as it was;
        CompactionUnconfirmed, where it is unknown what the thread holds now; StoreError. Cancel:
        the compaction is interrupted, and its turn may still end.
        """
        services, params = self._services, self._params
        binding = await services.store.bindings.get(params.session.id)
        if binding is None:
            raise _refused(
                "the session has no native thread that could be compacted",
                "missing_thread_binding",
                "Say something in it first.",
            )
        async with services.pool.lease(services.launch_key(params.agent_id)) as client:
            if codex_provider(params.model) is None:
                await services.sign_in.require(client, params.agent_id)
            recovered = await Recovery(services, params, self._emit).settle(client, binding)
            binding = recovered.binding
            try:
                options = thread_options(services, params, instructions="")
                await services.threads.load(client, binding, options)
            except ThreadGone as gone:
                raise _refused(
                    f"Codex does not have the session's thread any more: {gone.reason}",
                    "stale_thread_binding",
                    "Say something in the session: it then gets a fresh thread.",
                ) from gone
            return await self._on(client, binding)

    async def _on(self, client: CodexClient, binding: Binding) -> CompactionResult:
        services, params = self._services, self._params
        thread_id = binding.thread_id
        cleared = await services.store.bindings.put(params.claim, _without_marks(binding))
        emit("compaction.started", thread_id=thread_id, owner="codex", trigger="manual")
        projection = TurnProjection(_scope(params, binding))
        ended: str | WireError | None
        async with (  # an error out of this block would come as a group of one
            client.subscribe(thread_id) as stream,
            telling_hooks(services.hooks, hook_context(params), self._emit) as tell,
        ):
            wait = _Wait(services, client, stream, projection, tell, thread_id=thread_id)
            try:
                await client.request(START, {"threadId": thread_id})
                ended = await wait.until_over()
            except WireError as error:
                ended = error
        if projection.turn_id is None and isinstance(ended, RpcError):
            await self._restore(binding, cleared)
            raise _refused(
                f"Codex refused to compact the thread: {ended.rpc_message}",
                "start_rejected",
                "Try it again, or go on: Codex compacts by itself when the thread is full.",
            ) from ended
        if isinstance(ended, WireError):
            raise _unconfirmed(thread_id, ended) from ended
        return await self._settled(cleared, projection, ended)

    async def _restore(self, binding: Binding, cleared: Binding) -> None:
        """Take the marks back: nothing was begun (spec D-38, J-34)."""
        restored = replace(binding, revision=cleared.revision)
        await self._services.store.bindings.put(self._params.claim, restored)
        emit("compaction.native_failed", thread_id=binding.thread_id, reason="start_rejected")

    async def _settled(
        self, binding: Binding, projection: TurnProjection, stopped: str | None
    ) -> CompactionResult:
        """Record the compaction, and that what came of its turn is accounted for (spec H-13)."""
        params, transcript = self._params, self._services.store.transcript
        count = projection.items.lifecycle.compaction_count
        rollout = None
        if binding.rollout_path is not None:
            rollout = await read_rollout(binding.rollout_path, binding.rollout_offset)
        entries = [one for one in projection.snapshot() if one.kind is EntryKind.COMPACTION]
        after = replace(
            after_compactions(binding, count),
            rollout_offset=rollout.end_offset if rollout is not None else binding.rollout_offset,
        )
        for entry in await transcript.append(params.claim, entries, binding=after):
            await self._emit(EntryCommitted(run_id=params.run_id, entry=entry))
        result = _result(binding.thread_id, projection, stopped)
        emit(
            "compaction.settled" if result.compacted else "compaction.native_failed",
            thread_id=binding.thread_id,
            owner="codex",
            reason=result.reason,
        )
        return result


class _Wait:
    """Waits for the end of a compaction's turn, whose id only `turn/started` tells."""

    def __init__(
        self,
        services: CodexServices,
        client: CodexClient,
        stream: Subscription,
        projection: TurnProjection,
        tell: Emit,
        *,
        thread_id: ThreadId,
    ) -> None:
        self._deadlines = services.settings.deadlines
        self._client = client
        self._stream = stream
        self._projection = projection
        self._tell = tell
        self._thread_id = thread_id

    async def until_over(self) -> str | None:
        """Return once the turn has ended; why it was interrupted, or None.

        Raises: WireError where it never said so; the connection is retired then, if it still is
        one.
        """
        try:
            with anyio.move_on_after(self._deadlines.compaction_s) as budget:
                await self._follow()
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(self._deadlines.cleanup_s, shield=True):
                await self._interrupt()
            raise
        if not budget.cancelled_caught:
            return None
        await self._interrupt()
        with anyio.move_on_after(self._deadlines.interrupt_s) as grace:
            await self._follow()
        if grace.cancelled_caught:
            self._client.retire("the interrupt of a compaction was not confirmed")
            raise RpcTimeout("turn/interrupt", self._deadlines.interrupt_s)
        return "timed_out"

    async def _follow(self) -> None:
        projection = self._projection
        while projection.end is None:
            got = await self._stream.receive()
            if isinstance(got, Closed):
                raise got.error or RemoteProtocolError("the notifications of the thread ended")
            events = projection.feed(got.method, got.params())
            if projection.turn_id is None and got.method == "turn/started":
                events = (*events, *projection.expect(_turn_of(got.params())))
            for event in events:
                await self._tell(event)

    async def _interrupt(self) -> None:
        turn_id = self._projection.turn_id
        if turn_id is None:
            return  # it never began as far as we know: there is nothing to name
        params: JsonObject = {"threadId": self._thread_id, "turnId": turn_id}
        try:
            await self._client.request("turn/interrupt", params, timeout_s=_INTERRUPT_ANSWER_S)
        except WireError as failed:  # its turn's end is on its way, or the grace tells
            emit("turn.interrupted", reason="a compaction took too long", cause=failed)
        else:
            emit("turn.interrupted", reason="a compaction took too long")


def _without_marks(binding: Binding) -> Binding:
    """Return the binding as it must be read once its thread may be compacted (spec D-38, E-15).

    Stored before the call: after a crash in between the next turn gives the thread more than it
    needs, and never less.
    """
    lost = after_compactions(binding, 1)
    return replace(
        binding,
        engine=without_projection(binding.engine) if binding.engine is not None else None,
        addition_hash=lost.addition_hash,
        reference_hash="",
        last_total=None,
        rebased_for_compaction=False,
    )


def _scope(params: AttemptParams, binding: Binding) -> TurnScope:
    return TurnScope(
        run_id=params.run_id,
        thread_id=binding.thread_id,
        model=binding.model,
        model_provider=binding.model_provider,
        engine_owns_compaction=params.engine.info.owns_compaction,
    )


def _result(
    thread_id: ThreadId, projection: TurnProjection, stopped: str | None
) -> CompactionResult:
    """Say what came of it (spec J-19, J-20, J-22, J-33)."""
    status = projection.end.status if projection.end is not None else "failed"
    is_done = projection.items.lifecycle.compaction_count > 0
    compacted = is_done and status == "completed"
    reason = None
    if not compacted:
        reason = stopped or ("no_compaction_item" if status == "completed" else status)
    return CompactionResult(
        compacted=compacted,
        reason=reason,
        details={
            "backend": BACKEND,
            "threadId": thread_id,
            "turnId": projection.turn_id,
            "signal": START,
            "pending": False,
            "completed": compacted,
        },
    )


def _turn_of(params: JsonObject) -> TurnId:
    match params.get("turn"):
        case {"id": str() as turn_id}:
            return TurnId(turn_id)
        case _:
            return TurnId("")


def _refused(what: str, reason: str, next_step: str) -> CompactionRefused:
    return CompactionRefused(what, next_step=next_step, reason=reason)


def _unconfirmed(thread_id: ThreadId, cause: WireError) -> CompactionUnconfirmed:
    emit("compaction.native_failed", thread_id=thread_id, cause=cause, reason="unconfirmed")
    return CompactionUnconfirmed(
        "Codex did not say how the compaction of the session's thread ended",
        next_step="Go on in the session: its next turn gives the thread what it may have lost.",
        thread_id=thread_id,
    )
