"""Find the codex binary and refuse what must not be run; knows nothing of what it is used for.

Verified once per gateway start and again whenever the file's identity differs (decision 28):
hashing costs 0.2–0.9 s.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import stat
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

from anyio import to_thread

from treadle.model.errors import ProcessStartError, VersionUnsupported
from treadle.observe import emit
from treadle.wire.environment import child_environment
from treadle.wire.process import Spawn, run_once

Version = tuple[int, int, int]

FLOOR: Final[Version] = (0, 149, 0)
"""Oldest version that works (decision 9)."""

HISTORY_FLOOR: Final[Version] = (0, 163, 0)
"""Oldest version for which the history projection was measured (decision 9)."""

HIGHEST_TESTED: Final[Version] = (0, 171, 0)
"""Newest version that was tried; a newer one runs with a warning."""

VERSION_TIMEOUT_S: Final = 15.0
"""Seconds for `--version`: 0.02 s warm, but a cold disk reads 150 MB."""

DISTRIBUTION: Final = "openai-codex-cli-bin"
"""The package of the extra `codex`, whose record holds the binary's hash."""

_NO_HOME: Final = {"CODEX_HOME": "/dev/null"}
"""Asking for the version leaves nothing in the person's own home of Codex."""

_VERSION: Final = re.compile(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})")
_MACHINES: Final = {
    62: ("x86_64", "amd64"),
    183: ("aarch64", "arm64"),
    3: ("i386", "i686"),
    40: ("armv7l",),
}
"""ELF `e_machine` to the names that `platform.machine()` uses."""

