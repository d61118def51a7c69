"""The settings as rows: what there is to set, and what is set. Knows nothing of any face."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from treadle.config.reading import KeyPath, Secret, dotted
from treadle.config.settings import Settings
from treadle.config.tables import REST, OneOrMany, Setting, Table, TableOf, settings_of
from treadle.model.json import JsonValue

ANY_NAME = "<id>"
"""Stands in a key for a name that people choose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRow:
    """One key that can be set."""

    key: str
    """Dotted; `<id>` where people choose the name."""
    allowed: str
    default: JsonValue
    in_effect: bool
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueRow:
    """One key as it is set now."""

    key: str
    value: JsonValue
    """A secret is shown as `set`."""
    source: str


def key_rows() -> list[KeyRow]:
    """Return every key there is, in the order of the records."""
    return list(_keys(Settings, ()))


def _keys(record: type, at: KeyPath) -> Iterator[KeyRow]:
    defaults = record()
    for key, (name, about) in settings_of(record).items():
        yield from _key(about, (*at, key), getattr(defaults, name))


def _key(about: Setting, at: KeyPath, default: object) -> Iterator[KeyRow]:
    kind = about.kind
    if isinstance(kind, OneOrMany):
        kind = kind.table
    if isinstance(kind, Table):
        yield from _keys(kind.record, at)
    elif isinstance(kind, TableOf) and isinstance(kind.kind, Table):
        inside = at if at[-1] == REST else (*at, ANY_NAME)
        yield from _keys(kind.kind.record, inside)
    else:
        is_open = isinstance(kind, TableOf)
        yield KeyRow(
            key=".".join((*at, ANY_NAME) if is_open else at),
            allowed=kind.kind.says if isinstance(kind, TableOf) else kind.says,
            default=plain(default) or None if is_open else plain(default),
            in_effect=about.in_effect,
            text=about.text,
        )


def value_rows(settings: Settings) -> list[ValueRow]:
    """Return every key with its present value and its source, defaults included."""
    return [
        ValueRow(key=dotted(path), value=plain(value), source=settings.source(path))
        for path, value in _values(settings, ())
    ]


def _values(record: object, at: KeyPath) -> Iterator[tuple[KeyPath, object]]:
    for key, (name, about) in settings_of(type(record)).items():
        value = getattr(record, name)
        inside = at if key == REST else (*at, key)
        if dataclasses.is_dataclass(value):
            yield from _values(value, inside)
        elif isinstance(about.kind, TableOf) and isinstance(value, Mapping):
            for one, part in value.items():
                if dataclasses.is_dataclass(part):
                    yield from _values(part, (*inside, one))
                else:
                    yield (*inside, one), part
        else:
            yield inside, value


def plain(value: object) -> JsonValue:
    """Return a setting's value as JSON; a secret as `set`."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Secret():
            return "set"
        case Path():
            return str(value)
        case Mapping():
            return {str(name): plain(part) for name, part in value.items()}
        case tuple() | list():
            return [plain(part) for part in value]
        case _:
            return str(value)
