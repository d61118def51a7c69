"""Read what runs on the machine from `/proc`; decides nothing and signals nobody.

Where there is no `/proc` (macOS) there is no table, and only process groups can be asked after.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from treadle.contract.children import ProcessIdentity, StartedChild
from treadle.wire.children.policy import ProcessEntry, ProcessTable
from treadle.wire.launch import MARKER

_PROC: Final = Path("/proc")
_BOOT_ID: Final = _PROC / "sys" / "kernel" / "random" / "boot_id"
_MARK: Final = f"{MARKER}=".encode()


def has_table() -> bool:
    """Whether this system tells of its processes in `/proc`."""
    return (_PROC / "self" / "stat").exists()


def read_table(registered: Collection[int] = ()) -> ProcessTable:
    """Return every process, with markers, and command digests of the `registered` pids.

    Blocks for some 10 ms. Raises: OSError where `/proc` cannot be read.
    """
    entries = {}
    for name in os.listdir(_PROC):
        if name.isdigit():
            entry = _entry(int(name), is_registered=int(name) in registered)
            if entry is not None:
                entries[entry.pid] = entry
    return ProcessTable(boot_id=_boot_id(), our_pid=os.getpid(), entries=entries)


def this_process() -> ProcessIdentity:
    """Return who we are; start and boot are empty where the system does not tell."""
    if not has_table():
        return ProcessIdentity(pid=os.getpid(), start_ticks=0, boot_id="")
    return ProcessIdentity(
        pid=os.getpid(), start_ticks=start_ticks_of(os.getpid()) or 0, boot_id=_boot_id()
    )


def started_child(pid: int, argv: Sequence[str]) -> StartedChild:
    """Return the identity of a child of ours that was not reaped yet."""
    ticks = start_ticks_of(pid) if has_table() else None
    digest = _command_digest(pid) if ticks is not None else ""
    return StartedChild(
        pid=pid,
        start_ticks=ticks or 0,
        process_group=pid,  # it leads its own session (`wire.process`)
        command_digest=digest or digest_of(argv),
    )


def start_ticks_of(pid: int) -> int | None:
    """Return when a process started; None if there is none of that pid."""
    fields = _stat(pid)
    return None if fields is None else int(fields[19])


def digest_of(argv: Sequence[str]) -> str:
    """Return the digest of a command line: SHA-256 over its arguments, each ended by NUL."""
    command = b"".join(os.fsencode(part) + b"\0" for part in argv)
    return hashlib.sha256(command).hexdigest()


def _entry(pid: int, *, is_registered: bool) -> ProcessEntry | None:
    fields = _stat(pid)
    if fields is None:
        return None
    is_own = _is_own(pid, is_registered=is_registered)
    marker = _marker(pid) if is_own else None
    if marker is not None:
        again = _stat(pid)
        if again is None or again[19] != fields[19]:
            return None  # the pid changed hands between the two looks
    return ProcessEntry(
        pid=pid,
        parent_pid=int(fields[1]),
        group=int(fields[2]),
        start_ticks=int(fields[19]),
        state=fields[0],
        is_own=is_own,
        marker=marker,
        command_digest=_command_digest(pid) if is_registered else "",
    )


def _stat(pid: int) -> list[str] | None:
    """Return the fields behind the command's name, which may hold anything but the last `)`."""
    text = _read(pid, "stat")
    return None if not text else text.rpartition(b")")[2].decode("ascii").split()


def _is_own(pid: int, *, is_registered: bool) -> bool:
    """Whether it runs as our user; a process that hides its memory shows root as its owner."""
    us = os.geteuid()
    try:
        if (_PROC / str(pid)).stat().st_uid == us:
            return True
    except (FileNotFoundError, ProcessLookupError):
        return False
    status = _read(pid, "status") or b"" if is_registered else b""
    uids = next((line for line in status.splitlines() if line.startswith(b"Uid:")), b"")
    return len(uids.split()) > 2 and int(uids.split()[2]) == us


def _marker(pid: int) -> str | None:
    try:
        environment = _read(pid, "environ") or b""
    except PermissionError:
        return None  # it hides its memory: an agent for keys, for instance, and none of ours
    found = next((one for one in environment.split(b"\0") if one.startswith(_MARK)), None)
    return None if found is None else found[len(_MARK) :].decode("utf-8", "replace")


def _command_digest(pid: int) -> str:
    command = _read(pid, "cmdline")
    return hashlib.sha256(command).hexdigest() if command else ""


def _read(pid: int, name: str) -> bytes | None:
    """Return the file of a process; None if the process is gone. Raises: OSError."""
    try:
        return (_PROC / str(pid) / name).read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None


def _boot_id() -> str:
    return _BOOT_ID.read_text(encoding="ascii").strip()
