"""Where a command prints: foreign text made safe, colour and symbols as the terminal can show them.

Answers and data go to stdout, everything else to stderr. Knows nothing of what is printed.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from treadle.model.json import JsonValue

PLAIN_SYMBOLS: Final[Mapping[str, str]] = {
    "✓": "ok", "✗": "x", "▸": ">", "·": "-", "│": "|", "›": ">", "…": "...", "→": "->", "−": "-",
    "–": "-", "!": "!",
}  # fmt: skip
"""What our own symbols become where the terminal takes no UTF-8."""

_SGR: Final[Mapping[str, str]] = {
    "dim": "2",
    "bold": "1",
    "red": "31",
    "green": "32",
    "yellow": "33",
}
_SYMBOL_STYLES: Final[Mapping[str, str]] = {"✓": "green", "✗": "red", "!": "yellow"}


def clean(text: str) -> str:
    r"""Return foreign text as it may be shown: nothing below 0x20 but `\n` and `\t` (RS51)."""
    from treadle.model.text import printable

    return printable(text.replace("\r\n", "\n"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """The two streams of a command and what they can show."""

    out: TextIO
    err: TextIO
    unicode: bool = True
    out_colour: bool = False
    err_colour: bool = False
    width: int = 80
    """Columns; 80 where nobody knows."""

    def print(self, text: str = "") -> None:
        """Print a line to stdout, made safe."""
        self._write(self.out, clean(text) + "\n")

    def stream(self, text: str) -> None:
        """Print a piece of text to stdout at once, made safe, without a line feed."""
        self._write(self.out, clean(text))
        self.out.flush()

    def say(self, text: str = "") -> None:
        """Print a line to stderr, made safe."""
        self._write(self.err, clean(text) + "\n")
        self.err.flush()

    def mark(self, symbol: str, text: str, *, to_out: bool = False) -> None:
        """Print a line that begins with a symbol, on stderr or stdout."""
        stream, colour = (self.out, self.out_colour) if to_out else (self.err, self.err_colour)
        shown = symbol if self.unicode else PLAIN_SYMBOLS.get(symbol, symbol)
        if colour and symbol in _SYMBOL_STYLES:
            shown = f"\x1b[{_SGR[_SYMBOL_STYLES[symbol]]}m{shown}\x1b[0m"
        self._write(stream, f"{shown} {self._folded(clean(text))}\n")
        stream.flush()

    def heading(self, text: str) -> None:
        """Print a heading to stdout."""
        line = self._folded(clean(text))
        self._write(self.out, f"\x1b[1m{line}\x1b[0m\n" if self.out_colour else f"{line}\n")

    def ours(self, text: str) -> None:
        """Print a line of our own words to stdout; our symbols are replaced where need be."""
        self._write(self.out, self._folded(clean(text)) + "\n")

    def say_ours(self, text: str) -> None:
        """Print a line of our own words to stderr; our symbols are replaced where need be."""
        self._write(self.err, self._folded(clean(text)) + "\n")
        self.err.flush()

    def json(self, value: JsonValue) -> None:
        """Print one JSON value as one line to stdout."""
        text = json.dumps(value, ensure_ascii=not self.unicode, separators=(",", ":"))
        self._write(self.out, text + "\n")
        self.out.flush()

    def raw(self, line: str) -> None:
        """Print a line of JSON that was written elsewhere; control characters are escaped in it."""
        self._write(self.out, (line if self.unicode else _ascii(line)) + "\n")

    def table(self, rows: Iterable[Sequence[str]], *, gap: str = "  ") -> None:
        """Print rows to stdout in columns as wide as their widest cell; the last one is open."""
        cells = [[clean(cell).replace("\n", " ") for cell in row] for row in rows]
        if not cells:
            return
        widths = [max(len(cell) for cell in column) for column in zip(*cells, strict=True)]
        for row in cells:
            padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
            self._write(self.out, self._folded(gap.join(padded)).rstrip() + "\n")

    def _folded(self, text: str) -> str:
        if self.unicode:
            return text
        for symbol, plain in PLAIN_SYMBOLS.items():
            text = text.replace(symbol, plain)
        return text

    @staticmethod
    def _write(stream: TextIO, text: str) -> None:
        stream.write(text)


def _ascii(line: str) -> str:
    """Escape what is not ASCII in a line of JSON, where it can only stand inside of strings."""
    return json.dumps(json.loads(line), separators=(",", ":"))


def open_output(environ: Mapping[str, str], *, no_colour: bool = False) -> Output:
    """Return the output of this process.

    Colour only on a terminal, and not with `NO_COLOR`, `TERM=dumb` or `--no-color`; forced by
    `FORCE_COLOR`. What a stream's encoding cannot show becomes an escape, never an exception.
    """
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    encoding = (getattr(sys.stdout, "encoding", "") or "").lower().replace("-", "")
    return Output(
        out=sys.stdout,
        err=sys.stderr,
        unicode=encoding == "utf8",
        out_colour=_has_colour(sys.stdout, environ, no_colour=no_colour),
        err_colour=_has_colour(sys.stderr, environ, no_colour=no_colour),
        width=_width(environ),
    )


def _has_colour(stream: TextIO, environ: Mapping[str, str], *, no_colour: bool) -> bool:
    if no_colour or environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR"):
        return True
    return environ.get("TERM", "") not in {"", "dumb"} and stream.isatty()


def _width(environ: Mapping[str, str]) -> int:
    columns = environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (OSError, ValueError):
        return 80  # a pipe, a file, or no stdout at all
