"""What `doctor` looks at, one function a matter; each gives findings and changes nothing.

Knows nothing of how findings are shown.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

import anyio.to_thread

from treadle.cli.child_checks import registered
from treadle.cli.engine_check import checked_engines
from treadle.clock import RandomIds, SystemClock
from treadle.config.paths import Paths
from treadle.config.settings import Settings
from treadle.config.state_dir import living_owner
from treadle.model.errors import ConfigError, StoreError, WireError
from treadle.model.json import JsonValue
from treadle.private import make_private
from treadle.store.open import open_store
from treadle.wire.binary import BinaryVerifier

LEAST_FREE_BYTES: Final = 500_000_000
"""Room below which a person should know: a long session's rollout and index need some of it."""


DEFAULT_COMMAND: Final = Settings().codex.app_server.command
"""The name that stands for the installed wheel's binary, or the one in PATH."""


class State(StrEnum):
    """How a matter stands."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the doctor's."""

    matter: str
    state: State
    text: str
    next_step: str = ""

    def to_json(self) -> dict[str, JsonValue]:
        """Return the shape that `doctor --json` prints."""
        return {
            "matter": self.matter,
            "state": self.state.value,
            "text": self.text,
            "next_step": self.next_step,
        }


def ok(matter: str, text: str) -> Finding:
    """Return a finding that all is well."""
    return Finding(matter=matter, state=State.OK, text=text)


def warn(matter: str, text: str, next_step: str = "") -> Finding:
    """Return a finding that a person should know."""
    return Finding(matter=matter, state=State.WARN, text=text, next_step=next_step)


def fail(matter: str, text: str, next_step: str = "") -> Finding:
    """Return a finding that stops something from working."""
    return Finding(matter=matter, state=State.FAIL, text=text, next_step=next_step)


def config_faults(error: ConfigError) -> list[Finding]:
    """Return one finding for each fault of the configuration."""
    faults = error.faults or (error.message,)
    return [fail("configuration", fault, error.next_step) for fault in faults]


def config_findings(settings: Settings, paths: Paths) -> list[Finding]:
    """Look at the configuration, which could be read."""
    where = str(paths.config_file)
    text = where if settings.config_file is not None else f"no {where}; every key has its default"
    warned = [warn("configuration", str(one)) for one in settings.warnings]
    return [ok("configuration", text), *warned]


async def codex_findings(settings: Settings, environ: Mapping[str, str]) -> list[Finding]:
    """Find the codex binary, hash it and ask its version."""
    server = settings.codex.app_server
    verifier = BinaryVerifier(
        explicit=None if server.command == DEFAULT_COMMAND else server.command,
        environment=environ,
        expected_sha256=server.sha256,
    )
    try:
        binary = await verifier.verified()
    except WireError as error:
        return [fail("codex", error.message, error.next_step)]
    found = ok("codex", f"{binary.version_text} at {binary.path}, SHA-256 {binary.sha256}")
    return [found] if binary.warning is None else [found, warn("codex", binary.warning)]


def state_findings(paths: Paths) -> list[Finding]:
    """Look at the state directory: whose, open to whom, held by whom, and the room left."""
    path = paths.state
    try:
        found = path.lstat()
    except FileNotFoundError:
        return [ok("state directory", f"{path} does not exist yet; the first run makes it")]
    except OSError as error:
        return [fail("state directory", f"{path}: {error.strerror}")]
    fault = _state_fault(path, found)
    if fault is not None:
        return [fault]
    findings = [ok("state directory", f"{path}, private")]
    holder = holder_of(path)
    if holder is not None:
        findings.append(
            warn("state directory", f"in use by process {holder}", "Wait for it, or stop it")
        )
    free = shutil.disk_usage(path).free
    if free < LEAST_FREE_BYTES:
        text = f"only {free / 1e6:,.0f} MB are free on its disk"
        findings.append(warn("state directory", text, "Free some space"))
    return findings


def _state_fault(path: Path, found: os.stat_result) -> Finding | None:
    mode = stat.S_IMODE(found.st_mode)
    if stat.S_ISLNK(found.st_mode):
        return fail("state directory", f"{path} is a symbolic link", "Name the directory itself")
    if not stat.S_ISDIR(found.st_mode):
        return fail("state directory", f"{path} is not a directory", "Move that file away")
    if found.st_uid != os.geteuid():
        text = f"{path} belongs to user {found.st_uid}"
        return fail("state directory", text, "Run Treadle as that user, or name another directory")
    if mode & 0o077:
        text = f"{path} is open to others (mode {mode:04o})"
        return fail(
            "state directory", text, f"Look for files that are not yours, then: chmod 700 {path}"
        )
    if not os.access(path, os.W_OK | os.X_OK, effective_ids=True):
        return fail("state directory", f"{path} cannot be written", f"Run: chmod 700 {path}")
    return None


