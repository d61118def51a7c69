"""Read the settings: command line over environment over file over defaults, all faults at once.

Reads one file; knows nothing of who uses the settings.
"""

from __future__ import annotations

import stat
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final, cast

from treadle.config.document import Document, Tables, key_lines
from treadle.config.migrate import APP_SERVER, OLD_VARIABLES, RETIRED_VARIABLES, migrate
from treadle.config.paths import VARIABLES, Paths, mistyped
from treadle.config.reading import KeyPath, Reading, dotted
from treadle.config.records import RuntimeId
from treadle.config.settings import Settings, Warned
from treadle.config.tables import Table
from treadle.model.errors import ConfigError
from treadle.model.json import JsonValue

ENVIRONMENT: Final[Mapping[str, KeyPath]] = {
    "TREADLE_MODEL": ("agents", "defaults", "model"),
    "TREADLE_ENGINE": ("plugins", "slots", "contextEngine"),
    "TREADLE_CODEX": (*APP_SERVER, "command"),
    "TREADLE_LOG_LEVEL": ("log", "level"),
}
"""Variables that set a key. An empty one counts as not set."""

MAX_FILE_BYTES: Final = 1_000_000
"""A configuration larger than this is something else."""


def load_settings(
    paths: Paths,
    environ: Mapping[str, str],
    overrides: Mapping[KeyPath, JsonValue] | None = None,
) -> Settings:
    """Read the configuration file, lay variables and the command line over it, and check all.

    `overrides` are keys that the command line sets. Raises: ConfigError with every fault.
    """
    document = _read_file(paths)
    warnings: list[Warned] = []
    _apply_environment(document, environ, warnings)
    for path, value in (overrides or {}).items():
        document.put(path, value, "command line")

    def warn(path: KeyPath, text: str) -> None:
        warnings.append(Warned(key=dotted(path), text=text, where=document.where(path)))

    old_runtime = migrate(document, warn)
    reading = Reading(base=paths.config_dir, home=paths.home, where=document.where)
    settings = Table(Settings).read(document.values, (), reading)
    _check_together(settings, reading)
    if reading.faults:
        raise _faulty(paths.config_file, reading.faults)
    for path, text in reading.notes:
        warn(path, text)
    defaults = settings.agents.defaults
    return replace(
        settings,
        deadlines=replace(
            settings.deadlines,
            run_s=defaults.timeout_seconds,
            compaction_s=defaults.compaction.timeout_seconds,
            request_s=settings.codex.app_server.request_timeout_ms / 1000,
        ),
        old_default_runtime=cast("RuntimeId | None", old_runtime),  # migrate gives no other word
        config_file=paths.config_file if paths.config_file.exists() else None,
        sources=MappingProxyType({dotted(p): document.where(p) for p in document.leaves()}),
        warnings=tuple(warnings),
    )


def _faulty(file: Path, faults: list[str]) -> ConfigError:
    count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
    listed = "".join(f"\n  {fault}" for fault in faults)
    return ConfigError(
        f"the configuration has {count}:{listed}",
        faults=tuple(faults),
        next_step=f"Correct {file}; docs/config.md describes every key",
    )


def _read_file(paths: Paths) -> Document:
    file = paths.config_file
    raw = _bytes(file, must_exist=paths.config_is_named)
    if raw is None:
        return Document({}, {})
    try:
        text = raw.decode("utf-8-sig")
        values: Tables = tomllib.loads(text)
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise _faulty(file, [f"{file.name}:{line}: is not UTF-8 text"]) from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise _faulty(file, [f"{file.name}: is not TOML: {error}"]) from error
    lines = key_lines(text.replace("\r\n", "\n"))
    origins = {path: f"{file.name}:{line}" for path, line in lines.items()}
    return Document(values, {(): file.name, **origins})


def _bytes(file: Path, *, must_exist: bool) -> bytes | None:
    try:
        found = file.stat()
        if not stat.S_ISREG(found.st_mode):
            raise _unreadable(file, "it is not a file")
        if found.st_size > MAX_FILE_BYTES:
            raise _unreadable(file, f"it has {found.st_size} bytes, allowed: {MAX_FILE_BYTES}")
        return file.read_bytes()
    except FileNotFoundError as error:
        if must_exist:
            raise _unreadable(file, "it does not exist") from error
        return None
    except OSError as error:
        raise _unreadable(file, error.strerror or "it cannot be read") from error


def _unreadable(file: Path, why: str) -> ConfigError:
    return ConfigError(
        f"the configuration {str(file)!r} cannot be read: {why}",
        faults=(f"{file}: {why}",),
        next_step="Check TREADLE_CONFIG or --config and who may read the file",
    )


def _apply_environment(
    document: Document, environ: Mapping[str, str], warnings: list[Warned]
) -> None:
    for name, path in OLD_VARIABLES.items():
        if value := environ.get(name):
            text = f"is an old variable; write {dotted(path)} in the configuration"
            warnings.append(Warned(key=name, text=text, where="environment"))
            document.put(path, value, f"environment {name}")
    for name in RETIRED_VARIABLES:
        if environ.get(name):
            text = f"is retired and ignored; write {dotted((*APP_SERVER, 'mode'))}"
            warnings.append(Warned(key=name, text=text, where="environment"))
    for name, path in ENVIRONMENT.items():
        if value := environ.get(name):
            document.put(path, value, f"environment {name}")
    known = (*ENVIRONMENT, *VARIABLES)
    for name in sorted(environ):
        if meant := mistyped(name, known):
            text = f"is not a variable of Treadle; did you mean {meant}?"
            warnings.append(Warned(key=name, text=text, where="environment"))


def _check_together(settings: Settings, reading: Reading) -> None:
    """Find what single keys cannot show."""
    if settings.codex.app_server.transport != "stdio":
        text = "accepted, but this version reaches codex by stdio only; runs on codex will fail"
        reading.note((*APP_SERVER, "transport"), text)
    for name, provider in settings.models.providers.items():
        at = ("models", "providers", name)
        if provider.api_key_file is not None and provider.api_key_env is not None:
            reading.fault((*at, "apiKeyEnv"), "apiKeyFile is set too; allowed: one of them")
        if provider.base_url is None and (provider.api_key_file or provider.api_key_env):
            reading.fault(at, "has a key and no baseUrl; allowed: a provider with its address")
