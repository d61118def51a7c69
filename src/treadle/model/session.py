"""The grammar of session keys: `agent:<agent>:<name>`.

Knows nothing of which agents or sessions exist.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from treadle.model.errors import UsageError
from treadle.model.ids import AgentId, SessionKey

MAIN_AGENT = AgentId("main")
"""The agent that always exists."""

DEFAULT_NAME = "main"
"""The session that is meant where none is named."""

Origin = Literal["new", "reset", "rewind", "branch", "import"]
"""How a generation of a session began."""

CHILD = "sub:"
"""Begins the names of child sessions."""

_AGENT = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_NAME = re.compile(r"[^\W_][\w.:@+/-]{0,199}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionName:
    """A session key, taken apart."""

    agent_id: AgentId
    name: str

    @property
    def key(self) -> SessionKey:
        """The key in its full form."""
        return SessionKey(f"agent:{self.agent_id}:{self.name}")


def agent_id(text: str) -> AgentId:
    """Check an agent's id: lower-case letters, digits, `-`, `_`, at most 64. Raises: UsageError."""
    if not _AGENT.fullmatch(text):
        raise UsageError(
            f"{text!r} is no agent id",
            next_step="Use a-z, 0-9, - and _, beginning with a letter or a digit.",
        )
    return AgentId(text)


def session_name(text: str | None, *, agent: AgentId = MAIN_AGENT) -> SessionName:
    """Read a session key, or a bare name, which belongs to `agent`; None is that agent's `main`.

    Raises: UsageError for anything that is neither.
    """
    if text is None:
        return SessionName(agent_id=agent, name=DEFAULT_NAME)
    if text.startswith("agent:"):
        _, owner, *rest = text.split(":", 2)
        name = rest[0] if rest else ""
        return SessionName(agent_id=agent_id(owner), name=_checked(name, text))
    return SessionName(agent_id=agent, name=_checked(text, text))


def child_name(agent: AgentId, child_id: str) -> SessionName:
    """Return the name of a child session: `agent:<agent>:sub:<id>` (spec B-20)."""
    return SessionName(agent_id=agent, name=f"{CHILD}{child_id}")


def _checked(name: str, whole: str) -> str:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{whole!r} is no session key",
            next_step="Use a name of letters, digits and . : @ + / - _ (at most 200 characters),"
            " or agent:<agent>:<name>.",
        )
    return name
