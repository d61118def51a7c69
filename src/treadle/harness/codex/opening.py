"""Bring a session's native thread to where the plan wants it, then record that.

Carries a plan out: load or start, inject, confirm, supersede instructions. Decides only what a
refusal means.
Source: spec D-51, D-58, E-15, F-17, F-19, S-15; decisions 3, 5, 6, 8.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from treadle.contract.harness import AttemptParams
from treadle.contract.store import Binding
from treadle.harness.codex import launch
from treadle.harness.codex.peer import CodexPeer
from treadle.harness.codex.prepare import Gathered, Projected, project
from treadle.harness.codex.services import CodexServices
from treadle.harness.codex.stages import SetupStages
from treadle.harness.codex.thread import (
    NativeThread,
    PlannedInjection,
    ThreadGone,
    ThreadOptions,
)
from treadle.model.errors import RpcError
from treadle.model.ids import ThreadId
from treadle.model.json import JsonObject
from treadle.observe import emit
from treadle.projection.history import (
    Continue,
    Reason,
    explain,
    successive_rebases_after,
)
from treadle.projection.instructions import (
    Supersede,
    Unchanged,
    Withdraw,
    instructions_plan,
    superseding_item,
    text_hash,
)
from treadle.tools.catalog import ToolSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A thread that is loaded and holds what the plan wants."""

    binding: Binding
    projected: Projected
    """As carried out; another one than planned where the thread had to be replaced."""

    previous: ThreadId | None
    resumed: bool
    """Whether the thread existed before this attempt."""

    tools: ToolSet
    may_start_over: bool = False
    """Whether a fresh thread can be given the same assembled context (spec D-41, D-56)."""

    superseded_addition: bool = False
    injection_failed: str | None = None
    transient: bool = False
    """Whether the thread is this turn's alone; `binding` is then stored nowhere (spec D-39)."""

    kept: Binding | None = None
    """The session's stored binding, which a transient thread leaves in its place."""


def thread_options(
    services: CodexServices,
    params: AttemptParams,
    *,
    instructions: str,
    tool_specs: tuple[JsonObject, ...] = (),
    transient: bool = False,
) -> ThreadOptions:
    """Return what start and resume of this run's thread are told.

    Only a transient one goes without native tools: Codex takes `config` when it loads a thread, so
    the session's would stay without them.
    """
    told = services.providers.get(launch.codex_provider(params.model) or launch.OPENAI)
    return ThreadOptions(
        cwd=params.cwd,
        model=params.model.model,
        model_provider=launch.wire_id(told) if told is not None else None,
        service_tier=services.settings.codex.app_server.service_tier,
        config=launch.thread_config(
            told,
            window=params.context_token_budget,
            lightweight=params.lightweight,
            native_tools=not transient,
        ),
        developer_instructions=instructions,
        dynamic_tools=tool_specs,
        ephemeral=transient,
    )


