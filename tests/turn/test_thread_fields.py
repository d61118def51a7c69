"""What a native thread is told: at its start, on resume, on each turn, and with injected items."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.turn.rig import Rig
from treadle.model.ids import ThreadId
from treadle.testing.engine import RecordingEngine

pytestmark = pytest.mark.anyio


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(root=tmp_path)


async def test_a_sandbox_is_named_on_turns_and_never_on_a_thread(rig: Rig) -> None:
    """Decision 1; spec F-01, F-02, F-03, F-06: the other field would mark the folder as trusted."""
    for text in ("first", "second"):
        async with rig.opened() as runtime:
            rig.answers("fine")
            await rig.say(runtime.session("t"), text)
    (started,), (resumed,) = rig.codex.requests("thread/start"), rig.codex.requests("thread/resume")
    for params in (started, resumed):
        assert "sandbox" not in params
        assert "sandboxPolicy" not in params
        assert params["personality"] == "none"
        assert params["model"] == "gpt-x"
        assert (params["approvalPolicy"], params["approvalsReviewer"]) == ("on-request", "user")
    assert started["experimentalRawEvents"] is True
    assert "dynamicTools" not in resumed
    for params in rig.codex.requests("turn/start"):
        assert params["sandboxPolicy"] == {"type": "readOnly"}
        assert (params["approvalPolicy"], params["approvalsReviewer"]) == ("on-request", "user")
        assert (params["model"], params["personality"]) == ("gpt-x", "none")


async def test_an_injection_that_was_never_answered_is_known_and_not_held(rig: Rig) -> None:
    """Decision 3; spec D-51, D-58: the intent is stored before the call, held once confirmed."""
    engine = RecordingEngine(recalled="RECALLED")
    async with rig.opened(engine) as runtime:
        rig.codex.once("thread/inject_items", [{"exit": 9}])
        rig.answers("fine")
        turn = await rig.say(runtime.session("t"), "hello")
        bindings = runtime.store.bindings
        (pending,) = await bindings.pending_injections(ThreadId("thread-1"))
        assert pending.item_ids
        assert (await bindings.holding(ThreadId("thread-1"))).count == 0
        assert turn.finished.text == "fine"
        assert await bindings.pending_injections(ThreadId("thread-2")) == ()
        assert (await bindings.holding(ThreadId("thread-2"))).count == 3


async def test_a_refused_injection_holds_nothing_and_the_turn_goes_on(rig: Rig) -> None:
    """Decision 3; spec D-51, D-58: nothing arrived, so nothing is recorded as held or pending."""
    engine = RecordingEngine(recalled="RECALLED")
    async with rig.opened(engine) as runtime:
        refusal = {"error": {"code": -32602, "message": "no"}}
        rig.codex.once("thread/inject_items", [refusal])
        rig.answers("fine")
        turn = await rig.say(runtime.session("t"), "hello")
        bindings = runtime.store.bindings
        assert await bindings.pending_injections(ThreadId("thread-1")) == ()
        held = await bindings.held(ThreadId("thread-1"))
    assert turn.finished.text == "fine"
    assert "injection_failed" in turn.notices
    assert len(held) == 2
