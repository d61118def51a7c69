"""Two context engines for tests: one that records every call, one that breaks where it is told.

Given a `CommitLog`, either one commits its turns durably. Knows nothing of the harness under test;
both are engines like any plugin's.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal, get_args

import anyio

from treadle.contract.engine import (
    CURRENT_TURN_FENCE,
    TURN_ADVANCEMENT_IDEMPOTENCY,
    AfterTurnParams,
    Assembled,
    AssembleParams,
    BootstrapParams,
    BootstrapResult,
    CommitTurnParams,
    CommitTurnResult,
    CompactParams,
    CompactResult,
    ContextProjection,
    EngineContext,
    EngineInfo,
    IngestBatchParams,
    IngestBatchResult,
    IngestParams,
    IngestResult,
    MaintainParams,
    MaintainResult,
    SessionCall,
)
from treadle.contract.session_calls import (
    ForgetParams,
    SessionEndedParams,
    SubagentEndedParams,
    SubagentPreparation,
    SubagentSpawnParams,
)
from treadle.contract.tool import DynamicTool
from treadle.model.ids import EngineId
from treadle.model.json import JsonObject
from treadle.model.message import Message, user_message
from treadle.testing.commits import CommitLog

RECORDING: Final = EngineId("recording")
BREAKING: Final = EngineId("breaking")

RECORDING_INFO: Final = EngineInfo(id=RECORDING, name="Recording engine", version="1")
BREAKING_INFO: Final = EngineInfo(id=BREAKING, name="Breaking engine", version="1")

COMMIT_LOG: Final = "commits.jsonl"
"""Where an engine that a factory makes keeps its commits, in its data folder."""


def committing(info: EngineInfo) -> EngineInfo:
    """Return the info of an engine that declares durable commits (spec B-34)."""
    return replace(
        info,
        current_turn_fence=CURRENT_TURN_FENCE,
        turn_advancement_idempotency=TURN_ADVANCEMENT_IDEMPOTENCY,
    )


Takes = Literal["after_turn", "ingest_batch", "ingest"]
"""Which call hands a finished turn over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """One call of an engine, as it came."""

    operation: str
    params: SessionCall | None
    messages: tuple[Message, ...] = ()
    """What `params.messages` (or `params.message`) held, read if the engine was told to read."""


@dataclass(kw_only=True)
class RecordingEngine:
    """Gives the messages back as they came and keeps a list of all that it was asked.

    The fields steer it and may be changed between turns.
    """

    info: EngineInfo = RECORDING_INFO
    takes: Takes = "after_turn"
    addition: str | None = None
    """`system_prompt_addition` of the next assembly."""

    summary_of: int = 0
    """How many of the oldest messages the next assembly replaces by one summary message."""

    recalled: str | None = None
    """Text of a message that the next assembly puts in front of all others."""

    projection: ContextProjection = field(default_factory=ContextProjection)
    """How the next assembly asks to be carried."""

    reads: bool = True
    """Whether it reads the messages it is given; False leaves a lazy sequence untouched."""

    has_bootstrap: bool = True
    has_maintain: bool = True
    offered_tools: tuple[DynamicTool, ...] = ()
    commits: CommitLog | None = None
    """Where it commits turns; None: it has no `commit_turn`. `committing_engine` makes one."""

    calls: list[Called] = field(default_factory=list)

    @property
    def operations(self) -> list[str]:
        """The names of the calls so far, in order."""
        return [call.operation for call in self.calls]

    def __getattribute__(self, name: str) -> object:
        """Hide the optional methods that this engine was told not to have."""
        get = super().__getattribute__
        hidden = {
            "bootstrap": not get("has_bootstrap"),
            "maintain": not get("has_maintain"),
            "after_turn": get("takes") != "after_turn",
            "ingest_batch": get("takes") != "ingest_batch",
            "commit_turn": get("commits") is None,
        }
        if hidden.get(name):
            raise AttributeError(name)
        return get(name)

    def bootstrap(self, params: BootstrapParams) -> BootstrapResult:
        """Record the call; import nothing."""
        self._note("bootstrap", params, params.messages)
        return BootstrapResult(bootstrapped=True, imported_messages=0)

    def assemble(self, params: AssembleParams) -> Assembled:
        """Give the messages back, the oldest replaced by a summary if told so."""
        self._note("assemble", params, params.messages)
        messages: Sequence[Message] = params.messages
        if self.summary_of:
            rest = messages[self.summary_of :]
            messages = [user_message(f"Summary of {self.summary_of} messages."), *rest]
        if self.recalled is not None:
            messages = [user_message(self.recalled), *messages]
        return Assembled(
            messages=messages,
            estimated_tokens=0,
            system_prompt_addition=self.addition,
            context_projection=self.projection,
        )

    def after_turn(self, params: AfterTurnParams) -> None:
        """Record the call."""
        self._note("after_turn", params, params.messages)

    def ingest_batch(self, params: IngestBatchParams) -> IngestBatchResult:
        """Record the call."""
        self._note("ingest_batch", params, params.messages)
        return IngestBatchResult(ingested_count=len(params.messages))

    def ingest(self, params: IngestParams) -> IngestResult:
        """Record the call."""
        self._note("ingest", params, (params.message,))
        return IngestResult(ingested=True)

    def commit_turn(self, params: CommitTurnParams) -> CommitTurnResult:
        """Record the call and write the turn to the log, once."""
        assert self.commits is not None
        self._note("commit_turn", params, params.messages)
        return CommitTurnResult(status=self.commits.add(params))

    def maintain(self, params: MaintainParams) -> MaintainResult:
        """Record the call; change nothing."""
        self._note("maintain", params, ())
        return MaintainResult(changed=False)

    def compact(self, params: CompactParams) -> CompactResult:
        """Record the call; compact nothing."""
        self._note("compact", params, ())
        return CompactResult(ok=True, compacted=False, reason="a recording engine never compacts")

    def on_session_ended(self, params: SessionEndedParams) -> None:
        """Record the call."""
        self._note("on_session_ended", params, ())

    def forget(self, params: ForgetParams) -> None:
        """Record the call; there is nothing to erase but this record."""
        self._note("forget", params, ())

    def prepare_subagent_spawn(self, params: SubagentSpawnParams) -> SubagentPreparation:
        """Record the call, and later whether it was rolled back."""
        self._note("prepare_subagent_spawn", params, ())
        return SubagentPreparation(rollback=lambda: self._note("rollback", params, ()))

    def on_subagent_ended(self, params: SubagentEndedParams) -> None:
        """Record the call."""
        self._note("on_subagent_ended", params, ())

    def tools(self) -> tuple[DynamicTool, ...]:
        """Offer the tools that it was given."""
        return self.offered_tools

    def dispose(self) -> None:
        """Record the call."""
        self._note("dispose", None, ())

    def _note(
        self, operation: str, params: SessionCall | None, messages: Sequence[Message]
    ) -> None:
        read = tuple(messages) if self.reads else ()
        self.calls.append(Called(operation=operation, params=params, messages=read))


