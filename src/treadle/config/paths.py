"""Where Treadle keeps what: the XDG places, from the environment alone.

Makes nothing on disk; `state_dir` opens the state directory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from treadle.config.reading import nearest
from treadle.model.errors import ConfigError
from treadle.model.ids import AgentId

APP: Final = "treadle"
CONFIG_FILE: Final = "config.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """The places of one Treadle; all absolute."""

    home: Path
    """The person's home folder."""
    config_file: Path
    """The configuration, whether it exists or not."""
    config_is_named: bool
    """Somebody named the file, so it must exist."""
    state: Path
    """The state directory: store, logs, homes; all private."""

    @property
    def config_dir(self) -> Path:
        """Folder against which the configuration's relative paths are resolved."""
        return self.config_file.parent

    @property
    def database(self) -> Path:
        """The store's file."""
        return self.state / "treadle.sqlite3"

    @property
    def logs(self) -> Path:
        """Folder of the log files."""
        return self.state / "logs"

    def engine_data(self, engine_id: str) -> Path:
        """Folder of what a context engine keeps; only for an id that can be a folder's name."""
        return self.state.joinpath("engines", engine_id)

    def agent_dir(self, agent_id: AgentId) -> Path:
        """Folder of one agent."""
        return self.state.joinpath("agents", agent_id)

    def agent_workspace(self, agent_id: AgentId) -> Path:
        """Working folder of an agent that names none."""
        return self.state.joinpath("agents", agent_id, "workspace")

    def codex_home(self, agent_id: AgentId, home_scope: str, environ: Mapping[str, str]) -> Path:
        """Return the `CODEX_HOME` of an agent: its own, or the person's. Source: spec V-06.

        Raises: ConfigError when it lies under the folder for temporary files, where codex refuses
        to put its helper programs.
        """
        if home_scope == "user":
            home = _absolute(environ, "CODEX_HOME") or self.home / ".codex"
            remedy = "Set CODEX_HOME to a folder elsewhere"
        else:
            home = self.agent_dir(agent_id) / "codex"
            remedy = "Set TREADLE_STATE_DIR to a folder elsewhere, or TMPDIR to another one"
        refuse_temporary(home, environ, remedy)
        return home


def refuse_temporary(codex_home: Path, environ: Mapping[str, str], next_step: str) -> None:
    """Raise ConfigError if a Codex home lies under the folder for temporary files."""
    temporary = Path(environ.get("TMPDIR") or tempfile.gettempdir())
    real, real_temporary = codex_home.resolve(), temporary.resolve()
    if real.is_relative_to(real_temporary):
        raise ConfigError(
            f"the Codex home {str(codex_home)!r} lies under the folder for temporary files "
            f"{str(temporary)!r}; codex puts no helper programs there and its commands would fail",
            next_step=next_step,
        )


def find_paths(
    environ: Mapping[str, str],
    *,
    home: Path | None = None,
    config: Path | None = None,
    state: Path | None = None,
) -> Paths:
    """Find the places: what is given, else `TREADLE_CONFIG` and `TREADLE_STATE_DIR`, else XDG.

    An XDG variable with a relative path is ignored, as its standard says. Raises: ConfigError when
    there is no home folder, or a TREADLE_ path is relative.
    """
    person = home or _home(environ)
    named = config or _absolute(environ, "TREADLE_CONFIG")
    in_xdg = _xdg(environ, "XDG_CONFIG_HOME", person / ".config") / APP / CONFIG_FILE
    kept = state or _absolute(environ, "TREADLE_STATE_DIR")
    return Paths(
        home=person,
        config_file=(named or in_xdg).absolute(),
        config_is_named=named is not None,
        state=(
            kept or _xdg(environ, "XDG_STATE_HOME", person / ".local" / "state") / APP
        ).absolute(),
    )


def _home(environ: Mapping[str, str]) -> Path:
    text = environ.get("HOME", "")
    if text.startswith("/"):
        return Path(text)
    try:
        return Path.home()  # from the user database, when HOME is not set
    except RuntimeError as error:
        raise ConfigError(
            "there is no home folder: HOME is not set and the user has none",
            next_step="Set HOME, or both TREADLE_CONFIG and TREADLE_STATE_DIR",
        ) from error


def _xdg(environ: Mapping[str, str], name: str, default: Path) -> Path:
    text = environ.get(name, "")
    return Path(text) if text.startswith("/") else default


def _absolute(environ: Mapping[str, str], name: str) -> Path | None:
    text = environ.get(name, "")
    if not text:
        return None
    if not text.startswith("/"):
        raise ConfigError(
            f"{name} is {text!r}, which is not an absolute path",
            next_step=f"Set {name} to a path that starts with /",
        )
    return Path(text)


VARIABLES: Final = ("TREADLE_CONFIG", "TREADLE_STATE_DIR", "TREADLE_RUN")
"""Variables that set no key: those that name places, and the marker of our children's commands."""


def mistyped(name: str, known: tuple[str, ...]) -> str | None:
    """Return the variable that a name of ours is meant to be, if it is none and near to one."""
    return nearest(name, known) if name.startswith("TREADLE_") and name not in known else None
