"""Write the app-server's command line; pure, starts nothing.

Settings go as `-c key=value` with values that we serialise as TOML, never through a shell and never
into the person's `config.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from treadle.model.errors import ConfigError
from treadle.model.json import JsonValue

BASE_CONFIG: Final[Mapping[str, JsonValue]] = MappingProxyType({
    "check_for_update_on_startup": False,
    "analytics.enabled": False,
    "feedback.enabled": False,
    "otel.exporter": "none",
    "otel.metrics_exporter": "none",
    # commands see PATH, HOME and the like, not the app-server's whole environment (F4)
    "shell_environment_policy.inherit": "core",
    # a dead endpoint would hang a turn for ever (facts section 11)
    "features.unbounded_connection_retries": False,
    # each thread would run a login shell (facts section 13)
    "features.shell_snapshot": False,
})
"""Settings of every app-server that Treadle starts."""

OFFLINE_CONFIG: Final[Mapping[str, JsonValue]] = MappingProxyType({
    "features.plugins": False,
    "features.apps": False,
    "features.remote_plugin": False,
})
"""What else must be off so that a custom provider is the only peer (facts section 1)."""

MARKER: Final = "TREADLE_RUN"
"""Variable that an app-server and every command of it has; its value is the child's id (F8)."""

_KEY: Final = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")
_ESCAPED: Final = re.compile(r'[\x00-\x1f\x7f"\\]')
_SHORT: Final = {
    "\b": r"\b",
    "\t": r"\t",
    "\n": r"\n",
    "\f": r"\f",
    "\r": r"\r",
    '"': r"\"",
    "\\": r"\\",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchKey:
    """What makes two app-servers interchangeable: the home, and the settings given at the start."""

    home: Path
    """`CODEX_HOME`, absolute."""

    config: tuple[tuple[str, str], ...] = ()
    """Dotted key and TOML text, sorted by key (`launch_key` makes it)."""

    environment: tuple[tuple[str, str], ...] = ()
    """Variables beside the allow-listed ones, sorted."""


def launch_key(
    home: Path,
    config: Mapping[str, JsonValue],
    environment: Mapping[str, str] | None = None,
) -> LaunchKey:
    """Return the key of an app-server with `BASE_CONFIG` and these settings on top.

    Raises: ConfigError for a key or value that the command line cannot say.
    """
    merged = {**BASE_CONFIG, **config}
    faults = tuple(f"codex config: {key!r} is no dotted key" for key in merged if not _is_key(key))
    if faults:
        raise ConfigError("The settings for Codex were refused.", faults=faults)
    if not home.is_absolute():
        raise ConfigError(f"CODEX_HOME must be absolute, not {str(home)!r}")
    pairs = sorted((key, toml_value(value)) for key, value in merged.items())
    return LaunchKey(
        home=home, config=tuple(pairs), environment=tuple(sorted((environment or {}).items()))
    )


def codex_argv(binary: Path, key: LaunchKey, *, marker: str | None = None) -> list[str]:
    """Return the argument list of an app-server over stdio.

    The marker goes into the environment of its commands. It is new with every process, so it is no
    part of the key; nothing of it reaches the model.
    """
    marked = (
        [(f"shell_environment_policy.set.{MARKER}", toml_value(marker))]
        if marker is not None
        else []
    )
    flags = [part for name, value in (*key.config, *marked) for part in ("-c", f"{name}={value}")]
    return [str(binary), *flags, "app-server"]


def toml_value(value: JsonValue) -> str:
    """Return a value as one line of TOML. Raises: ConfigError for null, which TOML cannot say."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _toml_float(value)
        case str():
            return _toml_string(value)
        case Mapping():
            inner = ", ".join(f"{_toml_string(k)} = {toml_value(v)}" for k, v in value.items())
            return f"{{{inner}}}"
        case Sequence():
            return f"[{', '.join(toml_value(part) for part in value)}]"
        case _:
            raise ConfigError(f"TOML cannot say {value!r}")


def _toml_float(value: float) -> str:
    if value != value:
        return "nan"
    text = repr(value)
    if "inf" in text or "." in text or "e" in text:
        return text
    return f"{text}.0"


def _toml_string(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ConfigError(f"TOML cannot say {text!r}: a lone surrogate") from error
    escaped = _ESCAPED.sub(lambda m: _SHORT.get(m.group(), f"\\u{ord(m.group()):04x}"), text)
    return f'"{escaped}"'


def _is_key(key: str) -> bool:
    return _KEY.fullmatch(key) is not None and not key.startswith("-")
