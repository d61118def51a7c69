"""Make the project's `.venv` what the lock files say, with Python's own venv and pip alone.

Run by `scripts/demo` and `scripts/test`, never needed by hand. It knows nothing of what is run
afterwards. Standard library only: it runs before anything is installed.

What is found in `.venv`, and what is done about it:

| found | done |
|---|---|
| complete, for these lock files | nothing |
| complete, for other lock files or for the smaller profile | packages are installed over it |
| another tool's environment (no stamp of ours) with a Python that works | the same |
| nothing, a Python that does not run, a moved tree, a set-up that was cut short | built anew |
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path

LOCKS = {"demo": ("requirements.lock",), "test": ("requirements.lock", "requirements-dev.lock")}
"""The lock files of each profile, in the order in which they are installed; the last one holds
every package of those before it."""

STAMP = "treadle-setup.json"
"""File in `.venv` that says what the last complete set-up installed."""

UNFINISHED = "treadle-setup-unfinished"
"""File in `.venv` while packages are being installed: what it stands beside cannot be trusted."""

FOREIGN_VARIABLES = ("PYTHONHOME", "PYTHONPATH", "PIP_PREFIX", "PIP_ROOT", "PIP_TARGET", "PIP_USER")
"""Variables that would make pip install somewhere else than into `.venv`."""


class SetupError(Exception):
    """Set-up cannot go on; the message says what was tried and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What a complete set-up was made from; equal stamps need no work."""

    root: str
    """The project's folder: console scripts hold absolute paths."""
    project: str
    """Hash of pyproject.toml: entry points are written at installation."""
    locks: tuple[str, ...]
    """Hashes of the lock files that were installed, in order."""


class Action(Enum):
    """What is to be done about the environment that was found."""

    KEEP = "keep"
    UPDATE = "update"
    REBUILD = "rebuild"


def decide(
    wanted: Stamp, found: Stamp | None, *, is_unfinished: bool, python_works: bool
) -> Action:
    """Choose between keeping, installing over, and building anew. Pure."""
    if is_unfinished or not python_works:
        return Action.REBUILD
    if found is None:
        return Action.UPDATE
    if found.root != wanted.root:
        return Action.REBUILD
    same_locks = found.locks[: len(wanted.locks)] == wanted.locks
    return Action.KEEP if same_locks and found.project == wanted.project else Action.UPDATE


def stamp_for(root: Path, profile: str) -> Stamp:
    """Describe what a set-up of this tree for `profile` is made from."""
    return Stamp(
        root=str(root),
        project=_hash(root / "pyproject.toml"),
        locks=tuple(_hash(root / name) for name in LOCKS[profile]),
    )


def read_stamp(venv: Path) -> Stamp | None:
    """Read the stamp in `venv`; None where there is none that we can read."""
    try:
        value = json.loads((venv / STAMP).read_text(encoding="utf-8"))
        return Stamp(root=value["root"], project=value["project"], locks=tuple(value["locks"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def python_works(venv: Path) -> bool:
    """Say whether the environment's Python starts, is new enough, and has pip."""
    code = (
        "import sys, pip\n"
        "raise SystemExit(sys.version_info < (3, 11) or sys.prefix == sys.base_prefix)"
    )
    try:
        done = subprocess.run(
            [venv / "bin" / "python", "-c", code],
            env=_environment(),
            capture_output=True,
            check=False,
        )
    except OSError:
        return False
    return done.returncode == 0


def build(venv: Path) -> None:
    """Make a new, empty environment in place of whatever is at `venv`."""
    say(f"creating {venv.name} with Python {sys.version.split()[0]}")
    if venv.is_symlink() or venv.is_file():
        venv.unlink()
    elif venv.exists():
        shutil.rmtree(venv)
    venv.mkdir()
    (venv / UNFINISHED).touch()
    run(
        [sys.executable, "-m", "venv", venv],
        "Python's venv module could not make an environment;"
        " on Debian: apt-get install python3-venv",
    )


def install(root: Path, venv: Path, profile: str) -> None:
    """Install the locked packages of `profile`, then the project itself as an editable one."""
    (venv / UNFINISHED).touch()
    (venv / STAMP).unlink(missing_ok=True)
    pip: list[str | Path] = [
        venv / "bin" / "python",
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
    ]
    if not sys.stdout.isatty():
        pip += ["--quiet", "--progress-bar", "off"]
    # No isolated builds: they would download build tools that no hash covers. The build tools that
    # are needed come with requirements.lock, which holds packages with wheels only.
    locked = [*pip, "--require-hashes", "--no-build-isolation", "--use-pep517"]
    for name in LOCKS[profile]:
        say(f"installing what {name} names (the first time 200 MB: minutes on a slow line)")
        run(
            [*locked, "-r", root / name],
            "pip could not install the locked packages (its own words are above). Set-up needs the"
            " package registry once: check network and proxy, then run the same command again",
        )
    say("installing treadle itself (editable)")
    run(
        [*pip, "--no-deps", "--no-build-isolation", "--no-index", "--editable", root],
        "pip could not install the project itself",
    )


def set_up(root: Path, profile: str) -> None:
    """Bring `.venv` under `root` to what `profile` needs.

    Raises: SetupError. Cancel: the environment stays marked as unfinished and is built anew.
    """
    venv = root / ".venv"
    wanted = stamp_for(root, profile)
    action = decide(
        wanted,
        read_stamp(venv),
        is_unfinished=(venv / UNFINISHED).exists(),
        python_works=python_works(venv),
    )
    if action is Action.KEEP:
        return
    if action is Action.REBUILD:
        build(venv)
    install(root, venv, profile)
    (venv / STAMP).write_text(json.dumps(asdict(wanted), indent=2) + "\n", encoding="utf-8")
    (venv / UNFINISHED).unlink()
    say("ready")


def run(command: list[str | Path], failure: str) -> None:
    """Run one step in the foreground. Raises: SetupError with `failure`."""
    done = subprocess.run([str(part) for part in command], env=_environment(), check=False)
    if done.returncode != 0:
        raise SetupError(f"{failure} (exit code {done.returncode})")


def say(text: str) -> None:
    """Print one line of progress, on stderr: stdout belongs to what runs afterwards."""
    print(f"[set-up] {text}", file=sys.stderr, flush=True)


def main() -> int:
    """Set up for the profile named on the command line; 0 when `.venv` is ready."""
    parser = argparse.ArgumentParser(description="Make .venv what the lock files say.")
    parser.add_argument("profile", choices=sorted(LOCKS))
    profile = parser.parse_args().profile
    root = Path(__file__).resolve().parent.parent
    try:
        with (root / "pyproject.toml").open(encoding="utf-8") as held:
            fcntl.flock(held, fcntl.LOCK_EX)  # two commands at once: the second one waits
            set_up(root, profile)
    except SetupError as error:
        say(f"failed: {error}")
        return 1
    except OSError as error:
        say(f"failed: {error}")
        return 1
    except KeyboardInterrupt:
        say("interrupted; run the same command again")
        return 130
    return 0


def _hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in FOREIGN_VARIABLES}


if __name__ == "__main__":
    sys.exit(main())