def holder_of(state: Path) -> int | None:
    """Return the process that holds the state directory, read from its lock file alone."""
    owner = living_owner(state)
    return None if owner is None else int(owner["pid"])


async def store_findings(paths: Paths) -> list[Finding]:
    """Check the whole store in a private copy, so that the store itself stays as it is.

    The children that it names are looked at too.
    """
    if not paths.database.exists():
        return [ok("store", "none yet; the first run makes it")]
    if holder_of(paths.state) is not None:
        return [warn("store", "not checked: it is in use", "Run doctor again when it is free")]
    clock = SystemClock()
    try:
        with tempfile.TemporaryDirectory(prefix="treadle-doctor-") as folder:
            copy = await anyio.to_thread.run_sync(_copied, paths.database, Path(folder))
            async with open_store(copy, clock=clock, ids=RandomIds(clock)) as store:
                found = await store.check()
                fine, unowned = await registered(store.children)
    except StoreError as error:
        return [fail("store", error.message, error.next_step)]
    except OSError as error:
        return [warn("store", f"not checked: {error}")]
    if found.faults:
        step = "Copy the state directory away before anything else"
        return [fail("store", fault, step) for fault in found.faults]
    text = (
        f"sound: {found.session_count:,} sessions, {found.entry_count:,} entries,"
        f" {found.size_bytes / 1e6:,.1f} MB, SQLite {found.sqlite_version}"
    )
    step = "The next start of Codex by Treadle stops it"
    return [
        ok("store", text),
        *(ok("children", one) for one in fine),
        *(warn("children", one, step) for one in unowned),
    ]


def _copied(database: Path, folder: Path) -> Path:
    copy = folder / database.name
    for suffix in ("", "-wal"):
        source = database.with_name(database.name + suffix)
        if source.exists():
            target = copy.with_name(copy.name + suffix)
            shutil.copyfile(source, target)
            make_private(target)
    return copy


def home_findings(settings: Settings, paths: Paths, environ: Mapping[str, str]) -> list[Finding]:
    """Look for folders that a Codex home trusts: Treadle gives no such trust (decision 1)."""
    findings: list[Finding] = []
    for agent in settings.agent_ids():
        matter = f"codex home of {agent}"
        try:
            home = paths.codex_home(agent, settings.agent(agent).home_scope, environ)
        except ConfigError as error:
            findings.append(fail(matter, error.message, error.next_step))
            continue
        findings += _home(matter, home)
    return findings


def _home(matter: str, home: Path) -> list[Finding]:
    if not home.exists():
        return [ok(matter, f"{home} does not exist yet; the first run makes it")]
    trusted = trusted_folders(home)
    if trusted is None:
        return [
            warn(matter, f"{home / 'config.toml'} cannot be read", "Repair it, or move it away")
        ]
    signed = "a sign-in is stored" if (home / "auth.json").exists() else "nobody signed in"
    findings = [ok(matter, f"{home}, {signed}")]
    for folder in trusted:
        text = (
            f"it trusts {folder}, which was not given through Treadle; turns there are sent as"
            " untrusted, and AGENTS.md of that folder does not reach the model"
        )
        step = f"Remove [projects.{folder!r}] from {home / 'config.toml'} unless you want it"
        findings.append(warn(matter, text, step))
    return findings


def trusted_folders(home: Path) -> list[str] | None:
    """Return the folders that a Codex home trusts; None if its settings cannot be read."""
    try:
        values = tomllib.loads((home / "config.toml").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except (OSError, ValueError):
        return None
    projects = values.get("projects")
    if not isinstance(projects, dict):
        return []
    return [
        name
        for name, project in projects.items()
        if isinstance(project, dict) and project.get("trust_level") == "trusted"
    ]


async def engine_findings(settings: Settings) -> list[Finding]:
    """Load every context engine once."""
    listed, refused = await checked_engines(settings)
    findings = [fail("engines", f"{one.engine_id}: {one.reason}") for one in refused]
    for one in listed:
        if one.fault is not None:
            text = f"{one.engine_id} ({one.owner}): {one.fault.reason}"
            findings.append(fail("engines", text, "Repair or remove that package"))
    names = [str(one.engine_id) for one in listed if one.fault is None]
    if settings.engine not in {str(one.engine_id) for one in listed}:
        text = f"the chosen engine {settings.engine!r} is not installed; legacy stands in"
        findings.append(fail("engines", text, "Choose another one: treadle engines list"))
    return [ok("engines", f"{', '.join(names)}; chosen: {settings.engine}"), *findings]
