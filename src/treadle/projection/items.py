"""Follow one turn: its notifications give events for watchers and, at its end, its entries.

A state machine that is fed with what the app-server says of a thread; it decides nothing about the
turn and knows nothing of the wire, of the store or of time.

In words: nothing counts before the turn's id is known (what came earlier waits and is then looked
at), and nothing after its completion; what is said of another thread or turn never counts. Each
item is known by its id: a second start or completion of it may change its text, but is not counted
again. Source: spec G-01…G-28.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from treadle.model.ids import ItemId, RunId, ThreadId, TurnId
from treadle.model.json import JsonObject, JsonValue
from treadle.model.message import Message, NewEntry
from treadle.model.turn import (
    CompactionFinished,
    CompactionStarted,
    ContextReported,
    Notice,
    PartDelta,
    PartValue,
    RunEvent,
    TurnStarted,
)
from treadle.projection.entries import SnapshotInput
from treadle.projection.fault import CONTEXT_OVERFLOW, turn_fault
from treadle.projection.ledger import COMMENTARY, ItemLedger, ItemState, is_spoken
from treadle.projection.raw_entries import output_key
from treadle.projection.snapshot import snapshot_entries
from treadle.projection.tool_items import TOOL_ITEMS, hook_value, thought, tool_value
from treadle.projection.usage import UsageReading, usage_from_wire
from treadle.protocol.items import (
    AgentMessage,
    ContextCompaction,
    HookPrompt,
    Plan,
    Reasoning,
    ThreadItem,
    Unknown,
    item_from_wire,
)
from treadle.protocol.responses import call_id, is_output, item_id_of

BACKEND: Final = "codex-app-server"
"""How compaction events name who did it (spec G-19)."""

EARLY_LIMIT: Final = 1_000
"""Notifications kept until the turn's id is known; past that the oldest are forgotten."""

_THREAD_WIDE: Final = frozenset({"warning", "guardianWarning", "hook/started", "hook/completed"})
"""Methods that count for a turn without naming it (spec G-02)."""

_DELTAS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType({
    "item/agentMessage/delta": ("text", "agentMessage"),
    "item/plan/delta": ("text", "plan"),
    "item/reasoning/summaryTextDelta": ("reasoning", "reasoning"),
    "item/reasoning/textDelta": ("reasoning", "reasoning"),
    "item/commandExecution/outputDelta": ("output", "commandExecution"),
    "item/fileChange/outputDelta": ("output", "fileChange"),
})
"""Kind of the event, and type of the item should its start have been missed."""

_RUNNING: Final = "inProgress"
"""The one status that a completed turn cannot have."""

