"""Where the socket of a state directory is, and who is at its other end.

Knows nothing of frames. The socket lies in the state directory, which is 0700; it is 0600 itself,
and each peer is asked of the kernel for its user (INV-23).
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from treadle.model.errors import StateDirectoryRefused

SOCKET_FILE: Final = "owner.sock"

SOCKET_MODE: Final = 0o600

BACKLOG: Final = 128
"""Clients that may wait to be let in."""

SUN_PATH_BYTES: Final = 107
"""Bytes that a socket's address may have, without the zero at its end (`struct sockaddr_un`)."""

_OWN_FDS: Final = Path("/proc/self/fd")
_CREDENTIALS: Final = struct.Struct("3i")
"""Process, user and group of a peer: `struct ucred`."""


@contextmanager
def socket_path(state: Path) -> Iterator[str]:
    """Yield a path of the socket that fits into an address, until the block ends.

    A longer one goes by a descriptor of the directory, as Linux allows it; only this process can
    use that path. Raises: StateDirectoryRefused where the system has no such way, OSError.
    """
    path = state / SOCKET_FILE
    if len(os.fsencode(path)) <= SUN_PATH_BYTES:
        yield str(path)
        return
    if not _OWN_FDS.is_dir():
        raise StateDirectoryRefused(
            f"the path of the state directory is too long for a socket: {str(path)!r} has more than"
            f" {SUN_PATH_BYTES} bytes",
            next_step="Set TREADLE_STATE_DIR to a directory with a shorter path",
            path=str(state),
        )
    descriptor = os.open(state, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield str(_OWN_FDS / str(descriptor) / SOCKET_FILE)
    finally:
        os.close(descriptor)


def listening_socket(state: Path) -> socket.socket:
    """Return a socket that listens in the state directory, 0600; for its owner alone.

    What a dead owner left there is replaced; what is no socket is not. Blocks. Raises: OSError,
    StateDirectoryRefused.
    """
    place = state / SOCKET_FILE
    if place.is_socket():
        place.unlink()
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        with socket_path(state) as path:
            listening.bind(path)
        place.chmod(SOCKET_MODE)
        listening.listen(BACKLOG)
    except BaseException:
        listening.close()
        raise
    return listening


def connected_socket(state: Path, within_s: float) -> socket.socket:
    """Return a socket that is connected to the owner of a state directory.

    Blocks. Raises: OSError, TimeoutError, StateDirectoryRefused.
    """
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        connected.settimeout(within_s)
        with socket_path(state) as path:
            connected.connect(path)
        connected.setblocking(False)
    except BaseException:
        connected.close()
        raise
    return connected


def peer_uid(connection: socket.socket) -> int | None:
    """Return the user at the other end; None where the system does not tell (macOS)."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    found = connection.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size)
    uid: int = _CREDENTIALS.unpack(found)[1]
    return uid
