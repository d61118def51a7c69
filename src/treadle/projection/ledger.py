"""Keep the items of one turn and what follows from them: the answer, the counts, the risk.

Knows nothing of notifications, events or raw items. Source: spec G-05, G-06, G-10, G-18, G-21,
K-18, S-09, A-24.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from treadle.contract.harness import ItemLifecycle
from treadle.model.ids import ItemId
from treadle.model.json import JsonObject
from treadle.projection.entries import SeenItem
from treadle.projection.tool_items import (
    NATIVE_WORK,
    TOOL_ITEMS,
    may_have_side_effects,
    tool_meta,
)
from treadle.protocol.items import AgentMessage, ContextCompaction, ThreadItem, UserMessage

SILENT_TOKEN: Final = "NO_REPLY"
"""What the model says to say nothing (spec G-06)."""

COMMENTARY: Final = "commentary"
"""Phase of a message that is progress and no answer (spec G-05)."""


@dataclass(slots=True)
class ItemState:
    """An item as far as it has been seen."""

    item: ThreadItem
    order: int
    """When it was first told of."""

    model: str | None
    """The model that answered then."""

    text: str = ""
    """What was streamed of it so far, or its final text."""

    part: int = 0
    """The part of a reasoning's summary that is being written."""

    is_completed: bool = False


class ItemLedger:
    """The items of one turn by id, in the order in which they were first told of."""

    def __init__(self, replay_safe_tools: frozenset[str] = frozenset()) -> None:
        self._replay_safe_tools = replay_safe_tools
        self._items: dict[ItemId, ItemState] = {}
        self._answer: ItemId | None = None
        self._is_silent = False

    def find(self, item_id: ItemId) -> ItemState | None:
        """Return the item, if it was seen."""
        return self._items.get(item_id)

    def begin(self, item: ThreadItem, *, order: int, model: str | None) -> ItemState:
        """Take a new item; native work makes whatever was said before it no answer (G-06)."""
        state = ItemState(item=item, order=order, model=model)
        self._items[item.id] = state
        if isinstance(item, NATIVE_WORK):
            self._answer = None
        return state

    def stream(self, state: ItemState, text: str) -> None:
        """Append to an item's text (spec G-05)."""
        self.settle(state, state.text + text)

    def settle(self, state: ItemState, text: str) -> None:
        """Replace an item's text; an empty one wins too (spec G-05).

        A message that says something becomes the answer; the silent token replaces none.
        """
        state.text = text
        if not is_spoken(state.item):
            return
        said = text.strip()
        if said and said != SILENT_TOKEN:
            self._answer = state.item.id
        elif self._answer == state.item.id:
            self._answer = None
        self._is_silent = self._is_silent or (said == SILENT_TOKEN and state.is_completed)

    @property
    def final_text(self) -> str:
        """The answer: the last thing said that is no commentary and that no native work followed.

        The silent token counts only where nothing else was said in the whole turn. Source: G-06.
        """
        if self._answer is not None:
            return self._items[self._answer].text
        return SILENT_TOKEN if self._is_silent and not self.assistant_texts else ""

    @property
    def assistant_texts(self) -> tuple[str, ...]:
        """Everything the model said aloud, in order; commentary and silence left out."""
        return tuple(
            state.text
            for state in self._items.values()
            if is_spoken(state.item) and state.text.strip() not in {"", SILENT_TOKEN}
        )

    @property
    def lifecycle(self) -> ItemLifecycle:
        """How many items began, ended and are open (spec A-24, G-19, G-21)."""
        ended = [state for state in self._items.values() if state.is_completed]
        return ItemLifecycle(
            started_count=len(self._items),
            completed_count=len(ended),
            active_count=len(self._items) - len(ended),
            compaction_count=sum(isinstance(state.item, ContextCompaction) for state in ended),
        )

    @property
    def tool_metas(self) -> tuple[JsonObject, ...]:
        """Id, name, kind, state and measures of each tool's work, in order (spec G-10)."""
        return tuple(
            {"call_id": state.item.id, **tool_meta(state.item)}
            for state in self._items.values()
            if isinstance(state.item, TOOL_ITEMS)
        )

    @property
    def had_potential_side_effects(self) -> bool:
        """Whether something may have been changed (spec K-18)."""
        return any(
            may_have_side_effects(state.item, self._replay_safe_tools)
            for state in self._items.values()
        )

    @property
    def replay_safe(self) -> bool:
        """Whether the same turn may be sent again: nothing said, nothing done (spec S-09)."""
        return not (
            self.had_potential_side_effects
            or self.assistant_texts
            or self.tool_metas
            or self.lifecycle.active_count
        )

    @property
    def is_untouched(self) -> bool:
        """Whether the model gave nothing at all: only the user's message was seen."""
        return all(isinstance(state.item, UserMessage) for state in self._items.values())

    def seen(self) -> tuple[SeenItem, ...]:
        """Return the items in order, an unfinished message with what was streamed of it."""
        return tuple(
            SeenItem(
                item=_as_streamed(state),
                order=state.order,
                model=state.model,
                completed=state.is_completed,
            )
            for state in self._items.values()
        )


def is_spoken(item: ThreadItem) -> bool:
    """Whether an item is something the model says aloud."""
    return isinstance(item, AgentMessage) and item.phase != COMMENTARY


def _as_streamed(state: ItemState) -> ThreadItem:
    if isinstance(state.item, AgentMessage) and not state.is_completed:
        return replace(state.item, text=state.text)
    return state.item
