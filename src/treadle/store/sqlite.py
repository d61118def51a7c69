"""SQLite through apsw: opening a file with care, its connections, its faults in our words.

The only module that knows apsw. It knows nothing of what the tables mean.

Opening looks before it touches: owner and kind of the file, its application id and schema version
and a check of its pages that is bounded in time, all read-only. What is newer, damaged or somebody
else's is left as it is, byte for byte (INV-21). Only then is it opened for writing.
"""

from __future__ import annotations

import contextlib
import errno
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, TypeVar
from urllib.parse import quote

import apsw

from treadle.model.errors import (
    MigrationNeeded,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    UsageError,
)
from treadle.observe import emit
from treadle.store.driver import Migration, Row, SqlValue
from treadle.store.files import beside, close_to_others, create, identity, is_new, refused

T = TypeVar("T")
Synchronous = Literal["FULL", "NORMAL", "EXTRA"]

APPLICATION_ID: Final = 0x54524431
"""`TRD1`, in the header of every store of ours."""

BUSY_TIMEOUT_MS: Final = 10_000
"""How long a write waits for another process (reliability, fault matrix: busy 10 s)."""

PAGE_BYTES: Final = 4096
"""Size of a page, SQLite's own choice for a new file."""

CHECKPOINT_PAGES: Final = 1000
"""Write-ahead log pages from which the writer copies them into the database (4 MiB)."""

WAL_LIMIT_BYTES: Final = 64 * 1024 * 1024
"""Size to which the log is cut once nobody reads it any more (reliability, RS28)."""

CHECK_S: Final = 0.1
"""Seconds that the check of the pages may take when the last close was clean."""

CHECK_AFTER_CRASH_S: Final = 5.0
"""The same when a log was left behind: whoever wrote it did not get to close the store."""

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_SMALLEST: Final = 512
_PROGRESS_STEPS: Final = 2000


