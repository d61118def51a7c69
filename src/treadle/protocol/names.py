"""Check ids that end up in the app-server's arguments or calls; knows nothing of what exists.

An id may never look like an option (`--config=x`, `-c`) nor hold a line break. Source: RS41.
"""

from __future__ import annotations

import re
from typing import Final

from treadle.model.errors import UsageError

_MODEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}")


def checked_model_id(text: str) -> str:
    """Return the text as a model id, with or without its provider. Raises: UsageError."""
    return _checked(text, _MODEL, "model")


def _checked(text: str, pattern: re.Pattern[str], what: str) -> str:
    if pattern.fullmatch(text) is None:
        raise UsageError(
            f"{text[:80]!r} is no {what}: it starts with a letter or digit and holds only"
            f" {pattern.pattern[11:].partition(']')[0]} after it",
            next_step=f"Check the {what}.",
        )
    return text
