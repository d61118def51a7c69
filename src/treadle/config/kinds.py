"""Kinds of single values: how a value of the file becomes a value of a record.

A kind returns the value or says what was allowed. Knows no key by name and does no I/O.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Generic, TypeVar
from urllib.parse import urlsplit

from treadle.config.reading import KeyPath, Kind, Mismatch, Reading, Secret, nearest

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A text, of a pattern if one is given."""

    says: str = "text"
    pattern: str = r"[^\x00-\x1f\x7f\ud800-\udfff]*\S[^\x00-\x1f\x7f\ud800-\udfff]*"
    hint: str = ""

    def read(self, value: object, at: KeyPath, reading: Reading) -> str:
        """Return the text. Raises: Mismatch."""
        if not isinstance(value, str) or re.fullmatch(self.pattern, value) is None:
            raise Mismatch(self.says, self.hint)
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretText:
    """A text that is never shown."""

    says: str = "text (never shown)"

    def read(self, value: object, at: KeyPath, reading: Reading) -> Secret:
        """Return the hidden text. Raises: Mismatch, which does not show it either."""
        if not isinstance(value, str) or not value.strip() or re.search(r"[\x00-\x1f]", value):
            raise Mismatch("text without line breaks", found="a value that is not shown")
        return Secret(value)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some words; old words are taken for new ones with a warning."""

    words: tuple[str, ...]
    aliases: Mapping[str, str] = field(default_factory=dict)

    @property
    def says(self) -> str:
        """The words."""
        return " | ".join(self.words)

    def read(self, value: object, at: KeyPath, reading: Reading) -> str:
        """Return the word. Raises: Mismatch."""
        if isinstance(value, str) and value in self.aliases:
            reading.note(at, f'"{value}" is an old name; write "{self.aliases[value]}"')
            return self.aliases[value]
        if not isinstance(value, str) or value not in self.words:
            meant = nearest(value, self.words) if isinstance(value, str) else None
            raise Mismatch(self.says, f'did you mean "{meant}"?' if meant else "")
        return value


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""

    says: str = "true | false"

    def read(self, value: object, at: KeyPath, reading: Reading) -> bool:
        """Return the flag. Raises: Mismatch."""
        if not isinstance(value, bool):
            raise Mismatch(self.says)
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Integer:
    """A whole number within bounds."""

    least: int = 0
    most: int = 2**53
    unit: str = ""

    @property
    def says(self) -> str:
        """The bounds and the unit."""
        return _bounds("whole number", self.least, self.most, self.unit)

    def read(self, value: object, at: KeyPath, reading: Reading) -> int:
        """Return the number. Raises: Mismatch."""
        if not isinstance(value, int) or isinstance(value, bool):
            raise Mismatch(self.says)
        if not self.least <= value <= self.most:
            raise Mismatch(self.says)
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A finite number within bounds."""

    least: float = 0
    most: float = 1e15
    unit: str = "seconds"

    @property
    def says(self) -> str:
        """The bounds and the unit."""
        return _bounds("number", self.least, self.most, self.unit)

    def read(self, value: object, at: KeyPath, reading: Reading) -> float:
        """Return the number. Raises: Mismatch."""
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise Mismatch(self.says)
        if not math.isfinite(value) or not self.least <= value <= self.most:
            raise Mismatch(self.says)
        return float(value)


def _bounds(noun: str, least: float, most: float, unit: str) -> str:
    noun = f"{noun} of {unit}" if unit else noun
    if most >= 1e15:
        return f"{noun}, at least {least:,.10g}"
    return f"{noun} from {least:,.10g} to {most:,.10g}"


