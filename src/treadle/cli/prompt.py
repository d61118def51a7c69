"""Put a message together from the command line, files and standard input.

Bounded: what can't be sent anyway isn't read to its end. Knows nothing of sessions.
"""

from __future__ import annotations

import os
import select
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from treadle.model.errors import MessageTooLarge, UsageError
from treadle.runtime.requests import MAX_PROMPT_CHARS

MAX_BYTES: Final = 4 * MAX_PROMPT_CHARS + 1
"""Bytes beyond which no text of at most `MAX_PROMPT_CHARS` characters can lie in UTF-8."""

QUIET_S: Final = 1.0
"""Seconds after which a silent pipe is named, so that nobody waits without knowing for what."""

FROM_STDIN: Final = "-"


def message_of(
    text: str | None, files: Sequence[Path], stdin: BinaryIO | None, say: Callable[[str], None]
) -> str:
    """Return the message: the text, then the files, then what standard input holds.

    `stdin` is None where it is a terminal; `-` as text stands for it. Raises: UsageError for a file
    that cannot be read or is no text, MessageTooLarge.
    """
    parts = [] if text is None or text == FROM_STDIN else [text]
    parts += [_quoted(file) for file in files]
    if stdin is not None:
        piped = _decoded(_read(stdin, say), "standard input", say)
        parts += [piped] if piped.strip() else []
    elif text == FROM_STDIN:
        raise UsageError(
            "'-' means standard input, and that is a terminal",
            next_step="Pipe the message in, or write it in place of '-'.",
        )
    return "\n\n".join(parts)


def stdin_unless_terminal(stdin: BinaryIO | None) -> BinaryIO | None:
    """Return standard input if something may be piped in."""
    if stdin is None or stdin.closed:
        return None
    try:
        return None if os.isatty(stdin.fileno()) else stdin
    except (OSError, ValueError):
        return stdin  # no descriptor: a stream in memory


def _read(stdin: BinaryIO, say: Callable[[str], None]) -> bytes:
    if _is_silent_pipe(stdin):
        say("treadle: reading more of the message from standard input (< /dev/null sends none)")
    read = stdin.read(MAX_BYTES)
    if len(read) == MAX_BYTES:
        raise _too_large("standard input")
    return read


def _is_silent_pipe(stdin: BinaryIO) -> bool:
    try:
        mode = os.fstat(stdin.fileno()).st_mode
        if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
            return False
        ready, _, _ = select.select([stdin], [], [], QUIET_S)
    except (OSError, ValueError):
        return False  # no descriptor: nothing to wait for
    return not ready


def _quoted(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            raw = opened.read(MAX_BYTES)
    except OSError as error:
        raise UsageError(
            f"the file {str(file)!r} cannot be read: {error.strerror or error}",
            next_step="Name a text file that you may read.",
        ) from error
    if len(raw) == MAX_BYTES:
        raise _too_large(f"the file {str(file)!r}")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _no_text(file) from error
    if "\x00" in text:
        raise _no_text(file)
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"File {file.name}:\n{fence}\n{text.rstrip()}\n{fence}"


def _longest_run(text: str) -> int:
    longest = run = 0
    for line in text.splitlines():
        run = len(line) - len(line.lstrip("`"))
        longest = max(longest, run)
    return longest


def _decoded(raw: bytes, what: str, say: Callable[[str], None]) -> str:
    text = raw.decode("utf-8", "replace").removeprefix("\ufeff")
    if "\ufffd" in text and "\ufffd".encode() not in raw:
        say(f"treadle: {what} is not UTF-8; what could not be read stands as \ufffd")
    return text.rstrip("\n")


def _too_large(what: str) -> MessageTooLarge:
    return MessageTooLarge(
        f"{what} holds more than the {MAX_PROMPT_CHARS:,} characters of a message;"
        " nothing was sent",
        next_step="Put it into a file in the working folder and name the file in the message.",
        limit=MAX_PROMPT_CHARS,
    )


def _no_text(file: Path) -> UsageError:
    return UsageError(
        f"the file {str(file)!r} is not UTF-8 text",
        next_step="Put it into the working folder and name it in the message.",
    )
