"""The settings before they are checked: nested tables, and where each value came from.

Knows no key by name.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping

from treadle.config.reading import KeyPath

_NAME = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_PATH = rf"{_NAME}(?:\s*\.\s*{_NAME})*"
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_PATH})\s*\]")
_KEY = re.compile(rf"\s*({_PATH})\s*=")

Tables = dict[str, object]


class Document:
    """Values that may be moved and overridden; each remembers its origin."""

    __slots__ = ("_origins", "values")

    def __init__(self, values: Tables, origins: Mapping[KeyPath, str]) -> None:
        self.values = values
        self._origins = dict(origins)

    def where(self, path: KeyPath) -> str:
        """Return where a key, or the nearest table round it, was given."""
        for length in range(len(path), -1, -1):
            if path[:length] in self._origins:
                return self._origins[path[:length]]
        return "configuration"

    def get(self, path: KeyPath) -> object:
        """Return the value of a key; None where there is none."""
        value: object = self.values
        for name in path:
            if not isinstance(value, dict) or name not in value:
                return None
            value = value[name]
        return value

    def put(self, path: KeyPath, value: object, origin: str) -> None:
        """Set a key; does nothing below what is no table, which is a fault of its own."""
        table = self.values
        for name in path[:-1]:
            below = table.setdefault(name, {})
            if not isinstance(below, dict):
                return
            table = below
        table[path[-1]] = value
        self._origins[path] = origin

    def pop(self, path: KeyPath) -> object:
        """Take a key out and return its value; None where there is none."""
        table = self.get(path[:-1])
        return table.pop(path[-1], None) if isinstance(table, dict) else None

    def move(self, old: KeyPath, new: KeyPath) -> None:
        """Move a key, or a table key by key; what stands at the new place wins."""
        value = self.pop(old)
        if isinstance(value, dict) and value:
            for name in list(value):
                self._put_back(old, value)
                self.move((*old, name), (*new, name))
                value = self.pop(old)
                assert isinstance(value, dict)
        elif self.get(new) is None:
            self.put(new, value, self.where(old))

    def _put_back(self, path: KeyPath, value: object) -> None:
        table = self.get(path[:-1])
        if isinstance(table, dict):
            table[path[-1]] = value

    def leaves(self) -> Iterator[KeyPath]:
        """Yield the path of every value that is no table."""
        yield from _leaves(self.values, ())


def _leaves(table: Mapping[str, object], at: KeyPath) -> Iterator[KeyPath]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*at, name))
        else:
            yield (*at, name)


def key_lines(text: str) -> dict[KeyPath, int]:
    """Return the line on which each key and table of a TOML text stands, from 1.

    Good enough to point a person to it: a line within a multi-line text can add a key that is not
    there, and keys of an inline table are found by their table's line.
    """
    lines: dict[KeyPath, int] = {}
    table: KeyPath = ()
    counts: dict[KeyPath, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if header := _HEADER.match(line):
            table = _split(header.group(2))
            if header.group(1) == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, str(counts[table]))
            lines.setdefault(table, number)
        elif key := _KEY.match(line):
            lines.setdefault((*table, *_split(key.group(1))), number)
    return lines


def _split(path: str) -> KeyPath:
    names: list[str] = []
    try:
        value: object = tomllib.loads(f"{path} = 0")
    except tomllib.TOMLDecodeError:
        return (path,)
    while isinstance(value, dict):
        ((name, value),) = value.items()
        names.append(name)
    return tuple(names)
