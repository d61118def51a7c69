"""One pass over the settings: what it needs, what it finds, and what a kind of setting is.

Knows no key by name and does no I/O.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

T_co = TypeVar("T_co", covariant=True)

KeyPath = tuple[str, ...]
"""The names from the root of the file to a key."""

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def dotted(path: KeyPath) -> str:
    """Return the path as TOML writes it; names that need quotes get them."""
    return ".".join(name if _BARE.fullmatch(name) else _quoted(name) for name in path)


def _quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is meant, if one is near enough."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.7)
    return by_lower[found[0]] if found else None


class Secret:
    """A text that no repr, log or `config show` gives away."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text; only for the place that needs it."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(set)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


class Mismatch(Exception):
    """A value that a kind cannot take; says what it could and, if known, what to write."""

    def __init__(self, allowed: str, hint: str = "", *, found: str | None = None) -> None:
        super().__init__(allowed)
        self.allowed = allowed
        self.hint = hint
        self.found = found


@dataclass(slots=True, kw_only=True)
class Reading:
    """What one pass over the settings needs and finds."""

    base: Path
    """Folder against which relative paths are resolved."""
    home: Path
    """What `~` means."""
    where: Callable[[KeyPath], str]
    """Where a key stands, as `config.toml:14`."""
    faults: list[str] = field(default_factory=list)
    notes: list[tuple[KeyPath, str]] = field(default_factory=list)
    """What is accepted but needs a word, by key."""

    def fault(self, path: KeyPath, text: str) -> None:
        """Keep one fault."""
        self.faults.append(f"{self.where(path)}: {dotted(path)}: {text}")

    def note(self, path: KeyPath, text: str) -> None:
        """Keep a word of warning."""
        self.notes.append((path, text))


class Kind(Protocol[T_co]):
    """How one value is read."""

    @property
    def says(self) -> str:
        """What is allowed, in words."""
        ...

    def read(self, value: object, at: KeyPath, reading: Reading) -> T_co:
        """Return the value. Raises: Mismatch."""
        ...


def shown(value: object) -> str:
    """Return the value as a fault shows it, short."""
    kind = {bool: "true/false", int: "a number", float: "a number", str: "text", list: "a list"}
    text = repr(value) if not isinstance(value, str) else _quoted(value)
    if isinstance(value, bool):
        text = str(value).lower()
    if isinstance(value, Mapping):
        return "a table"
    if len(text) > 60:
        return f"{kind.get(type(value), type(value).__name__)} of {len(text)} characters"
    return text
