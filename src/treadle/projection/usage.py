"""Read what the app-server reports of tokens; a number that was not reported stays unknown.

Knows nothing of turns or events. Source: spec G-13…G-15, G-28.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from treadle.contract.engine import LastCallUsage, PromptCache
from treadle.model.json import JsonObject, JsonValue
from treadle.model.turn import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReading:
    """The usage of the last model response of a thread."""

    usage: Usage
    context_tokens: int | None
    """How much of the window that response filled; None unless its numbers agree (spec G-15)."""


def usage_from_wire(params: JsonObject) -> UsageReading | None:
    """Read `thread/tokenUsage/updated`; None if it is malformed. Source: spec G-13."""
    given = params.get("tokenUsage")
    last = given.get("last") if isinstance(given, Mapping) else None
    if not isinstance(given, Mapping) or not isinstance(last, Mapping):
        return None
    input_tokens, output = _count(last, "inputTokens"), _count(last, "outputTokens")
    total = _count(last, "totalTokens")
    if input_tokens is None or output is None:
        return None
    cached, written = _count(last, "cachedInputTokens"), _count(last, "cacheWriteInputTokens")
    agrees = total == input_tokens + output and (cached or 0) <= input_tokens
    return UsageReading(
        usage=Usage(
            input=max(0, input_tokens - (cached or 0) - (written or 0)),
            output=output,
            cache_read=cached,
            cache_write=written,
            reasoning=_count(last, "reasoningOutputTokens"),
            total=input_tokens + output if total is None else total,
            window=_count(given, "modelContextWindow"),
        ),
        context_tokens=total if agrees else None,
    )


def last_call_usage(usage: Usage) -> LastCallUsage:
    """Return what an engine's runtime context says of the last model call (spec G-14, I-22)."""
    return LastCallUsage(
        input=usage.input,
        output=usage.output,
        total=usage.total,
        cache_read=usage.cache_read,
        cache_write=usage.cache_write,
    )


def prompt_cache(usage: Usage, *, model: str | None, observed_at: float) -> PromptCache | None:
    """Return what was said of the prompt cache; None, not zeros, where nothing was (G-14, G-28)."""
    if usage.cache_read is None and usage.cache_write is None:
        return None
    return PromptCache(
        model=model, observed_at=observed_at, read=usage.cache_read, write=usage.cache_write
    )


def _count(fields: Mapping[str, JsonValue], key: str) -> int | None:
    value = fields.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        return None
    return value