class ThreadOpener:
    """Opens the thread of one attempt."""

    def __init__(
        self, services: CodexServices, params: AttemptParams, peer: CodexPeer, gathered: Gathered
    ) -> None:
        """Keep what the attempt found out."""
        self._services = services
        self._params = params
        self._peer = peer
        self._gathered = gathered
        self._stages = SetupStages(services.clock)

    async def open(self, binding: Binding | None, projected: Projected) -> Opened:
        """Carry the plan out.

        A thread that is gone is replaced by a fresh one, with the context planned anew for it.
        Raises: RpcError, RpcTimeout, ProcessExited, ThreadBusy.
        """
        if self._params.native_tools:
            opened = await self._opened(binding, projected)
        else:
            opened = await self._transient(binding, projected)
        self._stages.report()
        return opened

    async def _opened(self, binding: Binding | None, projected: Projected) -> Opened:
        if binding is None or projected.turn.fresh_thread:
            return await self._fresh(binding, projected)
        try:
            with self._stages.stage("load"):
                resumed = await self._services.threads.load(
                    self._peer, binding, self._options(projected.instructions)
                )
        except ThreadGone as gone:
            emit("binding.cleared", thread_id=binding.thread_id, reason=gone.reason)
            anew = await project(
                self._services,
                self._params,
                self._gathered,
                binding,
                unfit_because=f"Codex does not have it any more: {gone.reason}",
            )
            return await self._fresh(binding, anew)
        return await self._existing(binding, projected, resumed=resumed)

    async def fresh(self, opened: Opened, reason: str) -> Opened:
        """Replace a thread that turned out unfit, with the same assembled context (spec D-41)."""
        projected = await project(
            self._services, self._params, self._gathered, opened.binding, unfit_because=reason
        )
        return await self._fresh(opened.binding, projected)

    async def _fresh(self, old: Binding | None, projected: Projected) -> Opened:
        services, params = self._services, self._params
        with self._stages.stage("start"):
            made = await services.threads.start(self._peer, self._options(projected.instructions))
        binding = self._binding(made, projected, old)
        failed = None
        if projected.items:
            try:
                stored = await self._inject(binding, projected)
            except RpcError as refused:
                # Nothing arrived: the thread starts empty and the context goes as text (D-58).
                failed = refused.rpc_message
                emit("injection.failed", thread_id=made.thread_id, reason=failed)
                as_text = replace(self._gathered, supports_inject=False)
                projected = await project(services, params, as_text, None)
                binding = replace(binding, engine=projected.turn.engine_record)
                stored = await services.store.bindings.put(params.claim, binding)
        else:
            stored = await services.store.bindings.put(params.claim, binding)
        previous = old.thread_id if old is not None else None
        emit(
            "binding.written",
            thread_id=made.thread_id,
            action="started" if old is None else "rotated",
            reason=explain(projected.turn.plan),
        )
        return Opened(
            binding=stored,
            projected=projected,
            previous=previous,
            resumed=False,
            tools=self._gathered.tools,
            injection_failed=failed,
        )

    async def _transient(self, kept: Binding | None, projected: Projected) -> Opened:
        """Make a thread for this turn alone; nothing of it is stored (spec D-39)."""
        options = self._options(projected.instructions, transient=True)
        with self._stages.stage("start"):
            made = await self._services.threads.start(self._peer, options)
        failed = None
        if projected.items:
            items = tuple(planned.item for planned in projected.items)
            try:
                with self._stages.stage("inject"):
                    await self._services.threads.give(self._peer, made.thread_id, items)
            except RpcError as refused:  # the thread starts empty and the context goes as text
                failed = refused.rpc_message
                emit("injection.failed", thread_id=made.thread_id, reason=failed)
                as_text = replace(self._gathered, supports_inject=False)
                projected = await project(self._services, self._params, as_text, kept)
        return Opened(
            binding=self._binding(made, projected, None),
            projected=projected,
            previous=None,
            resumed=False,
            tools=self._gathered.tools,
            injection_failed=failed,
            transient=True,
            kept=kept,
        )

    def _binding(self, made: NativeThread, projected: Projected, old: Binding | None) -> Binding:
        """Return what a new thread was given, to take the place of `old`."""
        params = self._params
        return Binding(
            session_id=params.session.id,
            thread_id=made.thread_id,
            revision=old.revision if old is not None else 0,
            home=str(self._services.launch_key(params.agent_id).home),
            cwd=params.cwd,
            model=params.model.model or made.model,
            model_provider=launch.codex_provider(params.model),
            tool_fingerprint=self._gathered.tools.fingerprint,
            instructions_hash=text_hash(projected.instructions),
            addition_hash=text_hash(self._gathered.addition),
            engine=projected.turn.engine_record,
            rollout_path=made.rollout_path,
            projection_epoch=(old.projection_epoch + 1) if old is not None else 1,
            successive_rebases=successive_rebases_after(
                projected.turn.plan, old.successive_rebases if old is not None else 0
            ),
            window=old.window if old is not None else None,
        )

    async def _existing(self, binding: Binding, projected: Projected, *, resumed: bool) -> Opened:
        failed = None
        if projected.items:
            try:
                binding = await self._inject(binding, projected)
            except RpcError as refused:
                failed = refused.rpc_message
                emit("injection.failed", thread_id=binding.thread_id, reason=failed)
                projected = await self._without_items(binding, projected)
        binding, superseded = await self._supersede(binding, projected)
        binding = replace(
            binding,
            model=self._params.model.model or binding.model,
            cwd=self._params.cwd,
            successive_rebases=successive_rebases_after(
                projected.turn.plan, binding.successive_rebases
            ),
            engine=projected.turn.engine_record,
        )
        emit(
            "binding.written",
            thread_id=binding.thread_id,
            action="resumed",
            was_loaded=not resumed,
        )
        return Opened(
            binding=binding,
            projected=projected,
            previous=binding.thread_id,
            resumed=True,
            tools=self._gathered.tools,
            may_start_over=self._gathered.assembled is not None and not binding.pinned,
            superseded_addition=superseded,
            injection_failed=failed,
        )

    async def _without_items(self, binding: Binding, projected: Projected) -> Projected:
        """Plan anew after a refused injection, which left the thread as it was (spec D-58).

        An engine asks again in the next turn; what was said elsewhere would never be asked for
        again, so it goes as text.
        """
        if projected.turn.plan.reason is Reason.SAID_ELSEWHERE:
            as_text = replace(self._gathered, supports_inject=False)
            return await project(self._services, self._params, as_text, binding)
        bare = Continue(reason=Reason.ASSEMBLE_FAILED, detail="injection was refused")
        return replace(
            projected, items=(), turn=replace(projected.turn, plan=bare, inject=(), held=())
        )

    async def _inject(self, binding: Binding, projected: Projected) -> Binding:
        planned = PlannedInjection(
            items=tuple(item.item for item in projected.items), held=projected.turn.held
        )
        with self._stages.stage("inject"):
            return await self._services.threads.inject(
                self._peer, self._params.claim, binding, planned
            )

    async def _supersede(self, binding: Binding, projected: Projected) -> tuple[Binding, bool]:
        """Give the thread a changed addition.

        Once (spec E-15); an engine that failed changes nothing (D-57).
        """
        if self._gathered.assemble_failed is not None:
            return binding, False
        change = instructions_plan(
            binding.addition_hash, self._gathered.addition, fresh_thread=False
        )
        match change:
            case Unchanged():
                return binding, False
            case Supersede(addition=addition):
                text: str | None = addition
            case Withdraw():
                text = None
        item = superseding_item(
            text, given_hash=binding.addition_hash, sequence=binding.supersessions + 1
        )
        after = replace(
            binding,
            addition_hash=text_hash(text),
            instructions_hash=text_hash(projected.instructions),
            supersessions=binding.supersessions + 1,
        )
        planned = PlannedInjection(items=(item,), held=(), purpose="instructions")
        try:
            with self._stages.stage("instructions"):
                stored = await self._services.threads.inject(
                    self._peer, self._params.claim, after, planned
                )
        except RpcError as refused:
            emit("injection.failed", thread_id=binding.thread_id, reason=refused.rpc_message)
            return binding, False
        return stored, True

    def _options(self, instructions: str, *, transient: bool = False) -> ThreadOptions:
        return thread_options(
            self._services,
            self._params,
            instructions=instructions,
            tool_specs=self._gathered.tools.specs,
            transient=transient,
        )
