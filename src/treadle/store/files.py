"""The store's file as a file: whose it is, who may read it, and whether it is still the same.

Knows nothing of what is in it, and never opens a file that SQLite may have open: closing any handle
of our own would drop the locks that this process holds on it.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from treadle.model.errors import StateDirectoryRefused
from treadle.private import make_private, open_private


def refused(path: Path, found: str) -> StateDirectoryRefused:
    """Return the error for a path that is not safe, or not possible, to keep a store at."""
    return StateDirectoryRefused(
        f"the store {str(path)!r} cannot be used: {found}",
        next_step="Make the state directory a private, writable folder of your own.",
    )


def is_new(path: Path) -> bool:
    """Tell whether there is no store yet. Raises: StateDirectoryRefused for what is no own file."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return True
    except OSError as error:
        raise refused(path, error.strerror or str(error)) from error
    if not stat.S_ISREG(found.st_mode):
        raise refused(path, "it is a link or no plain file")
    if found.st_uid != os.geteuid():
        raise refused(path, f"it belongs to user {found.st_uid}")
    return found.st_size == 0 and not beside(path, "-wal").exists()


def create(path: Path) -> None:
    """Make an empty file of mode 0600, whatever the umask. Raises: OSError."""
    os.close(open_private(path, os.O_RDWR))
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def close_to_others(path: Path) -> None:
    """Take from everybody else what they may do with the store and its log. Raises: OSError."""
    for place in (path, beside(path, "-wal"), beside(path, "-shm")):
        make_private(place)


def beside(path: Path, suffix: str) -> Path:
    """Return the path with something added to its name."""
    return path.with_name(path.name + suffix)


def identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode of what lies at the path now; None if nothing does."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