@dataclass(frozen=True, slots=True)
class Strings:
    """A list of texts; with `shell`, also one text that is split as a shell would."""

    shell: bool = False
    words: tuple[str, ...] = ()
    """What the texts may be; none: anything."""

    @property
    def says(self) -> str:
        """A list."""
        if self.words:
            return f"list of {' | '.join(self.words)}"
        return "list of texts" + (", or one quoted text" if self.shell else "")

    def read(self, value: object, at: KeyPath, reading: Reading) -> tuple[str, ...]:
        """Return the texts. Raises: Mismatch."""
        if isinstance(value, str) and self.shell:
            try:
                return tuple(shlex.split(value))
            except ValueError as error:
                raise Mismatch(self.says, f"the quotes do not fit: {error}") from error
        if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
            raise Mismatch(self.says)
        if self.words and (strange := [part for part in value if part not in self.words]):
            meant = nearest(strange[0], self.words)
            raise Mismatch(self.says, f'did you mean "{meant}"?' if meant else "")
        if any("\x00" in part for part in value):
            raise Mismatch(self.says, "a NUL character cannot stand in it")
        return tuple(value)


@dataclass(frozen=True, slots=True)
class FilePath:
    """A path; `~` is the home folder, a relative one starts at the configuration's folder."""

    says: str = "path"

    def read(self, value: object, at: KeyPath, reading: Reading) -> Path:
        """Return the path, absolute. Raises: Mismatch."""
        if not isinstance(value, str) or not value.strip() or "\x00" in value:
            raise Mismatch(self.says)
        return resolved(value, base=reading.base, home=reading.home)


@dataclass(frozen=True, slots=True)
class Command:
    """A program: a bare name is looked up in PATH, anything with a `/` is a path."""

    says: str = "name of a program in PATH, or its path"

    def read(self, value: object, at: KeyPath, reading: Reading) -> str:
        """Return the name, or the absolute path. Raises: Mismatch."""
        if not isinstance(value, str) or not value.strip() or "\x00" in value:
            raise Mismatch(self.says)
        if value.startswith("-"):
            raise Mismatch(self.says, "a program's name does not start with -")
        if "/" not in value:
            return value
        return str(resolved(value, base=reading.base, home=reading.home))


def resolved(text: str, *, base: Path, home: Path) -> Path:
    """Return the text as an absolute path without `..`; links are left as they are."""
    if text == "~" or text.startswith("~/"):
        text = str(home) + text[1:]
    path = base / text
    parts: list[str] = []
    for part in path.parts[1:]:
        if part == "..":
            parts = parts[:-1]
        else:
            parts.append(part)
    return Path(path.anchor, *parts)


@dataclass(frozen=True, slots=True)
class WebAddress:
    """An http or https URL without user, query or fragment."""

    says: str = "http(s) URL"

    def read(self, value: object, at: KeyPath, reading: Reading) -> str:
        """Return the URL without a slash at its end. Raises: Mismatch, which hides a password."""
        if not isinstance(value, str):
            raise Mismatch(self.says)
        try:
            parts = urlsplit(value)
            usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        except ValueError:
            raise Mismatch(self.says) from None
        if parts.username or parts.password:
            hint = "a URL is no place for a user name or a key; use apiKeyFile or apiKeyEnv"
            raise Mismatch(self.says, hint, found="a URL with a user name")
        if not usable or parts.query or parts.fragment or re.search(r"[\s\x00-\x1f]", value):
            raise Mismatch(self.says)
        return value.rstrip("/")


@dataclass(frozen=True, slots=True)
class Anything:
    """Whatever stands there; its owner checks it."""

    says: str = "anything (checked by its owner)"

    def read(self, value: object, at: KeyPath, reading: Reading) -> object:
        """Return the value, read-only."""
        return _frozen(value)


def _frozen(value: object) -> object:
    if isinstance(value, Mapping):
        return MappingProxyType({name: _frozen(part) for name, part in value.items()})
    if isinstance(value, list):
        return tuple(_frozen(part) for part in value)
    return value


@dataclass(frozen=True, slots=True)
class Nullable(Generic[T]):
    """A value, or the word that clears it: TOML has no null."""

    kind: Kind[T]
    null_word: str = "none"

    @property
    def says(self) -> str:
        """The kind, and the word."""
        return f'{self.kind.says}, or "{self.null_word}"'

    def read(self, value: object, at: KeyPath, reading: Reading) -> T | None:
        """Return the value or None. Raises: Mismatch."""
        return None if value in (self.null_word, "") else self.kind.read(value, at, reading)
