"""What the log says of a turn: ids, decisions, bindings, slow setups; never a text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.turn.rig import Rig
from treadle.contract.engine import Assembled, AssembleParams, ContextProjection
from treadle.contract.harness import ProjectionMode
from treadle.harness.codex.attempt import CodexHarness
from treadle.model.message import Message, user_message
from treadle.model.turn import Outcome
from treadle.testing.clock import ManualClock
from treadle.testing.codex import Output, ScriptedCodex
from treadle.testing.engine import BreakingEngine, RecordingEngine

pytestmark = pytest.mark.anyio


class Epochs(RecordingEngine):
    """An engine that asks for one projection per epoch."""

    epoch: str | None = "e1"
    fingerprint: str | None = None

    def assemble(self, params: AssembleParams) -> Assembled:
        """Give everything back, to be projected once."""
        given = super().assemble(params)
        asked = ContextProjection(
            mode="thread_bootstrap", epoch=self.epoch, fingerprint=self.fingerprint
        )
        return Assembled(messages=given.messages, estimated_tokens=0, context_projection=asked)


class Slow(ScriptedCodex):
    """An app-server whose answer to one method takes time."""

    def __init__(self, clock: ManualClock, method: str, seconds: float) -> None:
        super().__init__()
        self.clock, self.mark, self.seconds = clock, f'"{method}"'.encode(), seconds

    def feed(self, chunk: bytes) -> Iterator[Output]:
        """Let time pass, then answer."""
        if self.mark in chunk:
            self.clock.advance(self.seconds)
        yield from super().feed(chunk)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(root=tmp_path)


async def test_every_engine_event_names_its_ids_and_no_record_holds_a_text(rig: Rig) -> None:
    """Spec T-01, T-02, T-03: on a whole turn, at the level of debug."""
    engine = RecordingEngine(addition="ADDITION-TEXT")
    async with rig.opened(engine) as runtime:
        session = runtime.session("secret-name")
        rig.answers("ANSWER-ONE", "ANSWER-TWO")
        await rig.say(session, "PROMPT-ONE")
        await rig.say(session, "PROMPT-TWO")
        record = await session.record()
        assert record is not None
    names = {
        "engine.bootstrap_started": "codex context engine bootstrap started",
        "engine.bootstrap_completed": "codex context engine bootstrap completed",
        "engine.assemble_applied": "codex context engine assemble applied",
        "engine.finalize_completed": "codex context engine finalize completed",
    }
    for name, message in names.items():
        for one in rig.logged(name):
            assert one["message"] == message
            assert (one["sessionId"], one["engineId"]) == (record.id, "recording")
    applied = rig.logged("engine.assemble_applied")
    assert [one["assembledMessageCount"] for one in applied] == [0, 2]
    assert [one["hasSystemPromptAddition"] for one in applied] == [True, True]
    assert all("estimatedTokens" in one for one in applied)
    for one in rig.logged("engine.finalize_completed"):
        assert one["thread_id"] == "thread-1"
    assert [one["turn_id"] for one in rig.logged("turn.started")] == [
        "thread-1-turn-1",
        "thread-1-turn-2",
    ]
    log = "".join(file.read_text("utf-8") for file in (rig.state / "logs").iterdir())
    for text in ("PROMPT-", "ANSWER-", "ADDITION-TEXT", "secret-name"):
        assert text not in log, text


async def test_each_decision_of_a_bootstrap_turn_is_logged_once(rig: Rig) -> None:
    """Spec T-04, D-31: mode, epoch, fingerprint, thread and epoch before, reason, sizes."""
    engine = Epochs()
    async with rig.opened(engine) as runtime:
        session = runtime.session("t")
        rig.answers("one", "two", "three")
        await rig.say(session, "first")
        await rig.say(session, "second")
        engine.epoch, engine.fingerprint = "e2", "f"
        await rig.say(session, "third")
    first, second, third = rig.logged("projection.decided")
    assert {one["mode"] for one in (first, second, third)} == {"thread_bootstrap"}
    assert _picked(first) == (None, None, "e1", None, False, "missing-thread-binding")
    assert _picked(second) == (
        "thread-1", "e1", "e1", None, False, "matching-thread-bootstrap-binding",
    )  # fmt: skip
    assert _picked(third) == ("thread-1", "e1", "e2", "f", True, "projection-mismatch")
    assert (third["assembled_count"], third["injected_count"], third["items_count"]) == (4, 4, 4)
    assert (third["context_chars"], third["prompt_chars"]) == (0, len("third"))


async def test_the_lengths_of_quoted_context_are_logged(rig: Rig) -> None:
    """Spec T-04, D-11."""
    async with rig.opened(Epochs(recalled="REMEMBERED")) as runtime:
        rig.answers("one")
        await rig.say(runtime.session("t"), "first", projection="prompt")
    (decided,) = rig.logged("projection.decided")
    (sent,) = rig.sent()
    assert "REMEMBERED" in sent
    assert decided["quoted_count"] == 1
    assert decided["projected"] is True
    assert 0 < decided["context_chars"] < decided["prompt_chars"] == len(sent)


@pytest.mark.parametrize("epoch", [None, "  "])
async def test_a_wish_without_an_epoch_is_a_warning_and_projects_per_turn(
    epoch: str | None, rig: Rig
) -> None:
    """Spec D-30, T-04."""
    engine = Epochs()
    engine.epoch = epoch
    async with rig.opened(engine) as runtime:
        rig.answers("one")
        await rig.say(runtime.session("t"), "first")
    (warned,) = rig.logged("projection.request_ignored")
    assert warned["level"] == "warning"
    (decided,) = rig.logged("projection.decided")
    assert (decided["mode"], decided["epoch"]) == ("per_turn", None)


async def test_every_binding_that_is_written_says_what_became_of_the_thread(rig: Rig) -> None:
    """Spec T-05: started, carried on while loaded, resumed after a restart, rotated."""
    engine = RecordingEngine()
    async with rig.opened(engine) as runtime:
        rig.answers("one", "two")
        await rig.say(runtime.session("t"), "first")
        await rig.say(runtime.session("t"), "second")
    async with rig.opened(engine) as runtime:
        rig.answers("three", "four")
        await rig.say(runtime.session("t"), "third")
        engine.summary_of = 2
        await rig.say(runtime.session("t"), "fourth")
    written = rig.logged("binding.written")
    assert [(one["action"], one["thread_id"]) for one in written] == [
        ("started", "thread-1"),
        ("resumed", "thread-1"),
        ("resumed", "thread-1"),
        ("rotated", "thread-2"),
    ]
    assert [one.get("was_loaded") for one in written] == [None, True, False, None]


@pytest.mark.parametrize(
    ("method", "seconds", "event"),
    [
        ("thread/start", 0.4, "thread.setup_measured"),
        ("thread/start", 0.5, "thread.setup_slowed"),
        ("thread/start", 3.0, "thread.setup_slowed"),
        ("turn/start", 9.0, "thread.setup_measured"),
    ],
)
async def test_a_slow_thread_setup_is_one_warning_with_its_stages(
    method: str, seconds: float, event: str, rig: Rig
) -> None:
    """Spec T-06: by the injected clock; the turn itself is no part of it."""
    clock = ManualClock()
    rig.codex = Slow(clock, method, seconds)
    async with rig.opened(clock=clock) as runtime:
        rig.answers("one")
        await rig.say(runtime.session("t"), "first")
    (measured,) = rig.logged("thread.setup_slowed", "thread.setup_measured")
    assert measured["event"] == event
    took = seconds if method == "thread/start" else 0.0
    assert (measured["total_s"], measured["stages"]) == (took, {"start": took})


async def test_stages_that_are_slow_only_together_are_a_warning(rig: Rig) -> None:
    """Spec T-06: 1000 ms in all, no stage of 500 ms."""

    class Slower(Slow):
        def feed(self, chunk: bytes) -> Iterator[Output]:
            for mark in (b'"thread/start"', b'"thread/inject_items"'):
                if mark in chunk:
                    self.clock.advance(0.49)
            yield from super().feed(chunk)

    clock = ManualClock()
    rig.codex = Slower(clock, "turn/steer", 0.0)
    async with rig.opened(RecordingEngine(recalled="x"), clock=clock) as runtime:
        rig.answers("one")
        await rig.say(runtime.session("t"), "first")
    (measured,) = rig.logged("thread.setup_slowed", "thread.setup_measured")
    assert (measured["event"], measured["total_s"]) == ("thread.setup_measured", 0.98)
    assert measured["stages"] == {"start": 0.49, "inject": 0.49}


async def test_a_fault_of_an_engine_is_told_without_its_secrets(rig: Rig) -> None:
    """Spec S-02, T-03, T-08."""
    async with rig.opened(BreakingEngine("throws")) as runtime:
        rig.answers("one")
        await rig.say(runtime.session("t"), "first")
    (failed,) = rig.logged("engine.assemble_failed")
    assert "abcdef123456" not in str(failed)


# ------------------------------------------------------------------ what cannot be projected


class Odd(RecordingEngine):
    """An engine whose messages are nested."""

    depth = 0

    def assemble(self, params: AssembleParams) -> Assembled:
        """Give one message that is as deep as told."""
        super().assemble(params)
        value: Any = "x"
        for _ in range(self.depth):
            value = [value]
        part = {"type": "toolResult", "toolCallId": "c", "content": value}
        odd = Message(role="toolResult", content=[part])
        return Assembled(messages=[user_message("REMEMBERED"), odd], estimated_tokens=1)


@pytest.mark.parametrize("mode", ["history", "prompt"])
@pytest.mark.parametrize(("depth", "fails"), [(90, False), (110, True), (600, True)])
async def test_content_that_is_nested_too_deep_costs_the_context_and_never_the_reply(
    depth: int, fails: bool, mode: ProjectionMode, rig: Rig
) -> None:
    """Spec S-02, S-03, B-12, B-45: refused where it came from, so that nothing of ours breaks."""
    engine = Odd()
    engine.depth = depth
    async with rig.opened(engine) as runtime:
        rig.answers("fine")
        turn = await rig.say(runtime.session("t"), "first", projection=mode)
    assert turn.finished.text == "fine"
    assert ("assemble_failed" in turn.notices) is fails
    assert rig.logged("projection.failed", "run.crashed") == []
    (sent,) = rig.sent()
    assert sent.endswith("first")
    if fails:
        (failed,) = rig.logged("engine.assemble_failed")
        assert "nested deeper than 100 levels" in failed["reason"]
        assert sent == "first"


class BrokenCounter:
    """A counter that nobody can count with."""

    exact = True

    def count(self, text: str) -> int:
        """Refuse."""
        raise ValueError("as told")


async def test_a_failing_projection_sends_the_original_prompt_and_keeps_what_is_known(
    rig: Rig,
) -> None:
    """Spec S-03, D-58: one warning, one notice, the reply, and the engine is told of the turn."""
    engine = RecordingEngine(recalled="REMEMBERED")
    async with rig.opened(engine) as runtime:
        session = runtime.session("t")
        rig.answers("one", "two", "three")
        await rig.say(session, "first")
        harnesses: Any = runtime._services.harnesses
        sound = harnesses["codex"]
        broken = replace(sound._services, counter=BrokenCounter())
        harnesses["codex"] = CodexHarness(broken)
        engine.recalled = "ANOTHER"
        failing = await rig.say(session, "  second ")
        harnesses["codex"] = sound
        engine.recalled = "REMEMBERED"
        fine = await rig.say(session, "third")
    assert (failing.finished.outcome, failing.finished.text) == (Outcome.COMPLETED, "two")
    assert failing.notices.count("projection_failed") == 1
    assert rig.sent()[1] == "second"
    assert [one["level"] for one in rig.logged("projection.failed")] == ["warning", "warning"]
    assert fine.decision == "continue"
    assert engine.operations.count("after_turn") == 3
    assert rig.methods().count("thread/start") == 1


def _picked(one: dict[str, Any]) -> tuple[Any, ...]:
    names = ("previous_thread", "previous_epoch", "epoch", "fingerprint", "projected", "reason")
    return tuple(one[name] for name in names)
