"""The list of what a backup holds, with hashes; its form in `manifest.json`.

Pure. Knows nothing of how files are copied.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from treadle.model.errors import BackupInvalid, MigrationNeeded
from treadle.model.json import JsonValue

FORMAT: Final = "treadle-backup"
VERSION: Final = 1
"""Of the form of a backup; a Treadle takes its own and older ones."""

MANIFEST: Final = "manifest.json"
"""Written last: a folder without it is no whole backup."""

MAX_FILES: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BackedFile:
    """One file of a backup."""

    path: str
    """Below the state directory, with `/`."""

    size_bytes: int
    sha256: str
    stable: bool = True
    """Whether it stayed as it is from before the store was copied until after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a backup holds."""

    treadle: str
    """Version that made it."""

    schema: int
    """Of the store in it."""

    made_at: float
    """Unix seconds."""

    state: str
    """The state directory that it was made of."""

    files: tuple[BackedFile, ...]
    left_out: tuple[str, ...] = ()
    """Paths that were not copied: links, sockets and the like."""

    @property
    def size_bytes(self) -> int:
        """Of all files together."""
        return sum(file.size_bytes for file in self.files)

    def to_text(self) -> str:
        """Return the manifest as it is written."""
        document: dict[str, JsonValue] = {
            "format": FORMAT,
            "version": VERSION,
            "treadle": self.treadle,
            "schema": self.schema,
            "made_at": self.made_at,
            "state": self.state,
            "left_out": list(self.left_out),
            "files": [
                {
                    "path": file.path,
                    "size": file.size_bytes,
                    "sha256": file.sha256,
                    "stable": file.stable,
                }
                for file in self.files
            ],
        }
        return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def parse_manifest(text: str) -> Manifest:
    """Read a manifest. Raises: BackupInvalid, MigrationNeeded for a newer form."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise _broken(f"it is no JSON: {error}") from None
    if not isinstance(found, Mapping) or found.get("format") != FORMAT:
        raise _broken("it is no manifest of a Treadle backup")
    version = found.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise _broken(f"its version is {version!r}")
    if version > VERSION:
        raise MigrationNeeded(
            f"the backup has form {version}; this Treadle knows {VERSION}; nothing was changed",
            next_step="Update Treadle, then restore.",
        )
    files = found.get("files")
    if not isinstance(files, list) or len(files) > MAX_FILES:
        raise _broken("it lists no files, or too many")
    left_out = found.get("left_out", [])
    return Manifest(
        treadle=_text(found, "treadle"),
        schema=_whole(found, "schema"),
        made_at=_number(found, "made_at"),
        state=_text(found, "state"),
        files=_distinct(tuple(map(_file, files))),
        left_out=tuple(map(str, left_out)) if isinstance(left_out, list) else (),
    )


def _file(value: object) -> BackedFile:
    if not isinstance(value, Mapping):
        raise _broken("a file of its list is no object")
    path = _text(value, "path")
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or {"..", "."} & set(path.split("/")) or "\0" in path:
        raise _broken(f"it names the path {path!r}, which leads out of the state directory")
    if "\\" in path or "//" in path or path.endswith("/"):
        raise _broken(f"it names the path {path!r}")
    return BackedFile(
        path=path,
        size_bytes=_whole(value, "size"),
        sha256=_text(value, "sha256"),
        stable=value.get("stable") is True,
    )


def _distinct(files: tuple[BackedFile, ...]) -> tuple[BackedFile, ...]:
    paths = {file.path for file in files}
    if len(paths) != len(files):
        raise _broken("it names a file twice")
    above = {str(parent) for path in paths for parent in PurePosixPath(path).parents}
    if clash := above & paths:
        raise _broken(f"it names {sorted(clash)[0]!r} as a file and as a folder")
    return files


def _text(found: Mapping[str, object], name: str) -> str:
    value = found.get(name)
    if not isinstance(value, str) or not value:
        raise _broken(f"{name!r} is {value!r}, not a text")
    return value


def _whole(found: Mapping[str, object], name: str) -> int:
    value = found.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _broken(f"{name!r} is {value!r}, not a whole number")
    return value


def _number(found: Mapping[str, object], name: str) -> float:
    value = found.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _broken(f"{name!r} is {value!r}, not a number")
    return float(value)


def _broken(what: str) -> BackupInvalid:
    return BackupInvalid(
        f"the backup's {MANIFEST} cannot be used: {what}; nothing was changed",
        next_step="Name the folder that treadle backup made, or another backup.",
    )
