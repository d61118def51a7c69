"""What the store asks of a database: named queries, numbered migrations, reads and writes.

Knows no database library and no dialect but the names of their files; `sqlite` is the driver.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final, Literal, Protocol, TypeVar

SqlValue = None | int | float | str
"""What a column or a parameter may be."""

Row = tuple[Any, ...]
"""One row; its shape is that of the query, which no type can name."""

T = TypeVar("T")

_HEAD: Final = re.compile(r"^-- ([a-z][a-z0-9_]*): (.+)$")
_MIGRATION: Final = re.compile(r"^(\d{4})_(pre|post)_([a-z0-9_]+)\.([a-z]+)\.sql$")


class Connection(Protocol):
    """A connection inside a transaction, for one thread at a time.

    All methods raise `StoreError` or one of its kinds.
    """

    def rows(self, query: str, **params: SqlValue) -> list[Row]:
        """Run the named query and return all its rows."""

    def each(self, query: str, **params: SqlValue) -> Iterator[Row]:
        """Run the named query and yield its rows as they are read."""

    def one(self, query: str, **params: SqlValue) -> Row | None:
        """Run the named query and return its first row, or None."""

    def run(self, query: str, **params: SqlValue) -> int:
        """Run the named statement and return the row id of the last row inserted."""


class Driver(Protocol):
    """Reads and writes of one open database."""

    async def write(self, job: Callable[[Connection], T], *, durable: bool = True) -> T:
        """Run the job in the writer; durable when this returns, undone if the job raises.

        With `durable` False a power cut may undo it, in order, until the next durable write: for
        what nobody was promised (reliability, section 1). It survives the death of the process
        either way. The job may be run again from the start after a failed group, so it keeps to the
        connection. Cancel: the job has happened whole, or not at all and never will.
        """

    async def read(self, job: Callable[[Connection], T]) -> T:
        """Run the job on a worker thread over one consistent view; it never waits for a write.

        For reads whose length the caller does not know.
        """

    def read_now(self, job: Callable[[Connection], T]) -> T:
        """Run the job on the calling thread; it never waits for a write.

        For short reads by key: some 20 µs, where going to a worker thread and back costs 300. Each
        statement sees the newest commit: for jobs of one statement, or over rows that never change.
        """


def parse_queries(text: str) -> dict[str, str]:
    """Return the statements of one file by name.

    Each begins with a line `-- name: what it does`. Raises: ValueError for text before the first
    name, or a name given twice.
    """
    queries: dict[str, list[str]] = {}
    lines: list[str] | None = None
    for line in text.splitlines():
        if head := _HEAD.match(line):
            if head[1] in queries:
                raise ValueError(f"query {head[1]!r} is defined twice")
            lines = queries[head[1]] = []
        elif lines is not None:
            lines.append(line)
        elif line.strip():
            raise ValueError(f"{line!r} stands before the first query's name")
    return {name: "\n".join(body).strip() for name, body in queries.items()}


def load_queries() -> dict[str, str]:
    """Return all named queries of `sql/queries`. Raises: ValueError for a name in two files."""
    queries: dict[str, str] = {}
    for file in _files("queries"):
        for name, statement in parse_queries(file.text).items():
            if name in queries:
                raise ValueError(f"query {name!r} is defined in two files, one is {file.name!r}")
            queries[name] = statement
    return queries


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One numbered step of the schema.

    A Treadle that does not know a `pre` step still works on its outcome; one that does not know a
    `post` step must leave the store alone.
    """

    number: int
    phase: Literal["pre", "post"]
    name: str
    script: str


def load_migrations(dialect: str) -> tuple[Migration, ...]:
    """Return the dialect's migrations, numbered from 1 without a gap.

    Raises: ValueError for a gap or a file whose name is no migration's.
    """
    found = []
    for file in _files("migrations"):
        name = _MIGRATION.match(file.name)
        if name is None:
            raise ValueError(f"{file.name!r} is not named like a migration")
        if name[4] == dialect:
            phase: Literal["pre", "post"] = "pre" if name[2] == "pre" else "post"
            found.append(
                Migration(number=int(name[1]), phase=phase, name=name[3], script=file.text)
            )
    if [step.number for step in found] != list(range(1, len(found) + 1)):
        raise ValueError(f"the migrations for {dialect!r} are not numbered 1, 2, 3 …")
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    name: str
    text: str


def _files(folder: str) -> list[_File]:
    place = resources.files("treadle.store") / "sql" / folder
    files = [item for item in place.iterdir() if item.name.endswith(".sql")]
    return [
        _File(name=item.name, text=item.read_text(encoding="utf-8"))
        for item in sorted(files, key=lambda item: item.name)
    ]
