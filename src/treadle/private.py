"""Files that only their owner may read, whatever the umask: the one way in which we make them.

Knows nothing of what is in them. Source: INV-23, RS48.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import Final

DIRECTORY_MODE: Final = 0o700
FILE_MODE: Final = 0o600


def open_private(path: str | Path, flags: int) -> int:
    """Open a file of ours, made if it is missing, with mode 0600 and never through a link.

    `flags` say for what (`os.O_RDWR`, `os.O_WRONLY | os.O_APPEND`). Something that is no plain file
    is refused, and a pipe is not waited for. Raises: OSError.
    """
    flags |= os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    descriptor = os.open(path, flags, FILE_MODE)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "is not a regular file", str(path))
    try:
        os.fchmod(descriptor, FILE_MODE)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def make_private(path: Path) -> None:
    """Take from everybody else what they may do with a file that somebody else made.

    Never opens it: closing a handle of ours would drop the locks of a library in this process. A
    missing file is fine. Raises: OSError.
    """
    with contextlib.suppress(FileNotFoundError):
        if stat.S_IMODE(path.lstat().st_mode) != FILE_MODE:
            path.chmod(FILE_MODE)
