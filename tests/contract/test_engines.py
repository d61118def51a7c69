"""What every engine that Treadle brings must do, and what the guard makes of engines that break."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import anyio
import pytest

from treadle.config import Deadlines
from treadle.contract.engine import (
    AfterTurnParams,
    Assembled,
    AssembleParams,
    BootstrapParams,
    CompactParams,
    CompactResult,
    ContextEngine,
    EngineContext,
    EngineInfo,
    IngestParams,
    IngestResult,
    MaintainParams,
    MaintainResult,
    RewriteRequest,
    RuntimeContext,
)
from treadle.contract.store import TranscriptSnapshot
from treadle.engines import legacy, window
from treadle.engines.answers import engine_info
from treadle.engines.guard import GuardedEngine
from treadle.foreign import Abort, ForeignCalls
from treadle.model.errors import EngineContractError, EngineError, EngineTimeout
from treadle.model.ids import EntryId, SessionId, SessionKey
from treadle.model.message import Entry, Message, assistant_message, user_message
from treadle.observe import emit
from treadle.testing import engine as kit
from treadle.testing.engine import BreakingEngine, RecordingEngine

pytestmark = pytest.mark.anyio

SESSION = SessionId("ses_1")
KEY = SessionKey("agent:main:main")
CONTEXT = EngineContext(config={})


@pytest.fixture
async def foreign() -> AsyncIterator[ForeignCalls]:
    async with ForeignCalls(emit, close_within_s=0.05) as calls:
        yield calls


def talk(turns: int) -> tuple[Message, ...]:
    return tuple(
        replace(make(f"{at} {make.__name__}"), entry_id=EntryId(f"ent_{at}_{make.__name__[:4]}"))
        for at in range(turns)
        for make in (user_message, assistant_message)
    )


class Counted(TranscriptSnapshot):
    """A snapshot in memory that counts what is read."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = tuple(messages)
        self._read = 0
        self.read_in: set[int] = set()

    def __len__(self) -> int:
        return len(self._messages)

    @overload
    def __getitem__(self, at: int) -> Message: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Message]: ...
    def __getitem__(self, at: int | slice) -> Message | Sequence[Message]:
        self.read_in.add(threading.get_ident())
        found = self._messages[at]
        self._read += len(found) if isinstance(found, tuple) else 1
        return found

    @property
    def rows_read(self) -> int:
        return self._read

    def prefix(self, count: int) -> Counted:
        raise NotImplementedError

    def entries(self, start: int, stop: int) -> tuple[Entry, ...]:
        raise NotImplementedError

    def entries_by_id(self, ids: Sequence[EntryId]) -> dict[EntryId, Entry]:
        raise NotImplementedError


def asking(messages: Sequence[Message], **fields: Any) -> AssembleParams:
    given = {
        "session_id": SESSION,
        "session_key": KEY,
        "messages": messages,
        "token_budget": 1000,
        "available_tools": frozenset({"memory_search"}),
        "citations_mode": None,
        "model": "gpt-x",
        "prompt": "what now?",
        **fields,
    }
    return AssembleParams(**given)


def guarded(
    engine: Any, foreign: ForeignCalls, *, info: EngineInfo | None = None, **fields: Any
) -> GuardedEngine:
    return GuardedEngine(
        engine,
        info or engine_info("registered", engine),
        foreign=foreign,
        # Long: most of these calls answer, and a busy machine may not turn that into a timeout.
        deadlines=Deadlines(engine_call_s=2, engine_maintain_s=2),
        **fields,
    )


SHIPPED: dict[str, Callable[[EngineContext], ContextEngine]] = {
    "legacy": legacy.create,
    "window": window.create,
    "recording": kit.create_recording,
}