Status = Literal["completed", "interrupted", "failed"]
_STATUSES: Final[Mapping[str, Status]] = MappingProxyType({
    "completed": "completed",
    "interrupted": "interrupted",
    "failed": "failed",
})


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnScope:
    """Whose turn it is, and what does not change in it."""

    run_id: RunId
    thread_id: ThreadId
    model: str | None = None
    model_provider: str | None = None
    engine_owns_compaction: bool = False
    replay_safe_tools: frozenset[str] = frozenset()
    """Names of dynamic tools that may run twice (spec K-18)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnd:
    """How Codex says the turn ended."""

    status: Status
    error: JsonObject | None
    """`{code, message, next_step, retry}` of a failed turn."""


class TurnProjection:
    """One turn as it is told; feed it in order from one task."""

    def __init__(self, scope: TurnScope) -> None:
        self._scope = scope
        self._turn_id: TurnId | None = None
        self._early: list[tuple[str, JsonObject]] = []
        self._ledger = ItemLedger(scope.replay_safe_tools)
        self._raw: list[JsonObject] = []
        self._raw_order: dict[str, int] = {}
        self._order = 0
        self._model = scope.model
        self._reading: UsageReading | None = None
        self._rate_limits: JsonObject | None = None
        self._error: JsonObject | None = None
        self._end: TurnEnd | None = None
        self._unknown: Counter[str] = Counter()

    @property
    def turn_id(self) -> TurnId | None:
        """The turn's id, once it is known."""
        return self._turn_id

    @property
    def items(self) -> ItemLedger:
        """The items so far: the answer, the counts, whether the turn may be sent again."""
        return self._ledger

    @property
    def end(self) -> TurnEnd | None:
        """How it ended, once it has."""
        return self._end

    @property
    def overflowed(self) -> bool:
        """Whether the turn failed because its context does not fit the window (spec D-41)."""
        error = self._end.error if self._end is not None else None
        return error is not None and error.get("code") == CONTEXT_OVERFLOW

    @property
    def error(self) -> JsonObject | None:
        """The error that ended it, or the last one that Codex did not retry (G-16, G-17)."""
        return self._error

    @property
    def model(self) -> str | None:
        """The model that answers, after rerouting (spec G-25)."""
        return self._model

    @property
    def usage(self) -> UsageReading | None:
        """The last usage that was reported (spec G-13)."""
        return self._reading

    @property
    def raw_items(self) -> tuple[JsonObject, ...]:
        """The raw Responses items that came as notifications; empty after a resume (decision 7)."""
        return tuple(self._raw)

    @property
    def unknown(self) -> Mapping[str, int]:
        """How often something came that is not read here, by method or item type."""
        return dict(self._unknown)

    def expect(self, turn_id: TurnId) -> tuple[RunEvent, ...]:
        """Say which turn is meant, once; return the events of what came before.

        Raises: ValueError if another turn was named already.
        """
        if self._turn_id is not None and self._turn_id != turn_id:
            raise ValueError(f"this follows turn {self._turn_id!r}, not {turn_id!r}")
        self._turn_id = turn_id
        early, self._early = self._early, []
        return tuple(event for method, params in early for event in self.feed(method, params))

    def feed(self, method: str, params: JsonObject) -> tuple[RunEvent, ...]:
        """Take one notification and return what watchers are to be told; a bad one tells nothing.

        What belongs to another thread or turn, or comes after the end, is ignored. Source: G-02.
        """
        if method == "account/rateLimits/updated":
            limits = params.get("rateLimits")
            self._rate_limits = limits if isinstance(limits, Mapping) else self._rate_limits
            return ()
        if params.get("threadId") != self._scope.thread_id or self._end is not None:
            return ()
        if self._turn_id is None:
            self._early = [*self._early[1 - EARLY_LIMIT :], (method, params)]
            return ()
        if not self._is_ours(method, params):
            return ()
        handler = _HANDLERS.get(method)
        if handler is None:
            self._unknown[method] += 1
            return ()
        return tuple(handler(self, method, params))

    def snapshot(
        self,
        raw_items: Sequence[JsonObject] | None = None,
        *,
        prompt: Message | None = None,
        completed: bool | None = None,
    ) -> tuple[NewEntry, ...]:
        """Return the turn's entries in order (spec G-01, G-03, G-04).

        `raw_items` are the turn's Responses items in the order in which the model saw them; None
        takes those that came as notifications. Without any, the entries are rendered from the typed
        items and say so. `prompt` is what the person said; None leaves its entry out. `completed`
        says how a turn ended whose end was read elsewhere. May be asked at any time: keys stay the
        same (H-15). Raises: ValueError before the turn's id is known.
        """
        if self._turn_id is None:
            raise ValueError("the turn's id is not known yet")
        if completed is None:
            completed = self._end is None or self._end.status == "completed"
            ended = self._end is not None
        else:
            ended = True
        return snapshot_entries(
            SnapshotInput(
                run_id=self._scope.run_id,
                thread_id=self._scope.thread_id,
                turn_id=self._turn_id,
                model=self._model,
                model_provider=self._scope.model_provider,
                items=self._ledger.seen(),
                raw_items=tuple(self._raw if raw_items is None else raw_items),
                raw_order=dict(self._raw_order),
                prompt=prompt,
                completed=completed,
                ended=ended,
            )
        )

    def _is_ours(self, method: str, params: JsonObject) -> bool:
        turn = params.get("turn")
        named = turn.get("id") if isinstance(turn, Mapping) else params.get("turnId")
        return named == self._turn_id or (named is None and method in _THREAD_WIDE)

    # ------------------------------------------------------------------------------- the turn

    def _on_turn_started(self, _method: str, _params: JsonObject) -> Iterator[RunEvent]:
        if self._turn_id is not None:
            yield TurnStarted(
                run_id=self._scope.run_id, thread_id=self._scope.thread_id, turn_id=self._turn_id
            )

    def _on_turn_completed(self, _method: str, params: JsonObject) -> Iterator[RunEvent]:
        """End the turn, unless the payload is malformed (spec G-16, G-18, G-26)."""
        turn = params.get("turn")
        fields = turn if isinstance(turn, Mapping) else {}
        word = fields.get("status")
        if not isinstance(word, str) or word == _RUNNING:
            self._unknown["turn/completed (malformed)"] += 1
            return
        status = _STATUSES.get(word)
        if status is None:
            # It did end: a newer Codex says how in a word of its own, which is no success.
            self._unknown[f"turn status {word}"] += 1
            self._error = turn_fault({"message": f"Codex ended the turn as {word!r}."})
            status = "failed"
        items = fields.get("items")
        for raw in items if isinstance(items, list | tuple) else ():
            if isinstance(raw, Mapping):
                yield from self._replayed(raw)
        if status == "failed":
            given = fields.get("error")
            self._error = turn_fault(given, self._rate_limits) if given else self._error
            self._error = self._error or turn_fault(None)
        self._end = TurnEnd(status=status, error=self._error if status == "failed" else None)

    def _replayed(self, raw: JsonObject) -> Iterator[RunEvent]:
        """Take an item of the final list that was missed; one seen whole stays as it is (G-18)."""
        state = self._ledger.find(item_from_wire(raw).id)
        if state is None or not state.is_completed:
            yield from self._on_item_completed("item/completed", {"item": raw})

    def _on_error(self, _method: str, params: JsonObject) -> Iterator[RunEvent]:
        """Keep an error that Codex does not retry (spec G-17)."""
        fault = turn_fault(params.get("error"), self._rate_limits)
        if params.get("willRetry") is True:
            yield self._notice("model.retrying", str(fault["message"]))
        else:
            self._error = fault

    def _on_usage(self, _method: str, params: JsonObject) -> Iterator[RunEvent]:
        """Replace the usage; a malformed report keeps the previous one (spec G-13)."""
        if (reading := usage_from_wire(params)) is not None:
            self._reading = reading
            yield ContextReported(run_id=self._scope.run_id, usage=reading.usage)

    def _on_rerouted(self, _method: str, params: JsonObject) -> Iterator[RunEvent]:
        model = params.get("toModel")
        if isinstance(model, str) and model:
            before, self._model = self._model, model
            text = f"Another model answers: {model} instead of {before or 'the one asked for'}."
            yield self._notice("model.rerouted", text)

    def _on_warning(self, method: str, params: JsonObject) -> Iterator[RunEvent]:
        message = params.get("message")
        if isinstance(message, str) and message:
            code = "codex.guardian" if method == "guardianWarning" else "codex.warning"
            yield self._notice(code, message)

    def _on_hook(self, method: str, params: JsonObject) -> Iterator[RunEvent]:
        """Show a native hook; it never calls a hook of ours (spec G-22)."""
        run = params.get("run")
        part, value = hook_value(method.rpartition("/")[2], run if isinstance(run, Mapping) else {})
        yield self._value(ItemId(part), "progress", value)

    def _on_plan_steps(self, _method: str, params: JsonObject) -> Iterator[RunEvent]:
        steps = params.get("plan")
        value: JsonObject = {
            "explanation": params.get("explanation"),
            "steps": steps if isinstance(steps, list | tuple) else [],
        }
        yield self._value(ItemId(f"{self._turn_id}-steps"), "plan", value)

    def _on_raw(self, _method: str, params: JsonObject) -> Iterator[RunEvent]:
        """Keep a raw item as it came; it tells watchers nothing of its own (spec G-07)."""
        item = params.get("item")
        if isinstance(item, Mapping):
            self._raw.append(item)
            call = call_id(item)
            key = output_key(call) if call is not None and is_output(item) else call
            order = self._next_order()
            for name in (item_id_of(item), key):
                if name is not None:
                    self._raw_order.setdefault(name, order)
        return iter(())

    # ------------------------------------------------------------------------------- its items

    def _on_item_started(self, _method: str, params: JsonObject) -> Iterator[RunEvent]:
        item = _item_of(params)
        if item is None or self._ledger.find(item.id) is not None:
            return
        state = self._begin(item)
        match item:
            case ContextCompaction():
                yield CompactionStarted(
                    run_id=self._scope.run_id,
                    owner="codex",
                    item_id=item.id,
                    details=self._compaction_details(item.id, {"phase": "start"}),
                )
            case AgentMessage(text=text) if text and is_spoken(item):
                yield from self._grown(state, "text", text)
            case _ if isinstance(item, (*TOOL_ITEMS, Unknown)):
                yield self._value(item.id, "tool", tool_value(item, "started"))
            case _:
                pass

    def _on_item_completed(self, _method: str, params: JsonObject) -> Iterator[RunEvent]:
        item = _item_of(params)
        if item is None:
            return
        state = self._ledger.find(item.id) or self._begin(item)
        is_first, state.is_completed, state.item = not state.is_completed, True, item
        match item:
            case AgentMessage(text=text) if is_spoken(item):
                yield from self._settled(state, "text", text)
            case AgentMessage(text=text):
                self._ledger.settle(state, text)
                yield self._value(item.id, "progress", {"phase": COMMENTARY, "text": text})
            case HookPrompt(fragments=fragments):
                shown: JsonObject = {"phase": "hook", "text": "\n".join(fragments)}
                yield self._value(item.id, "progress", shown)
            case Reasoning():
                yield from self._settled(state, "reasoning", thought(item))
            case Plan(text=text):
                self._ledger.settle(state, text)
                yield self._value(item.id, "plan", {"text": text})
            case ContextCompaction() if is_first:
                self._reading = None  # the old numbers are not those of what is left (G-15)
                yield self._compaction_finished(item.id)
            case _ if isinstance(item, (*TOOL_ITEMS, Unknown)):
                yield self._value(item.id, "tool", tool_value(item, "completed"))
            case _:
                pass

    def _on_delta(self, method: str, params: JsonObject) -> Iterator[RunEvent]:
        item_id, delta = params.get("itemId"), params.get("delta")
        if not isinstance(item_id, str) or not isinstance(delta, str):
            return
        kind, wire_type = _DELTAS[method]
        state = self._ledger.find(ItemId(item_id))
        if state is None:
            state = self._begin(item_from_wire({"type": wire_type, "id": item_id}))
        is_commentary = isinstance(state.item, AgentMessage) and not is_spoken(state.item)
        if state.is_completed or is_commentary:
            return
        part = params.get("summaryIndex", params.get("contentIndex"))
        if isinstance(part, int) and part != state.part:
            state.part = part
            delta = f"\n\n{delta}" if state.text else delta
        yield from self._grown(state, kind, delta)

    def _on_progress(self, _method: str, params: JsonObject) -> Iterator[RunEvent]:
        item_id, message = params.get("itemId"), params.get("message")
        if isinstance(item_id, str) and isinstance(message, str):
            yield self._value(ItemId(item_id), "progress", {"text": message})

    def _begin(self, item: ThreadItem) -> ItemState:
        if isinstance(item, Unknown):
            self._unknown[f"item {item.type}"] += 1
        return self._ledger.begin(item, order=self._next_order(), model=self._model)

    def _next_order(self) -> int:
        self._order += 1
        return self._order

    def _grown(self, state: ItemState, kind: str, delta: str) -> Iterator[RunEvent]:
        at = len(state.text)
        self._ledger.stream(state, delta)
        yield self._delta(state.item.id, kind, at, delta)

    def _settled(self, state: ItemState, kind: str, text: str) -> Iterator[RunEvent]:
        """Tell only what watchers lack; where the text is another one, tell it from the start."""
        at = len(state.text) if text.startswith(state.text) else 0
        self._ledger.settle(state, text)
        if text[at:]:
            yield self._delta(state.item.id, kind, at, text[at:])

    def _compaction_finished(self, item_id: ItemId) -> RunEvent:
        end: JsonObject = {"phase": "end", "completed": True, "compactedCount": -1}
        return CompactionFinished(
            run_id=self._scope.run_id,
            owner="codex",
            item_id=item_id,
            details=self._compaction_details(item_id, end),
        )

    def _compaction_details(self, item_id: ItemId, more: JsonObject) -> JsonObject:
        """Return what compaction events say; an owning engine learns it was not its own (G-20)."""
        owning: JsonObject = {"ownsCompaction": True} if self._scope.engine_owns_compaction else {}
        return {
            "backend": BACKEND,
            "threadId": self._scope.thread_id,
            "turnId": self._turn_id,
            "itemId": item_id,
            **owning,
            **more,
        }

    def _delta(self, part: ItemId, kind: str, at: int, text: str) -> RunEvent:
        return PartDelta(run_id=self._scope.run_id, part=part, kind=kind, at=at, text=text)

    def _value(self, part: ItemId, kind: str, value: JsonObject) -> RunEvent:
        return PartValue(run_id=self._scope.run_id, part=part, kind=kind, value=value)

    def _notice(self, code: str, text: str) -> RunEvent:
        return Notice(run_id=self._scope.run_id, code=code, text=text)


