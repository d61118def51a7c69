"""A message that is sent and answered and does not become an entry."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import anyio
import pytest

from tests.process.faults_rig import World, children, command, say, times_said, transcript
from tests.process.rig import Rig, Turn, all_entries, echo_tool, rig_over_model
from treadle.contract.harness import ProjectionMode
from treadle.contract.hook import HookRegistration, MessageWrite
from treadle.contract.store import Held
from treadle.model.message import Message, text_of, user_message
from treadle.model.turn import Outcome
from treadle.runtime.service import Runtime
from treadle.runtime.sessions import Session
from treadle.testing.engine import RecordingEngine
from treadle.testing.model import Answer, ScriptedModel, gate, reply
from treadle.testing.replies import call

pytestmark = [pytest.mark.anyio, pytest.mark.codex]

HIDDEN = "message hidden."


async def held_by(runtime: Runtime, session: Session) -> list[Held]:
    """Return what the session's thread is known to hold."""
    record = await session.record()
    assert record is not None
    binding = await runtime.store.bindings.get(record.id)
    assert binding is not None
    return list(await runtime.store.bindings.held(binding.thread_id))


async def four_turns(rig: Rig, session: Session, mode: ProjectionMode) -> list[Turn]:
    """Say one thing, then one that is kept out of the transcript, then two more."""
    note = reply(call("note", {"n": 1}))
    answers: list[list[Answer | str]] = [
        ["answer one."],
        [note, "answer hidden."],
        ["answer three."],
        ["answer four."],
    ]
    messages = ("message one.", HIDDEN, "message three.", "message four.")
    return [
        await rig.turn(session, text, *said, projection=mode, persist_prompt=text != HIDDEN)
        for text, said in zip(messages, answers, strict=True)
    ]


@pytest.mark.parametrize("mode", ["history", "prompt"])
@pytest.mark.parametrize("engine", ["legacy", "window"])
async def test_such_a_prompt_is_answered_and_stands_nowhere_in_the_transcript(
    codex_binary: Path, scratch: Path, engine: str, mode: ProjectionMode
) -> None:
    """Spec H-10, G-07: neither at turn start nor by settlement or by Codex's echo of it.

    The thread has it: under `legacy` that stays so; an engine, which was never told of it, gets a
    thread that holds what it asks for, at the cost of one rebase.
    """
    told: list[str] = []

    def tell(payload: MessageWrite) -> Message:
        told.append(text_of(payload.message))
        return payload.message

    hooks = [HookRegistration(name="before_message_write", handler=tell, owner="test")]
    async with (
        rig_over_model(scratch, codex_binary) as rig,
        rig.opened(engine=engine, tools=[echo_tool()], hooks=hooks) as runtime,
    ):
        session = rig.session(runtime)
        one, hidden, three, four = await four_turns(rig, session, mode)
        stored = [text_of(entry.message) for entry in await all_entries(session)]
        exported = [line async for line in session.export()]
    assert hidden.text == "answer hidden."
    assert HIDDEN in hidden.requests[0].raw.decode()
    expected = [
        "message one.", "answer one.", "answer hidden.",
        "message three.", "answer three.", "message four.", "answer four.",
    ]  # fmt: skip
    assert [text for text in stored if text.endswith(".")] == expected
    assert not any(HIDDEN in line for line in exported), "no raw item has it either"
    assert HIDDEN not in told
    asked = [turn.requests[0].raw.decode() for turn in (three, four)]
    assert ["answer hidden." in text for text in asked] == [True, True]
    assert one.thread_id == hidden.thread_id
    if engine == "legacy" or mode == "prompt":
        assert {three.thread_id, four.thread_id} == {one.thread_id}
        assert [HIDDEN in text for text in asked] == [True, True]
    else:
        assert (three.decision, four.decision) == ("rebase", "continue")
        assert three.thread_id == four.thread_id != one.thread_id
        assert [HIDDEN in text for text in asked] == [False, False]


async def test_what_the_thread_got_is_known_and_the_engine_is_handed_the_answer_alone(
    codex_binary: Path, scratch: Path
) -> None:
    """Spec H-10, I-05, D-51: held without an entry; one transaction with what followed it."""
    engine = RecordingEngine(takes="ingest_batch")
    async with (
        rig_over_model(scratch, codex_binary) as rig,
        rig.opened(engine="recording", engines={"recording": lambda _: engine}) as runtime,
    ):
        session = rig.session(runtime)
        await rig.turn(session, HIDDEN, "answer hidden.", persist_prompt=False)
        held = await held_by(runtime, session)
        record = await session.record()
        [answer] = await all_entries(session)
    assert held == [
        Held(content_hash=user_message(HIDDEN).content_hash),
        Held(content_hash=answer.content_hash, entry_id=answer.id),
    ]
    [batch] = [called for called in engine.calls if called.operation == "ingest_batch"]
    assert [text_of(message) for message in batch.messages] == ["answer hidden."]
    assert record is not None
    assert not record.title, "the session is not called by what nobody is to find"


@pytest.mark.parametrize("engine", ["legacy", "recording"])
async def test_a_hook_that_keeps_a_prompt_out_leaves_the_same_truth(
    codex_binary: Path, scratch: Path, engine: str
) -> None:
    """Spec H-07, H-10, D-54."""

    def drop(payload: MessageWrite) -> Message | None:
        return None if text_of(payload.message) == HIDDEN else payload.message

    hooks = [HookRegistration(name="before_message_write", handler=drop, owner="test")]
    async with (
        rig_over_model(scratch, codex_binary) as rig,
        rig.opened(
            engine=engine, engines={"recording": lambda _: RecordingEngine()}, hooks=hooks
        ) as runtime,
    ):
        session = rig.session(runtime)
        await rig.turn(session, HIDDEN, "answer hidden.")
        second = await rig.turn(session, "message two.", "answer two.")
    seen = HIDDEN in second.requests[0].raw.decode()
    assert (second.decision, seen) == {
        "legacy": ("continue", True), "recording": ("rebase", False),
    }[engine]  # fmt: skip


@pytest.mark.parametrize("deaths", [1, 2])
@pytest.mark.parametrize("engine", ["legacy", "window"])
async def test_a_turn_that_codex_died_in_is_settled_without_its_prompt(
    codex_binary: Path, scratch: Path, engine: str, deaths: int
) -> None:
    """Spec H-10, S-09, INV-9: tried again once; what the thread got is known in either case."""
    gates = [gate() for _ in range(deaths)]
    async with ScriptedModel() as model:
        model.enqueue(*[reply(held) for held in gates], "answer first.", "answer second.")
        world = World(root=scratch, base_url=model.base_url, more=command(codex_binary))
        async with world.runtime() as runtime:
            session = runtime.session("s", cwd=world.work)
            handle = session.run(HIDDEN, engine=engine, persist_prompt=False)
            with anyio.fail_after(60):
                for held in gates:
                    await held.reached.wait()
                    [pid] = children()
                    os.kill(pid, signal.SIGKILL)
                end = await handle.result()
            assert end.outcome is (Outcome.COMPLETED if deaths == 1 else Outcome.CLIENT_LOST)
            following = await say(session, "message second.", engine=engine)
            assert following.end.outcome is Outcome.COMPLETED
            held_now = await held_by(runtime, session)
            said = await transcript(session)
        last = model.requests[-1]
    assert HIDDEN not in str(said)
    hidden = user_message(HIDDEN).content_hash
    times = sum(one.content_hash == hidden for one in held_now)
    assert times_said(last, HIDDEN) == times == (engine == "legacy")
