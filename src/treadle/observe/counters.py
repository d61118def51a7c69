"""Named counters that `doctor` and the health page read. Knows nothing of what is counted."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping

_NAME = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)+")


class Counters:
    """Counts by dotted name (`wire.unknown_methods`); may be used from any thread.

    Starts empty; a name exists from its first `add`. Source: INV-25.
    """

    __slots__ = ("_counts", "_lock")

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._lock = threading.Lock()

    def add(self, name: str, count: int = 1) -> int:
        """Add to a counter and return its new value.

        Raises: ValueError for a name that is not dotted lower case.
        """
        if _NAME.fullmatch(name) is None:
            raise ValueError(f"{name!r} is no counter name; write noun.what_is_counted")
        with self._lock:
            total = self._counts.get(name, 0) + count
            self._counts[name] = total
        return total

    def value(self, name: str) -> int:
        """Return the count; 0 for what was never counted."""
        return self._counts.get(name, 0)

    def snapshot(self) -> Mapping[str, int]:
        """Return a copy of all counts, sorted by name."""
        with self._lock:
            return dict(sorted(self._counts.items()))