@pytest.mark.parametrize("create", SHIPPED.values(), ids=SHIPPED.keys())
async def test_every_shipped_engine_serves_a_whole_turn(
    create: Callable[[EngineContext], ContextEngine], foreign: ForeignCalls
) -> None:
    """Spec B-03, B-07, B-11, B-18."""
    engine = guarded(create(CONTEXT), foreign)
    messages = talk(3)
    answer = await engine.assemble(asking(messages))
    assert isinstance(answer, Assembled)
    assert list(answer.messages) == list(messages), "a short talk is shown whole"
    assert answer.context_projection.mode == "per_turn"
    assert engine.implements("after_turn")
    assert await engine.after_turn(
        AfterTurnParams(session_id=SESSION, messages=messages, pre_prompt_message_count=4)
    )
    result = await engine.ingest(IngestParams(session_id=SESSION, message=messages[0]))
    assert isinstance(result, IngestResult)
    compacted = await engine.compact(CompactParams(session_id=SESSION))
    assert isinstance(compacted, CompactResult)
    await engine.dispose()
    assert not engine.has_failed


@pytest.mark.parametrize("create", SHIPPED.values(), ids=SHIPPED.keys())
async def test_every_shipped_engine_answers_the_same_for_the_same_transcript(
    create: Callable[[EngineContext], ContextEngine], foreign: ForeignCalls
) -> None:
    """Spec D-52: what follows from the answer can only be stable if the answer is."""
    engine = guarded(create(EngineContext(config={})), foreign)
    first = await engine.assemble(asking(Counted(talk(400))))
    again = await guarded(create(CONTEXT), foreign).assemble(asking(Counted(talk(400))))
    assert [m.content_hash for m in first.messages] == [m.content_hash for m in again.messages]


async def test_passing_engines_leave_a_lazy_transcript_unread(foreign: ForeignCalls) -> None:
    """Decision 12: a turn costs what the engine reads."""
    for create in (legacy.create, kit.create_recording):
        snapshot = Counted(talk(500))
        answer = await guarded(create(CONTEXT), foreign).assemble(asking(snapshot))
        assert answer.messages is snapshot
        assert snapshot.rows_read == 0


async def test_window_reads_no_more_than_it_may_show(foreign: ForeignCalls) -> None:
    snapshot = Counted(talk(5000))
    engine = guarded(window.create(EngineContext(config={"size": 20})), foreign)
    answer = await engine.assemble(asking(snapshot))
    assert 20 < len(answer.messages) <= 41
    assert snapshot.rows_read <= 40
    assert engine.info.owns_compaction


@pytest.mark.parametrize(("size", "on_the_loop"), [(20, True), (500, False)])
async def test_window_leaves_the_loop_where_it_reads_many(
    size: int, on_the_loop: bool, foreign: ForeignCalls
) -> None:
    """INV-16: to read many messages takes time in which no other session would move."""
    snapshot = Counted(talk(1500))
    engine = guarded(window.create(EngineContext(config={"size": size})), foreign)
    await engine.assemble(asking(snapshot))
    assert (threading.get_ident() in snapshot.read_in) is on_the_loop


class Given(Mapping[str, object]):
    """A message of the engine's own make, which notes where it is read."""

    def __init__(self, fields: Mapping[str, object]) -> None:
        self._fields = fields
        self.read_in: set[int] = set()

    def __getitem__(self, name: str) -> object:
        self.read_in.add(threading.get_ident())
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)


