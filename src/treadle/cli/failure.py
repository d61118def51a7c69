"""How a command that cannot go on says so: what happened, what was kept, what to do next.

Knows nothing of what the command was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from treadle.cli.exit_codes import INTERNAL, Exit, exit_of_error
from treadle.cli.output import Output

if TYPE_CHECKING:
    from treadle.model.json import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An error as a face shows it."""

    code: str
    message: str
    kept: str = ""
    """What was not lost, where that is worth a line."""
    next_step: str = ""
    retry: bool = False

    @property
    def exit(self) -> Exit:
        """The exit code that belongs to it."""
        return exit_of_error(self.code)

    def to_json(self) -> dict[str, JsonObject]:
        """Return the object that `--json` prints."""
        return {
            "error": {
                "code": self.code,
                "message": self.message,
                "next_step": self.next_step,
                "retry": self.retry,
            }
        }


class CommandFailed(Exception):
    """Ends a command with a failure that is no error of a room below."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def failure_from_error(error: BaseException) -> Failure:
    """Return how an error is shown. A group of errors counts as its first leaf that says more."""
    from treadle.model.errors import TreadleError

    leaf = leaf_of(error)
    if isinstance(leaf, CommandFailed):
        return leaf.failure
    if isinstance(leaf, TreadleError):
        return failure_from_json(leaf.to_json())
    return Failure(
        code=INTERNAL,
        message=f"Treadle itself failed: {type(leaf).__name__}: {leaf}",
        next_step="Run it again with -v for the traceback, and report it.",
    )


def failure_from_json(error: Mapping[str, object]) -> Failure:
    """Return how the error of a finished run is shown."""
    return Failure(
        code=str(error.get("code") or "turn.failed"),
        message=str(error.get("message") or "the run failed"),
        next_step=str(error.get("next_step") or ""),
        retry=bool(error.get("retry")),
    )


def leaf_of(error: BaseException) -> BaseException:
    """Return the error that matters in a group: one raised on purpose, else the first."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    leaves = [leaf_of(inner) for inner in error.exceptions]
    told = (one for one in leaves if isinstance(getattr(one, "code", None), str))
    piped = (one for one in leaves if isinstance(one, BrokenPipeError))
    return next(piped, None) or next(told, None) or leaves[0]


def show_failure(output: Output, failure: Failure, *, as_json: bool) -> None:
    """Print a failure: three lines on stderr, or one object on stdout."""
    if as_json:
        output.json(failure.to_json())
        return
    output.say(f"treadle: {failure.message.strip()}")
    if failure.kept:
        output.say(f"  Kept: {failure.kept}")
    tail = f"[{failure.code}] exit {failure.exit:d}"
    step = _as_sentence(failure.next_step)
    output.say(f"  Next: {step}   {tail}" if step else f"  {tail}")


def _as_sentence(text: str) -> str:
    text = text.strip()
    return text if not text or text[-1] in ".!?" else f"{text}."
