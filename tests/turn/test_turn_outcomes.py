"""What becomes of a turn: how its end is classified, and what a failure does and does not do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.turn.rig import Rig, item, turn_steps
from treadle.contract.engine import Capability, CompactParams, CompactResult
from treadle.contract.harness import (
    AgentHarness,
    AttemptParams,
    AttemptResult,
    Emit,
    Support,
    SupportQuery,
)
from treadle.contract.hook import HookRegistration, MessageWrite, PromptBuild
from treadle.model.message import Message, text_of
from treadle.model.turn import Outcome
from treadle.runtime.service import Runtime
from treadle.runtime.sessions import Session
from treadle.testing.codex import Output, ScriptedCodex
from treadle.testing.engine import RecordingEngine

pytestmark = pytest.mark.anyio

OVERFLOW = {"message": "too long", "codexErrorInfo": "contextWindowExceeded"}


class Interrupting(ScriptedCodex):
    """An app-server during whose answer to one method something happens."""

    def __init__(self, method: str) -> None:
        super().__init__()
        self.mark = f'"{method}"'.encode()
        self.happens: Any = lambda: None

    def feed(self, chunk: bytes) -> Iterator[Output]:
        """Let it happen, then answer."""
        if self.mark in chunk:
            self.happens()
        yield from super().feed(chunk)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(root=tmp_path)


@dataclass(kw_only=True)
class Recorder:
    """A harness that passes everything on and keeps what each attempt answered."""

    harness: AgentHarness
    results: list[AttemptResult]

    @property
    def id(self) -> str:
        """The other's."""
        return self.harness.id

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The other's."""
        return self.harness.capabilities

    def supports(self, query: SupportQuery) -> Support:
        """Ask the other."""
        return self.harness.supports(query)

    async def run_attempt(self, params: AttemptParams, emit: Emit) -> AttemptResult:
        """Let the other run it."""
        self.results.append(await self.harness.run_attempt(params, emit))
        return self.results[-1]


def recording(runtime: Runtime) -> list[AttemptResult]:
    """Put a recorder in front of the harness, and return what it keeps."""
    harnesses: Any = runtime._services.harnesses
    recorder = Recorder(harness=harnesses["codex"], results=[])
    harnesses["codex"] = recorder
    return recorder.results


