"""Open the state directory: private, ours, and for one owner at a time.

Knows nothing of what is kept there. Source: INV-4, INV-21, INV-23, RS48.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NoReturn

from treadle.model.errors import StateDirectoryRefused, StoreFull
from treadle.private import DIRECTORY_MODE, open_private

LOCK_FILE: Final = "owner.lock"
"""Locked by the owner for as long as it lives; holds who that is."""

_POLL_S: Final = 0.05
"""How often a waiting opener tries; the kernel has no lock call with a deadline."""

_TELL_S: Final = 1.0
"""Seconds for a new owner to write down who it is; until then the file tells of the last one."""

_OWNER_BYTES: Final = 400
"""More than any owner's text has."""

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


OwnerRole = Literal["serve", "command", "library"]
"""A gateway until it is stopped, one for the time of a command, or a program without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A process as nobody else can be: a pid alone comes again."""

    pid: int
    start_ticks: int
    """Start time in clock ticks since boot; 0 where the system does not tell."""
    boot_id: str
    role: OwnerRole = "library"

    def to_text(self) -> str:
        """Return the owner as the lock file holds it."""
        return (
            f"pid {self.pid}\nstart_ticks {self.start_ticks}\nboot_id {self.boot_id}\n"
            f"role {self.role}\n"
        )


def this_process(role: OwnerRole = "library") -> Owner:
    """Return who we are."""
    return Owner(pid=os.getpid(), start_ticks=_start_ticks(), boot_id=_boot_id(), role=role)


def _start_ticks() -> int:
    try:
        text = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0  # no /proc (macOS): the lock itself still holds
    return int(text.rpartition(")")[2].split()[19])


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDirectory:
    """An open state directory."""

    path: Path
    owner: Owner
    same_boot: bool = False
    """Whether the last owner lived since the machine was started: no power cut came between."""


@contextmanager
def open_state_directory(
    path: Path,
    owner_uid: int | None = None,
    *,
    wait_s: float = 0.0,
    role: OwnerRole = "library",
) -> Iterator[StateDirectory]:
    """Hold the state directory until the block ends; make it if it is not there.

    `owner_uid` defaults to the effective user; `wait_s` waits that long for another owner to go,
    and blocks meanwhile. The lock ends with the process, however that ends; children do not get it.
    Raises: StateDirectoryRefused with a next step; nothing in the directory was touched. StoreFull
    when there is no room.
    """
    uid = os.geteuid() if owner_uid is None else owner_uid
    _made_private(path, uid)
    with _locked(path, uid, wait_s, role) as (owner, before):
        same_boot = f"boot_id {owner.boot_id}" in before.splitlines()
        yield StateDirectory(path=path, owner=owner, same_boot=same_boot)


def make_private_folder(path: Path) -> None:
    """Make a folder of ours, and what is missing above it, 0700; one that is there is kept.

    Blocks. Raises: StateDirectoryRefused where it cannot be made, StoreFull.
    """
    if not path.is_dir():
        _made_private(path, os.geteuid())


def _made_private(path: Path, uid: int) -> None:
    _make_parents(path)
    try:
        path.mkdir(mode=DIRECTORY_MODE)
    except FileExistsError:
        pass  # the common case; looked at below
    except OSError as error:
        _refuse_os(path, "made", error)
    else:
        path.chmod(DIRECTORY_MODE)
    _check(path, uid)


def _make_parents(path: Path) -> None:
    missing = [parent for parent in path.parents if not parent.exists()]
    for parent in reversed(missing):
        try:
            parent.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
            parent.chmod(DIRECTORY_MODE)
        except OSError as error:
            _refuse_os(parent, "made", error)


def _check(path: Path, uid: int) -> None:
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        _refuse(path, "is a symbolic link", f"Name the directory itself: {_target(path)}")
    if not stat.S_ISDIR(found.st_mode):
        _refuse(path, "is not a directory", "Move that file away or name another directory")
    if found.st_uid != uid:
        _refuse(
            path,
            f"belongs to user {found.st_uid}, not to user {uid}",
            "Run Treadle as that user or set TREADLE_STATE_DIR to a directory of your own",
        )
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o077:
        _refuse(
            path,
            f"is open to others (mode {mode:04o})",
            f"Look for files that are not yours, then run: chmod 700 {path}",
        )
    if mode & 0o700 != 0o700 or not os.access(path, os.W_OK | os.X_OK, effective_ids=True):
        _refuse(path, "cannot be written", f"Run: chmod 700 {path}; or mount it for writing")


