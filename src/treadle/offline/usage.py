"""Tell what a request would cost: tokens of its input, and how many of them a cache would hold.

Knows nothing of answers or of HTTP. The rule for cached tokens is decision 26; `CacheLedger` is
also what the benchmarks measure with.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from weakref import WeakValueDictionary

import msgspec

from treadle.model.json import JsonObject, JsonValue
from treadle.model.text import without_surrogates
from treadle.protocol.responses import item_kind
from treadle.tokens import Counter

CACHE_STEP = 128
"""Tokens; cached prefixes are rounded down to a multiple of it."""

CACHE_MINIMUM = 1_024
"""Tokens; a shorter common prefix counts as none."""

IMAGE_TOKENS = 765
"""Tokens charged for an image, whatever its size (a square one of 1,024 pixels). Its data is never
counted as text."""

KEEP_REQUESTS = 512
"""Earlier requests that are remembered; one that a later one wholly repeats is not kept."""

KEEP_CHARS = 64 * 1024 * 1024
"""Characters of earlier requests that are remembered, each counted as if it shared nothing."""

_UNSEEN = frozenset({"id", "internal_chat_message_metadata_passthrough"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts of one request."""

    input_tokens: int
    cached_tokens: int
    """Decision 26: common with an earlier request of the same `prompt_cache_key`."""

    cached_any_key_tokens: int
    """The same figure without the condition on the key."""

    output_tokens: int
    exact: bool
    """False if the counter estimates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cached:
    """Token counts of one input, before it is answered."""

    input_tokens: int
    same_key_tokens: int
    any_key_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class _Piece:
    text: str
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    key: str
    pieces: tuple[_Piece, ...]
    chars: int


def rendered(body: JsonObject) -> list[tuple[str, int]]:
    """Write a request's input as texts, one for the tools and one for each item, with image counts.

    Ids and metadata are left out, so equal contents give equal texts. Each text is counted on its
    own: between items a real model sees marks that belong to no text.
    """
    head = [body[name] for name in ("instructions", "tools") if body.get(name)]
    items = body.get("input")
    listed = items if isinstance(items, list | tuple) else [items] if items else []
    return [_rendered(part) for part in (*head, *listed)]


def _rendered(part: JsonValue) -> tuple[str, int]:
    if not isinstance(part, Mapping):
        return (part if isinstance(part, str) else _json(part)), 0
    if item_kind(part) != "message":
        return _json({k: v for k, v in part.items() if k not in _UNSEEN}), 0
    content = part.get("content")
    if isinstance(content, str):
        return f"{part.get('role')}\n{content}", 0
    texts, images = [], 0
    for inner in content if isinstance(content, list | tuple) else ():
        if isinstance(inner, Mapping) and "image" in str(inner.get("type")):
            images += 1
            texts.append("[image]")
        elif isinstance(inner, Mapping):
            texts.append(str(inner.get("text") or ""))
    return "\n".join([str(part.get("role")), *texts]), images


def _json(value: JsonValue) -> str:
    try:
        return msgspec.json.encode(value, order="sorted").decode()
    except UnicodeEncodeError:
        return without_surrogates(repr(value))


class CacheLedger:
    """Remembers inputs and says how much of a new one an earlier one began with.

    Bounded by `keep_requests` and `keep_chars`: beyond them the oldest is forgotten. Not safe for
    several threads at once.
    """

    def __init__(
        self,
        counter: Counter,
        *,
        keep_requests: int = KEEP_REQUESTS,
        keep_chars: int = KEEP_CHARS,
    ) -> None:
        self._counter = counter
        self._keep_requests = keep_requests
        self._keep_chars = keep_chars
        self._earlier: deque[_Request] = deque()
        self._pieces: WeakValueDictionary[str, _Piece] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._earlier)

    def record(self, body: JsonObject) -> Cached:
        """Count a request's input, compare it with the earlier ones, and remember it."""
        key = str(body.get("prompt_cache_key") or "")
        pieces = tuple(self._piece(text, images) for text, images in rendered(body))
        request = _Request(key=key, pieces=pieces, chars=sum(len(p.text) for p in pieces))
        cached = Cached(
            input_tokens=sum(piece.tokens for piece in pieces),
            same_key_tokens=self._cached(request, (r for r in self._earlier if r.key == key)),
            any_key_tokens=self._cached(request, self._earlier),
        )
        self._remember(request)
        return cached

    def _piece(self, text: str, images: int) -> _Piece:
        piece = self._pieces.get(text)
        if piece is None:
            tokens = self._counter.count(text) + images * IMAGE_TOKENS
            piece = _Piece(text=text, tokens=tokens)
            self._pieces[text] = piece
        return piece

    def _cached(self, request: _Request, earlier: Iterable[_Request]) -> int:
        shared = self._shared_tokens(request.pieces, [r.pieces for r in earlier])
        return shared - shared % CACHE_STEP if shared >= CACHE_MINIMUM else 0

    def _shared_tokens(self, pieces: Sequence[_Piece], others: Sequence[Sequence[_Piece]]) -> int:
        whole = [(_common(pieces, other), other) for other in others]
        most = max((same for same, _ in whole), default=0)
        tokens = sum(piece.tokens for piece in pieces[:most])
        if most == len(pieces):
            return tokens
        # Only those that share most whole pieces can share most tokens.
        differing = {other[most].text for same, other in whole if same == most < len(other)}
        text = pieces[most].text
        return tokens + max((self._counter.shared_prefix(text, d) for d in differing), default=0)

    def _remember(self, request: _Request) -> None:
        """Keep the request; drop those of its key that it wholly repeats, then the oldest."""
        kept = deque(r for r in self._earlier if not _repeats(request, r))
        kept.append(request)
        chars = sum(r.chars for r in kept)
        while len(kept) > 1 and (len(kept) > self._keep_requests or chars > self._keep_chars):
            chars -= kept.popleft().chars
        self._earlier = kept


def _common(one: Sequence[_Piece], other: Sequence[_Piece]) -> int:
    """Count the pieces that both begin with; equal texts are one object."""
    pairs: Iterator[tuple[_Piece, _Piece]] = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a is not b), min(len(one), len(other)))


def _repeats(request: _Request, earlier: _Request) -> bool:
    begun = request.pieces[: len(earlier.pieces)]
    return request.key == earlier.key and _common(begun, earlier.pieces) == len(earlier.pieces)
