"""Read what a person types, a line at a time, without blocking the loop or holding up its end.

Uses the terminal as it is: its driver edits the line. Knows nothing of what lines mean.
"""

from __future__ import annotations

import codecs
import os
import stat
from typing import Final

import anyio

_CHUNK: Final = 65536


class TypedLines:
    """Lines from a file descriptor. For one reader."""

    def __init__(self, descriptor: int) -> None:
        """Keep the descriptor, which stays open."""
        self._descriptor = descriptor
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = ""
        self._ended = False
        mode = os.fstat(descriptor).st_mode
        self._can_wait = not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))

    async def next(self) -> str | None:
        """Return the next line without its end; None if there is none. Cancel: nothing is lost."""
        while "\n" not in self._text and not self._ended:
            if self._can_wait:
                await anyio.wait_readable(self._descriptor)
            chunk = os.read(self._descriptor, _CHUNK)
            self._ended = not chunk
            self._text += self._decoder.decode(chunk, final=self._ended)
        if not self._text:
            return None
        line, _, self._text = self._text.partition("\n")
        return line.rstrip("\r")

    def forget(self) -> None:
        """Drop what was typed and not read yet."""
        self._text = ""