_Handler = Callable[[TurnProjection, str, JsonObject], Iterator[RunEvent]]
_HANDLERS: Final[Mapping[str, _Handler]] = MappingProxyType({
    "turn/started": TurnProjection._on_turn_started,
    "turn/completed": TurnProjection._on_turn_completed,
    "turn/plan/updated": TurnProjection._on_plan_steps,
    "item/started": TurnProjection._on_item_started,
    "item/completed": TurnProjection._on_item_completed,
    "item/mcpToolCall/progress": TurnProjection._on_progress,
    "rawResponseItem/completed": TurnProjection._on_raw,
    "thread/tokenUsage/updated": TurnProjection._on_usage,
    "model/rerouted": TurnProjection._on_rerouted,
    "error": TurnProjection._on_error,
    "warning": TurnProjection._on_warning,
    "guardianWarning": TurnProjection._on_warning,
    "hook/started": TurnProjection._on_hook,
    "hook/completed": TurnProjection._on_hook,
    **dict.fromkeys(_DELTAS, TurnProjection._on_delta),
})
"""What is done with each method that is read here; all others are counted."""


def _item_of(params: JsonObject) -> ThreadItem | None:
    raw: JsonValue = params.get("item")
    item = item_from_wire(raw) if isinstance(raw, Mapping) else None
    return item if item is not None and item.id else None