def committing_engine(log: CommitLog, *, takes: Takes = "ingest") -> RecordingEngine:
    """Make a recording engine that commits its turns to this log."""
    return RecordingEngine(info=committing(RECORDING_INFO), takes=takes, commits=log)


def create_recording(context: EngineContext) -> RecordingEngine:
    """Make a recording engine; `config` may set `takes`, `addition`, `summaryOf`, `recalled`.

    With `commits` true it commits to `commits.jsonl` in its data folder.
    """
    engine = RecordingEngine(reads=False)
    if (log := _commit_log(context)) is not None:
        engine.info, engine.commits = committing(RECORDING_INFO), log
    match context.config.get("takes"):
        case "after_turn" | "ingest_batch" | "ingest" as takes:
            engine.takes = takes
        case None:
            pass
        case other:
            raise ValueError(f"'takes' is {other!r}; allowed: {', '.join(get_args(Takes))}")
    engine.addition = _text(context.config, "addition")
    engine.recalled = _text(context.config, "recalled")
    summary_of = context.config.get("summaryOf", 0)
    if not isinstance(summary_of, int):
        raise TypeError(f"'summaryOf' is {summary_of!r}; allowed: a whole number")
    engine.summary_of = summary_of
    return engine


Fault = Literal[
    "throws",
    "throws-after",
    "empty",
    "none",
    "text",
    "sleeps",
    "sleeps-in-thread",
    "swallows-cancellation",
    "blocks-the-loop",
]
"""How a call breaks: it raises, does its work and then raises, answers `{}`, None or a string,
never ends (in a coroutine or in a thread), goes on when it is cancelled, or holds the loop for
`block_s`."""


