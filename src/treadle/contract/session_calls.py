"""What an engine is told of a session as a whole: its end, its children, that it be forgotten.

All four methods are optional, and none belongs to a turn. Knows nothing of how engines are called.
Source: spec B-20, B-21, U-02, U-08; decision 13.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from treadle.contract.engine import SessionCall
from treadle.model.ids import SessionId, SessionKey

SessionEnd = Literal["reset", "rewound", "deleted"]
"""Why a generation of a session is over."""

SubagentContext = Literal["isolated", "fork"]
"""Whether a child session begins empty, or with what its parent holds."""

SubagentEnd = Literal["deleted", "completed", "swept", "released"]
"""Why a child session is over (spec B-21).

`completed`: its work is done; `released`: its parent let it go; `deleted`: somebody deleted the
session; `swept`: its time was over, or Treadle ended before it began.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEndedParams(SessionCall):
    """The generation `session_id` is over and takes no more turns (spec U-08).

    What was said in it stays stored, and what waits to be committed still comes.
    """

    reason: SessionEnd
    next_session_id: SessionId | None = None
    """The generation that replaces it. After a rewind its transcript begins with a part of this
    one's, the same messages under the same entry ids; None after a deletion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetParams(SessionCall):
    """Somebody purges the session: all that the engine derived from it is to be erased.

    Asked again until it succeeds, so an engine that knows nothing of the session does nothing.
    """

    session_ids: tuple[SessionId, ...] = ()
    """All generations that the session had, `session_id` among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentSpawnParams(SessionCall):
    """A child session is about to begin (spec B-20); `session_id` is its parent's."""

    parent_session_key: SessionKey
    child_session_key: SessionKey
    context_mode: SubagentContext = "isolated"
    ttl_ms: int | None = None
    """Milliseconds that the child lives at most; None: until somebody ends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentPreparation:
    """What an engine prepared for a child; None in its place means nothing."""

    rollback: Callable[[], object]
    """Undoes it; called once where the child does not begin after all, and may be async."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentEndedParams(SessionCall):
    """A child session is over (spec B-21); `session_id` is its last generation.

    Told again where Treadle ended before it knew that the engine had heard it.
    """

    child_session_key: SessionKey
    reason: SubagentEnd


class Rollback(Protocol):
    """The way back from a preparation."""

    async def __call__(self) -> None:
        """Undo what was prepared, the first time only; a failure is logged."""
