"""Named places where a test makes Treadle fail; does nothing outside of a test.

A place is passed with `failpoint("S10-before-commit")`. What happens there comes from the
environment of the process, and only where `TREADLE_TEST_RUN` says that it belongs to a test:

    TREADLE_FAILPOINTS="S6=kill; S1=error:StoreFull; S5=pause:/path/to/file@2"

| action | what happens |
|---|---|
| `kill` | the process kills itself with SIGKILL |
| `pause:FILE` | this thread stops until FILE is there; `FILE.reached` says that it stands here |
| `error:NAME` | the error of that name is raised, ours or Python's own |

`@N` lets it happen the N-th time only; without it, every time. Source: reliability section 3.
"""

from __future__ import annotations

import builtins
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NoReturn

from treadle.model import errors

VARIABLE: Final = "TREADLE_FAILPOINTS"
TEST_RUN: Final = "TREADLE_TEST_RUN"

PAUSE_STEP_S: Final = 0.01

ActionName = Literal["kill", "pause", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What happens at a place."""

    name: ActionName
    argument: str = ""
    """The file of `pause`, the class of `error`."""

    at: int | None = None
    """The passage that it happens in, counted from 1; None is every one."""


class Failpoints:
    """The places of one process that do something, and how often each was passed."""

    def __init__(self, actions: Mapping[str, Action], *, kill: Callable[[], None]) -> None:
        """Take what is to happen where; `kill` is called in place of dying by itself."""
        self._actions = actions
        self._kill = kill
        self._passed: Counter[str] = Counter()

    def reach(self, name: str) -> None:
        """Do what is to happen here.

        Raises: what the place is to raise.
        """
        action = self._actions.get(name)
        if action is None:
            return
        self._passed[name] += 1
        if action.at is not None and action.at != self._passed[name]:
            return
        match action.name:
            case "kill":
                self._kill()
            case "pause":
                _pause(Path(action.argument))
            case "error":
                _fail(name, action.argument)


def read_actions(environ: Mapping[str, str]) -> dict[str, Action]:
    """Return what is to happen where; nothing outside of a test. Pure. Raises: ValueError."""
    if not environ.get(TEST_RUN):
        return {}
    parts = (part.strip() for part in environ.get(VARIABLE, "").split(";"))
    return dict(_read_one(part) for part in parts if part)


def _read_one(part: str) -> tuple[str, Action]:
    name, _, what = part.partition("=")
    what, _, at = what.partition("@")
    action, _, argument = what.partition(":")
    passage = int(at) if at else None
    match action, argument:
        case "kill", "":
            return name, Action(name="kill", at=passage)
        case "pause", file if file:
            return name, Action(name="pause", argument=file, at=passage)
        case "error", error if _error_class(error) is not None:
            return name, Action(name="error", argument=error, at=passage)
        case _:
            raise ValueError(f"{VARIABLE} has no failpoint of the form {part!r}")


def _error_class(name: str) -> type[Exception] | None:
    for module in (errors, builtins):
        found = getattr(module, name, None)
        if isinstance(found, type) and issubclass(found, Exception):
            return found
    return None


def _fail(name: str, error: str) -> NoReturn:
    found = _error_class(error)
    assert found is not None, "it was looked up when the environment was read"
    raise found(f"failpoint {name}")


def _pause(file: Path) -> None:
    """Stop this thread, and with it the loop where it is the loop's, as a stopped process does."""
    file.with_name(f"{file.name}.reached").touch()
    while not file.exists():
        time.sleep(PAUSE_STEP_S)


def _kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


_actions = read_actions(os.environ)
_failpoints: Final = Failpoints(_actions, kill=_kill_self) if _actions else None


def failpoint(name: str) -> None:
    """Pass a named place: `S0`…`S13`, with `-before-commit` or `-after-commit` round a write.

    Nothing happens outside of a test. Raises: what a test wants it to raise.
    """
    if _failpoints is not None:
        _failpoints.reach(name)
