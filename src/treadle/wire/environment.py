"""Decide what a child sees of our environment; pure, knows no process.

Commands that the model runs see the app-server's whole environment (F4), so only what is named here
gets through.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from treadle.model.errors import ConfigError

_PASSED: Final = frozenset({
    "PATH",
    "HOME",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TERM",
    "TMPDIR",
    "USER",
    "LOGNAME",
    "SHELL",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CODEX_CA_CERTIFICATE",
})
"""Names that pass as they are, beside `LC_*`."""

_STEERS_PROGRAMS: Final = re.compile(
    r"LD_.*|DYLD_.*|PYTHON.*|NODE_OPTIONS|NODE_PATH|BASH_ENV|BASH_FUNC_.*|ENV|PROMPT_COMMAND|IFS"
    r"|GIT_.*|PERL.*|RUBY.*|GCONV_PATH|SHELLOPTS|BASHOPTS|JAVA_TOOL_OPTIONS",
    re.IGNORECASE,
)
"""Names whose value makes another program load or run something. Source: RS43."""

_HOLDS_A_SECRET: Final = re.compile(
    r".*(?:TOKEN|KEY|SECRET|PASSWORD|PASSWD|CREDENTIALS?)", re.IGNORECASE
)
"""Names whose value is a secret by custom."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


def child_environment(
    inherited: Mapping[str, str],
    extra: Mapping[str, str],
    *,
    model_keys: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the environment of the app-server: what may pass of ours, then `extra`.

    Loopback is added to `NO_PROXY` and `no_proxy`, since the model may be a server of ours.
    `model_keys` are the keys that a custom provider's `env_key` names: the one way for a secret,
    hidden from commands by `shell_environment_policy` (`wire.launch`). Raises: ConfigError naming
    every refused name of `extra` and `model_keys`.
    """
    keys = dict(model_keys or {})
    faults = [
        *(f"environment: {name!r} may not be set for Codex" for name in refused_names(extra)),
        *(f"environment: {name!r} cannot name a model key" for name in _refused_keys(keys)),
    ]
    if faults:
        raise ConfigError("The environment for Codex was refused.", faults=tuple(faults))
    passed = {name: value for name, value in inherited.items() if _passes(name)}
    chosen = passed | dict(extra) | keys
    for name in ("NO_PROXY", "no_proxy"):
        chosen[name] = _with_loopback(chosen.get("NO_PROXY", ""), chosen.get("no_proxy", ""))
    return chosen


def refused_names(extra: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names that nobody may set for a child: they steer programs or hold secrets."""
    return tuple(
        name
        for name in extra
        if _NAME.fullmatch(name) is None
        or _STEERS_PROGRAMS.fullmatch(name)
        or _HOLDS_A_SECRET.fullmatch(name)
        or "\0" in extra[name]
    )


def _refused_keys(keys: Mapping[str, str]) -> Iterable[str]:
    return (
        name
        for name, value in keys.items()
        if _NAME.fullmatch(name) is None or _STEERS_PROGRAMS.fullmatch(name) or "\0" in value
    )


def _passes(name: str) -> bool:
    return name in _PASSED or name.startswith("LC_")


def _with_loopback(*lists: str) -> str:
    hosts = [host.strip() for text in lists for host in text.split(",") if host.strip()]
    return ",".join(dict.fromkeys([*hosts, *_LOOPBACK]))