async def test_what_an_engine_made_itself_is_read_off_the_loop(foreign: ForeignCalls) -> None:
    """INV-16: only what runs nothing of the engine's is checked where the others would wait."""
    odd = Given({"role": "user", "content": "hello"})

    class Odd(legacy.LegacyEngine):
        async def assemble(self, params: AssembleParams) -> Assembled:
            messages: Any = [*talk(2), odd]
            return Assembled(messages=messages, estimated_tokens=1)

    answer = await guarded(Odd(), foreign).assemble(asking(()))
    assert [one.role for one in answer.messages] == ["user", "assistant"] * 2 + ["user"]
    assert odd.read_in
    assert threading.get_ident() not in odd.read_in


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What an engine answers to `assemble`, and the type that the error names."""

    answer: object
    names: str


REFUSED = {
    "none": Seen(answer=None, names="got null"),
    "string": Seen(answer="text", names="got string"),
    "number": Seen(answer=7, names="got number"),
    "boolean": Seen(answer=True, names="got boolean"),
    "array": Seen(answer=[], names="got array"),
    "other object": Seen(answer=object(), names="got object"),
    "empty object": Seen(answer={}, names="lacks 'messages', 'estimated_tokens'"),
    "empty text": Seen(answer={"messages": "", "estimatedTokens": 1}, names="got string"),
    "no messages": Seen(answer={"messages": None, "estimatedTokens": 1}, names="got null"),
    "messages text": Seen(answer={"messages": "hi", "estimatedTokens": 1}, names="got string"),
    "messages object": Seen(answer={"messages": {}, "estimatedTokens": 1}, names="got object"),
    "no tokens": Seen(answer={"messages": []}, names="lacks 'estimated_tokens'"),
    "tokens text": Seen(answer={"messages": [], "estimatedTokens": "9"}, names="be string"),
    "tokens true": Seen(answer={"messages": [], "estimatedTokens": True}, names="be boolean"),
    "tokens nan": Seen(answer={"messages": [], "estimatedTokens": float("nan")}, names="be nan"),
    "message number": Seen(answer={"messages": [3], "estimatedTokens": 1}, names="got number"),
    "no role": Seen(answer={"messages": [{}], "estimatedTokens": 1}, names="lacks 'role'"),
    "blank role": Seen(
        answer={"messages": [{"role": " "}], "estimatedTokens": 1}, names="role' is blank"
    ),
    "content no json": Seen(
        answer={"messages": [{"role": "user", "content": {1, 2}}], "estimatedTokens": 1},
        names="content' is no JSON",
    ),
    "addition list": Seen(
        answer={"messages": [], "estimatedTokens": 1, "systemPromptAddition": []},
        names="be array",
    ),
    "authority": Seen(
        answer={"messages": [], "estimatedTokens": 1, "promptAuthority": "mine"}, names="'mine'"
    ),
    "projection": Seen(
        answer={"messages": [], "estimatedTokens": 1, "contextProjection": {"mode": "x"}},
        names="'x'",
    ),
}


class Answering:
    """An engine that answers `assemble` as told."""

    info = EngineInfo(id="answering", name="Answering")

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def assemble(self, params: AssembleParams) -> object:
        return self.answer

    def ingest(self, params: IngestParams) -> object:
        return self.answer

    def compact(self, params: CompactParams) -> object:
        return self.answer

    def maintain(self, params: MaintainParams) -> object:
        return self.answer

    def bootstrap(self, params: BootstrapParams) -> object:
        return self.answer


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
async def test_a_bad_assembly_is_refused_with_engine_and_type(
    case: Seen, foreign: ForeignCalls
) -> None:
    """Spec B-12."""
    engine = guarded(Answering(case.answer), foreign)
    with pytest.raises(EngineContractError) as caught:
        await engine.assemble(asking(talk(1)))
    assert "'answering'" in caught.value.message
    assert case.names in caught.value.message
    assert engine.has_failed


async def test_mappings_in_either_spelling_become_records(foreign: ForeignCalls) -> None:
    """Spec B-11, B-16: an engine may answer with plain objects."""
    engine = Answering({
        "messages": [
            {"role": "user", "content": "lone \ud800 surrogate", "entryId": "ent_9", "extra": 1},
            assistant_message("kept as it is"),
        ],
        "estimatedTokens": 12.6,
        "systemPromptAddition": "Remember.",
        "promptAuthority": "preassembly_may_overflow",
        "contextProjection": {"mode": "thread_bootstrap", "epoch": "e1"},
        "unknown": True,
    })
    answer = await guarded(engine, foreign).assemble(asking(talk(1)))
    assert list(answer.messages) == [
        Message(role="user", content="lone \ufffd surrogate", entry_id=EntryId("ent_9")),
        assistant_message("kept as it is"),
    ]
    assert answer.estimated_tokens == 12
    assert answer.system_prompt_addition == "Remember."
    assert answer.prompt_authority == "preassembly_may_overflow"
    assert answer.context_projection.epoch == "e1"
    engine.answer = {"changed": True, "bytesFreed": 5, "rewritten_entries": 2}
    maintained = await guarded(engine, foreign).maintain(
        MaintainParams(session_id=SESSION, reason="turn")
    )
    assert maintained == MaintainResult(changed=True, bytes_freed=5, rewritten_entries=2)


async def test_a_blank_addition_is_none(foreign: ForeignCalls) -> None:
    engine = Answering({"messages": [], "estimated_tokens": 0, "system_prompt_addition": " \n"})
    assert (await guarded(engine, foreign).assemble(asking(()))).system_prompt_addition is None


@pytest.mark.parametrize("answer", [None, {}, "done", {"ok": 1, "compacted": True}])
async def test_other_answers_are_checked_too(answer: object, foreign: ForeignCalls) -> None:
    engine = guarded(Answering(answer), foreign)
    with pytest.raises(EngineContractError):
        await engine.compact(CompactParams(session_id=SESSION))
    with pytest.raises(EngineContractError):
        await engine.ingest(IngestParams(session_id=SESSION, message=user_message("hi")))
    with pytest.raises(EngineContractError):
        await engine.bootstrap(BootstrapParams(session_id=SESSION))


BROKEN: dict[str, type[EngineError]] = {
    "throws": EngineError,
    "empty": EngineContractError,
    "none": EngineContractError,
    "text": EngineContractError,
    "sleeps": EngineTimeout,
    "sleeps-in-thread": EngineTimeout,
    "swallows-cancellation": EngineTimeout,
}


@pytest.mark.parametrize("fault", BROKEN)
async def test_every_way_to_break_is_one_engine_error(fault: Any, foreign: ForeignCalls) -> None:
    """RS: the engines of the bad-input list; none is survived by luck, none hangs the turn."""
    engine = BreakingEngine(fault, calls=frozenset({1}))
    failures: list[str] = []
    guard = guarded(engine, foreign, on_failure=lambda op, reason: failures.append(op))
    with anyio.fail_after(10), pytest.raises(EngineError) as caught:
        await guard.assemble(asking(talk(1)))
    assert type(caught.value) is BROKEN[fault]
    assert "breaking" in caught.value.message
    assert "abcdef123456" not in caught.value.message, "secrets of an error never get out (S-02)"
    assert failures == ["assemble"]
    assert (await guard.assemble(asking(talk(1)))).messages == talk(1), "asked again (B-47)"
    engine.let_go()


async def test_a_stopped_run_is_no_failure_of_the_engine(foreign: ForeignCalls) -> None:
    """Spec B-43."""
    run = Abort()
    engine = BreakingEngine("sleeps")
    guard = guarded(engine, foreign)
    run.set("stopped")
    with anyio.fail_after(5), pytest.raises(EngineError) as caught:
        await guard.assemble(asking(talk(1), abort_signal=run))
    assert caught.value.fields["aborted"] is True
    assert not guard.has_failed


async def rewrite(request: RewriteRequest) -> int:
    raise AssertionError("nobody rewrites here")


def full() -> dict[str, Any]:
    return {
        "session_key": KEY,
        "session_target": {"kind": "sqlite"},
        "runtime_settings": {"schema": 1},
        "runtime_context": RuntimeContext(cwd="/w", rewrite_transcript_entries=rewrite),
        "abort_signal": Abort(),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What an engine declares and which of the six host fields it then gets."""

    accepts: frozenset[str] | None
    gets: frozenset[str]


