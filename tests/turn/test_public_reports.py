"""Public reports of the field, each with its small input: what needs a whole turn.

What can be shown without a loop stands in `tests/unit/test_public_reports.py`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.turn.rig import Rig, injected_texts, turn_steps
from treadle.contract.engine import AfterTurnParams, Assembled, AssembleParams, ContextProjection
from treadle.contract.hook import HookRegistration, MessageWrite
from treadle.model.message import Message, text_of
from treadle.model.turn import Outcome
from treadle.testing.engine import RecordingEngine

pytestmark = pytest.mark.anyio

TOO_LONG = {
    "method": "turn/completed",
    "params": {
        "threadId": "$thread",
        "turn": {
            "id": "$turn",
            "items": [],
            "status": "failed",
            "error": {"message": "too long", "codexErrorInfo": "contextWindowExceeded"},
        },
    },
}
"""How Codex says that a turn's first request did not fit: nothing was said or done in it."""


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(root=tmp_path)


async def test_an_overflow_never_makes_the_host_compact(rig: Rig) -> None:
    """Report openclaw#85958; spec D-41, J-30: one owner of compaction, also on an overflow."""
    engine = RecordingEngine()
    async with rig.opened(engine) as runtime:
        session = runtime.session("t")
        rig.answers("one")
        await rig.say(session, "first")
    async with rig.opened(engine) as runtime:
        answer, _ = turn_steps({})
        rig.codex.once("turn/start", [answer, {"tell": TOO_LONG}])
        rig.answers("two")
        turn = await rig.say(runtime.session("t"), "second")
    assert "compact" not in engine.operations
    assert rig.codex.requests("thread/compact/start") == []
    assert turn.finished.outcome is Outcome.COMPLETED
    assert rig.methods().count("thread/start") == 2
    assert engine.operations.count("assemble") == 2


async def test_an_engine_that_always_fails_costs_no_reply_and_is_told_once_a_turn(
    rig: Rig,
) -> None:
    """Report openclaw#79499; spec B-40, S-02."""

    class Broken(RecordingEngine):
        def assemble(self, params: AssembleParams) -> Assembled:
            super().assemble(params)
            raise RuntimeError("as told")

    engine = Broken()
    async with rig.opened(engine) as runtime:
        session = runtime.session("t")
        for number in range(3):
            rig.answers(f"answer {number}")
            turn = await rig.say(session, f"message {number}")
            assert turn.finished.text == f"answer {number}"
            assert turn.notices.count("assemble_failed") == 1
        assert len(await session.entries()) == 6
    assert len(rig.logged("engine.assemble_failed")) == 3
    assert rig.sent() == ["message 0", "message 1", "message 2"]


@pytest.mark.parametrize("answer", [{}, {"messages": "x", "estimatedTokens": 1}, None])
async def test_an_assembly_without_messages_falls_back_in_the_same_turn(
    rig: Rig, answer: object
) -> None:
    """Report openclaw#75541; spec B-12: refused where it comes in, not crashed on later."""

    class Odd(RecordingEngine):
        def assemble(self, params: AssembleParams) -> Assembled:
            super().assemble(params)
            return answer  # type: ignore[return-value] # what the report's engine answered

    async with rig.opened(Odd()) as runtime:
        rig.answers("fine")
        turn = await rig.say(runtime.session("t"), "hello")
    assert turn.finished.text == "fine"
    (failed,) = rig.logged("engine.assemble_failed")
    assert failed["code"] == "engine.contract"


async def test_every_turn_is_handed_over_once_with_its_answer(rig: Rig) -> None:
    """Reports openclaw#63555, openclaw#121515; spec I-04, A-02: no layer drops the call."""
    engine = RecordingEngine()
    async with rig.opened(engine) as runtime:
        for number in range(3):
            rig.answers(f"answer {number}")
            await rig.say(runtime.session("t"), f"message {number}")
    told = [one for one in engine.calls if one.operation == "after_turn"]
    assert [text_of(one.messages[-1]) for one in told] == ["answer 0", "answer 1", "answer 2"]
    params = [one.params for one in told if isinstance(one.params, AfterTurnParams)]
    assert [one.pre_prompt_message_count for one in params] == [0, 2, 4]


async def test_the_same_epoch_is_projected_once(rig: Rig) -> None:
    """Report openclaw#82351; spec D-30 to D-33: the second input is the prompt alone."""
    engine = RecordingEngine(
        recalled="RECALLED",
        projection=ContextProjection(mode="thread_bootstrap", epoch="one"),
    )
    async with rig.opened(engine) as runtime:
        session = runtime.session("t")
        rig.answers("one", "two", "three")
        for text in ("first", "second"):
            await rig.say(session, text, projection="prompt")
        engine.projection = ContextProjection(mode="thread_bootstrap", epoch="two")
        await rig.say(session, "third", projection="prompt")
    first, second, third = rig.sent()
    assert "RECALLED" in first
    assert second == "second"
    assert "RECALLED" in third
    assert rig.methods().count("thread/start") == 2


