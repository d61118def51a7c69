"""Dynamic tools: tools of ours that Codex offers to the model and calls back.

Knows nothing of how a call arrives or of how tools are named for Codex.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from treadle.model.ids import RunId, SessionKey, ThreadId, TurnId
from treadle.model.json import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call by the model. `arguments` are as the model wrote them; Codex validates nothing."""

    call_id: str
    name: str
    arguments: JsonObject
    session_key: SessionKey
    run_id: RunId
    thread_id: ThreadId
    turn_id: TurnId


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolText:
    """Text for the model."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolImage:
    """An image for the model, as a data URL."""

    data_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a call came to.

    `success` False is for the model to read, it is no error of ours (spec K-12).
    """

    content: tuple[ToolText | ToolImage, ...]
    success: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicTool:
    """A tool.

    Name, schema, namespace and loading make its durable identity; the description may change
    (F-12).
    """

    name: str
    """Matches `^[a-zA-Z0-9_-]+$`."""

    description: str
    input_schema: JsonObject
    """A JSON Schema with `type: object`."""

    call: Callable[[ToolCall], ToolResult | str | Awaitable[ToolResult | str]]
    """Plain functions run in a worker thread.

    Raising is a failed result with the message as its text.
    """

    catalog_mode: Literal["searchable", "direct-only", "direct"] = "direct"
    timeout_s: float | None = None
    """Seconds; None takes the default of 90 (spec K-16)."""

    replay_safe: bool = False
    """Whether running it twice does no harm (spec K-18)."""
