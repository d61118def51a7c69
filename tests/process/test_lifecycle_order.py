"""The order of one turn's steps, as an engine, hooks, the model and the log saw them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.process.rig import Rig, Turn, assert_grows, echo_tool, rig_over_model
from treadle.contract.engine import (
    AfterTurnParams,
    Assembled,
    AssembleParams,
    BootstrapParams,
    IngestBatchParams,
    IngestParams,
    SessionCall,
)
from treadle.contract.hook import AgentEnd, HookRegistration, MessageWrite, PromptBuild
from treadle.model.message import Message, text_of
from treadle.testing.engine import Called, RecordingEngine, Takes
from treadle.testing.model import Answer
from treadle.testing.recorded import Request
from treadle.testing.replies import call, reply

pytestmark = [pytest.mark.anyio, pytest.mark.codex]

LOGGED = frozenset({
    "engine.bootstrap_completed",
    "engine.assemble_applied",
    "projection.decided",
    "thread.started",
    "thread.resumed",
    "turn.started",
    "tool.settled",
    "mirror.written",
    "engine.finalize_completed",
    "turn.settled",
})


class Watched:
    """An engine, hooks and a model that note in one list when they were asked."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.built: list[PromptBuild] = []
        self.mirrored: list[str] = []
        order = self.order

        class Engine(RecordingEngine):
            def _note(self, operation: str, params: SessionCall | None, messages: object) -> None:
                order.append(operation)
                super()._note(operation, params, messages)  # type: ignore[arg-type] # as it came

        self.engine = Engine(addition="Be kind.")
        self.hooks = [
            HookRegistration(name="before_prompt_build", handler=self._built),
            HookRegistration(name="before_message_write", handler=self._written),
            HookRegistration(name="agent_end", handler=self._ended),
        ]

    async def _built(self, payload: PromptBuild) -> None:
        self.order.append("before_prompt_build")
        self.built.append(payload)
        self.mirrored = [text_of(one) for one in payload.messages]  # lazy: gone with the store

    async def _written(self, payload: MessageWrite) -> Message:
        self.order.append(f"write {payload.message.role}")
        return payload.message

    async def _ended(self, payload: AgentEnd) -> None:
        self.order.append("agent_end")

    def answering(self, *answers: Answer) -> None:
        """Note each request of the model."""
        waiting = list(answers)

        def answer(request: Request) -> Answer:
            self.order.append("model")
            return waiting.pop(0)

        self.answer = answer


async def test_a_turn_asks_everyone_in_the_fixed_order(codex_binary: Path, scratch: Path) -> None:
    """Spec C-01 to C-04, C-07, C-12, C-16, B-08, I-01: two turns, the second after a restart."""
    watched = Watched()
    engine = watched.engine
    async with rig_over_model(scratch, codex_binary) as rig:
        rig.model.fallback = lambda request: watched.answer(request)
        await _one_turn(rig, watched, "first message", reply("first answer"))
        assert watched.order == [
            "assemble",
            "before_prompt_build",
            "write user",
            "model",
            "write assistant",
            "after_turn",
            "agent_end",
            "maintain",
            "dispose",
        ]
        del watched.order[:], engine.calls[:]
        note = reply(call("note", {"n": 1}, call_id="call_1"))
        await _one_turn(rig, watched, "second message", note, reply("second answer"))
        assert watched.order == [
            "bootstrap",
            "maintain",
            "assemble",
            "before_prompt_build",
            "write user",
            "model",
            "model",
            "write assistant",
            "write toolResult",
            "write assistant",
            "after_turn",
            "agent_end",
            "maintain",
            "dispose",
        ]
        logged = _logged(rig)
    assert logged[logged.index("engine.bootstrap_completed") :] == [
        "engine.bootstrap_completed",
        "engine.assemble_applied",
        "projection.decided",
        "thread.resumed",
        "turn.started",
        "tool.settled",
        "mirror.written",
        "engine.finalize_completed",
        "turn.settled",
    ]
    assert logged[: logged.index("engine.bootstrap_completed")] == [
        "engine.assemble_applied",
        "projection.decided",
        "thread.started",
        "turn.started",
        "mirror.written",
        "engine.finalize_completed",
        "turn.settled",
    ]
    _assert_params(engine)
    built = watched.built[-1]
    assert (built.prompt, built.current_user_message) == ("second message", "second message")
    assert watched.mirrored == ["first message", "first answer"]
    assert built.developer_instructions.endswith("\n\nBe kind.")


