"""Put an assembled context in front of the current request as quoted text, and fit it.

The `prompt` carrier: one block of plain text that depends on nothing but its inputs. Knows nothing
of threads, of hooks or of where the text is sent. Source: spec D-01…D-29, D-42…D-48.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from treadle.model.message import USER, Message, text_of
from treadle.model.text import truncate, without_surrogates
from treadle.projection.rendering import (
    CONTEXT_TAG,
    PART_TRUNCATED,
    REQUEST_HEADING,
    is_request_heading,
    rendered_message,
)

CONTEXT_HEADER: Final = "OpenClaw assembled context for this turn:"
"""First line of the block (spec D-02)."""

_BEFORE_CONTEXT: Final = f"{CONTEXT_HEADER}\n\n<{CONTEXT_TAG}>\n"
_AFTER_CONTEXT: Final = f"\n</{CONTEXT_TAG}>\n\n{REQUEST_HEADING}\n"

DEFAULT_CONTEXT_CHARS: Final = 24_000
MAX_CONTEXT_CHARS: Final = 1_000_000
CHARS_PER_TOKEN: Final = 4
DEFAULT_RESERVE_TOKENS: Final = 20_000
MIN_REMAINING_TOKENS: Final = 8_000
MIN_PART_CHARS: Final = 6_000
MAX_PART_CHARS: Final = 128_000
TURN_INPUT_LIMIT: Final = 1_048_576
"""Characters that one `turn/start` takes (spec D-47)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextLimits:
    """How long the block and one of its parts may be, in characters."""

    max_context_chars: int = DEFAULT_CONTEXT_CHARS
    max_part_chars: int = MIN_PART_CHARS


