"""A history with the look-ups that the rules share, and how a rule says what is wrong.

Knows nothing of the rules.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeVar

from bench.reliability.history import (
    IN_PLACE,
    KILLS,
    Asked,
    CommitRow,
    EngineCall,
    EntryRow,
    History,
    InboxRow,
    Process,
)

T = TypeVar("T")

FINAL: Final = frozenset({"answered", "failed", "cancelled", "unknown"})
"""States of the inbox in which a message stays."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Violation:
    """A promise that was broken, and by what."""

    promise: str
    """As `INV-3`."""

    what: str
    """One of the words that the rules know; the planted faults name it."""

    text: str
    session: str = ""
    message: str = ""
    """The message concerned; where several are, the text names the others."""

    def __str__(self) -> str:
        """Return it on one line."""
        place = " ".join(
            part
            for part in (
                f"session {self.session}" if self.session else "",
                f"message {self.message}" if self.message else "",
            )
            if part
        )
        return f"{self.promise} {self.what}: {self.text}" + (f" ({place})" if place else "")


def grouped(values: Iterable[tuple[str, T]]) -> dict[str, list[T]]:
    """Return the values by their keys, both in the order given."""
    found: defaultdict[str, list[T]] = defaultdict(list)
    for key, value in values:
        found[key].append(value)
    return dict(found)


@dataclass(frozen=True)
class Found:
    """A history and what can be looked up in it."""

    history: History

    @cached_property
    def message_of(self) -> dict[tuple[str, str], str]:
        """The message by session and client id."""
        return {(one.session, one.client_id): one.message for one in self.history.sent}

    @cached_property
    def session_of(self) -> dict[str, str]:
        """The session of each message."""
        return {one.message: one.session for one in self.history.sent}

    @cached_property
    def rows(self) -> dict[tuple[str, str], InboxRow]:
        """The inbox by session and client id; the first where there are several."""
        found: dict[tuple[str, str], InboxRow] = {}
        for row in self.history.database.inbox:
            found.setdefault((row.session, row.client_id), row)
        return found

    @cached_property
    def row_of(self) -> dict[str, InboxRow]:
        """The inbox by message."""
        return {
            self.message_of[place]: row
            for place, row in self.rows.items()
            if place in self.message_of
        }

    @cached_property
    def message_of_run(self) -> dict[str, str]:
        """The message of each run."""
        return {row.run_id: message for message, row in self.row_of.items()}

    @cached_property
    def rows_by_session(self) -> dict[str, list[InboxRow]]:
        """The inbox of each session in the order of acceptance."""
        rows = sorted(self.rows.values(), key=lambda row: row.seq)
        return grouped((row.session, row) for row in rows)

    @cached_property
    def entries_by_generation(self) -> dict[str, list[EntryRow]]:
        """The entries of each generation, by depth."""
        rows = sorted(self.history.database.entries, key=lambda row: row.depth)
        return grouped((row.session_id, row) for row in rows)

    @cached_property
    def entries_by_run(self) -> dict[str, list[EntryRow]]:
        """The entries of each run, by depth."""
        rows = sorted(self.history.database.entries, key=lambda row: row.depth)
        return grouped((row.run_id, row) for row in rows)

    @cached_property
    def commit_of_run(self) -> dict[str, CommitRow]:
        """The engine's outbox by run."""
        return {row.run_id: row for row in self.history.database.commits}

    @cached_property
    def assembled(self) -> frozenset[str]:
        """Messages for whose turn the engine was asked what the model shall see."""
        return frozenset(call.message for call in self.history.engine if call.call == "assemble")

    @cached_property
    def effects(self) -> dict[str, list[EngineCall]]:
        """The commits that changed the engine's records, by message."""
        return grouped((call.message, call) for call in self.history.engine if call.effect)

    @cached_property
    def asked_by_session(self) -> dict[str, list[Asked]]:
        """The model requests of each session whose message is known."""
        return grouped(
            (self.session_of[one.message], one)
            for one in self.history.asked
            if one.message in self.session_of
        )

    @cached_property
    def up(self) -> tuple[tuple[float, float], ...]:
        """When a gateway served and nothing hindered it: spans of time, in order.

        The fault of one session or peer hinders only that one.
        """
        served = [
            (one.ready_t, one.ended_t or self.history.ended_t)
            for one in self.history.processes
            if one.kind == "gateway" and one.ready_at
        ]
        hindered = [
            (fault.t, fault.until_t)
            for fault in self.history.faults
            if fault.kind not in KILLS | IN_PLACE
        ]
        return tuple(without(sorted(served), sorted(hindered)))

    def up_s(self, begin: float, end: float) -> float:
        """Return for how many seconds between two times the gateway could do its work."""
        return sum(max(0.0, min(end, stop) - max(begin, start)) for start, stop in self.up)

    def process_at(self, pid: int, at: int) -> Process | None:
        """Return the process that had a pid at a time."""
        lives = [one for one in self.history.processes if one.pid == pid and one.started_at <= at]
        return max(lives, key=lambda one: one.started_at, default=None)


def without(
    spans: Iterable[tuple[float, float]], holes: Iterable[tuple[float, float]]
) -> Iterator[tuple[float, float]]:
    """Yield what is left of the spans; both are sorted, and holes may overlap."""
    gaps = list(holes)
    for start, stop in spans:
        begin = start
        for gap_start, gap_stop in gaps:
            if gap_stop <= begin or gap_start >= stop:
                continue
            if gap_start > begin:
                yield begin, gap_start
            begin = max(begin, gap_stop)
        if begin < stop:
            yield begin, stop
