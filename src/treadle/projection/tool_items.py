"""Describe a typed item that is a tool's work: for watchers, for the transcript, for the audit.

Knows nothing of turns or of raw Responses items. Source: spec G-08…G-11, K-18, S-09.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from treadle.model.json import JsonObject, JsonValue
from treadle.model.text import redact, redact_value
from treadle.protocol.items import (
    AgentMessage,
    CommandExecution,
    ContextCompaction,
    DynamicToolCall,
    FileChange,
    HookPrompt,
    ItemStatus,
    McpToolCall,
    Plan,
    Reasoning,
    ThreadItem,
    Unknown,
    UserMessage,
    WebSearch,
    audit_status,
    kind,
    status,
    tool_name,
)

NATIVE_WORK: Final = (CommandExecution, FileChange, McpToolCall, WebSearch)
"""Work of Codex's own; an answer given before it was none (spec G-06)."""

ToolItem = CommandExecution | FileChange | McpToolCall | WebSearch | DynamicToolCall
TOOL_ITEMS: Final = (*NATIVE_WORK, DynamicToolCall)


def tool_value(item: ThreadItem, phase: str) -> JsonObject:
    """Return an item's state for watchers; arguments redacted, long output left to its deltas."""
    value: dict[str, JsonValue] = {
        "type": str(item.raw.get("type", "")),
        "name": tool_name(item) or str(item.raw.get("type", "")),
        "kind": kind(item).value,
        "status": status(item).value,
        "phase": phase,
        "call_id": item.id,
    }
    return {**value, **_particulars(item)}


def hook_value(phase: str, run: JsonObject) -> tuple[str, JsonObject]:
    """Return a native hook's part and its state for watchers (spec G-22)."""
    name = run.get("id")
    value: JsonObject = {
        "stream": "codex_app_server.hook",
        "phase": phase,
        "event": run.get("eventName"),
        "status": run.get("status"),
    }
    return (name if isinstance(name, str) and name else "hook"), value


def tool_meta(item: ThreadItem) -> JsonObject:
    """Return what the audit keeps: an unknown or missing status is no success (spec G-10)."""
    meta: dict[str, JsonValue] = {
        "name": tool_name(item),
        "kind": kind(item).value,
        "status": audit_status(item).value,
    }
    return {**meta, **_measures(item)}


def is_failure(item: ThreadItem) -> bool:
    """Whether the work failed or was not allowed (spec G-11)."""
    return status(item) in {ItemStatus.FAILED, ItemStatus.BLOCKED}


def may_have_side_effects(item: ThreadItem, replay_safe_tools: frozenset[str]) -> bool:
    """Whether work that was begun may have changed something.

    Work that was blocked before it began never counts; a tool counts unless it is known to be safe
    to repeat, and so does what nobody knows. Source: spec K-18.
    """
    if status(item) is ItemStatus.BLOCKED:
        return False
    match item:
        case DynamicToolCall(tool=tool):
            return tool not in replay_safe_tools
        case McpToolCall():
            return item.raw.get("readOnlyHint") is not True
        case CommandExecution() | FileChange() | Unknown():
            return True
        case WebSearch() | UserMessage() | AgentMessage() | Reasoning() | Plan():
            return False
        case HookPrompt() | ContextCompaction():
            return False


def thought(item: Reasoning) -> str:
    """Return what a reasoning item shows of itself: its summary, else its content."""
    return "\n\n".join(item.summary) or "\n\n".join(item.content)


def call_arguments(item: ToolItem) -> JsonValue:
    """Return what the call was given, as far as the typed item tells."""
    match item:
        case CommandExecution(command=command, cwd=cwd):
            return {"command": command, "cwd": cwd}
        case FileChange(changes=changes):
            return {"changes": changes}
        case WebSearch(query=query):
            return {"query": query}
        case McpToolCall(arguments=arguments) | DynamicToolCall(arguments=arguments):
            return arguments


def result_content(item: ToolItem) -> list[JsonObject]:
    """Return the result as message parts, as far as the typed item tells; empty if it is silent."""
    match item:
        case CommandExecution(output=output):
            return text_parts(output)
        case FileChange(paths=paths):
            return text_parts("\n".join(paths))
        case WebSearch(raw=raw):
            results = raw.get("results")
            return [{"type": "webSearchResults", "results": results}] if results else []
        case McpToolCall(error=str() as error):
            return text_parts(error)
        case McpToolCall(result=result):
            content = result.get("content") if isinstance(result, Mapping) else None
            return parts_from_wire(content)
        case DynamicToolCall(content_items=content):
            return parts_from_wire(content)


def text_parts(text: str | None) -> list[JsonObject]:
    """Return one text part, or none for no text."""
    return [{"type": "text", "text": text}] if text else []


def parts_from_wire(content: JsonValue) -> list[JsonObject]:
    """Return parts of a tool's output as message parts: text, image, or as they are."""
    if isinstance(content, str):
        return text_parts(content)
    if not isinstance(content, Sequence):
        return []
    parts: list[JsonObject] = []
    for part in content:
        if not isinstance(part, Mapping):
            continue
        text = part.get("text")
        url = part.get("image_url", part.get("imageUrl"))
        if isinstance(text, str):
            parts += text_parts(text)
        elif isinstance(url, str):
            parts.append({"type": "image", "url": url})
        else:
            parts.append(part)
    return parts


def _particulars(item: ThreadItem) -> JsonObject:
    match item:
        case CommandExecution(command=command, cwd=cwd):
            return {"command": redact(command), "cwd": cwd, **_measures(item)}
        case FileChange(paths=paths):
            return {"paths": list(paths)}
        case WebSearch(query=query):
            return {"query": redact(query)}
        case McpToolCall() | DynamicToolCall():
            return {"arguments": redact_value(item.arguments), **_measures(item)}
        case _:
            return {}


def _measures(item: ThreadItem) -> JsonObject:
    found: dict[str, JsonValue] = {}
    if isinstance(item, CommandExecution) and item.exit_code is not None:
        found["exit_code"] = item.exit_code
    if isinstance(item, CommandExecution) and item.source:
        found["source"] = item.source
    duration = item.raw.get("durationMs")
    if isinstance(duration, int | float) and not isinstance(duration, bool):
        found["duration_s"] = duration / 1000
    return found