def _assert_params(engine: RecordingEngine) -> None:
    bootstrapped = _asked(engine, "bootstrap")
    assert isinstance(bootstrapped.params, BootstrapParams)
    assert [text_of(one) for one in bootstrapped.messages] == ["first message", "first answer"]
    assembled = _asked(engine, "assemble")
    params = assembled.params
    assert isinstance(params, AssembleParams)
    assert [text_of(one) for one in assembled.messages] == ["first message", "first answer"]
    assert params.prompt == "second message"
    assert params.model == "scripted-1"
    assert params.token_budget == 64_000
    assert params.citations_mode == "auto"
    assert {"note", "memory_search"} <= params.available_tools
    handed = _asked(engine, "after_turn")
    assert isinstance(handed.params, AfterTurnParams)
    assert handed.params.pre_prompt_message_count == 2
    assert [(one.role, text_of(one)) for one in handed.messages] == [
        ("user", "first message"),
        ("assistant", "first answer"),
        ("user", "second message"),
        ("assistant", ""),
        ("toolResult", ""),
        ("assistant", "second answer"),
    ]
    keys = {one.params.session_key for one in engine.calls if one.params is not None}
    assert keys == {"agent:main:t"}


@pytest.mark.parametrize("takes", ["ingest_batch", "ingest"])
async def test_an_engine_without_after_turn_is_given_the_turns_own_messages(
    codex_binary: Path, scratch: Path, takes: Takes
) -> None:
    """Spec C-01, I-02, I-04: after the mirror, the new messages alone, in order."""
    engine = RecordingEngine(takes=takes)
    async with (
        rig_over_model(scratch, codex_binary) as rig,
        rig.opened(engine="recording", engines={"recording": lambda _: engine}) as runtime,
    ):
        session = rig.session(runtime)
        await rig.turn(session, "one", "1")
        engine.calls.clear()
        await rig.turn(session, "two", "2")
    given = [one for one in engine.calls if one.operation == takes]
    assert [text_of(message) for one in given for message in one.messages] == ["two", "2"]
    assert all(isinstance(one.params, IngestBatchParams | IngestParams) for one in given)
    assert engine.operations[-2:] == ["maintain", "dispose"]


async def test_a_failing_assemble_gives_the_bare_prompt_on_the_same_thread(
    codex_binary: Path, scratch: Path
) -> None:
    """Spec D-57, B-47, S-02: known state unchanged, told to the person, and asked again."""

    class Failing(RecordingEngine):
        broken = False

        def assemble(self, params: AssembleParams) -> Assembled:
            answer = super().assemble(params)
            if self.broken:
                raise RuntimeError("broken, as told")
            return answer

    engine = Failing()
    turns: list[Turn] = []
    async with (
        rig_over_model(scratch, codex_binary) as rig,
        rig.opened(engine="recording", engines={"recording": lambda _: engine}) as runtime,
    ):
        session = rig.session(runtime)
        for number in range(1, 5):
            engine.broken = number == 3
            turns.append(await rig.turn(session, f"message {number}", f"answer {number}"))
        engine.broken, engine.summary_of = True, 4
        fresh = await rig.turn(runtime.session("other", cwd=rig.work), "hello", "hi")
    assert [turn.decision for turn in turns] == ["seed", "continue", "continue", "continue"]
    assert [turn.notices.count("assemble_failed") for turn in turns] == [0, 0, 1, 0]
    assert engine.operations.count("after_turn") == 5
    assert_grows([request for turn in turns for request in turn.requests])
    assert turns[2].requests[0].texts("user")[-1] == "message 3"
    assert fresh.requests[0].texts("user")[-1] == "hello"


async def _one_turn(rig: Rig, watched: Watched, text: str, *answers: Answer) -> None:
    rig.keys["models", "providers", "scripted", "models", "scripted-1", "contextWindow"] = 64_000
    rig.keys["log", "level"] = "debug"
    watched.answering(*answers)
    async with rig.opened(
        engine="recording",
        engines={"recording": lambda _: watched.engine},
        tools=[echo_tool()],
        hooks=watched.hooks,
    ) as runtime:
        await rig.turn(rig.session(runtime), text)


def _asked(engine: RecordingEngine, operation: str) -> Called:
    return next(one for one in engine.calls if one.operation == operation)


def _logged(rig: Rig) -> list[str]:
    files = sorted((rig.state / "logs").iterdir())
    lines = [line for file in files for line in file.read_text("utf-8").splitlines()]
    return [event for line in lines if (event := json.loads(line).get("event")) in LOGGED]
