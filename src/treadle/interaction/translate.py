"""Put Codex's questions into ours, and our refusals into Codex's words.

Pure. Knows nothing of who is asked or of deadlines. A request id is a number or a text, and the
first one is 0: nothing here tests an id for truth (reliability F3). Source: decision 27; spec M-01,
M-04…M-06, M-29, M-43; codex schema 0.163.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from treadle.model.ids import ItemId, ThreadId, TurnId
from treadle.model.json import JsonObject, JsonValue, digest
from treadle.model.question import Question, QuestionId, QuestionKind
from treadle.model.text import without_surrogates

METHOD_NOT_FOUND: Final = -32601
"""JSON-RPC's code for a request that nobody serves."""

RequestId = int | str
"""JSON-RPC id; 0 is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """What is sent back: a result, or an error where Codex asks for what we do not know."""

    result: JsonObject | None = None
    error_code: int | None = None
    error_message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    kind: QuestionKind
    title: str
    refusal: JsonObject


_ASKED: Final[Mapping[str, _Asked]] = {
    "item/commandExecution/requestApproval": _Asked(
        kind=QuestionKind.COMMAND,
        title="Codex wants to run a command",
        refusal={"decision": "decline"},
    ),
    "item/fileChange/requestApproval": _Asked(
        kind=QuestionKind.FILE_CHANGE,
        title="Codex wants to change files",
        refusal={"decision": "decline"},
    ),
    "item/permissions/requestApproval": _Asked(
        kind=QuestionKind.PERMISSIONS,
        title="Codex wants more permissions",
        refusal={"permissions": {}, "scope": "turn"},
    ),
    "mcpServer/elicitation/request": _Asked(
        kind=QuestionKind.ELICITATION,
        title="A tool server asks for something",
        refusal={"action": "decline", "content": None},
    ),
    "item/tool/requestUserInput": _Asked(
        kind=QuestionKind.USER_INPUT,
        title="The model asks a question",
        refusal={"answers": {}},
    ),
    # The names of the first protocol; its decisions have other words.
    "execCommandApproval": _Asked(
        kind=QuestionKind.COMMAND,
        title="Codex wants to run a command",
        refusal={"decision": "denied"},
    ),
    "applyPatchApproval": _Asked(
        kind=QuestionKind.FILE_CHANGE,
        title="Codex wants to change files",
        refusal={"decision": "denied"},
    ),
}
"""Every request of Codex that asks a person, with its documented refusal."""

QUESTION_METHODS: Final = tuple(_ASKED)
"""The methods that become questions."""

_IDS: Final = frozenset({
    "threadId", "conversationId", "turnId", "itemId", "callId", "startedAtMs",
})  # fmt: skip


def is_question(method: str) -> bool:
    """Whether a request of that name asks a person for something."""
    return method in _ASKED


def thread_of(params: JsonObject) -> ThreadId | None:
    """Return the thread that a request belongs to, under either of its names (spec M-01)."""
    found = _text(params, "threadId") or _text(params, "conversationId")
    return ThreadId(found) if found else None


def turn_of(params: JsonObject) -> TurnId | None:
    """Return the turn that a request names; an elicitation may name none (spec M-28)."""
    found = _text(params, "turnId")
    return TurnId(found) if found else None


def question_from_request(method: str, params: JsonObject, request_id: RequestId) -> Question:
    """Return the question that a request of Codex asks; an unknown method is one too, unknown.

    Its id follows from thread, method and request id. `shown` is everything but the ids, whole: a
    person has to see all of it to decide. Malformed parameters give an emptier question, never an
    error, since the refusal is the same.
    """
    asked = _ASKED.get(method)
    thread = thread_of(params) or ThreadId("")
    item = _text(params, "itemId") or _text(params, "callId")
    shown = {name: _valid(value) for name, value in params.items() if name not in _IDS}
    identity: JsonValue = [thread, turn_of(params), method, request_id]
    return Question(
        id=QuestionId(f"qst_{digest(_valid(identity))[:24]}"),
        kind=asked.kind if asked is not None else QuestionKind.UNKNOWN,
        thread_id=thread,
        turn_id=turn_of(params),
        item_id=ItemId(item) if item else None,
        title=asked.title if asked is not None else f"Codex asks {method!r}",
        shown=shown,
    )


def refusal_of(method: str) -> Refusal:
    """Return the refusal of any request: the documented one, or error -32601 for an unknown one."""
    asked = _ASKED.get(method)
    if asked is None:
        return Refusal(
            error_code=METHOD_NOT_FOUND, error_message=f"{method!r} is not served by this client"
        )
    return Refusal(result=dict(asked.refusal))


def refusal_for(method: str) -> JsonObject:
    """Return the result that refuses a known question. Raises: KeyError for any other method."""
    return dict(_ASKED[method].refusal)


def _text(params: JsonObject, name: str) -> str | None:
    value = params.get(name)
    return value if isinstance(value, str) else None


def _valid(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, Mapping):
        return {without_surrogates(name): _valid(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_valid(part) for part in value]
    return value