# ---------------------------------------------------------------------------- classification


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a turn went, and what its lack of an answer is called."""

    body: dict[str, Any]
    text: str
    classified: str | None


PLAN = item("completed", type="plan", id="p", text="1. Do it")
REASONING = item("completed", type="reasoning", id="r", summary=["hm"], content=[])
ENDED = {
    "an answer": Ended(body={"text": "fine"}, text="fine", classified=None),
    "nothing": Ended(body={"text": " "}, text="", classified="empty"),
    "thoughts": Ended(
        body={"text": "", "between": [REASONING]}, text="", classified="reasoning-only"
    ),
    "a plan": Ended(
        body={"text": "", "between": [REASONING, PLAN]}, text="", classified="planning-only"
    ),
    "an empty plan": Ended(
        body={"text": "", "between": [item("completed", type="plan", id="p", text=" ")]},
        text="",
        classified="empty",
    ),
    "silence on purpose": Ended(body={"text": "NO_REPLY"}, text="", classified=None),
    "silence after words": Ended(
        body={
            "text": " NO_REPLY ",
            "between": [item("completed", type="agentMessage", id="m", text="said before")],
        },
        text="said before",
        classified=None,
    ),
    "an error": Ended(
        body={"text": "", "status": "failed", "error": {"message": "no"}},
        text="",
        classified=None,
    ),
    "an interrupt": Ended(body={"text": "", "status": "interrupted"}, text="", classified=None),
}


@pytest.mark.parametrize("case", ENDED.values(), ids=ENDED.keys())
async def test_a_turn_without_visible_text_is_classified_and_silence_is_never_shown(
    case: Ended, rig: Rig
) -> None:
    """Spec A-22, A-23: prompt errors, stopped turns and intentional silence stay unclassified."""
    async with rig.opened() as runtime:
        results = recording(runtime)
        rig.codex.once("turn/start", turn_steps(case.body))
        turn = await rig.say(runtime.session("t"), "hello")
    assert turn.finished.text.strip() == case.text
    assert [one.classification for one in results] == [case.classified]
    (settled,) = rig.logged("turn.settled")
    assert settled["classification"] == case.classified


async def test_the_result_says_what_a_turn_did(rig: Rig) -> None:
    """Spec A-24, A-02: every field that the contract names, after a turn with a command."""
    command = {
        "type": "commandExecution",
        "id": "c",
        "command": "ls",
        "cwd": "/",
        "status": "completed",
        "exitCode": 0,
        "commandActions": [],
    }
    async with rig.opened(RecordingEngine()) as runtime:
        results = recording(runtime)
        rig.answers("done", between=[item("started", **command), item("completed", **command)])
        await rig.say(runtime.session("t"), "hello")
    (result,) = results
    assert (result.aborted, result.timed_out, result.prompt_error) == (False, False, None)
    assert result.prompt_error_source is None
    assert result.messages_snapshot[0].role == "user"
    assert result.last_assistant is not None
    assert text_of(result.last_assistant) == "done"
    assert result.assistant_texts == ("done",)
    assert [meta["call_id"] for meta in result.tool_metas] == ["c"]
    assert result.attempt_usage is not None
    assert (result.attempt_usage.input, result.attempt_usage.cache_read) == (600, 400)
    lifecycle = result.item_lifecycle
    assert (lifecycle.started_count, lifecycle.completed_count, lifecycle.active_count) == (3, 3, 0)
    assert lifecycle.compaction_count == 0
    assert (result.had_potential_side_effects, result.replay_safe) == (True, False)
    assert (result.tool_media_urls, result.yield_detected) == ((), False)
    assert (result.thread_id, result.turn_id) == ("thread-1", "thread-1-turn-1")


async def test_partial_output_stays_and_a_time_limit_is_no_success(rig: Rig) -> None:
    """Spec S-10, A-17: the budget runs from the start, and what was said until then is kept."""
    rig.keys["agents", "defaults", "timeoutSeconds"] = 1
    ids = {"threadId": "$thread", "turnId": "$turn"}
    agent = {"type": "agentMessage", "id": "a", "text": "half an answer", "phase": None}
    said = {
        "tell": {"method": "item/completed", "params": {**ids, "item": agent, "completedAtMs": 1}}
    }
    rig.codex.once("turn/start", [turn_steps({})[0], said])
    async with rig.opened() as runtime:
        results = recording(runtime)
        session = runtime.session("t")
        turn = await rig.say(session, "hello")
        entries = await session.entries()
    assert turn.finished.outcome is Outcome.TIMED_OUT
    assert (turn.finished.text, turn.finished.partial) == ("half an answer", True)
    assert [text_of(one.message) for one in entries] == ["hello", "half an answer"]
    (result,) = results
    assert (result.aborted, result.timed_out, result.prompt_error_source) == (True, True, "prompt")


# ------------------------------------------------------------------------- never tried again


class Compactable(RecordingEngine):
    """An engine that owns compaction and counts who asks for one."""

    compacted = 0

    def compact(self, params: CompactParams) -> CompactResult:
        """Count."""
        self.compacted += 1
        return super().compact(params)


async def test_overflow_of_a_first_turn_fails_without_a_compaction_or_a_second_prompt(
    rig: Rig,
) -> None:
    """Spec S-08, S-07, C-14."""
    engine = Compactable()
    async with rig.opened(engine) as runtime:
        rig.codex.once(
            "turn/start", turn_steps({"text": "", "status": "failed", "error": OVERFLOW})
        )
        turn = await rig.say(runtime.session("t"), "hello")
    assert turn.finished.outcome is Outcome.FAILED
    assert turn.error["code"] == "turn.context_overflow"
    assert turn.error["next_step"]
    assert rig.methods().count("turn/start") == 1
    assert "thread/compact/start" not in rig.methods()
    assert engine.compacted == 0


async def test_a_compaction_that_fails_in_a_turn_sends_nothing_again(rig: Rig) -> None:
    """Spec S-07, C-14: the turn fails with what Codex says, and is not sent a second time."""
    engine = Compactable()
    started = item("started", type="contextCompaction", id="c")
    async with rig.opened(engine) as runtime:
        rig.answers("first")
        session = runtime.session("t")
        await rig.say(session, "one")
        failed = {"status": "failed", "error": {"message": "compaction failed"}}
        rig.codex.once("turn/start", turn_steps({"text": "", "between": [started], **failed}))
        turn = await rig.say(session, "two")
    assert turn.finished.outcome is Outcome.FAILED
    assert rig.sent() == ["one", "two"]
    assert engine.compacted == 0
    assert engine.operations.count("after_turn") == 2


@pytest.mark.parametrize("side_effect", [False, True], ids=["did nothing", "ran a command"])
async def test_a_client_that_closes_in_mid_turn_is_named_and_replaced_only_if_nothing_was_done(
    side_effect: bool, rig: Rig
) -> None:
    """Spec S-09."""
    command = {"type": "commandExecution", "id": "c", "command": "ls", "cwd": "/"}
    told = {
        "method": "item/started",
        "params": {
            "threadId": "$thread",
            "turnId": "$turn",
            "item": {**command, "status": "inProgress", "commandActions": []},
            "startedAtMs": 1,
        },
    }
    steps = [turn_steps({})[0], *([{"tell": told}] if side_effect else []), {"exit": 1}]
    rig.codex.once("turn/start", steps)
    rig.answers("second try")
    async with rig.opened() as runtime:
        turn = await rig.say(runtime.session("t"), "hello")
    if not side_effect:
        assert (turn.finished.outcome, turn.finished.text) == (Outcome.COMPLETED, "second try")
        assert len(rig.links) == 2
        return
    assert turn.finished.outcome is Outcome.CLIENT_LOST
    assert not turn.finished.replay_safe
    wanted = {
        "kind": "client_closed_before_turn_completed",
        "transport": "stdio",
        "thread_id": "thread-1",
        "replay_safe": False,
    }
    assert {name: turn.error[name] for name in wanted} == wanted
    assert rig.methods().count("turn/start") == 1


# --------------------------------------------------------------------------- subscriptions


async def test_stopped_before_the_thread_is_loaded_nothing_is_subscribed(rig: Rig) -> None:
    """Spec S-13: the run is stopped while hooks are asked, so no thread is touched."""

    def stop(payload: PromptBuild) -> None:
        for run in runtime.running:
            run.interrupt()

    hooks = [HookRegistration(name="before_prompt_build", handler=stop)]
    async with rig.opened(hooks=hooks) as runtime:
        turn = await rig.say(runtime.session("t"), "hello")
    assert turn.finished.outcome is Outcome.STOPPED
    assert rig.methods() == []


@pytest.mark.parametrize("method", ["thread/start", "thread/resume"])
async def test_stopped_while_the_thread_is_loaded_its_subscription_is_released(
    method: str, rig: Rig
) -> None:
    """Spec S-13: no turn is sent, the next one resumes the thread and runs."""
    codex = Interrupting(method)
    rig.codex = codex
    if method == "thread/resume":
        async with rig.opened() as runtime:
            rig.answers("first")
            await rig.say(runtime.session("t"), "one")
        codex.seen.clear()
    async with rig.opened() as runtime:
        session = runtime.session("t")
        codex.happens = lambda: runtime.running[0].interrupt()
        stopped = await rig.say(session, "two")
        assert rig.methods() == [method, "thread/unsubscribe"]
        codex.happens = lambda: None
        rig.answers("third")
        fine = await rig.say(session, "three")
    assert stopped.finished.outcome is Outcome.STOPPED
    assert rig.methods()[2:] == ["thread/resume", "turn/start"]
    assert fine.finished.text == "third"


async def test_a_refused_turn_is_finalized_and_its_subscription_released(rig: Rig) -> None:
    """Spec C-15, I-09, S3, I-08: the prompt is handed over, no maintenance follows."""
    engine = RecordingEngine()
    async with rig.opened(engine) as runtime:
        session = runtime.session("t")
        rig.codex.once("turn/start", [{"error": {"code": -32600, "message": "not now"}}])
        refused = await rig.say(session, "one")
        assert engine.operations == ["assemble", "after_turn", "dispose"]
        assert [text_of(one) for one in engine.calls[1].messages] == ["one"]
        rig.answers("fine")
        fine = await rig.say(session, "two")
    assert refused.error["code"] == "turn.rejected"
    assert fine.finished.text == "fine"
    assert rig.methods() == [
        "thread/start",
        "turn/start",
        "thread/unsubscribe",
        "thread/resume",
        "thread/inject_items",
        "turn/start",
    ]


async def test_an_error_of_ours_behind_the_resume_releases_the_subscription(rig: Rig) -> None:
    """Spec C-15: the claim is taken away while the user's entry is about to be written."""

    async def take_the_session(payload: MessageWrite) -> Message:
        record = await session.record()
        assert record is not None
        await runtime.store.transcript.claim(record.id, payload.ctx.run_id)
        return payload.message

    hooks = [HookRegistration(name="before_message_write", handler=take_the_session)]
    async with rig.opened(hooks=hooks) as runtime:
        session: Session = runtime.session("t")
        turn = await rig.say(session, "hello")
    assert turn.finished.outcome is Outcome.FAILED
    assert turn.error["code"] == "store.claim_lost"
    assert rig.methods() == ["thread/start", "thread/unsubscribe"]


# --------------------------------------------------------------------------------- deadlines


async def test_a_control_call_that_is_not_answered_ends_at_the_configured_time(rig: Rig) -> None:
    """Spec S-12, V-09: `requestTimeoutMs`; nothing was sent, so it is tried once more."""
    rig.keys["plugins", "entries", "codex", "config", "appServer", "requestTimeoutMs"] = 100
    rig.codex.on("thread/start", [{"silence": True}])
    async with rig.opened() as runtime:
        turn = await rig.say(runtime.session("t"), "hello")
    assert turn.finished.outcome is Outcome.CLIENT_LOST
    assert turn.error["code"] == "codex.rpc_timeout"
    assert turn.finished.replay_safe
    assert [record["timeout_s"] for record in rig.logged("wire.request_timed_out")] == [0.1, 0.1]
