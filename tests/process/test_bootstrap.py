"""An engine that has its context put into a fresh thread once an epoch, on the real Codex."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from tests.process.rig import Rig, Turn, all_entries, assert_grows, echo_tool, rig_over_model
from treadle.contract.engine import Assembled, AssembleParams, ContextProjection
from treadle.contract.harness import ProjectionMode
from treadle.model.message import text_of
from treadle.model.turn import ContextAssembled, EntryCommitted, ThreadChanged
from treadle.protocol.responses import item_text
from treadle.runtime.service import Runtime
from treadle.runtime.sessions import Session
from treadle.testing.engine import RecordingEngine
from treadle.testing.model import Answer
from treadle.testing.replies import Usage, call, failed, reply

pytestmark = [pytest.mark.anyio, pytest.mark.codex]

MODES: tuple[ProjectionMode, ...] = ("history", "prompt")
SECRET = "sk-abcdefghijklmnopqrstuvwx"


def epoch(name: str) -> ContextProjection:
    return ContextProjection(mode="thread_bootstrap", epoch=name)


class Engine(RecordingEngine):
    """Asks for one projection an epoch, and fails when it is told to."""

    broken = False

    def assemble(self, params: AssembleParams) -> Assembled:
        if self.broken:
            raise RuntimeError("broken, as told")
        return super().assemble(params)


def opened_with(
    rig: Rig, engine: RecordingEngine, mode: ProjectionMode
) -> AbstractAsyncContextManager[Runtime]:
    rig.keys["plugins", "entries", "codex", "config", "projection"] = mode
    return rig.opened(
        engine="recording", engines={"recording": lambda _: engine}, tools=[echo_tool()]
    )


async def turn_of(rig: Rig, session: Session, number: int, *answers: Answer | str) -> Turn:
    return await rig.turn(session, f"message {number}.", *(answers or (f"answer {number}.",)))


@pytest.mark.parametrize("mode", MODES)
async def test_the_context_comes_once_an_epoch_and_then_only_the_prompt(
    codex_binary: Path, scratch: Path, mode: ProjectionMode
) -> None:
    """Spec D-30 to D-37, D-53: over restarts, a failing assemble, other engines and back."""
    engine = Engine()
    turns: list[Turn] = []
    async with rig_over_model(scratch, codex_binary) as rig:
        async with opened_with(rig, engine, mode) as runtime:
            session = rig.session(runtime)
            note = reply(call("note", {"n": 1, "key": SECRET}, call_id="call_1"))
            turns.append(await turn_of(rig, session, 1, note, f"answer 1, {SECRET}."))
            engine.projection = epoch("one")
            turns.append(await turn_of(rig, session, 2))
            turns.append(await turn_of(rig, session, 3))
        async with opened_with(rig, engine, mode) as runtime:
            session = rig.session(runtime)
            engine.broken = True
            turns.append(await turn_of(rig, session, 4))
            engine.broken = False
            turns.append(await turn_of(rig, session, 5))
            rig.model.enqueue("answer 6.")
            async for _ in session.run("message 6.", engine="legacy"):
                pass
            turns.append(await turn_of(rig, session, 7))
            engine.projection = epoch(" two ")
            engine.summary_of = 6
            turns.append(await turn_of(rig, session, 8))
            turns.append(await turn_of(rig, session, 9))
            engine.projection = ContextProjection()
            turns.append(await turn_of(rig, session, 10))
            stored = [text_of(entry.message) for entry in await all_entries(session)]
    first, one, two, left = turns[0], turns[1], turns[6], turns[8]
    fresh = [turns[0], one, two, left]
    assert [turn.thread_id for turn in turns] == [
        first.thread_id,
        *[one.thread_id] * 5,
        *[two.thread_id] * 2,
        left.thread_id,
    ]
    assert len({turn.thread_id for turn in fresh}) == 4
    for turn in (*turns[2:6], turns[7]):
        assert turn.decision == "continue"
    assert_grows([request for turn in turns[1:6] for request in turn.requests])
    assert_grows([request for turn in turns[6:8] for request in turn.requests])

    asked = one.requests[0].raw.decode()
    assert asked.count("message 1.") == 1
    assert '"n": 1' not in asked, "argument values are not carried (D-19, D-53)"
    assert "[number]" in asked
    assert "remember the milk" in asked
    assert f'key\\": \\"{SECRET}' not in asked
    for turn in (*turns[2:6], turns[7]):
        said = item_text(turn.input[-1])
        assert said.startswith("message"), "the turn's input is exactly the prompt (D-32)"
    assert two.requests[0].raw.decode().count("Summary of 6 messages.") == 1
    assert turns[7].requests[0].raw.decode().count("Summary of 6 messages.") == 1
    spoken = [text for text in stored if text.startswith("message")]
    assert spoken == [f"message {number}." for number in range(1, 11)]
    changes = [one for turn in turns for one in turn.events if isinstance(one, ThreadChanged)]
    assert len(changes) == 3
    assert all("epoch" in change.reason for change in changes)


@pytest.mark.parametrize("mode", MODES)
async def test_a_thread_near_its_window_is_left_before_codex_compacts_the_projection(
    codex_binary: Path, scratch: Path, mode: ProjectionMode
) -> None:
    """Spec D-40: 241,198 of 258,400 tokens."""
    engine = Engine(projection=epoch("one"))
    async with (
        rig_over_model(scratch, codex_binary) as rig,
        opened_with(rig, engine, mode) as runtime,
    ):
        session = rig.session(runtime)
        full = reply("answer 1.", usage=Usage(input=241_000, output=198))
        turns = [await turn_of(rig, session, 1, full)]
        turns += [await turn_of(rig, session, number) for number in (2, 3)]
    assert turns[0].thread_id != turns[1].thread_id == turns[2].thread_id
    (change,) = [one for one in turns[1].events if isinstance(one, ThreadChanged)]
    assert "241,198 of the 258,400 tokens" in change.reason
    assert "message 1." in turns[1].requests[0].raw.decode()
    assert not any(request.is_compaction for request in rig.model.requests)


@pytest.mark.parametrize("projection", [epoch("one"), ContextProjection()], ids=["epoch", "turn"])
@pytest.mark.parametrize("mode", MODES)
async def test_a_turn_that_does_not_fit_is_sent_once_more_on_a_fresh_thread(
    codex_binary: Path, scratch: Path, mode: ProjectionMode, projection: ContextProjection
) -> None:
    """Spec D-41: assemble is not asked again, nothing is compacted, nothing comes twice."""
    engine = Engine(projection=projection)
    overflow = failed("context_length_exceeded", "too long")
    async with (
        rig_over_model(scratch, codex_binary) as rig,
        opened_with(rig, engine, mode) as runtime,
    ):
        session = rig.session(runtime)
        first = await turn_of(rig, session, 1)
        again = await turn_of(rig, session, 2, overflow, "answer 2.")
        third = await turn_of(rig, session, 3)
        stored = [text_of(entry.message) for entry in await all_entries(session)]
    assert [request.thread_id == first.thread_id for request in again.requests] == [True, False]
    assert "message 1." in again.requests[1].raw.decode()
    assert again.requests[1].raw.decode().count("message 2.") == 1
    assert third.thread_id == again.requests[1].thread_id
    assert engine.operations.count("assemble") == 3
    assert "compact" not in engine.operations
    assert stored == [f"{who} {n}." for n in (1, 2, 3) for who in ("message", "answer")]
    committed = [one.entry.key for one in again.events if isinstance(one, EntryCommitted)]
    assert len(committed) == len(set(committed)) == 2
    decided = [one.decision for one in again.events if isinstance(one, ContextAssembled)]
    assert len(decided) == 2
    (change,) = [one for one in again.events if isinstance(one, ThreadChanged)]
    assert "did not fit" in change.reason


async def test_a_second_overflow_fails_the_turn_and_gives_its_thread_up(
    codex_binary: Path, scratch: Path
) -> None:
    """Spec D-41, F-25: it fails clearly; the next turn starts over with what the engine wants."""
    engine = Engine()
    overflow = failed("context_length_exceeded", "too long")
    async with (
        rig_over_model(scratch, codex_binary) as rig,
        opened_with(rig, engine, "history") as runtime,
    ):
        session = rig.session(runtime)
        await turn_of(rig, session, 1)
        rig.model.enqueue(overflow, overflow)
        run = session.run("message 2.")
        finished = await run.result()
        failing = {request.thread_id for request in rig.model.requests[1:]}
        engine.summary_of = 2
        after = await turn_of(rig, session, 3)
    assert finished.error is not None
    assert finished.error["code"] == "turn.context_overflow"
    assert len(failing) == 2
    assert after.thread_id not in failing
    asked = after.requests[0].raw.decode()
    assert "Summary of 2 messages." in asked
    assert asked.count("message 2.") == 1
