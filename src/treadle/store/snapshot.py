"""A transcript as it stood at one moment, read page by page when somebody looks.

Knows nothing of SQL or of who reads. Since entries never change and are only ever added behind, the
branches and their ends are all that must be remembered; no transaction is held open.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, overload

from treadle.contract.store import TranscriptSnapshot
from treadle.model.ids import EntryId, SessionId
from treadle.model.message import Entry, Message, StoredMessage
from treadle.store.driver import Connection, Driver, Row
from treadle.store.recent import RecentMessages
from treadle.store.rows import entry_from_row, message_from_row, stored_from_row

PAGE_ROWS: Final = 256
"""Rows that are read at once: some 30 µs of SQLite, and little memory even for long messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """What one branch contributes to a path: `[start, stop)` of depths, and of positions."""

    branch: int
    start_depth: int
    stop_depth: int
    start: int
    stop: int


def segments_of(path: Sequence[Row]) -> tuple[Segment, ...]:
    """Return the segments of the rows of `branch_path`, the root first, without empty ones."""
    found: list[Segment] = []
    stop_depth = stop = None
    for branch, fork_depth, fork_position, entry_count, message_count in reversed(path):
        stop_depth = entry_count if stop_depth is None else stop_depth
        stop = message_count if stop is None else stop
        if fork_depth < stop_depth:
            found.append(
                Segment(
                    branch=branch,
                    start_depth=fork_depth,
                    stop_depth=stop_depth,
                    start=fork_position,
                    stop=stop,
                )
            )
        stop_depth, stop = min(stop_depth, fork_depth), min(stop, fork_position)
    return tuple(reversed(found))


class SqlSnapshot(TranscriptSnapshot):
    """`TranscriptSnapshot` over a driver; any thread may read it while the store is open."""

    def __init__(
        self,
        driver: Driver,
        session_id: SessionId,
        segments: tuple[Segment, ...],
        recent: RecentMessages,
    ) -> None:
        self._driver = driver
        self._recent = recent
        self._session_id = session_id
        self._segments = segments
        self._length = segments[-1].stop if segments else 0
        self._rows_read = 0

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | Sequence[Message]:
        """Return one message, or a new list of them. Raises: IndexError, StoreError."""
        if isinstance(index, slice):
            return self._slice(range(self._length)[index])
        position = range(self._length)[index]
        return next(self._read(position, position + 1))

    def __iter__(self) -> Iterator[Message]:
        return self._read(0, self._length)

    def __reversed__(self) -> Iterator[Message]:
        return self._read_back(0, self._length)

    def __repr__(self) -> str:
        return f"<{self._length} messages of {self._session_id}>"

    @property
    def rows_read(self) -> int:
        """See `TranscriptSnapshot`."""
        return self._rows_read

    def shared(self, start: int, stop: int) -> Sequence[Message]:
        """See `TranscriptSnapshot`; both ends are taken as those of a slice are."""
        first, last, _ = slice(start, stop).indices(self._length)
        return [
            message
            for part in self._segments
            if part.start < last and first < part.stop
            for message in self._recent.read(
                (self._session_id, part.branch),
                max(first, part.start),
                min(last, part.stop),
                partial(self._stored, part.branch),
            )
        ]

    def _stored(self, branch: int, start: int, stop: int) -> list[tuple[StoredMessage, int]]:
        def read(connection: Connection) -> list[Row]:
            return connection.rows("stored_by_position", branch=branch, start=start, stop=stop)

        return [stored_from_row(row) for row in self._count(self._driver.read_now(read))]

    def prefix(self, count: int) -> SqlSnapshot:
        """See `TranscriptSnapshot`."""
        kept = tuple(
            replace(part, stop=min(part.stop, count))
            for part in self._segments
            if part.start < count
        )
        return SqlSnapshot(self._driver, self._session_id, kept, self._recent)

    def entries(self, start: int, stop: int) -> tuple[Entry, ...]:
        """See `TranscriptSnapshot`; both ends are taken as those of a slice are."""
        first, last, _ = slice(start, stop).indices(self._length)
        return tuple(
            entry_from_row(row)
            for low, high in _pages(first, last)
            for row in self._rows("entries_by_position", low, high)
        )

    def entries_by_id(self, ids: Sequence[EntryId]) -> dict[EntryId, Entry]:
        """See `TranscriptSnapshot`; in the order asked for."""
        found: dict[EntryId, Entry] = {}
        for low, high in _pages(0, len(ids)):
            wanted = json.dumps(ids[low:high])

            def find(connection: Connection, wanted: str = wanted) -> list[Row]:
                return connection.rows("entries_by_id", ids=wanted)

            for row in self._count(self._driver.read_now(find)):
                if self._holds(branch=row[17], position=row[3]):
                    found[EntryId(row[0])] = entry_from_row(row)
        return found

    def _slice(self, wanted: range) -> list[Message]:
        if not wanted:
            return []
        if abs(wanted.step) > PAGE_ROWS:
            return [self[position] for position in wanted]
        if wanted.step > 0:
            return [
                message_from_row(row)
                for low, high in _pages(wanted[0], wanted[-1] + 1)
                for row in self._rows("messages_by_position", low, high)
            ][:: wanted.step]
        return list(self._read_back(wanted[-1], wanted[0] + 1))[:: -wanted.step]

    def _read(self, start: int, stop: int) -> Iterator[Message]:
        for low, high in _pages(start, stop):
            for row in self._rows("messages_by_position", low, high):
                yield message_from_row(row)

    def _read_back(self, start: int, stop: int) -> Iterator[Message]:
        for high in range(stop, start, -PAGE_ROWS):
            low = max(start, high - PAGE_ROWS)
            for row in reversed(self._rows("messages_by_position", low, high)):
                yield message_from_row(row)

    def _rows(self, query: str, start: int, stop: int) -> list[Row]:
        """Read the rows of positions `start…stop` from the branches that they lie on."""

        def read(connection: Connection) -> list[Row]:
            return [
                row
                for part in self._segments
                if part.start < stop and start < part.stop
                for row in connection.rows(
                    query,
                    branch=part.branch,
                    start=max(start, part.start),
                    stop=min(stop, part.stop),
                )
            ]

        return self._count(self._driver.read_now(read))

    def _count(self, rows: list[Row]) -> list[Row]:
        self._rows_read += len(rows)
        return rows

    def _holds(self, *, branch: int, position: int) -> bool:
        return any(
            part.branch == branch and part.start <= position < part.stop for part in self._segments
        )


def _pages(start: int, stop: int) -> Iterator[tuple[int, int]]:
    for low in range(start, stop, PAGE_ROWS):
        yield low, min(stop, low + PAGE_ROWS)
