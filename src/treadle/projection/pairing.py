"""Join calls with their results over a list of messages, and say in which form each is injected.

A call has to come before its output, in the type that fits it, and neither may stand alone. Knows
nothing of texts or ids of items. Source: spec D-53.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from treadle.model.json import JsonObject
from treadle.model.message import Message, call_ids, parts_of, result_ids
from treadle.projection.rendering import CALL_PARTS, RESULT_PARTS
from treadle.protocol.responses import call_id, is_call, is_output, item_kind

FUNCTION_OUTPUT: Final = "function_call_output"
CUSTOM_OUTPUT: Final = "custom_tool_call_output"

_OUTPUT_TYPES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({
    "function_call": (FUNCTION_OUTPUT,),
    "custom_tool_call": (CUSTOM_OUTPUT,),
    "local_shell_call": (FUNCTION_OUTPUT, "local_shell_call_output"),
    "tool_search_call": ("tool_search_output",),
})
"""Which output types answer a call; the first is the one that we render, where we can."""

_RENDERED_OUTPUTS: Final = frozenset({FUNCTION_OUTPUT, CUSTOM_OUTPUT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Half:
    """A call or a result: the `ordinal`-th of either in message `at`."""

    at: int
    ordinal: int
    call_id: str
    is_call: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """Which messages go back as their raw items, and which type each other paired half takes."""

    raw: frozenset[int]
    """Indexes of the messages."""

    types: Mapping[int, Mapping[int, str]]
    """By message index, by ordinal: the item type to render. What is not in it becomes text."""


def paired(messages: Sequence[Message], raw: Mapping[int, Sequence[JsonObject]]) -> Pairing:
    """Return the pairing; `raw` holds the raw items of the messages that could go back as those.

    A message falls back to rendering where one of its halves is alone or where the raw type of its
    result does not answer the call. Source: spec D-53, decision 7.
    """
    halves = list(_halves(messages))
    pairs = list(_pairs(halves))
    whole = {half for pair in pairs for half in pair}
    lonely = {half.at for half in halves if half not in whole}
    usable = {
        at: _types_by_call(items)
        for at, items in raw.items()
        if at not in lonely and _is_told_by(messages[at], items)
    }
    while unfit := {at for pair in pairs if (at := _unfit(*pair, usable)) is not None}:
        for at in unfit:
            del usable[at]
    types: defaultdict[int, dict[int, str]] = defaultdict(dict)
    for call, result in pairs:
        call_type = usable[call.at][call.call_id, True] if call.at in usable else "function_call"
        if call.at not in usable:
            types[call.at][call.ordinal] = call_type
        if result.at not in usable:
            types[result.at][result.ordinal] = _OUTPUT_TYPES[call_type][0]
    return Pairing(raw=frozenset(usable), types=types)


def is_half(part: JsonObject) -> bool:
    """Whether a part is a call or a result; such parts are numbered by `Half.ordinal`."""
    kind = part.get("type")
    return isinstance(kind, str) and (kind in CALL_PARTS or kind in RESULT_PARTS)


def pairs_of(messages: Sequence[Message]) -> Iterator[tuple[Half, Half]]:
    """Yield each call with the first later result of its id that no earlier call has taken."""
    return _pairs(_halves(messages))


def _halves(messages: Sequence[Message]) -> Iterator[Half]:
    for at, message in enumerate(messages):
        yield from _halves_of(at, message)


def _halves_of(at: int, message: Message) -> Iterator[Half]:
    for ordinal, part in enumerate(part for part in parts_of(message) if is_half(part)):
        alone = Message(role=message.role, content=[part])
        for found in call_ids(alone):
            yield Half(at=at, ordinal=ordinal, call_id=found, is_call=True)
        for found in result_ids(alone):
            yield Half(at=at, ordinal=ordinal, call_id=found, is_call=False)


def _pairs(halves: Iterable[Half]) -> Iterator[tuple[Half, Half]]:
    waiting: defaultdict[str, deque[Half]] = defaultdict(deque)
    for half in halves:
        if half.is_call:
            waiting[half.call_id].append(half)
        elif waiting[half.call_id]:
            yield waiting[half.call_id].popleft(), half


_Types = Mapping[tuple[str, bool], str]
"""Raw type by call id and whether it is the call."""


def _types_by_call(items: Sequence[JsonObject]) -> _Types:
    return {
        (found, is_call(item)): item_kind(item)
        for item in items
        if (found := call_id(item)) is not None
    }


def _is_told_by(message: Message, items: Sequence[JsonObject]) -> bool:
    """Whether the raw items hold exactly the calls and results that the message tells of."""
    calls = [call_id(item) for item in items if is_call(item)]
    outputs = [call_id(item) for item in items if is_output(item)]
    return calls == list(call_ids(message)) and outputs == list(result_ids(message))


def _unfit(call: Half, result: Half, usable: Mapping[int, _Types]) -> int | None:
    """Return the message that cannot stay raw because of this pair."""
    call_type = usable[call.at][call.call_id, True] if call.at in usable else "function_call"
    answers = _OUTPUT_TYPES.get(call_type, ())
    if result.at in usable:
        fits = usable[result.at][result.call_id, False] in answers
        return None if fits else result.at
    return None if answers and answers[0] in _RENDERED_OUTPUTS else call.at
