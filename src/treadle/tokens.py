"""Count tokens: exactly in the o200k vocabulary, or by an estimate that says so.

Knows nothing of messages, of what frames them, or of what a provider bills: callers add framing and
calibrate against reported usage.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from importlib.util import find_spec
from itertools import chain
from math import ceil
from typing import Protocol

SLICE_CHARS = 32_768
"""Characters handed to the tokenizer at once. It holds the interpreter lock at some 5-40 MB/s, so
a slice costs at most about 7 ms; what has no safe boundary (one word of 100,000 letters) stays
whole."""

BYTES_PER_TOKEN = 3.3
"""UTF-8 bytes per token of `EstimateCounter`: on the safe (high) side for prose and for code."""

_WORD = "A-Za-zÀ-ÖØ-öø-ÿЀ-ӿ\u3041-\u3096\u30a1-\u30fa\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3"
_BREAK = "\\s!-&(-/:-@\\[-`{-~\u3001\u3002\uff0c\uff1a\uff1b\uff01\uff1f"  # no apostrophe: `'s`
_BOUNDARY = re.compile(
    rf"(?<=\S)(?= )|(?<=[{_WORD}0-9])(?=[{_BREAK}])"
    rf"|(?<=[{_WORD}])(?=[0-9])|(?<=[0-9])(?=[{_WORD}])"
)


class Counter(Protocol):
    """Counts tokens of texts; safe to call from several threads."""

    @property
    def name(self) -> str:
        """Name and version of the way of counting, to be stored beside a count."""

    @property
    def exact(self) -> bool:
        """Whether counts are those of the vocabulary, not estimates."""

    def count(self, text: str) -> int:
        """Return the number of tokens of one text, counted on its own; 0 for the empty text."""

    def shared_prefix(self, one: str, other: str) -> int:
        """Return how many tokens both texts begin with in common."""


def slices(text: str, size: int = SLICE_CHARS) -> Iterator[str]:
    """Split a text where the vocabulary's own splitting pattern splits it too.

    Joined, the slices are the text; their token lists joined are the text's token list. That holds
    because a cut stands only where a new piece begins whatever surrounds it: before a blank that
    follows a non-blank, and between a letter or digit and a character that continues neither a
    word, a number nor a contraction. A slice is `size` characters or more: it ends at the first
    such place. The empty text gives no slice.
    """
    start = 0
    while len(text) - start > size and (found := _BOUNDARY.search(text, start + size)):
        yield text[start : found.start()]
        start = found.start()
    if start < len(text):
        yield text[start:]


class ExactCounter:
    """Counts o200k tokens with rs-bpe; the vocabulary is loaded at the first count (0.1 s, 75 MB).

    A lone surrogate, which is not text, counts as U+FFFD.
    """

    name = "o200k_base/rs-bpe-1"
    exact = True

    @cached_property
    def _tokenizer(self) -> _Tokenizer:
        from rs_bpe.bpe import openai  # here: 0.1 s and 75 MB that `--help` must not pay

        tokenizer: _Tokenizer = openai.o200k_base()
        return tokenizer

    def count(self, text: str) -> int:
        """Return the number of o200k tokens."""
        return sum(self._tokenizer.count(part) for part in slices(_encodable(text)))

    def tokens(self, text: str) -> list[int]:
        """Return the o200k tokens themselves, in order."""
        encode = self._tokenizer.encode
        return list(chain.from_iterable(encode(part) for part in slices(_encodable(text))))

    def shared_prefix(self, one: str, other: str) -> int:
        """Return the length of the longest common prefix of both token lists."""
        left, right = self.tokens(one), self.tokens(other)
        if left == right[: len(left)]:
            return len(left)
        return next(
            (at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), len(right)
        )


class EstimateCounter:
    """Estimates from the number of UTF-8 bytes; for platforms without a tokenizer wheel."""

    name = "estimate/bytes-1"
    exact = False

    def count(self, text: str) -> int:
        """Return an estimate that is rather too high than too low for prose and code."""
        return ceil(len(text.encode("utf-8", "surrogatepass")) / BYTES_PER_TOKEN)

    def shared_prefix(self, one: str, other: str) -> int:
        """Return the estimate for the longest common prefix in characters."""
        return self.count(one[: _common_length(one, other)])


def open_counter() -> ExactCounter | EstimateCounter:
    """Return the exact counter where its wheel is installed, else the estimator.

    Loads nothing yet. Whoever shows a number of the estimator says so (`exact`).
    Source: decision 18.
    """
    return ExactCounter() if find_spec("rs_bpe") is not None else EstimateCounter()


class _Tokenizer(Protocol):
    def count(self, text: str) -> int: ...

    def encode(self, text: str) -> list[int]: ...


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return re.sub("[\ud800-\udfff]", "\ufffd", text)
    return text


def _common_length(one: str, other: str) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
