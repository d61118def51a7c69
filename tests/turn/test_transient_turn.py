"""What becomes of a turn on a thread of its own when something goes wrong on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.turn.rig import TURN_S, Rig, injected_texts, turn_steps
from treadle.contract.store import Binding
from treadle.model.message import Entry, EntryKind, text_of
from treadle.model.turn import Outcome, PartDelta
from treadle.runtime.service import Runtime
from treadle.runtime.sessions import Session
from treadle.testing.engine import RecordingEngine

pytestmark = pytest.mark.anyio

REFUSAL: list[dict[str, Any]] = [{"error": {"code": -32602, "message": "no"}}]


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(root=tmp_path)


async def binding_of(runtime: Runtime, session: Session) -> Binding:
    record = await session.record()
    assert record is not None
    binding = await runtime.store.bindings.get(record.id)
    assert binding is not None
    return binding


def told(entries: tuple[Entry, ...]) -> list[str]:
    """Return the messages and the codes of the notices, in order."""
    return [
        text_of(one.message) if one.kind is EntryKind.MESSAGE else f"[{one.meta['notice']}]"
        for one in entries
    ]


async def test_codex_is_asked_for_a_thread_in_memory_and_left_it_afterwards(rig: Rig) -> None:
    """Spec D-39, F-24: ephemeral, no environment, native tools off; only for this one turn."""
    async with rig.opened() as runtime:
        session = runtime.session("t")
        rig.answers("1", "2", "3")
        for text, native_tools in (("one", True), ("two", False), ("three", True)):
            await rig.say(session, text, native_tools=native_tools)
    own, apart = rig.codex.requests("thread/start")
    assert "ephemeral" not in own
    assert apart["ephemeral"] is True
    config: Any = apart["config"]
    assert config["features.shell_tool"] is False
    assert config["web_search"] == "disabled"
    assert "features.shell_tool" not in own["config"]  # type: ignore[operator]
    turns = rig.codex.requests("turn/start")
    assert [turn["threadId"] for turn in turns] == ["thread-1", "thread-2", "thread-1"]
    assert [turn.get("environments") for turn in turns] == [None, [], None]
    assert rig.codex.requests("thread/unsubscribe") == [{"threadId": "thread-2"}]
    assert rig.codex.requests("thread/archive") == []


async def test_an_app_server_that_keeps_such_a_thread_is_asked_to_archive_it(rig: Rig) -> None:
    """Spec D-39: one that does not know `ephemeral` has made a file of it."""
    answer = {"thread": {"id": "$thread", "path": "/tmp/rollout.jsonl"}, "model": "gpt-x"}
    rig.codex.on("thread/start", [{"answer": answer}])
    async with rig.opened() as runtime:
        rig.answers("fine")
        await rig.say(runtime.session("t"), "one", native_tools=False)
    assert rig.codex.requests("thread/archive") == [{"threadId": "thread-1"}]


async def test_a_refused_transient_turn_leaves_the_binding_as_it_was(rig: Rig) -> None:
    """Spec D-39, C-15: nothing is open any more, and the thread is given back once."""
    async with rig.opened(RecordingEngine()) as runtime:
        session = runtime.session("t")
        rig.answers("1")
        await rig.say(session, "one")
        before = await binding_of(runtime, session)
        rig.codex.once("turn/start", REFUSAL)
        turn = await rig.say(session, "two", native_tools=False)
        after = await binding_of(runtime, session)
        held = await runtime.store.bindings.held(before.thread_id)
    assert turn.finished.outcome is Outcome.FAILED
    assert (after.thread_id, after.open_turn, len(held)) == (before.thread_id, None, 2)
    assert rig.codex.requests("thread/unsubscribe") == [{"threadId": "thread-2"}]


@pytest.mark.parametrize("when", ["before its answer", "after its answer"])
async def test_a_transient_turn_that_is_lost_is_never_sent_again(rig: Rig, when: str) -> None:
    """Spec D-39, S-09; INV-9, INV-10: nobody can look for it in a thread that is gone.

    An ordinary turn would be tried again here: nothing was done that anybody saw.
    """
    steps = [{"exit": 9}] if when == "before its answer" else [*turn_steps({})[:1], {"exit": 9}]
    async with rig.opened(RecordingEngine()) as runtime:
        session = runtime.session("t")
        rig.answers("1")
        await rig.say(session, "one")
        rig.codex.once("turn/start", steps)
        lost = await rig.say(session, "two", native_tools=False)
        rig.answers("3")
        third = await rig.say(session, "three")
        binding = await binding_of(runtime, session)
        entries = await session.entries()
    assert (lost.finished.outcome, lost.finished.replay_safe) == (Outcome.CLIENT_LOST, False)
    assert lost.error["replay_safe"] is False
    assert rig.sent() == ["one", "two", "three"]
    assert told(entries) == ["one", "1", "two", "[unknown]", "three", "3"]
    assert third.finished.outcome is Outcome.COMPLETED
    assert (binding.thread_id, binding.open_turn) == ("thread-1", None)
    assert injected_texts(rig.codex, "thread-1") == [("user", "two")]


async def test_a_lost_start_of_a_transient_thread_is_tried_again(rig: Rig) -> None:
    """Spec S-09: before the turn is sent nothing can have come of it."""
    async with rig.opened() as runtime:
        rig.codex.once("thread/start", [{"exit": 9}])
        rig.answers("fine")
        turn = await rig.say(runtime.session("t"), "one", native_tools=False)
        stored = await runtime.session("t").entries()
    assert turn.finished.text == "fine"
    assert told(stored) == ["one", "fine"]


async def test_a_refused_injection_sends_the_context_as_text(rig: Rig) -> None:
    """Spec D-39, D-58: first into the transient thread, then into the session's own."""
    async with rig.opened() as runtime:
        session = runtime.session("t")
        rig.answers("1", "2", "3", "4")
        await rig.say(session, "one")
        rig.codex.once("thread/inject_items", REFUSAL)
        apart = await rig.say(session, "two", native_tools=False)
        rig.codex.once("thread/inject_items", REFUSAL)
        own = await rig.say(session, "three")
        await rig.say(session, "four")
    for turn in (apart, own):
        assert "injection_failed" in turn.notices
    one, two, three, four = rig.sent()
    assert (one, four) == ("one", "four")
    assert "[assistant]\n1" in two
    assert two.endswith("two")
    assert "[user]\ntwo\n\n[assistant]\n2" in three
    assert "[user]\none" not in three


async def test_stopped_in_mid_turn_what_was_said_is_told_to_the_sessions_thread(rig: Rig) -> None:
    """Spec D-39, H-16: an aborted one too, as far as Codex produced records."""
    agent = {"type": "agentMessage", "id": "a", "text": "half", "phase": None}
    ids = {"threadId": "$thread", "turnId": "$turn"}
    completed = {"method": "item/completed", "params": {**ids, "item": agent, "completedAtMs": 1}}
    async with rig.opened() as runtime:
        session = runtime.session("t")
        rig.answers("1")
        await rig.say(session, "one")
        rig.codex.once("turn/start", [turn_steps({})[0], {"tell": completed}])
        run = session.run("two", native_tools=False)
        with anyio.fail_after(TURN_S):
            async for event in run:
                if isinstance(event, PartDelta) and event.text == "half":
                    run.interrupt()
        finished = await run.result()
        rig.answers("3")
        await rig.say(session, "three")
    assert finished.outcome is Outcome.STOPPED
    assert injected_texts(rig.codex, "thread-1")[:2] == [("user", "two"), ("assistant", "half")]