class SqliteConnection:
    """A connection with the named queries; implements `WriteConnection`."""

    def __init__(
        self,
        raw: apsw.Connection,
        queries: dict[str, str],
        path: Path,
        *,
        file: tuple[int, int] | None = None,
        synchronous: Synchronous = "FULL",
    ) -> None:
        """Take over the raw connection; a writer names the file that it opened.

        `synchronous` is what its durable transactions are committed with.
        """
        self._raw = raw
        self._queries = queries
        self._path = path
        self._file = file
        self._durably: Synchronous = synchronous
        self._now: Synchronous | None = None
        self._wal_pages = 0
        self._log_has_grown = False
        raw.set_wal_hook(self._on_commit)

    def rows(self, query: str, **params: SqlValue) -> list[Row]:
        """See `Connection`."""
        with faults(self._path, self._raw):
            return self._raw.execute(self._queries[query], params).fetchall()

    def each(self, query: str, **params: SqlValue) -> Iterator[Row]:
        """See `Connection`."""
        with faults(self._path, self._raw):
            yield from self._raw.execute(self._queries[query], params)

    def one(self, query: str, **params: SqlValue) -> Row | None:
        """See `Connection`."""
        with faults(self._path, self._raw):
            return self._raw.execute(self._queries[query], params).fetchone()

    def run(self, query: str, **params: SqlValue) -> int:
        """See `Connection`."""
        with faults(self._path, self._raw):
            self._raw.execute(self._queries[query], params).fetchall()
            return self._raw.last_insert_rowid()

    def script(self, text: str) -> list[Row]:
        """Run SQL that is no named query: pragmas, and the text of a migration."""
        with faults(self._path, self._raw):
            return self._raw.execute(text).fetchall()

    def begin(self, *, durable: bool = True) -> None:
        """Begin to write. Raises: StoreDamaged if the file is no longer the one that was opened.

        A commit with FULL waits for the disk, and makes all earlier ones durable with it; one with
        NORMAL does not wait.
        """
        if identity(self._path) != self._file:
            raise StoreDamaged(
                f"the store {str(self._path)!r} was moved or replaced while it was in use",
                next_step="Stop Treadle, put the file back, and start again.",
            )
        wanted: Synchronous = self._durably if durable else "NORMAL"
        if wanted != self._now:
            self._raw.pragma("synchronous", wanted)
            self._now = wanted
        self.script("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """See `WriteConnection`."""
        self.script("COMMIT")

    def rollback(self) -> None:
        """See `WriteConnection`."""
        if self._raw.in_transaction:
            self.script("ROLLBACK")

    def savepoint(self) -> None:
        """See `WriteConnection`."""
        self.script("SAVEPOINT job")

    def release(self) -> None:
        """See `WriteConnection`."""
        self.script("RELEASE job")

    def undo(self) -> None:
        """See `WriteConnection`."""
        self.script("ROLLBACK TO job; RELEASE job")

    @property
    def in_transaction(self) -> bool:
        """See `WriteConnection`."""
        return self._raw.in_transaction

    def tidy(self) -> None:
        """Copy the log into the database once it has grown.

        What it cannot copy now (no room, a reader in another process) it copies another time: the
        writes themselves are durable in the log.
        """
        if self._wal_pages >= CHECKPOINT_PAGES:
            with contextlib.suppress(apsw.Error):
                self._raw.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        has_grown = self.log_bytes > WAL_LIMIT_BYTES
        if has_grown != self._log_has_grown:
            self._log_has_grown = has_grown
            emit("store.log_grown" if has_grown else "store.log_shrunk", size_bytes=self.log_bytes)

    @property
    def log_bytes(self) -> int:
        """Size of the log after the last commit; from any thread."""
        return self._wal_pages * PAGE_BYTES

    def leave_file(self) -> None:
        """See `WriteConnection`: what the log holds stays there, for whoever repairs the file."""
        with contextlib.suppress(apsw.Error):
            self._raw.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)

    def close(self) -> None:
        """See `WriteConnection`."""
        with contextlib.suppress(apsw.Error):  # nothing is lost: the log is read at the next start
            self._raw.close()

    def _on_commit(self, connection: apsw.Connection, name: str, pages: int) -> int:
        del connection, name
        self._wal_pages = pages
        return apsw.SQLITE_OK


def open_reader(path: Path, queries: dict[str, str]) -> SqliteConnection:
    """Return a connection that can change nothing. Raises: StoreError."""
    with faults(path):
        raw = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        _configure(raw)
        raw.execute("PRAGMA query_only = ON")
    return SqliteConnection(raw, queries, path)


def check_table(connection: SqliteConnection, path: Path, table: str, limit_s: float) -> None:
    """Check the pages of a table for at most this long. Raises: StoreDamaged."""
    with faults(path, connection._raw):
        _check_pages(connection._raw, path, limit_s, table)


def copy_whole(source: Path, target: Path) -> int:
    """Write a whole copy of a store of ours, as it stands at one moment; return its schema version.

    The store may be in use, also by another process: its writer does not wait, and nothing is
    written to it. Pages that are free, and what was deleted in them, are left out. `target` must
    not exist. Blocks. Raises: StoreDamaged, StoreFull, StoreError.
    """
    with faults(target):
        create(target)
    with faults(source):
        raw = apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        with faults(source, raw):
            _configure(raw)
            raw.execute("VACUUM INTO ?", (str(target),))
            return int(raw.pragma("user_version"))
    finally:
        raw.close()


def copy_pages(source: Path, target: Path) -> None:
    """Write a copy of somebody else's SQLite database, page by page, whatever is in it.

    As `copy_whole`, but that free pages are copied too, and nothing has to be understood.
    """
    with faults(target):
        create(target)
    with faults(source):
        raw = apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READONLY)
        copy = apsw.Connection(str(target), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        with faults(source, raw):
            raw.set_busy_timeout(BUSY_TIMEOUT_MS)
            with copy.backup("main", raw, "main") as running:
                running.step(-1)
    finally:
        raw.close()
        copy.close()


def open_writer(
    path: Path,
    queries: dict[str, str],
    migrations: tuple[Migration, ...],
    *,
    now: float,
    synchronous: Synchronous = "FULL",
) -> SqliteConnection:
    """Look at the file, make or migrate it, and return the connection that may write.

    Its mode is 0600 whatever the umask; SQLite gives its log the mode of the file. Before an
    existing store is migrated, a whole copy is put beside it as `<name>.v<old version>.bak`.
    Raises: StateDirectoryRefused, StoreDamaged, MigrationNeeded, StoreFull, StoreBusy.
    """
    if is_new(path):
        with faults(path):
            create(path)
    else:
        _look(path, migrations)
    with faults(path):
        raw = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    connection = SqliteConnection(raw, queries, path, file=identity(path), synchronous=synchronous)
    try:
        with faults(path, raw):
            close_to_others(path)
            _configure(raw)
            _use_log(raw, path)
            raw.pragma("synchronous", synchronous)
            raw.pragma("foreign_keys", True)
            raw.pragma("journal_size_limit", WAL_LIMIT_BYTES)
        _migrate(connection, path, migrations, now)
        close_to_others(path)
    except BaseException:
        connection.close()
        raise
    return connection


def library_version() -> str:
    """Return the version of the SQLite library in use."""
    return apsw.sqlite_lib_version()


@contextlib.contextmanager
def faults(path: Path, raw: apsw.Connection | None = None) -> Iterator[None]:
    """Turn the database's errors into ours, once, here."""
    try:
        yield
    except apsw.Error as error:
        raise _translated(error, path, raw) from error
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise _full(path) from error
        raise refused(path, error.strerror or str(error)) from error
    except UnicodeEncodeError as error:
        raise UsageError("the text holds half a character and cannot be stored") from error


def _translated(error: apsw.Error, path: Path, raw: apsw.Connection | None) -> StoreError:
    match error:
        case apsw.FullError():
            return _full(path)
        case apsw.IOError() if raw is not None and raw.system_errno in _NO_ROOM:
            return _full(path)  # a limit on file sizes shows as a failed write (reliability, F12)
        case apsw.BusyError() | apsw.LockedError():
            return StoreBusy(f"the store {str(path)!r} is held by another process")
        case apsw.CorruptError() | apsw.NotADBError():
            return _damaged(path, str(error))
        case apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError():
            return refused(path, str(error))
        case _:
            return StoreError(f"the store {str(path)!r} failed: {error}")


def _full(path: Path) -> StoreFull:
    return StoreFull(
        f"there is no room for the store {str(path)!r}; nothing was written",
        next_step="Free some disk space and try again.",
    )


def _damaged(path: Path, found: str) -> StoreDamaged:
    return StoreDamaged(
        f"the store {str(path)!r} is damaged: {found}",
        next_step="Keep the file, and restore a backup in its place.",
    )


def _configure(raw: apsw.Connection) -> None:
    """Set what every connection has: patience, distrust of the file, no text in temporary files."""
    raw.set_busy_timeout(BUSY_TIMEOUT_MS)
    raw.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    raw.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    raw.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
    raw.pragma("temp_store", "memory")
    raw.pragma("cell_size_check", True)


def _use_log(raw: apsw.Connection, path: Path) -> None:
    """Switch to the log. SQLite does not wait here for another process that opens the store too."""
    end = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            mode = raw.pragma("journal_mode", "wal")
            break
        except apsw.BusyError:
            if time.monotonic() > end:
                raise
            time.sleep(0.01)
    if mode != "wal":
        raise StoreError(
            f"{str(path)!r} cannot be kept with a write-ahead log; SQLite answered {mode!r}",
            next_step="Move the state directory to a local disk.",
        )


def _look(path: Path, migrations: tuple[Migration, ...]) -> None:
    """Refuse what is not ours, newer or damaged, without writing a byte to it.

    Without a log beside it nobody has the store open, and it is read as it lies there; nothing, not
    even a lock, is put beside it. A file that is never opened by other means than SQLite keeps its
    locks: closing any handle of one's own would drop those of this process.
    """
    if beside(path, "-journal").exists():
        return  # its creation was cut off; SQLite itself must first undo it, then `_migrate` looks
    if path.lstat().st_size < _SMALLEST:
        raise _damaged(path, "it is too short for a database")  # SQLite would write over it
    has_log = beside(path, "-wal").exists()
    try:
        _look_once(path, migrations, has_log=has_log)
    except StoreDamaged:
        if has_log or not beside(path, "-wal").exists():
            raise
        _look_once(path, migrations, has_log=True)  # another process opened it meanwhile


def _look_once(path: Path, migrations: tuple[Migration, ...], *, has_log: bool) -> None:
    how = "mode=ro" if has_log else "immutable=1"
    with faults(path):
        raw = apsw.Connection(
            f"file:{quote(str(path.absolute()))}?{how}",
            flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI,
        )
    try:
        with faults(path, raw):
            _configure(raw)
            raw.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            _check_version(raw, path, migrations)
            _check_pages(raw, path, CHECK_AFTER_CRASH_S if has_log else CHECK_S)
    finally:
        raw.close()


def _check_version(raw: apsw.Connection, path: Path, migrations: tuple[Migration, ...]) -> int:
    """Return the schema version, 0 for an empty database. Raises: StoreDamaged, MigrationNeeded."""
    application, version = raw.pragma("application_id"), raw.pragma("user_version")
    if (application, version) == (0, 0):
        if raw.execute("SELECT count(*) FROM sqlite_schema").get:
            raise _damaged(path, "it is a database, but none of Treadle's")
        return 0
    if application != APPLICATION_ID:
        raise _damaged(path, f"its application id is {application!r}, not Treadle's")
    if version > len(migrations) and not _still_fits(raw, version, len(migrations)):
        raise MigrationNeeded(
            f"the store {str(path)!r} has schema {version}; this Treadle knows {len(migrations)}",
            next_step="Update Treadle, or use another state directory.",
        )
    return int(version)


def _still_fits(raw: apsw.Connection, version: int, known: int) -> bool:
    """Tell whether all steps that we do not know are ones that old code may ignore."""
    unknown = raw.execute("SELECT number, phase FROM migrations WHERE number > ?", (known,))
    phases = {int(number): phase for number, phase in unknown}
    return all(phases.get(number) == "pre" for number in range(known + 1, version + 1))


def _check_pages(
    raw: apsw.Connection, path: Path, limit_s: float, table: str | None = None
) -> None:
    """Check the pages for at most this long; the doctor's check has no such limit.

    `quick_check` may itself raise on a damaged page (reliability, F12), which is an answer too.
    """
    end = time.monotonic() + limit_s
    raw.set_progress_handler(lambda: time.monotonic() > end, _PROGRESS_STEPS)
    try:
        which = "1" if table is None else apsw.format_sql_value(table)
        found = raw.execute(f"PRAGMA quick_check({which})").get
    except apsw.InterruptError:
        return
    finally:
        raw.set_progress_handler(None)
    if found != "ok":
        raise _damaged(path, str(found))


def _migrate(
    connection: SqliteConnection, path: Path, migrations: tuple[Migration, ...], now: float
) -> None:
    """Bring the schema up to date: one transaction, after a backup of what was there."""
    version = _version_of(connection, path, migrations)
    if version >= len(migrations):
        return
    backup = _back_up(connection, path, version) if version else None
    connection.begin()
    try:
        version = _version_of(connection, path, migrations)  # another process may have been first
        for step in migrations[version:]:
            connection.script(step.script)
            connection.run(
                "record_migration", number=step.number, phase=step.phase, name=step.name, now=now
            )
            connection.script(f"PRAGMA user_version = {step.number}")
        connection.script(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.commit()
    except BaseException as error:
        connection.rollback()
        if isinstance(error, StoreError) and backup is not None:
            error.next_step = f"The store is as it was before; a copy of it is {str(backup)!r}."
        raise
    emit("store.migrated", schema=len(migrations), schema_before=version, copied=bool(backup))


def _version_of(connection: SqliteConnection, path: Path, migrations: tuple[Migration, ...]) -> int:
    with faults(path, connection._raw):
        return _check_version(connection._raw, path, migrations)


def _back_up(connection: SqliteConnection, path: Path, version: int) -> Path:
    """Put a whole copy beside the store, complete before it gets its name."""
    backup = beside(path, f".v{version}.bak")
    partial = beside(backup, ".partial")
    with faults(path):
        partial.unlink(missing_ok=True)
        copy_whole(path, partial)
        partial.replace(backup)
    return backup
