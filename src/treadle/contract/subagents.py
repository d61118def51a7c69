"""Child sessions: which there are, whose they are, and how far each got.

| state | what happens | next |
|---|---|---|
| (none) | its spawn begins | preparing |
| preparing | its session is made | live |
| preparing, live | its spawn fails | (none) |
| preparing | nobody knows what was prepared | ending, `swept` |
| preparing | Treadle ended in it; seen at the next start | ending, `swept` |
| live | it is completed, released, deleted, or its time is over | ending |
| ending | its engine was told | ended |

Knows nothing of SQL, engines or runs. Source: spec B-20, B-21.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from treadle.contract.session_calls import SubagentContext, SubagentEnd
from treadle.contract.store import SessionRecord
from treadle.model.ids import SessionKey

SubagentState = Literal["preparing", "live", "ending", "ended"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subagent:
    """A child session."""

    key: SessionKey
    parent_key: SessionKey
    context_mode: SubagentContext
    engine_id: str
    """The engine that prepared it, and is told of its end."""

    expires_at: float | None = None
    """Unix seconds from which it is swept; None: never."""

    state: SubagentState = "preparing"
    reason: SubagentEnd | None = None
    """Why it is over, once it is."""


class SubagentStore(Protocol):
    """Child sessions by key; each call is one transaction."""

    async def prepare(self, child: Subagent) -> None:
        """Note that a spawn begins, durably, before anybody prepares anything for it."""

    async def begin(self, key: SessionKey) -> SessionRecord:
        """Make the child's session and return it; the child is live.

        A fork begins with what its parent holds, without a turn that is still running; owner,
        folder and settings are its parent's. Raises: NotFound where the parent is gone.
        """

    async def abandon(self, key: SessionKey, *, in_doubt: bool = False) -> None:
        """Forget a child whose spawn failed, and its session if there is one already.

        `in_doubt`: nobody knows whether its engine prepared something; it is ending, `swept`.
        """

    async def end(self, key: SessionKey, reason: SubagentEnd) -> Subagent | None:
        """Note that a live child is over and return it; None where it was none, or over already."""

    async def told(self, key: SessionKey) -> None:
        """Note that its engine knows that it is over."""

    async def sweep(self) -> None:
        """End what was being prepared and what outlived its time.

        For the start, when nothing of this process is being prepared.
        """

    async def ending(self) -> tuple[Subagent, ...]:
        """Return the children that are over and whose engine is not known to know it."""

    async def get(self, key: SessionKey) -> Subagent | None:
        """Return a child, or None for a session that is none."""

    async def of(self, parent_key: SessionKey) -> tuple[Subagent, ...]:
        """Return the children of a session that are live."""
