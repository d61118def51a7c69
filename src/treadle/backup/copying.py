"""Copy one file privately, hashed as it is written; never follows a link.

Knows nothing of what is in it. Call it from a process that has the source not open itself: closing
a handle drops the locks that a library in the same process holds on the file.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from treadle.model.errors import BackupInvalid, StoreFull
from treadle.private import DIRECTORY_MODE, FILE_MODE

CHUNK_BYTES: Final = 1 << 20

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """What was written."""

    size_bytes: int
    sha256: str
    seen: tuple[int, int, int]
    """Inode, size and time of change of the source when it was opened; see `seen_now`."""


def copy_file(source: Path, target: Path, *, whole_lines: bool = False) -> Copied | None:
    """Copy a plain file, as long as it is when it is opened; None if it is none, or gone.

    `whole_lines` leaves out what stands behind the last line feed: a line that is being written.
    The target must not exist; its folders are made. Raises: StoreFull, OSError.
    """
    try:
        handle = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ELOOP, errno.ENXIO}:
            return None
        raise
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            return None
        size = _last_line_end(handle, found.st_size) if whole_lines else found.st_size
        make_folders(target.parent)
        digest = hashlib.sha256()
        with created(target) as written:
            left = size
            while left and (chunk := os.read(handle, min(CHUNK_BYTES, left))):
                digest.update(chunk)
                write_all(written, chunk)
                left -= len(chunk)
        return Copied(size_bytes=size - left, sha256=digest.hexdigest(), seen=_seen(found))
    finally:
        os.close(handle)


def seen_now(source: Path) -> tuple[int, int, int] | None:
    """Return what `Copied.seen` would hold now; None if there is nothing."""
    try:
        return _seen(source.lstat())
    except OSError:
        return None


def hash_file(path: Path) -> tuple[int, str]:
    """Return size and SHA-256 of a plain file. Raises: BackupInvalid for what is none."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise BackupInvalid(
            f"{str(path)!r} cannot be read: {error.strerror}; nothing was changed",
            next_step="Restore another backup.",
        ) from error
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise BackupInvalid(f"{str(path)!r} is no plain file; nothing was changed")
        digest, size = hashlib.sha256(), 0
        while chunk := os.read(handle, CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
        return size, digest.hexdigest()
    finally:
        os.close(handle)


@contextmanager
def created(path: Path) -> Iterator[int]:
    """Make a private file that must not exist; what was written is on the disk at the end.

    Raises: StoreFull, OSError.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        handle = os.open(path, flags, FILE_MODE)
        try:
            os.fchmod(handle, FILE_MODE)
            yield handle
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise StoreFull(f"there is no room for {str(path)!r}") from error
        raise


def write_all(handle: int, data: bytes) -> None:
    """Write all of it. Raises: OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def make_folders(path: Path) -> None:
    """Make a folder and what is missing above it, each for its owner alone. Raises: OSError."""
    for folder in reversed((path, *path.parents)):
        if not folder.exists():
            folder.mkdir(mode=DIRECTORY_MODE)
            folder.chmod(DIRECTORY_MODE)


def sync_folders(root: Path) -> None:
    """Put the names of all files below a folder on the disk. Raises: OSError."""
    for folder, _, _ in os.walk(root, topdown=False):
        sync_folder(Path(folder))


def sync_folder(folder: Path) -> None:
    """Put the names in one folder on the disk. Raises: OSError."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _seen(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_ino, found.st_size, found.st_mtime_ns


def _last_line_end(handle: int, size: int) -> int:
    """Return how much of the file is whole lines."""
    end = size
    while end:
        start = max(0, end - CHUNK_BYTES)
        at = os.pread(handle, end - start, start).rfind(b"\n")
        if at >= 0:
            return start + at + 1
        end = start
    return 0
