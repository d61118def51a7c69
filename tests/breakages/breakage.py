"""One change of the source, and whether it still fits.

Knows nothing of which changes there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Breakage:
    """A change that breaks what `case` promises."""

    name: str
    """In words with dashes: what Treadle would do wrong."""

    case: str
    """Id of the contract (`D-12`, `RS48`), or `decision 3`, `INV-22`."""

    file: str
    """Below `src/treadle`."""

    old: str
    """Text that stands in the file exactly once."""

    new: str

    tests: tuple[str, ...]
    """Tests that name the case; each has to fail."""


class DoesNotFit(Exception):
    """The source has changed: the text to be replaced is not there, or not once."""


def broken_text(source: str, breakage: Breakage) -> str:
    """Return the source of the file with the change made. Raises: DoesNotFit."""
    times = source.count(breakage.old)
    if times != 1:
        raise DoesNotFit(
            f"{breakage.name}: found {times} times instead of once in {breakage.file}:"
            f" {breakage.old!r}"
        )
    return source.replace(breakage.old, breakage.new)


def break_in(package: Path, breakage: Breakage) -> None:
    """Make the change in the package that lies in that folder. Raises: DoesNotFit, OSError."""
    path = package / breakage.file
    path.write_text(broken_text(path.read_text(encoding="utf-8"), breakage), encoding="utf-8")
