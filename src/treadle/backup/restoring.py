"""Bring a backup back as the state directory: whole, checked, and in one step.

Everything is copied beside the state directory, verified on the way, and put right there; then the
two change places in one system call. So a restore that is cut off has happened, or has not. Codex's
threads go on where their records fit what the store says; every other session gets a fresh thread
with what its transcript holds (reliability, F10). Knows nothing of what the files mean.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePath
from typing import Final

import anyio.to_thread

from treadle.backup.copying import copy_file, sync_folder, sync_folders
from treadle.backup.manifest import MANIFEST, Manifest, parse_manifest
from treadle.clock import Clock, Ids
from treadle.config.paths import Paths
from treadle.config.state_dir import LOCK_FILE, open_state_directory
from treadle.contract.restore import Restored
from treadle.contract.store import Binding
from treadle.failpoints import failpoint
from treadle.model.errors import BackupInvalid, StateDirectoryRefused
from treadle.private import DIRECTORY_MODE
from treadle.store.open import open_store

MAX_MANIFEST_BYTES: Final = 1 << 29

STAGING: Final = "restore"
"""In the name of the folder beside the state directory in which it is put together."""

RENAME_EXCHANGE: Final = 2
AT_FDCWD: Final = -100


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReport:
    """What was brought back."""

    manifest: Manifest
    restored: Restored
    aside: Path | None
    """Where what was in the state directory lies now; None if it was empty."""


async def restore(
    source: Path, paths: Paths, *, clock: Clock, ids: Ids, move_aside: bool = False
) -> RestoreReport:
    """Bring a backup back.

    `move_aside` allows it where the state directory is not empty: that is kept, beside it.

    Raises: BackupInvalid, MigrationNeeded for one of a newer Treadle, StateDirectoryRefused where
    the state directory is in use or not empty, StoreFull. Nothing was changed then. Cancel: as if
    it was not called, or done.
    """
    manifest = await anyio.to_thread.run_sync(read_manifest, source)
    owned = open_state_directory(paths.state)
    await anyio.to_thread.run_sync(owned.__enter__)
    try:
        await anyio.to_thread.run_sync(_refuse_if_used, paths.state, move_aside)
        staging = paths.state.with_name(f".{paths.state.name}.{ids.new(STAGING)}")
        try:
            await anyio.to_thread.run_sync(_stage, source, manifest, staging)
            restored = await _put_right(staging, paths, manifest, clock, ids)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(_remove, staging)
            raise
        swap = partial(_swap, staging, paths.state, at=clock.now())
        aside = await anyio.to_thread.run_sync(swap)  # not given up when it is cancelled
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(owned.__exit__, None, None, None)
    return RestoreReport(manifest=manifest, restored=restored, aside=aside)


def read_manifest(source: Path) -> Manifest:
    """Read what a backup holds. Raises: BackupInvalid, MigrationNeeded."""
    try:
        with (source / MANIFEST).open("rb") as file:
            text = file.read(MAX_MANIFEST_BYTES)
        return parse_manifest(text.decode())
    except (OSError, UnicodeDecodeError) as error:
        raise BackupInvalid(
            f"{str(source)!r} is no backup: its {MANIFEST} cannot be read ({error});"
            " nothing was changed",
            next_step="Name the folder that treadle backup made.",
        ) from error


def _refuse_if_used(state: Path, move_aside: bool) -> None:
    held = sorted(set(os.listdir(state)) - {LOCK_FILE})
    if held and not move_aside:
        raise StateDirectoryRefused(
            f"the state directory {str(state)!r} is not empty; nothing was changed",
            next_step="Restore with --move-aside, which keeps it beside, or name another one with"
            " --state-dir.",
            path=str(state),
        )


def _stage(source: Path, manifest: Manifest, staging: Path) -> None:
    """Copy everything and see that it is what was put aside."""
    with _made_in_place(staging):
        staging.mkdir(mode=DIRECTORY_MODE)
        for file in manifest.files:
            copied = copy_file(source / file.path, staging / file.path)
            if copied is None:
                raise _differs(source, file.path, "is missing or no plain file")
            if (copied.size_bytes, copied.sha256) != (file.size_bytes, file.sha256):
                raise _differs(
                    source,
                    file.path,
                    f"has {copied.size_bytes:,} bytes and SHA-256 {copied.sha256[:16]}…,"
                    f" not {file.size_bytes:,} and {file.sha256[:16]}…",
                )


async def _put_right(
    staging: Path, paths: Paths, manifest: Manifest, clock: Clock, ids: Ids
) -> Restored:
    database = staging / paths.database.relative_to(paths.state)
    if not database.exists():
        raise BackupInvalid("the backup holds no store; nothing was changed")
    async with open_store(database, clock=clock, ids=ids) as store:
        faults = (await store.check()).faults
        if faults:
            raise BackupInvalid(f"the store in the backup is damaged: {faults[0]}")
        return await store.restore.put_right(partial(_kept, manifest, PurePath(paths.state)))


def _kept(manifest: Manifest, state: PurePath, binding: Binding) -> Binding | None:
    """Return the binding in its new place if its thread's record came back as the store knows it.

    A thread in a home that is not ours may have gone on since, and is given up too.
    """
    home, rollout = PurePath(binding.home), binding.rollout_path
    if rollout is None or not home.is_relative_to(manifest.state):
        return None
    if not PurePath(rollout).is_relative_to(manifest.state):
        return None
    name = PurePath(rollout).relative_to(manifest.state).as_posix()
    record = next((file for file in manifest.files if file.path == name), None)
    if record is None or not record.stable or record.size_bytes < binding.rollout_offset:
        return None
    return replace(
        binding,
        home=str(state / home.relative_to(manifest.state)),
        rollout_path=str(state / name),
    )


def _swap(staging: Path, state: Path, *, at: float) -> Path | None:
    """Let the two change places; return where what was there lies now, None for nothing.

    From the exchange on the staging folder holds what was in the state directory: it is renamed,
    and removed only where there was nothing.
    """
    with _made_in_place(state):
        try:
            sync_folders(staging)
            failpoint("restore-before-swap")
            _exchange(staging, state)
        except BaseException:
            _remove(staging)
            raise
        failpoint("restore-after-swap")
        sync_folder(state.parent)
        if set(os.listdir(staging)) <= {LOCK_FILE}:
            _remove(staging)
            return None
        aside = _free_name(state, at)
        staging.rename(aside)
        sync_folder(state.parent)
        return aside


def _exchange(one: Path, other: Path) -> None:
    """Give each of two folders the other's name, at once. Raises: OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    rename = getattr(libc, "renameat2", None)
    if rename is not None:
        names = os.fsencode(one), os.fsencode(other)
        if rename(AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE) == 0:
            return
        number = ctypes.get_errno()
        if number not in {errno.ENOSYS, errno.EINVAL}:
            raise OSError(number, os.strerror(number), str(one))
    # A system or disk that cannot: for a moment there is no state directory at all.
    between = other.with_name(f"{one.name}.old")
    other.rename(between)
    try:
        one.rename(other)
    except BaseException:
        between.rename(other)
        raise
    between.rename(one)


def _free_name(state: Path, at: float) -> Path:
    names = (f"{state.name}.before-restore-{int(at) + more}" for more in range(10_000))
    return next(path for name in names if not (path := state.with_name(name)).exists())


def _remove(staging: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(staging)


@contextmanager
def _made_in_place(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StateDirectoryRefused(
            f"{str(path)!r} cannot be made: {error.strerror or error}; nothing was changed",
            next_step="Check who may write there, or name another one with --state-dir.",
            path=str(path),
        ) from error


def _differs(source: Path, name: str, how: str) -> BackupInvalid:
    return BackupInvalid(
        f"the backup {str(source)!r} is damaged: {name!r} {how}; nothing was changed",
        next_step="Restore another backup.",
        path=name,
    )
