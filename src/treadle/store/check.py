"""The doctor's look at a whole store: pages, references, depths, hashes, chains, the index.

Reads everything and changes nothing. Knows nothing of how to repair what it finds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from treadle.model.errors import StoreError
from treadle.model.message import content_hash
from treadle.store.driver import Connection
from treadle.store.files import beside
from treadle.store.rows import decoded
from treadle.store.sqlite import SqliteConnection, library_version
from treadle.store.threads import next_chain

MAX_FAULTS: Final = 20
"""Faults told of each kind; who has more needs a backup, not a longer list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCheck:
    """What the check found; the store is sound if `faults` is empty."""

    faults: tuple[str, ...]
    """A sentence each."""

    session_count: int
    generation_count: int
    entry_count: int
    message_count: int
    size_bytes: int
    wal_bytes: int
    """Of the write-ahead log; more than 64 MiB means that a reader elsewhere never ends."""

    sqlite_version: str


def check_store(connection: SqliteConnection, path: Path) -> StoreCheck:
    """Check everything; reading a damaged store is a fault, not an error."""
    faults: list[str] = []
    for look in (_pages, _references, _gaps, _hashes, _chains, _words):
        faults += _found(look, connection)
    counts = _counts(connection)
    return StoreCheck(
        faults=tuple(faults),
        session_count=counts[0],
        generation_count=counts[1],
        entry_count=counts[2],
        message_count=counts[3],
        size_bytes=_size(path),
        wal_bytes=_size(beside(path, "-wal")),
        sqlite_version=library_version(),
    )


def _found(
    look: Callable[[SqliteConnection], Iterator[str]], connection: SqliteConnection
) -> list[str]:
    found: list[str] = []
    try:
        for fault in look(connection):
            if len(found) == MAX_FAULTS:
                break
            found.append(fault)
    except StoreError as error:
        found.append(error.message)
    return found


def _pages(connection: SqliteConnection) -> Iterator[str]:
    """Yield what SQLite's whole check finds."""
    found = [str(row[0]) for row in connection.script(f"PRAGMA integrity_check({MAX_FAULTS})")]
    yield from () if found == ["ok"] else found


def _references(connection: Connection) -> Iterator[str]:
    for table, row_id, parent in connection.each("broken_references"):
        yield f"row {row_id} of {table!r} refers to a row of {parent!r} that is not there"


def _gaps(connection: Connection) -> Iterator[str]:
    for branch, session_id in connection.each("branches_with_gaps"):
        yield f"branch {branch} of session {session_id!r} has gaps, or counts its entries wrongly"


def _hashes(connection: Connection) -> Iterator[str]:
    for entry_id, role, content, stored in connection.each("all_contents"):
        if content_hash(role, decoded(content)) != stored:
            yield f"entry {entry_id!r} is not what it was when it was stored"


def _chains(connection: Connection) -> Iterator[str]:
    thread, count, chain = None, 0, ""
    for thread_id, ordinal, held_hash, stored in connection.each("all_held"):
        if thread_id != thread:
            thread, count, chain = thread_id, 0, ""
        count, chain = count + 1, next_chain(chain, held_hash)
        if (ordinal, stored) != (count, chain):
            yield f"what thread {thread_id!r} holds does not fit its chain at number {ordinal}"
            count, chain = ordinal, stored


def _words(connection: Connection) -> Iterator[str]:
    row = connection.one("entries_without_words")
    if row is not None and row[0]:
        yield f"{row[0]} entries are missing in the index over words; search does not find them"


def _counts(connection: Connection) -> tuple[int, int, int, int]:
    try:
        row = connection.one("count_rows")
    except StoreError:
        row = None
    return (0, 0, 0, 0) if row is None else (row[0], row[1], row[2], row[3])


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