ALL_SIX = frozenset({
    "session_key",
    "prompt",
    "runtime_settings",
    "session_target",
    "runtime_context",
    "abort_signal",
})
FILTERS = {
    "undeclared": Filter(accepts=None, gets=ALL_SIX),
    "empty": Filter(accepts=frozenset(), gets=frozenset()),
    "some": Filter(
        accepts=frozenset({"sessionKey", "abort_signal"}),
        gets=frozenset({"session_key", "abort_signal"}),
    ),
    "unknown names": Filter(accepts=frozenset({"nonsense"}), gets=frozenset()),
}


@pytest.mark.parametrize("case", FILTERS.values(), ids=FILTERS.keys())
async def test_host_fields_are_filtered_as_declared(case: Filter, foreign: ForeignCalls) -> None:
    """Spec B-23, B-24; `compact` always gets the abort signal."""
    recording = RecordingEngine(
        info=EngineInfo(id="rec", name="Rec", accepted_host_params=case.accepts)
    )
    engine = guarded(recording, foreign)
    await engine.assemble(asking(talk(1), **full()))
    await engine.compact(CompactParams(session_id=SESSION, **full()))
    assembled, compacted = (call.params for call in recording.calls)
    assert {name for name in ALL_SIX if getattr(assembled, name) is not None} == case.gets
    assert compacted is not None
    assert compacted.abort_signal is not None
    assert isinstance(assembled, AssembleParams)
    assert assembled.available_tools == {"memory_search"}, "others are never filtered"