def _target(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return "the one it points to"


@contextmanager
def _locked(path: Path, uid: int, wait_s: float, role: OwnerRole) -> Iterator[tuple[Owner, str]]:
    """Yield who we are, and what the last owner had written."""
    file = path / LOCK_FILE
    try:
        descriptor = open_private(file, os.O_RDWR)
    except OSError as error:
        _refuse_os(file, "opened", error)
    try:
        if os.fstat(descriptor).st_uid != uid:
            _refuse(file, "is not a file of yours", "Look at it, then remove it")
        _take(descriptor, path, wait_s)
        owner = this_process(role)
        before = os.pread(descriptor, _OWNER_BYTES, 0).decode("ascii", "replace")
        _write_owner(descriptor, file, owner)
        yield owner, before
    finally:
        os.close(descriptor)  # the lock goes with it; the file stays, or two could hold two files


def _take(descriptor: int, path: Path, wait_s: float) -> None:
    until = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            left = until - time.monotonic()
            if left <= 0:
                _refuse_held(descriptor, path)
            time.sleep(min(_POLL_S, left))
        except OSError as error:
            _refuse_os(path / LOCK_FILE, "locked", error)
        else:
            return


def _refuse_held(descriptor: int, path: Path) -> NoReturn:
    told = _told_owner(descriptor, path)
    pid = told.get("pid", "")
    holder = f"process {pid}" if pid.isdigit() else "another process"
    raise StateDirectoryRefused(
        f"the state directory {str(path)!r} is in use by {holder}",
        next_step="Wait for it or stop it, or set TREADLE_STATE_DIR to another directory",
        path=str(path),
        owner_pid=int(pid) if pid.isdigit() else None,
        owner_role=told.get("role"),
    )


def _told_owner(descriptor: int, path: Path) -> dict[str, str]:
    """Return what the holder says of itself; one that has just begun gets a moment to say it."""
    until = time.monotonic() + _TELL_S
    while True:
        found = living_owner(path)
        if found is not None:
            return found
        if time.monotonic() > until:
            return fields_of_owner(os.pread(descriptor, _OWNER_BYTES, 0).decode("ascii", "replace"))
        time.sleep(_POLL_S)


def fields_of_owner(text: str) -> dict[str, str]:
    """Return what the lock file says of an owner, by name; empty while it is being written."""
    return dict(line.split(" ", 1) for line in text.splitlines() if " " in line)


def living_owner(path: Path) -> dict[str, str] | None:
    """Return what the lock file says if that process is alive; reads only, takes no lock.

    A process that gave the directory up and goes on is still told of.
    """
    try:
        text = (path / LOCK_FILE).read_text(encoding="ascii", errors="replace")
        fields = fields_of_owner(text)
        stat_text = Path(f"/proc/{int(fields['pid'])}/stat").read_text("utf-8", "replace")
    except (OSError, KeyError, ValueError):
        return None  # no lock, none that is readable, or its owner is gone
    state, *rest = stat_text.rpartition(")")[2].split()
    is_ended = state in {"Z", "X"}  # dead; only its parent has not looked yet
    return fields if not is_ended and rest[18] == fields.get("start_ticks") else None


def _write_owner(descriptor: int, file: Path, owner: Owner) -> None:
    text = owner.to_text().encode("ascii", "replace")
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text, 0)
    except OSError as error:
        _refuse_os(file, "written", error)


def _refuse(path: Path, why: str, next_step: str) -> NoReturn:
    raise StateDirectoryRefused(
        f"the state directory cannot be used: {str(path)!r} {why}",
        next_step=next_step,
        path=str(path),
    )


def _refuse_os(path: Path, tried: str, error: OSError) -> NoReturn:
    if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
        raise StoreFull(
            f"{str(path)!r} could not be {tried}: no room on the disk",
            next_step="Free some space, then try again; nothing was changed",
            path=str(path),
        ) from error
    steps = {
        errno.ELOOP: "Remove the symbolic link",
        errno.EROFS: "Mount the file system for writing or set TREADLE_STATE_DIR to another place",
        errno.EACCES: "Check who may write there or set TREADLE_STATE_DIR to another place",
        errno.EINVAL: "Look at it, then remove it",
        errno.ENOTDIR: "A part of the path is a file; move it away",
    }
    raise StateDirectoryRefused(
        f"{str(path)!r} could not be {tried}: {error.strerror}",
        next_step=steps.get(error.errno or 0, "Set TREADLE_STATE_DIR to another directory"),
        path=str(path),
    ) from error
