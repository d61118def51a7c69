"""Say what the model was given in a turn, as the JSON that `context show` prints.

Counts with the counter it is given and only what it is given: a turn never reads its whole history
for a report. Knows nothing of how the report is stored or shown. Source: issue 2, decision 5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from treadle.model.json import JsonObject, JsonValue, canonical
from treadle.model.message import USER, Message, parts_of, text_of
from treadle.projection.history import Continue, Extend, Plan, PromptCarrier, Rebase, Seed, explain
from treadle.projection.rendering import CALL_PARTS, RESULT_PARTS, clean_value
from treadle.tokens import Counter

OUTSIDE_LISTED: Final = 200
"""How many left-out messages a report names; it counts all of them."""

SEED_BUDGET: Final = "seed budget"
"""Why a message stands outside (decision 5)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportInput:
    """What the report is about."""

    engine_id: str
    plan: Plan
    same_count: int
    """How many messages the thread held already, from the first on."""

    new: Sequence[Message]
    """What it was given besides: injected, or quoted before the prompt."""

    prompt: str
    same: Sequence[Message] | None = None
    """Those it held already, where somebody has them at hand; else they are only numbered."""

    addition: str | None = None
    """The engine's addition to the developer instructions, where this turn sent it."""

    left_out: Sequence[Message] = ()
    left_out_unread: int = 0
    """How many more stand before those, which nobody read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    kind: str
    text: str


def decision_name(plan: Plan) -> str:
    """Return the plan's name in events and reports: continue, extend, rebase, seed or prompt."""
    match plan:
        case Continue():
            return "continue"
        case Extend():
            return "extend"
        case Rebase():
            return "rebase"
        case Seed():
            return "seed"
        case PromptCarrier():
            return "prompt"
    assert_never(plan)


def context_report(given: ReportInput, counter: Counter) -> JsonObject:
    """Return decision, reason, tokens by kind, what stayed the same, what is new, what is outside.

    Tokens are those of the texts alone, without what frames them; a number nobody counted is null.
    """
    new = _kinds(given.new, counter)
    same = None if given.same is None else _kinds(given.same, counter)
    kinds = _added(new, same or {})
    kinds["prompt"] = _Count(messages=1, tokens=counter.count(given.prompt))
    if given.addition:
        kinds["addition"] = _Count(messages=1, tokens=counter.count(given.addition))
    return {
        "engine": given.engine_id,
        "decision": decision_name(given.plan),
        "reason_code": given.plan.reason.value,
        "reason": explain(given.plan),
        "same_start": {
            "messages": given.same_count,
            "tokens": None if same is None else _tokens(same),
        },
        "new": {"messages": len(given.new), "tokens": _tokens(new)},
        "counted": {
            "kinds": {name: kinds[name].to_json() for name in sorted(kinds)},
            "tokens": _tokens(kinds),
            "counter": counter.name,
            "exact": counter.exact,
        },
        "outside": _outside(given),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Count:
    messages: int
    tokens: int

    def to_json(self) -> JsonObject:
        return {"pieces": self.messages, "tokens": self.tokens}


def _kinds(messages: Sequence[Message], counter: Counter) -> dict[str, _Count]:
    found: dict[str, _Count] = {}
    for piece in (piece for message in messages for piece in _pieces(message)):
        one = _Count(messages=1, tokens=counter.count(piece.text))
        found = _added(found, {piece.kind: one})
    return found


def _added(one: Mapping[str, _Count], other: Mapping[str, _Count]) -> dict[str, _Count]:
    none = _Count(messages=0, tokens=0)
    return {
        name: _Count(
            messages=one.get(name, none).messages + other.get(name, none).messages,
            tokens=one.get(name, none).tokens + other.get(name, none).tokens,
        )
        for name in (*one, *(name for name in other if name not in one))
    }


def _tokens(kinds: Mapping[str, _Count]) -> int:
    return sum(count.tokens for count in kinds.values())


def _pieces(message: Message) -> Iterator[_Piece]:
    """Yield a message's text under its role, and each call, result and image for itself."""
    said = text_of(message)
    if said.strip():
        yield _Piece(kind=message.role, text=said)
    for part in parts_of(message):
        kind = part.get("type")
        if not isinstance(kind, str) or kind in {"text", "thinking"}:
            continue
        if kind in CALL_PARTS:
            yield _Piece(kind="toolCall", text=_json(part.get("arguments", part.get("input"))))
        elif kind in RESULT_PARTS:
            yield _Piece(kind="toolResult", text=_result_text(part))
        else:
            yield _Piece(kind=kind, text="")


def _result_text(part: JsonObject) -> str:
    content = part.get("content")
    if isinstance(content, str):
        return content
    inner = Message(role=USER, content=content)
    return text_of(inner) or ("" if content is None else _json(content))


def _json(value: JsonValue) -> str:
    return canonical(clean_value(value)).decode()


def _outside(given: ReportInput) -> JsonObject:
    newest = given.left_out[-OUTSIDE_LISTED:]
    return {
        "messages": len(given.left_out) + given.left_out_unread,
        "why": SEED_BUDGET if given.left_out or given.left_out_unread else None,
        "newest": [
            {"entry_id": message.entry_id, "role": message.role, "outside": SEED_BUDGET}
            for message in newest
        ],
    }