Identity = tuple[int, int, int, int, int]
"""Device, inode, size, mtime and ctime in nanoseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodexBinary:
    """A binary that was looked at and may be run."""

    path: Path
    """Absolute, links resolved."""
    version: Version
    version_text: str
    sha256: str
    identity: Identity
    warning: str | None
    """Why a person should know: newer than tested."""


def locate(explicit: str | None, environment: Mapping[str, str]) -> Path:
    """Return where the binary is: the configured path, else the extra's, else the PATH's.

    Raises: ProcessStartError naming what was tried.
    """
    if explicit is not None:
        path = Path(explicit).expanduser()
        if not path.is_absolute():
            raise _refusal(explicit, "the configured path is not absolute")
        return path
    bundled = _bundled()
    if bundled is not None:
        return bundled
    search = ":".join(p for p in environment.get("PATH", "").split(":") if p.startswith("/"))
    found = shutil.which("codex", path=search) if search else None
    if found is None:
        raise ProcessStartError(
            "There is no codex: none is configured, the extra is not installed, none is on PATH.",
            next_step="Install it: pip install 'treadle[codex]', or set"
            " plugins.entries.codex.config.appServer.command.",
        )
    return Path(found)


def _bundled() -> Path | None:
    try:
        from codex_cli_bin import bundled_codex_path  # optional extra `codex`
    except ImportError:
        return None
    try:
        return Path(bundled_codex_path())
    except FileNotFoundError:
        return None


def inspect(path: Path, workspace: Path | None) -> tuple[Path, Identity]:
    """Return the resolved path and identity of a file that may be run.

    Raises: ProcessStartError if it is missing, no file, not executable, for another machine,
    writable for everybody (itself or a folder above it), or inside the workspace.
    """
    try:
        real = path.resolve(strict=True)
        found = real.stat()
    except (OSError, RuntimeError) as error:
        raise _refusal(path, "it does not exist or cannot be reached") from error
    if not stat.S_ISREG(found.st_mode):
        raise _refusal(path, "it is no file")
    if not os.access(real, os.X_OK):
        raise _refusal(path, "it may not be executed", f"chmod u+x {real}")
    if workspace is not None and real.is_relative_to(workspace.resolve()):
        raise _refusal(path, f"it lies inside the workspace {str(workspace)!r}")
    _refuse_open_modes(path, real, found)
    _refuse_other_machine(path, real)
    return real, _identity(found)


def _refuse_open_modes(path: Path, real: Path, found: os.stat_result) -> None:
    if found.st_mode & stat.S_IWOTH:
        raise _refusal(path, "everybody may change it", f"chmod o-w {real}")
    for folder in real.parents:
        mode = folder.stat().st_mode
        if mode & stat.S_IWOTH and (folder == real.parent or not mode & stat.S_ISVTX):
            why = f"everybody may change its folder {str(folder)!r}"
            raise _refusal(path, why, f"chmod o-w {folder}")


def _refuse_other_machine(path: Path, real: Path) -> None:
    with real.open("rb") as file:
        head = file.read(20)
    if head[:4] != b"\x7fELF":
        return  # a script, or another system's format: the kernel decides
    number = int.from_bytes(head[18:20], "little" if head[5] == 1 else "big")
    ours = platform.machine().lower()
    theirs = _MACHINES.get(number, (f"machine type {number}",))
    if ours not in theirs:
        raise _refusal(path, f"it is built for {theirs[0]}, this machine is {ours}")


def parse_version(text: str) -> tuple[Version, str]:
    """Return the version in a line such as `codex-cli 0.163.0`. Raises: VersionUnsupported."""
    match = _VERSION.search(text)
    if match is None:
        raise VersionUnsupported(
            f"The codex binary does not say its version; it printed {text.strip()[:80]!r}.",
            next_step="Install a codex that Treadle knows: pip install 'treadle[codex]'.",
        )
    major, minor, patch = (int(part) for part in match.groups())
    return (major, minor, patch), text[match.start() :].split()[0].rstrip(",;)")


def check_version(version: Version, text: str) -> str | None:
    """Return a warning for a version newer than tested. Raises: VersionUnsupported (too old)."""
    if version < FLOOR:
        raise VersionUnsupported(
            f"codex {text} is too old: Treadle needs {_dotted(FLOOR)} or newer.",
            next_step="Install a newer codex: pip install --upgrade 'treadle[codex]'.",
            found=text,
            floor=_dotted(FLOOR),
        )
    if version > HIGHEST_TESTED:
        return f"codex {text} is newer than {_dotted(HIGHEST_TESTED)}, the newest that was tried"
    return None


class BinaryVerifier:
    """Answers with a binary that may be run now; asks the disk again only if the file differs."""

    def __init__(
        self,
        *,
        explicit: str | None,
        environment: Mapping[str, str],
        workspace: Path | None = None,
        expected_sha256: str | None = None,
    ) -> None:
        """`environment` is ours; `expected_sha256` is the hash that a person configured."""
        self._explicit = explicit
        self._environment = environment
        self._workspace = workspace
        self._expected = expected_sha256.lower() if expected_sha256 else None
        self._known: CodexBinary | None = None

    async def verified(self) -> CodexBinary:
        """Return the binary; starts no app-server. Raises: ProcessStartError, VersionUnsupported.

        A file that changes while the gateway runs must still have the hash seen first (RS55).
        """
        real, identity = await to_thread.run_sync(self._look)
        known = self._known
        if known is not None and (known.path, known.identity) == (real, identity):
            return known
        sha256 = await to_thread.run_sync(sha256_of, real)
        self._check_hash(real, sha256)
        version, text = await _ask_version(real, self._environment)
        warning = check_version(version, text)
        self._known = CodexBinary(
            path=real,
            version=version,
            version_text=text,
            sha256=sha256,
            identity=identity,
            warning=warning,
        )
        emit("wire.binary_verified", version=text, sha256=sha256)
        if warning is not None:
            emit("wire.warned", warning=warning)
        return self._known

    def _look(self) -> tuple[Path, Identity]:
        return inspect(locate(self._explicit, self._environment), self._workspace)

    def _check_hash(self, real: Path, found: str) -> None:
        known = self._known.sha256 if self._known is not None else None
        for expected, source in (
            (self._expected, "the configured hash"),
            (packaged_sha256(real), f"the hash in the record of {DISTRIBUTION}"),
            (known, "the file that this gateway verified first"),
        ):
            if expected is not None and expected != found:
                raise ProcessStartError(
                    f"{str(real)!r} is not {source}: expected SHA-256 {expected}, found {found}.",
                    next_step="If you replaced it on purpose, restart Treadle; else reinstall it.",
                    expected=expected,
                    found=found,
                )


def sha256_of(path: Path) -> str:
    """Return the file's SHA-256 as hex digits. Raises: ProcessStartError if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise _refusal(path, f"it cannot be read ({error})") from error


def packaged_sha256(path: Path) -> str | None:
    """Return the hash that the wheel's record gives for this file; None if it is not its file."""
    try:
        files = metadata.distribution(DISTRIBUTION).files or []
    except metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name != path.name or file.hash is None:
            continue
        if Path(str(file.locate())).resolve() == path:
            return _hex(file.hash.value)
    return None


def _hex(value: str) -> str:
    """Turn the record's URL-safe base64 without padding into hex digits."""
    return urlsafe_b64decode(value + "=" * (-len(value) % 4)).hex()


async def _ask_version(path: Path, environment: Mapping[str, str]) -> tuple[Version, str]:
    child = child_environment(environment, _NO_HOME)
    spawn = Spawn(argv=[str(path), "--version"], environment=child)
    ended, output, errors = await run_once(spawn, timeout_s=VERSION_TIMEOUT_S)
    if ended.code != 0:
        raise ProcessStartError(
            f"'{path} --version' ended with {ended.code}: {(errors or output).strip()[-400:]}"
        )
    return parse_version(output)


def _identity(found: os.stat_result) -> Identity:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _refusal(path: Path | str, why: str, step: str = "") -> ProcessStartError:
    return ProcessStartError(
        f"The codex binary {str(path)!r} was refused: {why}.",
        next_step=step or "Set plugins.entries.codex.config.appServer.command to a codex of yours.",
        path=str(path),
    )


def _dotted(version: Version) -> str:
    return ".".join(str(part) for part in version)
