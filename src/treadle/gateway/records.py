"""Records as JSON and back, for both sides of the socket. Pure.

Knows nothing of which records there are beyond their fields' types: what a record's class says is
how it is read. Unknown fields are ignored, so that an older client reads a newer gateway.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any, TypeVar, cast, get_args, get_origin

from treadle.model.errors import RemoteProtocolError
from treadle.model.ids import RunId
from treadle.model.json import JsonObject, JsonValue
from treadle.model.message import Entry
from treadle.model.turn import EntryCommitted, RunEvent

T = TypeVar("T")

_EVENTS: Mapping[str, type[RunEvent]] = {kind.type: kind for kind in get_args(RunEvent)}


def plain(value: object) -> JsonValue:
    """Return a record, or a tuple of them, as JSON; texts and JSON inside are kept as they are."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    match value:
        case Enum():
            return cast("JsonValue", value.value)  # all our enums hold texts
        case Mapping():
            return {str(name): plain(part) for name, part in value.items()}
        case str() | int() | float() | None:
            return value
        case list() | tuple() | frozenset():
            return [plain(part) for part in value]
        case _:
            raise TypeError(f"{type(value).__name__} is no record")


def record_from(kind: type[T], value: JsonValue) -> T:
    """Return the record that an object tells of. Raises: RemoteProtocolError."""
    if not isinstance(value, Mapping):
        raise RemoteProtocolError(f"the gateway sent no {kind.__name__}")
    fields = {}
    known: type = kind  # the cache cannot take a type variable
    for name, (hint, required) in _hints(known).items():
        if name in value:
            fields[name] = _value(hint, value[name], f"{kind.__name__}.{name}")
        elif required:
            raise RemoteProtocolError(f"the gateway sent a {kind.__name__} without {name!r}")
    return kind(**fields)


def records_from(kind: type[T], value: JsonValue) -> tuple[T, ...]:
    """Return the records of a list. Raises: RemoteProtocolError."""
    if not isinstance(value, list | tuple):
        raise RemoteProtocolError(f"the gateway sent no list of {kind.__name__}")
    return tuple(record_from(kind, one) for one in value)


def event_from(kind: str, run_id: str, data: JsonObject) -> RunEvent | None:
    """Return the event of a run, as `event_data` told it; None for a type that is no run's.

    Raises: RemoteProtocolError.
    """
    found = _EVENTS.get(kind)
    if found is None:
        return None
    if found is EntryCommitted:
        return EntryCommitted(run_id=RunId(run_id), entry=_told_entry(data.get("entry")))
    return record_from(found, {"run_id": run_id, **data})


def _told_entry(value: JsonValue) -> Entry:
    """Return an entry as `entry_data` tells it; what that leaves out is empty."""
    if not isinstance(value, Mapping):
        raise RemoteProtocolError("the gateway sent no entry")
    message = {name: value.get(name) for name in ("role", "content", "created_at")}
    left_out: JsonObject = {"session_id": "", "key": "", "content_hash": "", "raw_items": ()}
    whole = {**left_out, **value, "message": {**message, "entry_id": value.get("id")}}
    entry = record_from(Entry, whole)
    return dataclasses.replace(entry, content_hash=entry.message.content_hash)


@cache
def _hints(kind: type) -> Mapping[str, tuple[Any, bool]]:
    """Return what each field of a record may hold, and whether it must be given."""
    found = typing.get_type_hints(kind, localns={"JsonValue": object})
    if not dataclasses.is_dataclass(kind):
        raise TypeError(f"{kind.__name__} is no record")
    return {
        field.name: (
            found[field.name],
            field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING,
        )
        for field in dataclasses.fields(kind)
    }


def _value(hint: Any, value: JsonValue, where: str) -> object:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in {typing.Union, types.UnionType}:
        return _one_of(arguments, value, where)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise RemoteProtocolError(f"the gateway sent no list for {where}")
        inner = arguments if arguments[-1] is not ... else (arguments[0],) * len(value)
        return tuple(_value(one, part, where) for one, part in zip(inner, value, strict=True))
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return record_from(hint, value)
    if isinstance(hint, type) and issubclass(hint, Enum):
        try:
            return hint(value)
        except ValueError:
            raise RemoteProtocolError(f"{value!r} is no {hint.__name__}") from None
    return value


def _one_of(arguments: tuple[Any, ...], value: JsonValue, where: str) -> object:
    """Read a union: of our own ones, at most one part is a record, an enum or a tuple."""
    if value is None and type(None) in arguments:
        return None
    special = (one for one in arguments if one is not type(None) and not _is_plain(one))
    hint = next(special, None)
    return value if hint is None or isinstance(value, str) else _value(hint, value, where)


def _is_plain(hint: Any) -> bool:
    is_record = dataclasses.is_dataclass(hint) or get_origin(hint) is tuple
    return not is_record and not (isinstance(hint, type) and issubclass(hint, Enum))
