"""Where the program begins: the top help at once, everything else in `cli.main`.

Importing click alone costs about as much as the whole rest of `treadle --help`, so that one text is
kept beside this module as click writes it; a test compares them. Knows no command.
"""

import os
import sys

TYPE_CHECKING = (
    False  # the name is enough for type checkers; `typing` would cost more than the rest
)
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

HELP = os.path.join(os.path.dirname(__file__), "help.txt")
"""Written by `treadle --no-color --help`, which goes the long way."""

_LEAST_COLUMNS = 80
"""From here on click breaks no line of this text."""


def stored_help(arguments: "Sequence[str]", columns: int) -> str | None:
    """Return the text of the top help if that is all that was asked for, and it fits as it is."""
    if list(arguments) not in (["--help"], ["-h"]) or columns < _LEAST_COLUMNS:
        return None
    with open(HELP, encoding="utf-8") as file:
        return file.read()


def columns_of_terminal() -> int:
    """Return the width of the text: that of the terminal, or 80 where there is none."""
    try:
        return int(os.environ["COLUMNS"])
    except (KeyError, ValueError):
        pass  # not set, or not to a number: the terminal is asked
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or _LEAST_COLUMNS
    except (OSError, ValueError, AttributeError):
        return _LEAST_COLUMNS


def main() -> "NoReturn":
    """Run the program on this process's arguments and end the process."""
    try:
        text = stored_help(sys.argv[1:], columns_of_terminal())
        if text is not None and sys.stdout is not None:
            sys.stdout.write(text)
            sys.stdout.flush()
            raise SystemExit(0)
    except OSError:
        pass  # a closed pipe, a missing file: the long way knows what to do about it
    from treadle.cli.main import main as run

    run()
