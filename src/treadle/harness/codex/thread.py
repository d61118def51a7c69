"""Native threads: start, load, inject, and settle what an earlier process left unconfirmed.

Carries plans out and decides none. Every injection is an intent before it is a call (decision 3);
Codex's files are only ever read (spec A-29, C-09).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final
from weakref import WeakKeyDictionary

import anyio

from treadle.clock import Ids
from treadle.config.deadlines import Deadlines
from treadle.contract.store import Binding, BindingStore, Claim, Held, Injection
from treadle.harness.codex import launch
from treadle.harness.codex.peer import CodexPeer
from treadle.harness.codex.rollout import Rollout, read_rollout
from treadle.model.errors import RemoteProtocolError, RpcError, ThreadBusy, WireError
from treadle.model.ids import ThreadId
from treadle.model.json import JsonObject, JsonValue
from treadle.observe import emit
from treadle.projection.instructions import addition_of, text_hash
from treadle.protocol.faults import Fault, fault_of

_BUSY_FIRST_S: Final = 0.1
"""Seconds before the second try while another process holds the thread; doubles with each further.

A former writer ends within 0.1 s of the end of its stdin (F8), or is found and stopped.
"""

_BUSY_MOST_S: Final = 2.0
"""Longest wait between two tries, in seconds."""


class ThreadGone(Exception):
    """The app-server does not know the thread any more, or refuses to load it."""

    def __init__(self, reason: str) -> None:
        """Keep why, in words."""
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadOptions:
    """What start and resume are told (spec F-01…F-03)."""

    cwd: str
    model: str | None
    model_provider: str | None
    service_tier: str | None
    config: JsonObject
    developer_instructions: str
    dynamic_tools: Sequence[JsonObject]
    ephemeral: bool = False
    """Made for one turn: kept in memory alone, without a rollout (spec D-39)."""

    def common(self) -> dict[str, JsonValue]:
        """Return the fields that start and resume share; never a `sandbox` (decision 1)."""
        fields: dict[str, JsonValue] = {
            "cwd": self.cwd,
            "approvalPolicy": launch.APPROVAL_POLICY,
            "approvalsReviewer": launch.APPROVALS_REVIEWER,
            "personality": launch.PERSONALITY,
            "config": self.config,
        }
        if self.developer_instructions:
            fields["developerInstructions"] = self.developer_instructions
        optional = {
            "model": self.model,
            "modelProvider": self.model_provider,
            "serviceTier": self.service_tier,
        }
        return fields | {name: value for name, value in optional.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeThread:
    """A thread that the app-server has just made."""

    thread_id: ThreadId
    rollout_path: str | None
    model: str | None
    model_provider: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedInjection:
    """Items to inject and what the thread holds more afterwards."""

    items: tuple[JsonObject, ...]
    held: tuple[Held, ...]
    purpose: str = "messages"


class Threads:
    """Native threads over any connection; build one per service."""

    def __init__(
        self,
        bindings: BindingStore,
        ids: Ids,
        deadlines: Deadlines,
        *,
        recover: Callable[[], Awaitable[None]],
    ) -> None:
        """Keep what is needed to record and to wait.

        `recover` stops what an earlier app-server of ours left, which may hold a thread (F7).
        """
        self._bindings = bindings
        self._ids = ids
        self._deadlines = deadlines
        self._recover = recover
        self._loaded: WeakKeyDictionary[CodexPeer, set[ThreadId]] = WeakKeyDictionary()

    async def start(self, peer: CodexPeer, options: ThreadOptions) -> NativeThread:
        """Make a thread (`thread/start`). Raises: RpcError, RpcTimeout, ProcessExited."""
        params: dict[str, JsonValue] = {
            **options.common(),
            "serviceName": launch.SERVICE_NAME,
            "experimentalRawEvents": True,
        }
        if options.ephemeral:
            params["ephemeral"] = True
        if options.dynamic_tools:
            params["dynamicTools"] = list(options.dynamic_tools)
        answer = await peer.request("thread/start", params)
        made = _thread_from_wire(answer)
        self._mark_loaded(peer, made.thread_id)
        emit("thread.started", thread_id=made.thread_id)
        return made

    async def load(self, peer: CodexPeer, binding: Binding, options: ThreadOptions) -> bool:
        """Make sure that the thread is loaded here; True if it had to be resumed.

        Raises: ThreadGone if it cannot be had any more (spec F-19, S-15), ThreadBusy if another
        process keeps it (F7, never a reason to give the binding up), RpcTimeout, ProcessExited
        (F-20).
        """
        if binding.thread_id in self._loaded.get(peer, ()):
            return False
        params = {"threadId": binding.thread_id, **options.common()}
        try:
            await self._resume(peer, params)
        except RpcError as refused:
            if fault_of(refused) is Fault.OVERLOADED:
                raise
            raise ThreadGone(refused.rpc_message) from refused
        self._mark_loaded(peer, binding.thread_id)
        emit("thread.resumed", thread_id=binding.thread_id)
        return True

    async def unsubscribe(self, peer: CodexPeer, thread_id: ThreadId) -> None:
        """Give the subscription back (spec C-15, S-13); a failure is logged."""
        self._loaded.get(peer, set()).discard(thread_id)
        try:
            await peer.request("thread/unsubscribe", {"threadId": thread_id})
        except WireError as failed:
            emit("thread.cleanup_failed", thread_id=thread_id, cause=failed)
        else:
            emit("thread.unsubscribed", thread_id=thread_id)

    async def inject(
        self, peer: CodexPeer, claim: Claim, binding: Binding, planned: PlannedInjection
    ) -> Binding:
        """Inject items and return the stored binding: intent, call, confirmation.

        Raises: RpcError when it was refused, so that nothing arrived (the intent is abandoned);
        RpcTimeout or ProcessExited when it is unknown (the intent stays, and the next run settles
        it). Cancel: as unknown.
        """
        injection = Injection(
            id=self._ids.new("inj"),
            thread_id=binding.thread_id,
            purpose="instructions" if planned.purpose == "instructions" else "messages",
            item_ids=tuple(str(item.get("id")) for item in planned.items),
            held=planned.held,
        )
        await self._bindings.intend(claim, injection)
        emit("injection.intended", thread_id=binding.thread_id, items_count=len(planned.items))
        params: JsonObject = {"threadId": binding.thread_id, "items": planned.items}
        try:
            await peer.request("thread/inject_items", params, timeout_s=self._deadlines.request_s)
        except RpcError:
            await self._bindings.abandon(claim, injection.id)
            raise
        confirmed = await self._bindings.confirm(claim, injection.id, binding)
        emit("injection.confirmed", thread_id=binding.thread_id, items_count=len(planned.items))
        return confirmed

    async def give(self, peer: CodexPeer, thread_id: ThreadId, items: Sequence[JsonObject]) -> None:
        """Inject items into a transient thread, of which nothing is recorded (spec D-39).

        Raises: RpcError, RpcTimeout, ProcessExited.
        """
        params: JsonObject = {"threadId": thread_id, "items": tuple(items)}
        await peer.request("thread/inject_items", params, timeout_s=self._deadlines.request_s)
        emit("injection.confirmed", thread_id=thread_id, items_count=len(items))

    async def settle_injections(self, claim: Claim, binding: Binding) -> Binding:
        """Settle what was intended and not confirmed, by reading the rollout (decision 3, D-58).

        All items there: confirmed. None: abandoned, so that they are injected again. Some: what the
        thread holds is unknown from now on. Nothing is ever injected twice on a guess.
        """
        pending = await self._bindings.pending_injections(binding.thread_id)
        if not pending:
            return binding
        rollout = await read_rollout(binding.rollout_path) if binding.rollout_path else None
        present = rollout.item_ids if rollout is not None else frozenset()
        for injection in pending:
            found = sum(item_id in present for item_id in injection.item_ids)
            whole = found == len(injection.item_ids)
            if whole:
                after = _with_addition(binding, injection, rollout)
                binding = await self._bindings.confirm(claim, injection.id, after)
            else:
                await self._bindings.abandon(claim, injection.id)
            if found > 0 and not whole:
                binding = await self._bindings.put(claim, replace(binding, holding_known=False))
            emit(
                "injection.settled",
                thread_id=binding.thread_id,
                items_count=len(injection.item_ids),
                found_count=found,
            )
        return binding

    async def _resume(self, peer: CodexPeer, params: JsonObject) -> None:
        """Resume, and wait while another process writes the thread. Raises: ThreadBusy."""
        until = anyio.current_time() + self._deadlines.thread_busy_s
        wait_s = _BUSY_FIRST_S
        while True:
            try:
                await peer.request("thread/resume", params)
            except ThreadBusy:
                left_s = until - anyio.current_time()
                if left_s <= 0:
                    raise
            else:
                return
            emit("thread.held", thread_id=params["threadId"], left_s=round(left_s, 1))
            await self._recover()
            await anyio.sleep(min(wait_s, left_s))
            wait_s = min(2 * wait_s, _BUSY_MOST_S)

    def _mark_loaded(self, peer: CodexPeer, thread_id: ThreadId) -> None:
        self._loaded.setdefault(peer, set()).add(thread_id)


def _with_addition(binding: Binding, injection: Injection, rollout: Rollout | None) -> Binding:
    """Return the binding that knows of a superseding item which turned out to be there (E-15)."""
    if injection.purpose != "instructions" or rollout is None:
        return binding
    found = next((raw.item for raw in rollout.items if raw.id in injection.item_ids), None)
    if found is None:
        return binding
    return replace(
        binding,
        addition_hash=text_hash(addition_of(found)),
        supersessions=binding.supersessions + 1,
    )


def _thread_from_wire(answer: JsonObject) -> NativeThread:
    match answer.get("thread"):
        case {"id": str() as thread_id, **rest}:
            path = rest.get("path")
            model, provider = answer.get("model"), answer.get("modelProvider")
            return NativeThread(
                thread_id=ThreadId(thread_id),
                rollout_path=path if isinstance(path, str) else None,
                model=model if isinstance(model, str) else None,
                model_provider=provider if isinstance(provider, str) else None,
            )
        case found:
            raise RemoteProtocolError(
                f"'thread/start' answered without a thread: {str(found)[:200]!r}",
                next_step="Run treadle doctor to see which codex this is.",
            )
