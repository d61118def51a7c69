"""A disk that loses what was not synced: SQLite's files as a power cut may leave them.

A layer between SQLite and the real files, which notes every write and every sync of the databases
of this process and, at chosen syncs, puts down an *image*: what had been synced, plus any part of
what had not (each write whole, in its first sectors, or not at all, in no order). Knows nothing of
what the databases mean.

    with LosingDisk(Random(7), folder, chance=0.2) as disk:
        ...                                   # everything opened in here is watched
    for image in disk.images: ...             # image.folder holds the files by their names
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Final, Self

import apsw

SECTOR: Final = 512
"""Bytes that a disk writes whole or not at all."""

_NAME: Final = "losing"
_BELOW: Final = "unix"


@dataclass(slots=True)
class _File:
    """What of a file survives for sure, and what may."""

    synced: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)
    """Writes by offset; a cut to a length has no bytes."""

    exists: bool = False
    """Whether a sync has made its name survive."""

    def sync(self) -> None:
        """Let all of it survive."""
        for offset, data in self.pending:
            _apply(self.synced, offset, data)
        self.pending.clear()
        self.exists = True

    def after_cut(self, chance: Random) -> bytes | None:
        """Return what a power cut leaves, None for a file whose name never got there."""
        if not self.exists and chance.random() < 0.5:
            return None
        left = bytearray(self.synced)
        luck = chance.random()  # of all that is pending: often all or nothing, else some
        for offset, data in self.pending:
            if chance.random() < luck:
                _apply(left, offset, _torn(data, chance))
        return bytes(left)


def _apply(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del content[offset:]
        return
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def _torn(data: bytes | None, chance: Random) -> bytes | None:
    if data is None or len(data) <= SECTOR or chance.random() < 0.7:
        return data
    return data[: SECTOR * chance.randrange(1, len(data) // SECTOR + 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """The files as one power cut left them."""

    folder: Path
    number: int
    """Which sync it was taken at, counted from 1."""

    known: Any
    """What `note` returned at that moment: what had been promised to others by then."""


class LosingDisk:
    """Watches every database of this process that is opened while it is entered.

    `note` is called at each image, in the thread that syncs. Databases opened before or by another
    process are not watched; a file that exists already counts as synced. Files of equal names in
    different folders may not be used together.
    """

    def __init__(
        self,
        chance: Random,
        folder: Path,
        *,
        often: float = 1.0,
        most: int = 200,
        note: Callable[[], Any] = lambda: None,
    ) -> None:
        """Put images into `folder`, at a share `often` of the syncs and at most `most` of them."""
        self.images: list[Image] = []
        self.syncs = 0
        self._chance = chance
        self._folder = folder
        self._often = often
        self._most = most
        self._note = note
        self._files: dict[Path, _File] = {}
        self._lock = threading.RLock()
        self._layer: _Layer | None = None

    def __enter__(self) -> Self:
        """Stand between SQLite and its files from now on."""
        self._layer = _Layer(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Step aside; what was opened has to be closed by now."""
        assert self._layer is not None, "enter it first"
        self._layer.unregister()

    def opened(self, path: Path) -> None:
        """Take note of a file, new or not."""
        with self._lock:
            if path not in self._files:
                there = path.exists() and path.stat().st_size > 0
                content = bytearray(path.read_bytes()) if there else bytearray()
                self._files[path] = _File(synced=content, exists=there)

    def written(self, path: Path, offset: int, data: bytes | None) -> None:
        """Take note of a write, or of a cut to a length."""
        with self._lock:
            self._files[path].pending.append((offset, data))

    def synced(self, path: Path) -> None:
        """Let the file survive; before that, the power may fail."""
        with self._lock:
            self.syncs += 1
            wanted = self._chance.random() < self._often and len(self.images) < self._most
            amid = self._chance.random() < 0.5
            if wanted and amid:
                self._take()
            self._files[path].sync()
            if wanted and not amid:
                self._take()

    def deleted(self, path: Path) -> None:
        """Forget a file, whose name is gone at once: what it held was synced elsewhere."""
        with self._lock:
            self._files.pop(path, None)

    def _take(self) -> None:
        known = self._note()
        place = self._folder / f"cut-{len(self.images) + 1:04d}"
        place.mkdir(parents=True, mode=0o700)
        for path, file in self._files.items():
            content = file.after_cut(self._chance)
            if content is not None:
                copy = place / path.name
                copy.write_bytes(content)
                copy.chmod(0o600)
        self.images.append(Image(folder=place, number=self.syncs, known=known))


class _Layer(apsw.VFS):
    def __init__(self, disk: LosingDisk) -> None:
        self._disk = disk
        super().__init__(_NAME, _BELOW, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> Any:
        """Open a file; one without a name is temporary and nobody's to keep."""
        if name is None:
            return apsw.VFSFile(_BELOW, name, flags)
        return _Watched(self._disk, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        """Delete a file."""
        super().xDelete(filename, syncdir)
        self._disk.deleted(Path(filename))


class _Watched(apsw.VFSFile):
    def __init__(self, disk: LosingDisk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        self._path = Path(name.filename() if isinstance(name, apsw.URIFilename) else name)
        super().__init__(_BELOW, name, flags)
        self._disk.opened(self._path)

    def xWrite(self, data: Any, offset: int) -> None:
        super().xWrite(data, offset)
        self._disk.written(self._path, offset, bytes(data))

    def xTruncate(self, newsize: int) -> None:
        super().xTruncate(newsize)
        self._disk.written(self._path, newsize, None)

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        self._disk.synced(self._path)
