"""Frames: one JSON object a line, each with a limit. Pure: bytes in, lines and bytes out.

Knows nothing of what frames mean. A line that is too long ends the reading: where it would end is
unknown until it ends, and nobody has to be waited for that long (RS30).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from treadle.model.json import JsonObject, JsonValue
from treadle.model.text import without_surrogates

HELLO_BYTES: Final = 4096
"""The first frame of a client that has not said who it is."""

REQUEST_BYTES: Final = 2**20
"""Any later frame of a client. A longer text goes in several frames (`Submit.more`)."""

ANSWER_BYTES: Final = 2**26
"""A frame of the gateway: an entry with all its raw items may be large."""


@dataclass(frozen=True, slots=True)
class TooLong:
    """A line that has no end within the limit, in bytes."""

    limit: int


class LineReader:
    """Cuts bytes into lines, wherever the bytes were cut."""

    def __init__(self, limit: int) -> None:
        """`limit` is the most bytes of a line without its end; it may be changed between lines."""
        self.limit = limit
        self._rest = bytearray()
        self._is_over = False

    def feed(self, data: bytes) -> list[bytes | TooLong]:
        """Return the lines that are complete now, without their ends; empty ones are left out.

        `TooLong` is the last thing ever returned.
        """
        if self._is_over:
            return []
        self._rest += data
        found: list[bytes | TooLong] = []
        while (line := self._next()) is not None:
            if isinstance(line, TooLong):
                self._is_over = True
                self._rest.clear()
                return [*found, line]
            if line:
                found.append(line)
        return found

    def _next(self) -> bytes | TooLong | None:
        end = self._rest.find(b"\n")
        if end > self.limit or (end < 0 and len(self._rest) > self.limit):
            return TooLong(self.limit)
        if end < 0:
            return None
        line = bytes(self._rest[:end]).strip()
        del self._rest[: end + 1]
        return line

    @property
    def is_amid(self) -> bool:
        """Whether a line was begun and not ended."""
        return bool(self._rest)


def frame(value: JsonObject) -> bytes:
    """Return the frame of an object; half characters become the replacement character."""
    try:
        return msgspec.json.encode(value) + b"\n"
    except UnicodeEncodeError:
        return msgspec.json.encode(_whole(value)) + b"\n"


def _whole(value: JsonValue) -> JsonValue:
    match value:
        case str():
            return without_surrogates(value)
        case dict():
            return {without_surrogates(name): _whole(part) for name, part in value.items()}
        case list() | tuple():
            return [_whole(part) for part in value]
        case _:
            return value


def object_in(line: bytes) -> JsonObject | None:
    """Return the object of a line; None where it is none, or nested beyond reading."""
    try:
        value: JsonValue = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
