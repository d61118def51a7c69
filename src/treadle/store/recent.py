"""The newest messages of the branches that were read last, kept for readers that change nothing.

A branch only grows and its entries never change, so what was read once need not be read again: each
turn costs the messages that came since the last one. Knows nothing of SQL or of who reads.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from treadle.model.ids import SessionId
from treadle.model.message import StoredMessage

RUNS_MOST: Final = 8
"""Branches of which something is kept."""

MESSAGES_MOST: Final = 512
"""Messages that are kept of one branch."""

CHARS_MOST: Final = 1_000_000
"""Characters of JSON that are kept of one branch; some 1 to 3 MB once they are decoded."""

Branch = tuple[SessionId, int]
"""A session generation and a branch on its path: numbers of branches are used again after a purge,
ids of generations never are."""

Fetch = Callable[[int, int], list[tuple[StoredMessage, int]]]
"""Reads the messages of positions `start…stop`, each with the characters of its content as JSON."""


@dataclass(slots=True)
class _Run:
    """Messages of one branch without a gap, from a position on."""

    start: int
    messages: list[StoredMessage] = field(default_factory=list)
    chars: list[int] = field(default_factory=list)

    @property
    def stop(self) -> int:
        return self.start + len(self.messages)

    @property
    def is_worth_keeping(self) -> bool:
        return len(self.messages) <= MESSAGES_MOST and sum(self.chars) <= CHARS_MOST

    def add(self, found: list[tuple[StoredMessage, int]]) -> None:
        for message, chars in found:
            self.messages.append(message)
            self.chars.append(chars)

    def forget_before(self, position: int) -> None:
        gone = position - self.start
        del self.messages[:gone], self.chars[:gone]
        self.start = position


class RecentMessages:
    """Keeps runs of messages; safe to use from several threads."""

    def __init__(self) -> None:
        self._runs: OrderedDict[Branch, _Run] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, branch: Branch, start: int, stop: int, fetch: Fetch) -> list[StoredMessage]:
        """Return the messages of positions `start…stop`, fetching those that are not kept.

        A run is nobody else's while it is read: who comes meanwhile fetches his own. Raises: what
        `fetch` raises; nothing is kept then.
        """
        with self._lock:
            run = self._runs.pop(branch, None)
        if run is None or not run.start <= start <= run.stop:
            run = _Run(start)
        run.forget_before(start)
        if run.stop < stop:
            run.add(fetch(run.stop, stop))
        found = run.messages[: stop - start]
        if run.is_worth_keeping:
            self._keep(branch, run)
        return found

    def _keep(self, branch: Branch, run: _Run) -> None:
        with self._lock:
            self._runs[branch] = run
            while len(self._runs) > RUNS_MOST:
                self._runs.popitem(last=False)
