"""The newest messages behind one note about the rest.

The list grows from N to 2N messages and is then cut back to about N in one step, so that between
two cuts it only grows and Codex's thread can go on as it is. Everything follows from the transcript
alone: the place of a cut from the number of messages, its exact message from those right behind it.
The engine keeps no state and reads at most the newest 2N messages. It knows nothing of what the
dropped messages said.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Final

import anyio.to_thread

from treadle.contract.engine import (
    AfterTurnParams,
    Assembled,
    AssembleParams,
    CompactParams,
    CompactResult,
    EngineContext,
    EngineInfo,
    IngestParams,
    IngestResult,
)
from treadle.contract.store import TranscriptSnapshot
from treadle.engines.notes import note_message
from treadle.model.errors import ConfigError
from treadle.model.ids import EngineId
from treadle.model.json import canonical
from treadle.model.message import (
    USER,
    Message,
    call_ids,
    is_said,
    parts_of,
    result_ids,
    with_content,
)
from treadle.tokens import BYTES_PER_TOKEN

WINDOW: Final = EngineId("window")

DEFAULT_SIZE: Final = 100
"""Messages that a cut keeps; the list then grows to twice as many."""

LEAST_SIZE: Final = 2
MOST_SIZE: Final = 100_000

FEW_MESSAGES: Final = 400
"""Messages that are read on the event loop: some 2 ms."""

INFO: Final = EngineInfo(
    id=WINDOW, name="Window (the newest messages)", version="1", owns_compaction=True
)


def cut_at(count: int, size: int) -> int:
    """Return how many of the oldest messages are left out; before each cut the same number.

    What is kept has at most `2 * size` messages, and more than `size` once something is left out.
    """
    return size * max(0, ceil(count / size) - 2)


def kept(messages: Sequence[Message], size: int) -> tuple[int, list[Message]]:
    """Return how many messages stand before the kept ones, and the kept ones, oldest first.

    A cut moves on to the next message of the user, if there is one among the `size` messages behind
    it (they are there whenever the cut is made, so the place never moves later); else it stays. A
    result whose call was left out is left out too, also if it comes late.
    """
    cut = cut_at(len(messages), size)
    newest = _newest(messages, cut)
    if cut == 0:
        return 0, newest
    moved = next((at for at, one in enumerate(newest[:size]) if one.role == USER), 0)
    return cut + moved, _without_lone_results(newest[moved:])


def _newest(messages: Sequence[Message], cut: int) -> list[Message]:
    if isinstance(messages, TranscriptSnapshot):
        return list(messages.shared(cut, len(messages)))  # nothing of them is changed here
    return list(messages[cut:])


def _without_lone_results(messages: Sequence[Message]) -> list[Message]:
    called: set[str] = set()
    whole: list[Message] = []
    for message in messages:
        if message.role == USER or is_said(message):  # makes no calls and answers none
            whole.append(message)
            continue
        lone = frozenset(result_ids(message)) - called
        called.update(call_ids(message))
        if not lone:
            whole.append(message)
        elif parts := [part for part in parts_of(message) if not lone & set(_answered(part))]:
            whole.append(with_content(message, parts))
    return whole


def _answered(part: object) -> tuple[str, ...]:
    return result_ids(Message(role="", content=[part]))  # type: ignore[list-item] # a JSON object


def note_on(left_out: int) -> Message:
    """Return the note that stands for the messages left out; the same for the same number."""
    return note_message(
        f"The {left_out} oldest messages of this conversation are not shown here."
        " They are kept in the transcript."
    )


def estimate_tokens(messages: Sequence[Message]) -> int:
    """Estimate from the bytes of the contents, rather too high than too low."""
    size = sum(len(canonical(message.content)) for message in messages)
    return ceil(size / BYTES_PER_TOKEN)


class WindowEngine:
    """Keeps the newest `size` to `2 * size` messages in view."""

    def __init__(self, size: int) -> None:
        self._size = size

    @property
    def info(self) -> EngineInfo:
        """Who this is."""
        return INFO

    async def assemble(self, params: AssembleParams) -> Assembled:
        """Show the note, if something is left out, and the newest messages.

        A few are read where we stand, which takes less time than handing them to a thread.
        """
        if min(len(params.messages), 2 * self._size) <= FEW_MESSAGES:
            return self._shown(params.messages)
        return await anyio.to_thread.run_sync(self._shown, params.messages)

    def _shown(self, messages: Sequence[Message]) -> Assembled:
        left_out, newest = kept(messages, self._size)
        shown = [note_on(left_out), *newest] if left_out else newest
        return Assembled(messages=shown, estimated_tokens=estimate_tokens(shown))

    async def ingest(self, params: IngestParams) -> IngestResult:
        """Take nothing: the transcript is the record."""
        return IngestResult(ingested=False)

    async def after_turn(self, params: AfterTurnParams) -> None:
        """Do nothing: the next cut follows from the transcript."""

    async def compact(self, params: CompactParams) -> CompactResult:
        """Do nothing: the window is cut when it is full, and only then."""
        return CompactResult(ok=True, compacted=False, reason="the window is cut when it is full")


def create(context: EngineContext) -> WindowEngine:
    """Make the engine. `config.size` is the number of messages that a cut keeps.

    Raises: ConfigError for a size that is no whole number from 2 to 100,000, and for other keys.
    """
    size = context.config.get("size", DEFAULT_SIZE)
    unknown = sorted(context.config.keys() - {"size"})
    faults = [f"{name!r} is no setting of this engine; known: 'size'" for name in unknown]
    if isinstance(size, bool) or not isinstance(size, int) or not LEAST_SIZE <= size <= MOST_SIZE:
        faults.append(f"'size' is {size!r}; allowed: {LEAST_SIZE} to {MOST_SIZE}")
    if faults:
        raise ConfigError(
            f"engine 'window' cannot be configured: {'; '.join(faults)}", faults=tuple(faults)
        )
    assert isinstance(size, int)
    return WindowEngine(size)