class BreakingEngine:
    """Passes everything through but the calls that it was told to break.

    `on` names the operation, `calls` the numbers of the calls of it that break, from 1; None breaks
    them all. With a log it commits its turns durably.
    """

    def __init__(
        self,
        fault: Fault,
        *,
        on: str = "assemble",
        calls: frozenset[int] | None = None,
        block_s: float = 2.5,
        commits: CommitLog | None = None,
    ) -> None:
        self.fault = fault
        self.on = on
        self.broken_calls = calls
        self.block_s = block_s
        self.commits = commits
        self.info = committing(BREAKING_INFO) if commits is not None else BREAKING_INFO
        self.counted: Counter[str] = Counter()
        self._let_go = anyio.Event()
        self._thread_let_go = threading.Event()

    def let_go(self) -> None:
        """End the calls that never end by themselves. Call it on the loop."""
        self._let_go.set()
        self._thread_let_go.set()

    def __getattribute__(self, name: str) -> object:
        """Hide `commit_turn` where there is no log."""
        if name == "commit_turn" and super().__getattribute__("commits") is None:
            raise AttributeError(name)
        return super().__getattribute__(name)

    def bootstrap(self, params: BootstrapParams) -> object:
        """Answer, or break."""
        return self._answer("bootstrap", BootstrapResult(bootstrapped=True))

    def assemble(self, params: AssembleParams) -> object:
        """Answer, or break."""
        return self._answer("assemble", Assembled(messages=params.messages, estimated_tokens=0))

    def after_turn(self, params: AfterTurnParams) -> object:
        """Answer, or break."""
        return self._answer("after_turn", None)

    def ingest(self, params: IngestParams) -> object:
        """Answer, or break."""
        return self._answer("ingest", IngestResult(ingested=True))

    def commit_turn(self, params: CommitTurnParams) -> object:
        """Answer, or break; with `throws-after` the turn is in the log all the same."""
        assert self.commits is not None
        if self._breaks_next("commit_turn") and self.fault != "throws-after":
            return self._answer("commit_turn", None)
        return self._answer("commit_turn", CommitTurnResult(status=self.commits.add(params)))

    def maintain(self, params: MaintainParams) -> object:
        """Answer, or break."""
        return self._answer("maintain", MaintainResult(changed=False))

    def compact(self, params: CompactParams) -> object:
        """Answer, or break."""
        return self._answer("compact", CompactResult(ok=True, compacted=False))

    def on_session_ended(self, params: SessionEndedParams) -> object:
        """Answer, or break."""
        return self._answer("on_session_ended", None)

    def forget(self, params: ForgetParams) -> object:
        """Answer, or break."""
        return self._answer("forget", None)

    def prepare_subagent_spawn(self, params: SubagentSpawnParams) -> object:
        """Answer, or break; its rollback breaks as `rollback`."""

        def rollback() -> object:
            return self._answer("rollback", None)

        return self._answer("prepare_subagent_spawn", SubagentPreparation(rollback=rollback))

    def on_subagent_ended(self, params: SubagentEndedParams) -> object:
        """Answer, or break."""
        return self._answer("on_subagent_ended", None)

    def dispose(self) -> object:
        """Answer, or break."""
        return self._answer("dispose", None)

    def _answer(self, operation: str, good: object) -> object:
        breaks = self._breaks_next(operation)
        self.counted[operation] += 1
        if not breaks:
            return good
        if self.fault == "sleeps-in-thread":
            self._thread_let_go.wait()
            return None
        return self._break()

    def _breaks_next(self, operation: str) -> bool:
        number = self.counted[operation] + 1
        return operation == self.on and (self.broken_calls is None or number in self.broken_calls)

    async def _break(self) -> object:
        match self.fault:
            case "throws" | "throws-after":
                raise RuntimeError("the engine broke, as told (Authorization: Bearer abcdef123456)")
            case "empty":
                return {}
            case "none":
                return None
            case "text":
                return "a string"
            case "sleeps":
                await self._let_go.wait()
            case "swallows-cancellation":
                await self._swallow()
            case "blocks-the-loop":
                time.sleep(self.block_s)  # noqa: ASYNC251 - blocking is what it is for
        return None

    async def _swallow(self) -> None:
        while not self._let_go.is_set():
            try:
                await self._let_go.wait()
            except anyio.get_cancelled_exc_class():
                continue


def create_breaking(context: EngineContext) -> BreakingEngine:
    """Make a breaking engine; `config` is `{fault, on?, calls?: [n], blockSeconds?, commits?}`.

    Raises: RuntimeError, as told, where `on` is `factory`.
    """
    on = _text(context.config, "on") or "assemble"
    if on == "factory":
        raise RuntimeError("the factory broke, as told")
    fault = context.config.get("fault", "throws")
    if fault not in get_args(Fault):
        raise ValueError(f"'fault' is {fault!r}; allowed: {', '.join(get_args(Fault))}")
    numbers = context.config.get("calls")
    calls = frozenset(numbers) if isinstance(numbers, list | tuple) else None
    seconds = context.config.get("blockSeconds", 2.5)
    assert isinstance(seconds, int | float)
    return BreakingEngine(
        fault,  # type: ignore[arg-type] # checked above
        on=on,
        calls=calls,
        block_s=seconds,
        commits=_commit_log(context),
    )


def _commit_log(context: EngineContext) -> CommitLog | None:
    if not context.config.get("commits"):
        return None
    assert context.data_dir is not None, "an engine that commits needs a data folder"
    return CommitLog(Path(context.data_dir) / COMMIT_LOG)


def _text(config: JsonObject | Mapping[str, object], name: str) -> str | None:
    value = config.get(name)
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name!r} is {value!r}; allowed: a text")
    return value
