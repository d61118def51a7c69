"""Read thread items and deltas of the app-server into small records; decides nothing about them.

Reading is tolerant: an absent or odd field gives its empty value, a type nobody knows gives
`Unknown`, and every record keeps `raw`, so that nothing is lost by reading it. Names, kinds and
states are those of spec G-08, G-09 and G-10.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

import msgspec

from treadle.model.ids import ItemId
from treadle.model.json import JsonObject, JsonValue
from treadle.protocol import generated
from treadle.protocol.rpc import Notification


class ItemStatus(Enum):
    """How far an item is, in one vocabulary for all kinds. Source: spec G-10."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    BLOCKED = "blocked"
    UNKNOWN = "unknown"
    """Only for audit: a state that is missing or that nobody knows."""


class ItemKind(Enum):
    """What sort of work an item is. Source: spec G-09; `MESSAGE` and `OTHER` are ours."""

    TOOL = "tool"
    COMMAND = "command"
    PATCH = "patch"
    SEARCH = "search"
    ANALYSIS = "analysis"
    MESSAGE = "message"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMessage:
    """What a person, or a steer, said."""

    id: ItemId
    client_id: str | None
    """Our `clientUserMessageId`, by which an attempt is found again (F5)."""
    text: str
    content: Sequence[JsonValue]
    raw: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentMessage:
    """What the model said."""

    id: ItemId
    text: str
    phase: str | None
    raw: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasoning:
    """What the model thought, as far as it is shown."""

    id: ItemId
    summary: tuple[str, ...]
    content: tuple[str, ...]
    raw: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A proposed plan."""

    id: ItemId
    text: str
    raw: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandExecution:
    """A command that Codex ran, or was not allowed to run."""

    id: ItemId
    command: str
    cwd: str
    source: str
    output: str | None
    exit_code: int | None
    duration_ms: int | None
    raw: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """A patch that Codex applied, or was not allowed to apply."""

    id: ItemId
    paths: tuple[str, ...]
    changes: Sequence[JsonValue]
    raw: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicToolCall:
    """A call of a tool of ours."""

    id: ItemId
    namespace: str | None
    tool: str
    arguments: JsonValue
    content_items: Sequence[JsonValue]
    success: bool | None
    raw: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class McpToolCall:
    """A call of a tool of an MCP server."""

    id: ItemId
    server: str
    tool: str
    arguments: JsonValue
    result: JsonValue
    error: str | None
    raw: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSearch:
    """A web search by the model's service."""

    id: ItemId
    query: str
    raw: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class HookPrompt:
    """Text that a native hook put in front of the model."""

    id: ItemId
    fragments: tuple[str, ...]
    raw: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextCompaction:
    """Codex made its own history smaller."""

    id: ItemId
    raw: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """An item of a type that this Treadle does not know; kept and counted, never dropped."""

    id: ItemId
    type: str
    raw: JsonObject


ThreadItem = (
    UserMessage
    | AgentMessage
    | Reasoning
    | Plan
    | CommandExecution
    | FileChange
    | DynamicToolCall
    | McpToolCall
    | WebSearch
    | HookPrompt
    | ContextCompaction
    | Unknown
)
"""An item of a thread."""


def item_from_wire(raw: JsonObject) -> ThreadItem:
    """Read a thread item; never raises."""
    kind = raw.get("type")
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    if reader is None:
        return Unknown(id=_id(raw), type=_text(raw, "type"), raw=raw)
    return reader(raw)


def _user_message(raw: JsonObject) -> ThreadItem:
    content = _list(raw, "content")
    texts = [_text(part, "text") for part in content if isinstance(part, Mapping)]
    return UserMessage(
        id=_id(raw),
        client_id=_optional(raw, "clientId"),
        text="\n".join(text for text in texts if text),
        content=content,
        raw=raw,
    )


def _agent_message(raw: JsonObject) -> ThreadItem:
    return AgentMessage(
        id=_id(raw), text=_text(raw, "text"), phase=_optional(raw, "phase"), raw=raw
    )


def _reasoning(raw: JsonObject) -> ThreadItem:
    return Reasoning(
        id=_id(raw), summary=_texts(raw, "summary"), content=_texts(raw, "content"), raw=raw
    )


def _plan(raw: JsonObject) -> ThreadItem:
    return Plan(id=_id(raw), text=_text(raw, "text"), raw=raw)


def _command(raw: JsonObject) -> ThreadItem:
    return CommandExecution(
        id=_id(raw),
        command=_text(raw, "command"),
        cwd=_text(raw, "cwd"),
        source=_text(raw, "source"),
        output=_optional(raw, "aggregatedOutput"),
        exit_code=_whole(raw, "exitCode"),
        duration_ms=_whole(raw, "durationMs"),
        raw=raw,
    )


def _file_change(raw: JsonObject) -> ThreadItem:
    changes = _list(raw, "changes")
    paths = tuple(_text(change, "path") for change in changes if isinstance(change, Mapping))
    return FileChange(id=_id(raw), paths=paths, changes=changes, raw=raw)


def _dynamic_tool_call(raw: JsonObject) -> ThreadItem:
    success = raw.get("success")
    return DynamicToolCall(
        id=_id(raw),
        namespace=_optional(raw, "namespace"),
        tool=_text(raw, "tool"),
        arguments=raw.get("arguments"),
        content_items=_list(raw, "contentItems"),
        success=success if isinstance(success, bool) else None,
        raw=raw,
    )


def _mcp_tool_call(raw: JsonObject) -> ThreadItem:
    error = raw.get("error")
    return McpToolCall(
        id=_id(raw),
        server=_text(raw, "server"),
        tool=_text(raw, "tool"),
        arguments=raw.get("arguments"),
        result=raw.get("result"),
        error=_text(error, "message") if isinstance(error, Mapping) else None,
        raw=raw,
    )


