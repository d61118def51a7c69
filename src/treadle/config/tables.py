"""Tables of settings: a record says its keys, and one pass reads them all and finds all faults.

Knows no key by name and does no I/O.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Generic, TypeVar, cast

from treadle.config.kinds import Text
from treadle.config.reading import KeyPath, Kind, Mismatch, Reading, nearest, shown

T = TypeVar("T")

REST: Final = "<id>"
"""As the key of a setting: takes every name of its table that no other setting has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a field of a record says about its key."""

    kind: Kind[object]
    text: str
    """What it does, for `docs/config.md`."""
    key: str | None = None
    """Its name in the file where that is not the field's name in camelCase; `REST` for the rest."""
    in_effect: bool = True
    """False: accepted so that a configuration keeps working, and said to have no effect yet."""


def setting(
    kind: Kind[object],
    default: T,
    text: str,
    *,
    key: str | None = None,
    in_effect: bool = True,
) -> T:
    """Declare a field of a settings record."""
    about = {"setting": Setting(kind=kind, text=text, key=key, in_effect=in_effect)}
    if isinstance(default, Mapping):
        return dataclasses.field(default_factory=lambda: default, metadata=about)
    return dataclasses.field(default=default, metadata=about)


def settings_of(record: type) -> dict[str, tuple[str, Setting]]:
    """Return key → (field, setting) in order of declaration; the rest under `REST`."""
    found: dict[str, tuple[str, Setting]] = {}
    for one in dataclasses.fields(record):
        about = one.metadata.get("setting")
        if isinstance(about, Setting):
            found[about.key or _camel(one.name)] = (one.name, about)
    return found


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


@dataclass(frozen=True, slots=True)
class Table(Generic[T]):
    """A table with known keys, read into a record."""

    record: type[T]
    hints: Mapping[str, str] = field(default_factory=dict)
    """What to say about keys that people write and that do not exist."""
    says: str = "table"

    def read(self, value: object, at: KeyPath, reading: Reading) -> T:
        """Return the record; unusable keys are faults and keep their default. Raises: Mismatch."""
        if not isinstance(value, Mapping):
            raise Mismatch(self.says)
        known = settings_of(self.record)
        given: dict[str, object] = {}
        for key, part in value.items():
            if key in known and key != REST:
                name, about = known[key]
                read_into(given, name, about, part, (*at, key), reading)
            elif REST not in known:
                reading.fault((*at, key), self._unknown(key, known))
        if REST in known:
            name, about = known[REST]
            others = {key: part for key, part in value.items() if key not in known}
            read_into(given, name, about, others, at, reading)
        return self.record(**given)

    def _unknown(self, key: str, known: Iterable[str]) -> str:
        if key in self.hints:
            return f"unknown key; {self.hints[key]}"
        meant = nearest(key, known)
        if meant:
            return f'unknown key; did you mean "{meant}"?'
        return f"unknown key; allowed: {', '.join(known)}"


def read_into(
    given: dict[str, object],
    name: str,
    about: Setting,
    value: object,
    at: KeyPath,
    reading: Reading,
) -> None:
    """Read one value into the arguments of a record, or keep the fault."""
    try:
        given[name] = about.kind.read(value, at, reading)
    except Mismatch as mismatch:
        hint = f"; {mismatch.hint}" if mismatch.hint else ""
        found = mismatch.found or shown(value)
        reading.fault(at, f"found {found}, allowed: {mismatch.allowed}{hint}")
        return
    if not about.in_effect:
        reading.note(at, "accepted, but this version does not use it yet")


@dataclass(frozen=True, slots=True)
class TableOf(Generic[T]):
    """A table whose names people choose, all values of one kind."""

    kind: Kind[T]
    name: Text = field(default_factory=Text)

    @property
    def says(self) -> str:
        """A table, and of what."""
        return f"table of {self.kind.says}"

    def read(self, value: object, at: KeyPath, reading: Reading) -> Mapping[str, T]:
        """Return the values by name, read-only; unusable ones are faults. Raises: Mismatch."""
        if not isinstance(value, Mapping):
            raise Mismatch(self.says)
        found: dict[str, object] = {}
        about = Setting(kind=self.kind, text="")
        for name, part in value.items():
            try:
                self.name.read(name, at, reading)
            except Mismatch as mismatch:
                reading.fault((*at, name), f"the name is not allowed; allowed: {mismatch.allowed}")
                continue
            read_into(found, name, about, part, (*at, name), reading)
        return MappingProxyType(cast("dict[str, T]", found))  # filled by this kind only


@dataclass(frozen=True, slots=True)
class OneOrMany(Generic[T]):
    """A table, or one text that stands for its first key."""

    table: Table[T]
    key: str

    @property
    def says(self) -> str:
        """Both forms."""
        return f"table, or one text for {self.key}"

    def read(self, value: object, at: KeyPath, reading: Reading) -> T:
        """Return the record. Raises: Mismatch."""
        return self.table.read({self.key: value} if isinstance(value, str) else value, at, reading)
