"""The JSON value type that crosses our doors, and its canonical bytes.

Knows nothing of what the values mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256

import msgspec

JsonValue = None | bool | int | float | str | Sequence["JsonValue"] | Mapping[str, "JsonValue"]
"""Anything JSON can say. Lists and objects are read-only to those who receive them."""

JsonObject = Mapping[str, JsonValue]
"""A JSON object."""

_CANONICAL = msgspec.json.Encoder(order="sorted")


def canonical(value: JsonValue) -> bytes:
    """Encode with sorted keys, no blanks and UTF-8, so that equal values give equal bytes.

    Raises: UnicodeEncodeError for a lone surrogate (see `model.text.without_surrogates`).
    """
    return _CANONICAL.encode(value)


def digest(value: JsonValue) -> str:
    """Return the SHA-256 of the canonical bytes as 64 hex digits."""
    return sha256(_CANONICAL.encode(value)).hexdigest()