def _web_search(raw: JsonObject) -> ThreadItem:
    return WebSearch(id=_id(raw), query=_text(raw, "query"), raw=raw)


def _hook_prompt(raw: JsonObject) -> ThreadItem:
    fragments = [part for part in _list(raw, "fragments") if isinstance(part, Mapping)]
    return HookPrompt(
        id=_id(raw), fragments=tuple(_text(part, "text") for part in fragments), raw=raw
    )


def _context_compaction(raw: JsonObject) -> ThreadItem:
    return ContextCompaction(id=_id(raw), raw=raw)


_READERS: Final[Mapping[str, Callable[[JsonObject], ThreadItem]]] = MappingProxyType({
    "userMessage": _user_message,
    "agentMessage": _agent_message,
    "reasoning": _reasoning,
    "plan": _plan,
    "commandExecution": _command,
    "fileChange": _file_change,
    "dynamicToolCall": _dynamic_tool_call,
    "mcpToolCall": _mcp_tool_call,
    "webSearch": _web_search,
    "hookPrompt": _hook_prompt,
    "contextCompaction": _context_compaction,
})

_STATUS: Final[Mapping[str, ItemStatus]] = MappingProxyType({
    "failed": ItemStatus.FAILED,
    "error": ItemStatus.FAILED,
    "declined": ItemStatus.BLOCKED,
    "inProgress": ItemStatus.RUNNING,
    "in_progress": ItemStatus.RUNNING,
    "running": ItemStatus.RUNNING,
})


def status(item: ThreadItem) -> ItemStatus:
    """Return how far an item is; anything else counts as completed. Source: spec G-10."""
    return _STATUS.get(_text(item.raw, "status"), ItemStatus.COMPLETED)


def audit_status(item: ThreadItem) -> ItemStatus:
    """Return how far an item is; what is missing or odd is unknown, not success. Source: G-10."""
    word = _text(item.raw, "status")
    if word == "completed":
        return ItemStatus.COMPLETED
    return _STATUS.get(word, ItemStatus.UNKNOWN)


def tool_name(item: ThreadItem) -> str | None:
    """Return the name under which an item's tool is shown; None for no tool. Source: spec G-08."""
    match item:
        case CommandExecution():
            return "bash"
        case FileChange():
            return "apply_patch"
        case WebSearch():
            return "web_search"
        case McpToolCall(server=server, tool=tool):
            return f"{server}.{tool}"
        case DynamicToolCall(tool=tool):
            return tool
        case _:
            return None


def kind(item: ThreadItem) -> ItemKind:
    """Return what sort of work an item is. Source: spec G-09."""
    match item:
        case DynamicToolCall() | McpToolCall():
            return ItemKind.TOOL
        case CommandExecution():
            return ItemKind.COMMAND
        case FileChange():
            return ItemKind.PATCH
        case WebSearch():
            return ItemKind.SEARCH
        case Reasoning() | ContextCompaction():
            return ItemKind.ANALYSIS
        case UserMessage() | AgentMessage() | Plan() | HookPrompt():
            return ItemKind.MESSAGE
        case Unknown():
            return ItemKind.OTHER


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """A piece of a text that is still being written."""

    method: str
    item_id: ItemId
    part: int
    """Which part of a reasoning's summary or content; 0 elsewhere."""
    text: str


_DELTAS: Final[Mapping[str, msgspec.json.Decoder[Any]]] = MappingProxyType({
    "item/agentMessage/delta": msgspec.json.Decoder(generated.AgentMessageDeltaNotification),
    "item/plan/delta": msgspec.json.Decoder(generated.PlanDeltaNotification),
    "item/reasoning/summaryTextDelta": msgspec.json.Decoder(
        generated.ReasoningSummaryTextDeltaNotification
    ),
    "item/reasoning/textDelta": msgspec.json.Decoder(generated.ReasoningTextDeltaNotification),
    "item/commandExecution/outputDelta": msgspec.json.Decoder(
        generated.CommandExecutionOutputDeltaNotification
    ),
    "item/fileChange/outputDelta": msgspec.json.Decoder(
        generated.FileChangeOutputDeltaNotification
    ),
})


def is_delta(method: str) -> bool:
    """Whether notifications of that method carry a piece of an item's text."""
    return method in _DELTAS


def delta_from_wire(notification: Notification) -> Delta | None:
    """Read a delta; None if it is none, or one that this Treadle cannot read."""
    decoder = _DELTAS.get(notification.method)
    if decoder is None:
        return None
    try:
        body = decoder.decode(notification.raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    part = getattr(body, "summary_index", None) or getattr(body, "content_index", None) or 0
    return Delta(
        method=notification.method, item_id=ItemId(body.item_id), part=part, text=body.delta
    )


def _id(raw: JsonObject) -> ItemId:
    return ItemId(_text(raw, "id"))


def _text(raw: JsonObject, key: str) -> str:
    value = raw.get(key)
    return value if isinstance(value, str) else ""


def _optional(raw: JsonObject, key: str) -> str | None:
    value = raw.get(key)
    return value if isinstance(value, str) else None


def _whole(raw: JsonObject, key: str) -> int | None:
    value = raw.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _list(raw: JsonObject, key: str) -> Sequence[JsonValue]:
    value = raw.get(key)
    return value if isinstance(value, list | tuple) else ()


def _texts(raw: JsonObject, key: str) -> tuple[str, ...]:
    return tuple(value for value in _list(raw, key) if isinstance(value, str))
