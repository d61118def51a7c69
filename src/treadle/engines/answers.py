"""Check what an engine answers and turn it into the contract's records.

Pure. Knows nothing of how engines are called. An answer is the record of the contract or a mapping
of its fields, in snake_case or camelCase; unknown fields are ignored. Everything else is refused
with the engine's id, the operation and the type that was seen. Source: spec B-03, B-11, B-12.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, TypeGuard, TypeVar

from treadle.contract.engine import (
    REQUIRED_METHODS,
    Assembled,
    BootstrapResult,
    CommitTurnResult,
    Compaction,
    CompactResult,
    ContextProjection,
    EngineInfo,
    HostRequirement,
    IngestBatchResult,
    IngestResult,
    MaintainResult,
)
from treadle.contract.session_calls import SubagentPreparation
from treadle.contract.store import TranscriptSnapshot
from treadle.model.errors import EngineContractError
from treadle.model.ids import EntryId
from treadle.model.json import JsonValue, canonical
from treadle.model.message import Message, StoredMessage
from treadle.model.text import without_surrogates

MAX_MESSAGES: Final = 1_000_000
"""Messages in one answer: a lazy sequence that never ends must not take the memory with it."""

FEW_MESSAGES: Final = 400
"""Messages of an answer that may be checked on the event loop: some 0.3 ms."""

MAX_DEPTH: Final = 100
"""Levels of nesting in a message: what renders it goes as deep, several calls a level."""

R = TypeVar("R")


def type_seen(value: object) -> str:
    """Name a type as the documents do: `null`, `array`, or JavaScript's `typeof`."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list() | tuple():
            return "array"
    return "function" if callable(value) and not isinstance(value, type) else "object"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Who answered what, for the error message."""

    engine_id: str
    operation: str

    def refuse(self, what: str) -> EngineContractError:
        """Return the error that says what is wrong with this answer."""
        return EngineContractError(
            f"context engine {self.engine_id!r} broke its contract in {self.operation!r}: {what}",
            next_step="Update the engine, or choose another with `--engine`.",
            engine_id=self.engine_id,
            operation=self.operation,
        )

    def record(self, value: object, kind: type[R], required: Sequence[str]) -> R:
        """Return the record, built from a mapping if it came as one.

        Raises: EngineContractError for another type and for missing fields.
        """
        if isinstance(value, kind):
            return value
        if not isinstance(value, Mapping):
            raise self.refuse(f"expected an object, got {type_seen(value)}")
        given = _fields_given(value, kind)
        if missing := [name for name in required if name not in given]:
            raise self.refuse(f"the answer lacks {', '.join(map(repr, missing))}")
        return kind(**given)

    def check(self, value: object, allowed: type | tuple[type, ...], field: str) -> None:
        """Refuse a field of another type; booleans are no numbers."""
        wrong = isinstance(value, bool) and bool not in _as_tuple(allowed)
        if wrong or not isinstance(value, allowed):
            raise self.refuse(f"{field!r} cannot be {type_seen(value)}")


def _as_tuple(allowed: type | tuple[type, ...]) -> tuple[type, ...]:
    return allowed if isinstance(allowed, tuple) else (allowed,)


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def _fields_given(value: Mapping[Any, Any], kind: type) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for field in fields(kind):
        for name in (field.name, _camel(field.name)):
            if name in value:
                given[field.name] = value[name]
                break
    return given


def assembled(answer: Answer, value: object, given: Sequence[Message]) -> Assembled:
    """Return the checked answer of `assemble`.

    The host's own lazy sequence, given back as it is, is not read. Any other sequence is read once,
    so call this where reading may take time. Raises: EngineContractError.
    """
    return _assembled(answer, value, lambda messages: _messages(answer, messages, given))


def assembled_at_once(answer: Answer, value: object) -> Assembled | None:
    """Return the checked answer where it is a list of few messages, each of nothing but text.

    That takes little time and runs nothing of the engine's. Raises: EngineContractError.
    """
    if type(value) is not Assembled or type(value.messages) not in {list, tuple}:
        return None
    messages = value.messages
    if len(messages) > FEW_MESSAGES or not all(map(_is_whole, messages)):
        return None
    return _assembled(answer, value, lambda _: tuple(messages))


def _assembled(
    answer: Answer, value: object, checked: Callable[[object], Sequence[Message]]
) -> Assembled:
    record = answer.record(value, Assembled, ("messages", "estimated_tokens"))
    tokens = record.estimated_tokens
    answer.check(tokens, (int, float), "estimatedTokens")
    if not math.isfinite(tokens) or tokens < 0:
        raise answer.refuse(f"'estimatedTokens' cannot be {tokens!r}")
    if record.prompt_authority not in ("assembled", "preassembly_may_overflow"):
        raise answer.refuse(f"'promptAuthority' cannot be {record.prompt_authority!r}")
    return Assembled(
        messages=checked(record.messages),
        estimated_tokens=int(tokens),
        system_prompt_addition=_addition(answer, record.system_prompt_addition),
        prompt_authority=record.prompt_authority,
        context_projection=_projection(answer, record.context_projection),
    )


def _addition(answer: Answer, value: object) -> str | None:
    if value is None:
        return None
    answer.check(value, str, "systemPromptAddition")
    text = without_surrogates(str(value))
    return text if text.strip() else None


def _projection(answer: Answer, value: object) -> ContextProjection:
    if value is None:
        return ContextProjection()
    record = answer.record(value, ContextProjection, ())
    if record.mode not in ("per_turn", "thread_bootstrap"):
        raise answer.refuse(f"'contextProjection.mode' cannot be {record.mode!r}")
    for name, text in (("epoch", record.epoch), ("fingerprint", record.fingerprint)):
        if text is not None:
            answer.check(text, str, f"contextProjection.{name}")
    return record


def _messages(answer: Answer, value: object, given: Sequence[Message]) -> Sequence[Message]:
    if value is given or isinstance(value, TranscriptSnapshot):
        return value  # ours: made of messages, and read-only
    if not isinstance(value, Sequence) or isinstance(value, str | bytes | bytearray | memoryview):
        raise answer.refuse(f"'messages' must be an array, got {type_seen(value)}")
    if len(value) > MAX_MESSAGES:
        raise answer.refuse(f"'messages' holds {len(value)}, more than {MAX_MESSAGES}")
    return tuple([
        one if _is_whole(one) else message(answer, one, f"messages[{at}]")
        for at, one in enumerate(value)
    ])


def message(answer: Answer, value: object, where: str) -> Message:
    """Return one message that an engine made or passed on.

    Its content can be encoded as JSON and holds no lone surrogate. Raises: EngineContractError.
    """
    if isinstance(value, Mapping):
        value = _message_of(answer, value, where)
    if not isinstance(value, Message):
        raise answer.refuse(f"{where!r} must be a message, got {type_seen(value)}")
    answer.check(value.role, str, f"{where}.role")
    if not value.role.strip():
        raise answer.refuse(f"'{where}.role' is blank")
    if _is_plain(value.content):
        return value
    try:
        _require_json(value.content, MAX_DEPTH)
        canonical(value.content)
    except UnicodeEncodeError:
        return replace(value, content=_valid(value.content))
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise answer.refuse(f"'{where}.content' is no JSON: {error}") from error
    return value


def _is_whole(value: object) -> TypeGuard[Message]:
    """Whether this is a message with nothing to check any further, as nearly all are."""
    if type(value) is StoredMessage:
        return value.is_as_stored  # from JSON that we wrote
    if type(value) is not Message or type(value.role) is not str:
        return False
    return bool(value.role.strip()) and _is_plain(value.content)


def _is_plain(content: object) -> bool:
    """Whether this is what most messages are: a text, or nothing but text parts, all ASCII.

    Nothing of it has to be looked at twice; an engine may answer hundreds of them in each turn.
    """
    if type(content) is not list:
        return type(content) is str and content.isascii()
    for part in content:
        if type(part) is not dict or len(part) != 2:
            return False
        kind, text = part.get("type"), part.get("text")
        if not (type(kind) is str and type(text) is str and text.isascii() and kind.isascii()):
            return False
    return True


def _require_json(value: object, depth: int) -> None:
    """Raise TypeError for what JSON cannot say; the encoder would take sets, dates and records.

    Also where it is nested deeper than `depth`.
    """
    if depth == 0:
        raise TypeError(f"it is nested deeper than {MAX_DEPTH} levels")
    if type(value) is str or value is None or isinstance(value, str | bool | int | float):
        return
    if isinstance(value, dict | Mapping):
        for name, part in value.items():
            if not isinstance(name, str):
                raise TypeError(f"a field's name is {type(name).__name__}")
            _require_json(part, depth - 1)
    elif isinstance(value, list | tuple):
        for part in value:
            _require_json(part, depth - 1)
    else:
        raise TypeError(f"it holds {type(value).__name__}")


def _message_of(answer: Answer, value: Mapping[Any, Any], where: str) -> Message:
    entry_id = value.get("entry_id", value.get("entryId"))
    if entry_id is not None:
        answer.check(entry_id, str, f"{where}.entryId")
    if "role" not in value:
        raise answer.refuse(f"{where!r} lacks 'role'")
    return Message(
        role=value["role"],
        content=value.get("content"),
        entry_id=None if entry_id is None else EntryId(entry_id),
    )


def _valid(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, Mapping):
        return {without_surrogates(name): _valid(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_valid(part) for part in value]
    return value


def bootstrap_result(answer: Answer, value: object) -> BootstrapResult:
    """Return the checked answer of `bootstrap`."""
    record = answer.record(value, BootstrapResult, ("bootstrapped",))
    answer.check(record.bootstrapped, bool, "bootstrapped")
    return record


def ingest_result(answer: Answer, value: object) -> IngestResult:
    """Return the checked answer of `ingest`."""
    record = answer.record(value, IngestResult, ("ingested",))
    answer.check(record.ingested, bool, "ingested")
    return record


def ingest_batch_result(answer: Answer, value: object) -> IngestBatchResult:
    """Return the checked answer of `ingestBatch`."""
    record = answer.record(value, IngestBatchResult, ("ingested_count",))
    answer.check(record.ingested_count, int, "ingestedCount")
    return record


def commit_turn_result(answer: Answer, value: object) -> CommitTurnResult:
    """Return the checked answer of `commitTurn`; any other status is a failed commit (B-37)."""
    record = answer.record(value, CommitTurnResult, ("status",))
    if record.status not in ("committed", "duplicate"):
        raise answer.refuse(f"'status' cannot be {record.status!r}")
    return record


def subagent_preparation(answer: Answer, value: object) -> SubagentPreparation | None:
    """Return the checked answer of `prepareSubagentSpawn`; None: nothing was prepared (B-20)."""
    if value is None:
        return None
    record = answer.record(value, SubagentPreparation, ("rollback",))
    if not callable(record.rollback):
        raise answer.refuse(f"'rollback' cannot be {type_seen(record.rollback)}")
    return record


def maintain_result(answer: Answer, value: object) -> MaintainResult:
    """Return the checked answer of `maintain`."""
    record = answer.record(value, MaintainResult, ("changed",))
    answer.check(record.changed, bool, "changed")
    answer.check(record.bytes_freed, int, "bytesFreed")
    answer.check(record.rewritten_entries, int, "rewrittenEntries")
    return record


def compact_result(answer: Answer, value: object) -> CompactResult:
    """Return the checked answer of `compact`."""
    record = answer.record(value, CompactResult, ("ok", "compacted"))
    answer.check(record.ok, bool, "ok")
    answer.check(record.compacted, bool, "compacted")
    if record.result is None:
        return record
    result = answer.record(record.result, Compaction, ("tokens_before",))
    answer.check(result.tokens_before, int, "result.tokensBefore")
    return replace(record, result=result)


def engine_info(registered_id: str, engine: object) -> EngineInfo:
    """Return who an engine is, once it has all that it must have.

    Reads attributes of the engine, so call it where foreign code may run. Raises:
    EngineContractError that lists every missing part. Source: spec B-03.
    """
    answer = Answer(engine_id=registered_id, operation="contract-validation")
    missing: list[str] = []
    info = getattr(engine, "info", None)
    if isinstance(info, Mapping):
        given = _fields_given(info, EngineInfo)
        info = EngineInfo(**{"id": "", "name": "", **given})
    if isinstance(info, EngineInfo):
        missing += [
            f"a non-blank 'info.{name}'"
            for name in ("id", "name")
            if not isinstance(text := getattr(info, name), str) or not text.strip()
        ]
    else:
        missing.append(f"'info' (an EngineInfo or an object; found {type_seen(info)})")
    missing += [
        f"the method {name!r}"
        for name in REQUIRED_METHODS
        if not callable(getattr(engine, name, None))
    ]
    if missing or not isinstance(info, EngineInfo):
        raise answer.refuse(f"the engine lacks {', '.join(missing)}")
    return _normal_info(answer, info)


def _normal_info(answer: Answer, info: EngineInfo) -> EngineInfo:
    accepted = info.accepted_host_params
    if accepted is not None:
        if isinstance(accepted, str) or not all(isinstance(name, str) for name in accepted):
            raise answer.refuse("'info.acceptedHostParams' must be a list of names")
        accepted = frozenset(map(_snake, accepted))
    requirements = {
        operation: _requirement(answer, requirement)
        for operation, requirement in dict(info.host_requirements).items()
    }
    return replace(info, accepted_host_params=accepted, host_requirements=requirements)


def _requirement(answer: Answer, value: object) -> HostRequirement:
    record = answer.record(value, HostRequirement, ("required_capabilities",))
    return replace(record, required_capabilities=frozenset(record.required_capabilities))


def _snake(name: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name)
