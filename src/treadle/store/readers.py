"""The connections that read: read-only, and each used by one thread at a time.

Knows nothing of what is read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from treadle.model.errors import StoreError
from treadle.store.sqlite import SqliteConnection, check_table, open_reader

T = TypeVar("T")

_IDLE_READERS: Final = 8


class ReaderPool:
    """Read-only connections, each used by one thread at a time, opened when there is none idle."""

    def __init__(self, path: Path, queries: dict[str, str]) -> None:
        """Open the first one now, so that reads go on when no file can be opened any more."""
        self._path = path
        self._queries = queries
        self._closed = False
        self._idle: deque[SqliteConnection] = deque([open_reader(self._path, self._queries)])

    def read(self, job: Callable[[SqliteConnection], T], *, one_view: bool = True) -> T:
        """Run the job over one consistent view, or each of its statements over the newest one.

        Raises: StoreError.
        """
        if self._closed:
            raise StoreError("the store is closed")
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = open_reader(self._path, self._queries)
        try:
            if one_view:
                connection.script("BEGIN")
            return job(connection)
        finally:
            self._give_back(connection)

    def look(self, table: str, limit_s: float) -> None:
        """Check a table on a connection that remembers no page. Raises: StoreDamaged."""
        connection = open_reader(self._path, self._queries)
        try:
            check_table(connection, self._path, table, limit_s)
        finally:
            connection.close()

    def close(self) -> None:
        """Close what is idle; what is in use closes when it is given back."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def _give_back(self, connection: SqliteConnection) -> None:
        try:
            connection.rollback()
        except StoreError:
            connection.close()
            raise
        if self._closed or len(self._idle) >= _IDLE_READERS:
            connection.close()
        else:
            self._idle.append(connection)