async def test_a_thread_made_without_the_engine_is_kept_unless_it_asks_for_its_own(
    rig: Rig,
) -> None:
    """Report openclaw#81223; spec D-37: resumed with the context, or anew for an epoch."""
    async with rig.opened() as runtime:
        rig.answers("one")
        await rig.say(runtime.session("t"), "first")
    engine = RecordingEngine(recalled="RECALLED")
    async with rig.opened(engine) as runtime:
        session = runtime.session("t")
        rig.answers("two", "three")
        await rig.say(session, "second", projection="prompt")
        assert rig.methods().count("thread/start") == 1
        engine.projection = ContextProjection(mode="thread_bootstrap", epoch="one")
        await rig.say(session, "third")
    assert rig.methods().count("thread/start") == 2
    assert "RECALLED" in rig.sent()[1]
    assert injected_texts(rig.codex, "thread-2")[0] == ("user", "RECALLED")


async def test_one_prompt_and_one_answer_are_stored_whoever_repeats_them(rig: Rig) -> None:
    """Reports openclaw#141233, openclaw#67185; spec H-03, H-14: the echo is no second writer."""
    async with rig.opened(RecordingEngine()) as runtime:
        session = runtime.session("t")
        raw = {
            "method": "rawResponseItem/completed",
            "params": {"item": _said("user", "input_text", "hello")},
        }
        answer = {
            "method": "rawResponseItem/completed",
            "params": {"item": _said("assistant", "output_text", "fine")},
        }
        rig.answers("fine", user="hello", between=[raw, answer])
        await rig.say(session, "hello")
        entries = await session.entries()
    assert [text_of(one.message) for one in entries] == ["hello", "fine"]


def _said(role: str, kind: str, text: str) -> dict[str, object]:
    return {
        "type": "message",
        "id": f"msg_{role}",
        "role": role,
        "content": [{"type": kind, "text": text}],
    }


async def test_a_redactor_that_matches_our_keys_loses_no_entry(rig: Rig) -> None:
    """Report openclaw#126244; spec H-07: keys are not text of a message."""

    def redact(payload: MessageWrite) -> Message:
        text = text_of(payload.message)
        return replace(payload.message, content=f"codex-app-server:[redacted] {text}")

    hooks = [HookRegistration(name="before_message_write", handler=redact)]
    async with rig.opened(RecordingEngine(), hooks=hooks) as runtime:
        session = runtime.session("t")
        rig.answers("one", "two")
        await rig.say(session, "first")
        await rig.say(session, "second")
        entries = await session.entries()
    said = [text_of(one.message).split()[-1] for one in entries]
    assert said == ["first", "one", "second", "two"]
    assert len({one.key for one in entries}) == 4


async def test_an_old_answer_that_is_told_again_is_not_stored_again(rig: Rig) -> None:
    """Report openclaw#64152; spec H-04: an item belongs to the turn that it was made in."""
    async with rig.opened() as runtime:
        session = runtime.session("t")
        rig.answers("one")
        await rig.say(session, "first")
        again = {
            "method": "item/completed",
            "params": {
                "turnId": "thread-1-turn-1",
                "item": {
                    "type": "agentMessage",
                    "id": "thread-1-turn-1-agent",
                    "text": "one",
                    "phase": None,
                },
                "completedAtMs": 1,
            },
        }
        rig.answers("two", between=[again])
        turn = await rig.say(session, "second")
        entries = await session.entries()
    assert turn.finished.text == "two"
    assert [text_of(one.message) for one in entries] == ["first", "one", "second", "two"]


async def test_an_unattended_turn_is_not_held_up_by_a_question(rig: Rig) -> None:
    """Report openclaw#70082; spec V-07: nobody sees it, so it is refused and the turn goes on."""
    question = {
        "ask": {
            "id": 0,
            "method": "item/commandExecution/requestApproval",
            "params": {
                "threadId": "$thread",
                "turnId": "$turn",
                "itemId": "cmd",
                "startedAtMs": 1,
                "command": "rm -r .",
            },
        }
    }
    answer, told = turn_steps({"text": "done without it"})
    rig.codex.once("turn/start", [answer, question, {"await": 0}, told])
    async with rig.opened() as runtime:
        turn = await rig.say(runtime.session("t"), "clean up")
    assert turn.finished.text == "done without it"
    assert rig.codex.answers[0]["result"] == {"decision": "decline"}


async def test_a_reset_session_does_not_go_on_in_the_old_thread(rig: Rig) -> None:
    """Report openclaw#66251; spec U-01, U-03: nothing of before reaches the model."""
    engine = RecordingEngine()
    async with rig.opened(engine) as runtime:
        session = runtime.session("t")
        rig.answers("one", "two")
        await rig.say(session, "first")
        await session.reset()
        await rig.say(session, "second")
        entries = await session.entries()
    started = [name for name in rig.methods() if name in {"thread/start", "thread/resume"}]
    assert started == ["thread/start", "thread/start"]
    assert rig.codex.injected("thread-2") == []
    assert [text_of(one.message) for one in entries] == ["second", "two"]