def context_limits(
    token_budget: float | None, reserve_tokens: int = DEFAULT_RESERVE_TOKENS
) -> ContextLimits:
    """Return the limits for a token budget; None, 0, less or not finite means none is known.

    The reserve never takes more than leaves `min(8,000, budget / 2)` tokens. Source: spec D-42,
    D-43, D-45.
    """
    chars = DEFAULT_CONTEXT_CHARS
    if token_budget is not None and math.isfinite(token_budget) and token_budget > 0:
        budget = int(token_budget)
        remaining = min(MIN_REMAINING_TOKENS, max(1, budget // 2))
        reserve = min(max(0, reserve_tokens), max(0, budget - remaining))
        chars = (budget - reserve) * CHARS_PER_TOKEN
    chars = min(MAX_CONTEXT_CHARS, max(DEFAULT_CONTEXT_CHARS, chars))
    return ContextLimits(
        max_context_chars=chars,
        max_part_chars=min(MAX_PART_CHARS, max(MIN_PART_CHARS, chars // 4)),
    )


def reserve_tokens_from(reserve: int | None, floor: int | None) -> int:
    """Return the reserve that `reserveTokens` and `reserveTokensFloor` ask for (spec D-44)."""
    if reserve is None:
        return DEFAULT_RESERVE_TOKENS if floor is None else floor
    return max(reserve, DEFAULT_RESERVE_TOKENS if floor is None else floor)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectionInput:
    """What is projected (spec D-01)."""

    assembled_messages: Sequence[Message]
    original_history_messages: Sequence[Message]
    prompt: str
    system_prompt_addition: str | None = None
    max_context_chars: int = DEFAULT_CONTEXT_CHARS
    max_part_chars: int = MIN_PART_CHARS


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectedPrompt:
    """The turn's text and where its parts go (spec D-01)."""

    developer_instruction_addition: str | None
    """Trimmed; None where the engine has none (spec D-07)."""

    prompt_text: str
    assembled_messages: Sequence[Message]
    """The list that was given, the duplicate of the prompt included (spec D-08)."""

    pre_prompt_message_count: int
    """Length of the original history, not of the assembled list (spec D-08)."""

    context_range: tuple[int, int] | None
    """Where the rendered messages stand in `prompt_text`; None without a block (spec D-11)."""


def project_prompt(given: ProjectionInput) -> ProjectedPrompt:
    """Return the block with the request behind it, or the request alone (spec D-02, D-06)."""
    prompt = without_surrogates(given.prompt).strip()
    messages = without_trailing_prompt(given.assembled_messages, prompt)
    context = rendered_context(messages, given.max_context_chars, given.max_part_chars)
    text = f"{_BEFORE_CONTEXT}{context}{_AFTER_CONTEXT}{prompt}"
    at = len(_BEFORE_CONTEXT)
    addition = without_surrogates(given.system_prompt_addition or "").strip()
    return ProjectedPrompt(
        developer_instruction_addition=addition or None,
        prompt_text=text if context else prompt,
        assembled_messages=given.assembled_messages,
        pre_prompt_message_count=len(given.original_history_messages),
        context_range=(at, at + len(context)) if context else None,
    )


def without_trailing_prompt(messages: Sequence[Message], prompt: str) -> Sequence[Message]:
    """Return the messages without a last one that repeats the prompt (spec D-12, D-13)."""
    wanted = without_surrogates(prompt).strip()
    if not wanted or not messages:
        return messages
    last = messages[-1]
    if last.role != USER or without_surrogates(text_of(last)).strip() != wanted:
        return messages
    return messages[:-1]


def rendered_context(messages: Sequence[Message], max_chars: int, max_part_chars: int) -> str:
    """Return the messages as text, one empty line between them, the oldest text cut (D-46)."""
    rendered = (rendered_message(message, max_part_chars) for message in messages)
    return keep_tail("\n\n".join(text for text in rendered if text), max_chars)


_OLDER: Final = "[truncated {dropped} chars from older context]"
OLDER_LINE: Final = re.compile(r"\[truncated (\d{1,15}) chars from older context\](?:\n|\Z)")
"""First line of a context whose oldest text was dropped (spec D-46)."""


def keep_tail(text: str, limit: int) -> str:
    """Drop the oldest text so that a line that says so and the rest have at most `limit` chars.

    Cut a second time, the line counts both cuts. Leading blanks of the rest are removed; a limit of
    0 or less gives the empty text, one smaller than the line the cut line. Source: spec D-46.
    """
    if limit <= 0:
        return ""
    if len(text) <= limit:
        return text
    dropped_before = 0
    if found := OLDER_LINE.match(text):
        dropped_before, text = int(found.group(1)), text[found.end() :]
    room = min(limit, len(text))
    while True:
        tail = _clean_tail(text[len(text) - room :]) if room > 0 else ""
        line = _OLDER.replace("{dropped}", str(dropped_before + len(text) - len(tail)))
        if not tail:
            return line[:limit]
        excess = len(line) + 1 + len(tail) - limit
        if excess <= 0:
            return f"{line}\n{tail}"
        room = len(tail) - excess


def _clean_tail(tail: str) -> str:
    """Return the tail without leading blanks; a cut may not lay the request heading bare."""
    tail = tail.lstrip()
    while tail:
        line, _, rest = tail.partition("\n")
        if not is_request_heading(line):
            break
        tail = rest.lstrip()
    return tail


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnInput:
    """The text of a turn before it is fitted: `before`, the projected text, `after`.

    `before` is reference and inbound context (spec D-48) and what hooks prepend, `after` what they
    append; each comes with the line ends that part it from its neighbour.
    """

    prompt_text: str
    context_range: tuple[int, int] | None = None
    before: str = ""
    after: str = ""
    limit: int = TURN_INPUT_LIMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedInput:
    """The text as it is sent, and what had to go, in characters."""

    text: str
    context_range: tuple[int, int] | None
    """Where the context stands in `text`; None where there is none (left)."""

    dropped_context: int = 0
    dropped_other: int = 0
    """Of what hooks and references gave, or, where nothing else was left, of the request."""

    @property
    def is_cut(self) -> bool:
        """Whether anything is missing (it is marked in the text, and to be logged: spec E-07)."""
        return self.dropped_context > 0 or self.dropped_other > 0


def fit_turn_input(given: TurnInput) -> FittedInput:
    """Return the text within the limit; first the context shrinks, then what was appended.

    Then what stands in front; the request goes last, cut at the limit. With an empty request the
    tail of what was appended survives. Source: spec D-47, decision 25.
    """
    start, end = given.context_range or (0, 0)
    head, context, request = (
        given.prompt_text[:start],
        given.prompt_text[start:end],
        given.prompt_text[end:],
    )
    fixed = len(given.before) + len(head) + len(request) + len(given.after)
    fitted_context = keep_tail(context, min(len(context), given.limit - fixed))
    dropped_context = len(context) - len(fitted_context)
    before, after = given.before, given.after
    framed = head + fitted_context + request
    over = len(before) + len(framed) + len(after) - given.limit
    if over > 0:
        has_request = bool(request.removeprefix(_AFTER_CONTEXT).strip())
        squeeze = _with_request if has_request else _without_request
        before, framed, after = squeeze(before, framed, after, given.limit)
    at = len(before) + len(head)
    left = bool(fitted_context) and len(framed) == len(head + fitted_context + request)
    return FittedInput(
        text=before + framed + after,
        context_range=(at, at + len(fitted_context)) if left else None,
        dropped_context=dropped_context,
        dropped_other=max(0, over),
    )


def _with_request(before: str, framed: str, after: str, limit: int) -> tuple[str, str, str]:
    after = truncate(after, max(0, limit - len(before) - len(framed)), PART_TRUNCATED)
    before = truncate(before, max(0, limit - len(framed)), PART_TRUNCATED)
    return before, framed[:limit], after


def _without_request(before: str, framed: str, after: str, limit: int) -> tuple[str, str, str]:
    before = truncate(before, max(0, limit - len(framed) - len(after)), PART_TRUNCATED)
    room = limit - len(before) - len(framed)
    if room <= 0:
        return "", "", (framed + after)[-limit:] if limit > 0 else ""
    return before, framed, after[-room:]
