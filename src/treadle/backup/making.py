"""Put a state directory aside while it is in use, into a folder that does not exist yet.

Order matters. Codex's records of threads are copied first and looked at again after the store: one
that did not change meanwhile fits the store, any other is given up at the restore. What engines
keep is copied last: it may know a turn that the store does not, never lack one that the store calls
committed (INV-7). Nothing waits for this, and nothing is written to the state directory. Knows
nothing of what the files mean. Blocks.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from treadle.backup.copying import (
    Copied,
    copy_file,
    created,
    hash_file,
    make_folders,
    seen_now,
    sync_folder,
    sync_folders,
    write_all,
)
from treadle.backup.manifest import MANIFEST, BackedFile, Manifest
from treadle.clock import Clock, Ids
from treadle.config.paths import Paths
from treadle.failpoints import failpoint
from treadle.model.errors import StateDirectoryRefused, UsageError
from treadle.store.sqlite import copy_pages, copy_whole

ROLLOUTS: Final = ("sessions", "archived_sessions")
"""Folders of a Codex home with the records of its threads."""

CODEX_FILES: Final = ("config.toml",)
"""Beside them; what it is signed in with is left out on purpose."""

SQLITE_HEAD: Final = b"SQLite format 3\0"
SQLITE_BESIDE: Final = ("-wal", "-shm", "-journal")

PARTIAL: Final = "partial"
"""In the name of a backup that is not whole."""

TRIES: Final = 3
"""How often a file that changes while it is copied is copied anew."""


def back_up(paths: Paths, target: Path, *, clock: Clock, ids: Ids, treadle: str) -> Manifest:
    """Make a backup and return what it holds; the folder gets its name once it is whole.

    Call it from another process than the one that has the state directory open (see `copying`).
    Raises: UsageError for a target that exists or lies in the state directory, or where there is
    nothing to put aside; StoreError; StateDirectoryRefused where the target cannot be made.
    """
    target = target.expanduser().absolute()
    _check(paths, target)
    try:
        make_folders(target.parent)
        partial = target.with_name(f".{target.name}.{ids.new(PARTIAL)}")
        partial.mkdir(mode=0o700)
        try:
            manifest = _Making(state=paths.state, root=partial).all(paths, clock.now(), treadle)
            failpoint("backup-before-rename")
            partial.rename(target)  # onto nothing, or an empty folder
            sync_folder(target.parent)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    except OSError as error:
        raise StateDirectoryRefused(
            f"the backup {str(target)!r} cannot be made: {error.strerror or error}",
            next_step="Name a new folder where you may write.",
        ) from error
    return manifest


def _check(paths: Paths, target: Path) -> None:
    if not paths.database.exists():
        raise UsageError(
            f"there is nothing to back up: no store in {str(paths.state)!r}",
            next_step="Name the right state directory with --state-dir.",
        )
    if target == paths.state or paths.state in target.parents or target in paths.state.parents:
        raise UsageError(
            f"the backup {str(target)!r} would lie in the state directory, or the other way round",
            next_step="Name a folder elsewhere.",
        )
    if target.is_symlink() or (target.exists() and not _is_empty_folder(target)):
        raise UsageError(
            f"{str(target)!r} exists; a backup never overwrites anything",
            next_step="Name a folder that does not exist.",
        )


def _is_empty_folder(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


@dataclass(slots=True, kw_only=True)
class _Making:
    """A backup on its way."""

    state: Path
    root: Path
    files: list[BackedFile] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def all(self, paths: Paths, now: float, treadle: str) -> Manifest:
        seen = self._codex_homes()
        failpoint("backup-before-store")
        schema = self._store(paths.database)
        failpoint("backup-after-store")
        self._look_again(seen)
        self._engines()
        manifest = Manifest(
            treadle=treadle,
            schema=schema,
            made_at=now,
            state=str(paths.state),
            files=tuple(self.files),
            left_out=tuple(self.left_out),
        )
        sync_folders(self.root)
        with created(self.root / MANIFEST) as handle:
            write_all(handle, manifest.to_text().encode())
        sync_folder(self.root)
        return manifest

    def _codex_homes(self) -> dict[str, tuple[int, int, int]]:
        """Copy the records of all threads in homes of ours; what each looked like."""
        seen: dict[str, tuple[int, int, int]] = {}
        for home in sorted((self.state / "agents").glob("*/codex")):
            if home.is_symlink():
                self.left_out.append(ascii(self._name(home)))
                continue
            for name in CODEX_FILES:
                self._file(home / name)
            for folder in ROLLOUTS:
                for source in self._plain_files(home / folder):
                    copied = self._file(source, whole_lines=True)
                    if copied is not None:
                        seen[self._name(source)] = copied.seen
        return seen

    def _store(self, database: Path) -> int:
        target = self.root / database.name
        schema = copy_whole(database, target)
        self._hashed(database, target)
        return schema

    def _look_again(self, seen: dict[str, tuple[int, int, int]]) -> None:
        self.files = [
            file
            if file.path not in seen or seen_now(self.state / file.path) == seen[file.path]
            else replace(file, stable=False)
            for file in self.files
        ]

    def _engines(self) -> None:
        for source in self._plain_files(self.state / "engines"):
            if _is_beside_database(source):
                continue
            if _is_database(source):
                target = self._target(source)
                copy_pages(source, target)
                self._hashed(source, target)
            else:
                self._settled_file(source)

    def _settled_file(self, source: Path) -> None:
        """Copy a file that may change meanwhile, a few times if need be."""
        for _ in range(TRIES):
            copied = self._file(source)
            if copied is None or seen_now(source) == copied.seen:
                return
            self._target(source).unlink()
            self.files.pop()
        if self._file(source) is not None:
            self.files[-1] = replace(self.files[-1], stable=False)

    def _file(self, source: Path, *, whole_lines: bool = False) -> Copied | None:
        copied = copy_file(source, self._target(source), whole_lines=whole_lines)
        if copied is not None:
            self.files.append(
                BackedFile(
                    path=self._name(source), size_bytes=copied.size_bytes, sha256=copied.sha256
                )
            )
        return copied

    def _hashed(self, source: Path, target: Path) -> None:
        size, sha256 = hash_file(target)
        self.files.append(BackedFile(path=self._name(source), size_bytes=size, sha256=sha256))

    def _plain_files(self, folder: Path) -> Iterator[Path]:
        for where, folders, names in os.walk(folder):
            folders.sort()
            for name in sorted(names):
                path = Path(where, name)
                if _is_plain(path):
                    yield path
                else:
                    self.left_out.append(ascii(self._name(path)))

    def _target(self, source: Path) -> Path:
        target = self.root / source.relative_to(self.state)
        make_folders(target.parent)
        return target

    def _name(self, source: Path) -> str:
        return source.relative_to(self.state).as_posix()


def _is_plain(path: Path) -> bool:
    """Whether it is a file whose name can be written down; one that is gone is none."""
    try:
        os.fsencode(path).decode()
        return stat.S_ISREG(path.lstat().st_mode)
    except (OSError, UnicodeDecodeError):
        return False


def _is_beside_database(path: Path) -> bool:
    name = path.name
    beside = next((end for end in SQLITE_BESIDE if name.endswith(end)), None)
    return beside is not None and _is_database(path.with_name(name.removesuffix(beside)))


def _is_database(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(SQLITE_HEAD)) == SQLITE_HEAD
    except OSError:
        return False