async def test_the_rewriter_is_withheld_before_a_turn(foreign: ForeignCalls) -> None:
    """Spec B-17."""
    recording = RecordingEngine()
    engine = guarded(recording, foreign)
    context = RuntimeContext(rewrite_transcript_entries=rewrite)
    await engine.bootstrap(BootstrapParams(session_id=SESSION, runtime_context=context))
    for reason in ("bootstrap", "turn", "compaction"):
        await engine.maintain(
            MaintainParams(session_id=SESSION, runtime_context=context, reason=reason)
        )
    await engine.assemble(asking((), runtime_context=context))
    got = [
        call.params.runtime_context.rewrite_transcript_entries is not None
        for call in recording.calls
        if call.params and call.params.runtime_context
    ]
    assert recording.operations == ["bootstrap", "maintain", "maintain", "maintain", "assemble"]
    assert got == [False, False, True, True, False]


async def test_an_engine_lacking_optional_methods_answers_none(foreign: ForeignCalls) -> None:
    """Spec B-07."""
    engine = guarded(
        RecordingEngine(has_bootstrap=False, has_maintain=False, takes="ingest"), foreign
    )
    assert await engine.bootstrap(BootstrapParams(session_id=SESSION)) is None
    assert await engine.maintain(MaintainParams(session_id=SESSION, reason="turn")) is None
    assert not await engine.after_turn(
        AfterTurnParams(session_id=SESSION, messages=(), pre_prompt_message_count=0)
    )
    assert not engine.implements("ingest_batch")


def test_every_missing_part_of_an_engine_is_listed_at_once() -> None:
    """Spec B-03."""

    class Half:
        info = EngineInfo(id=" ", name="")
        ingest = "not a function"

    with pytest.raises(EngineContractError) as caught:
        engine_info("half", Half())
    for part in ("info.id", "info.name", "'ingest'", "'assemble'", "'compact'", "'half'"):
        assert part in caught.value.message
    with pytest.raises(EngineContractError, match="found null"):
        engine_info("nothing", object())


def test_an_info_may_be_a_plain_object() -> None:
    """Spec B-22."""
    engine = Answering(None)
    engine.info = {  # type: ignore[assignment] # as an engine without our records would
        "id": "plain",
        "name": "Plain",
        "ownsCompaction": True,
        "acceptedHostParams": ["sessionKey"],
        "hostRequirements": {"agent-run": {"requiredCapabilities": ["maintain"]}},
    }
    info = engine_info("plain", engine)
    assert info.owns_compaction
    assert info.accepted_host_params == frozenset({"session_key"})
    assert info.host_requirements["agent-run"].required_capabilities == frozenset({"maintain"})
