"""Run a dynamic tool that Codex calls back, and put what it answers into Codex's terms.

A call never fails as a request: whatever happens is a result that the model can read, so that the
turn goes on (spec K-12, K-17). Knows nothing of where tools come from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from treadle.contract.tool import DynamicTool, ToolCall, ToolImage, ToolResult, ToolText
from treadle.foreign import ForeignAborted, ForeignCalls, ForeignFailure, ForeignTimeout
from treadle.model.json import JsonObject
from treadle.model.text import redact, truncate, without_surrogates
from treadle.observe import emit
from treadle.tools.catalog import ToolSet

MAX_RESULT_CHARS: Final = 16_000
"""Characters of text in one result, over all its parts (spec K-15)."""

DEFAULT_S: Final = 90.0
"""Seconds for a tool without a time of its own (spec K-16)."""

MOST_S: Final = 600.0
"""Seconds that no call may exceed (spec K-16)."""

GRACE_S: Final = 30.0
"""Seconds added to a time that the model set for the tool's own work (spec K-16)."""


def deadline_s(tool: DynamicTool, arguments: JsonObject, default_s: float = DEFAULT_S) -> float:
    """Return the seconds that a call may take.

    First a positive `timeoutMs` among the arguments, then a positive whole `timeoutSeconds` plus
    30, then the tool's own, then the default; never more than 600. Source: spec K-16.
    """
    in_ms = arguments.get("timeoutMs")
    if isinstance(in_ms, int | float) and not isinstance(in_ms, bool) and in_ms > 0:
        return min(in_ms / 1000, MOST_S)
    in_s = arguments.get("timeoutSeconds")
    if isinstance(in_s, int) and not isinstance(in_s, bool) and in_s > 0:
        return min(in_s + GRACE_S, MOST_S)
    return min(tool.timeout_s if tool.timeout_s and tool.timeout_s > 0 else default_s, MOST_S)


class ToolCaller:
    """Calls tools."""

    def __init__(
        self,
        foreign: ForeignCalls,
        *,
        max_result_chars: int = MAX_RESULT_CHARS,
        default_s: float = DEFAULT_S,
    ) -> None:
        self._foreign = foreign
        self._max_chars = max_result_chars
        self._default_s = default_s

    async def call(self, tools: ToolSet, call: ToolCall) -> JsonObject:
        """Return `{contentItems, success}` for a call of one of these tools (spec K-09…K-17).

        Cancel: the tool is cancelled, or left to itself if it runs in a thread.
        """
        tool = tools.tools.get(call.name)
        if tool is None:
            return _failed(_why_not(tools, call.name))
        seconds = deadline_s(tool, call.arguments, self._default_s)
        emit("tool.called", tool=call.name, call_id=call.call_id)
        try:
            answer = await self._foreign.call(
                f"tool {call.name}", "call", tool.call, call, deadline_s=seconds
            )
        except ForeignTimeout:
            emit("tool.timed_out", tool=call.name, call_id=call.call_id, timeout_s=seconds)
            return _failed(f"The tool {call.name!r} did not answer within {seconds:g} s.")
        except ForeignAborted as aborted:
            return _failed(f"The tool {call.name!r} was stopped: {aborted.reason}.")
        except ForeignFailure as failure:
            emit("tool.failed", tool=call.name, call_id=call.call_id, reason=failure.reason)
            return _failed(self._fitting(_text_of(failure)))
        return self._settled(call, answer)

    def _settled(self, call: ToolCall, answer: object) -> JsonObject:
        result = _result_of(answer)
        if result is None:
            reason = f"it answered {type(answer).__name__}, neither a ToolResult nor a text"
            emit("tool.failed", tool=call.name, call_id=call.call_id, reason=reason)
            return _failed(f"The tool {call.name!r} is broken: {reason}.")
        emit("tool.settled", tool=call.name, call_id=call.call_id, success=result.success)
        return {"contentItems": self._items(result.content), "success": result.success}

    def _items(self, content: Sequence[ToolText | ToolImage]) -> list[JsonObject]:
        items: list[JsonObject] = []
        left = self._max_chars
        for part in content:
            if isinstance(part, ToolImage):
                items.append({"type": "inputImage", "imageUrl": part.data_url})
            elif left > 0:
                text = self._fitting(part.text, left)
                left -= len(text)
                items.append({"type": "inputText", "text": text})
        return items

    def _fitting(self, text: str, limit: int | None = None) -> str:
        room = self._max_chars if limit is None else limit
        return truncate(without_surrogates(text), room, "\n[… {dropped} more characters cut]")


def _result_of(answer: object) -> ToolResult | None:
    if isinstance(answer, str):
        return ToolResult(content=(ToolText(text=answer),))
    if not isinstance(answer, ToolResult) or not isinstance(answer.content, list | tuple):
        return None
    is_whole = all(
        (isinstance(part, ToolText) and isinstance(part.text, str))
        or (isinstance(part, ToolImage) and isinstance(part.data_url, str))
        for part in answer.content
    )
    return answer if is_whole else None


def _why_not(tools: ToolSet, name: str) -> str:
    if name in tools.known:
        return f"The tool {name!r} is not available for this turn."
    return f"The tool {truncate(name, 80)!r} is unknown."


def _text_of(failure: ForeignFailure) -> str:
    """Return an exception's text, for the model (spec K-12); its type where it has none."""
    cause = failure.__cause__
    try:
        text = redact(str(cause)).strip()
    except Exception:  # the tool call's door: an exception whose text raises
        text = ""
    return text or failure.reason


def _failed(text: str) -> JsonObject:
    items: list[Mapping[str, str]] = [{"type": "inputText", "text": text}]
    return {"contentItems": items, "success": False}
