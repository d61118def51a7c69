"""A good answer is not lost to what comes behind it, and a run that waits can be stopped."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from tests.turn.rig import TURN_S, Rig
from treadle.model.errors import QueueFull, StoreFull
from treadle.model.turn import Outcome, TurnStarted
from treadle.runtime.intake import WAITING_MOST
from treadle.testing.engine import RecordingEngine

pytestmark = pytest.mark.anyio

STARTED = {
    "method": "turn/started",
    "params": {
        "threadId": "$thread",
        "turn": {"id": "$turn", "items": [], "status": "inProgress", "error": None},
    },
}
NEVER_ENDS: list[dict[str, Any]] = [
    {"answer": {"turn": {"id": "$turn", "items": [], "status": "inProgress", "error": None}}},
    {"tell": STARTED},
]


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    deadlines = {"interruptSeconds": 0.2, "shutdownSeconds": 1.0}
    return Rig(root=tmp_path, keys={("deadlines", name): s for name, s in deadlines.items()})


def no_room(*_: object) -> Callable[..., Coroutine[Any, Any, None]]:
    """Return a method of a store whose disk is full."""

    async def refuse(*_: object) -> None:
        raise StoreFull

    return refuse


async def test_an_answer_stands_where_the_claim_cannot_be_given_back(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours; INV-9: the run was told as failed, with no text, and a person would say it again."""
    rig.answers("the answer")
    async with rig.opened() as runtime:
        monkeypatch.setattr(type(runtime.store.transcript), "release", no_room())
        turn = await rig.say(runtime.session("a"), "hello")
    assert (turn.finished.outcome, turn.finished.text) == (Outcome.COMPLETED, "the answer")
    assert rig.logged("store.write_failed")


async def test_an_answer_stands_where_old_threads_cannot_be_put_away(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decision 8: best effort, nothing depends on it."""
    engine = RecordingEngine()
    rig.answers("one", "two")
    async with rig.opened(engine) as runtime:
        session = runtime.session("a")
        await rig.say(session, "first")
        engine.recalled = "something else"
        monkeypatch.setattr(type(runtime.store.bindings), "superseded", no_room())
        turn = await rig.say(session, "second")
    assert turn.decision == "rebase"
    assert (turn.finished.outcome, turn.finished.text) == (Outcome.COMPLETED, "two")
    assert rig.logged("thread.cleanup_failed")


async def test_a_run_that_waits_for_its_session_is_stopped_at_once(rig: Rig) -> None:
    """Spec A-14; ours: it ended only once the run before it had."""
    rig.codex.on("turn/start", NEVER_ENDS)
    async with rig.opened() as runtime:
        session = runtime.session("a")
        with anyio.fail_after(TURN_S):
            first = session.run("never ends")
            async for event in first:
                if isinstance(event, TurnStarted):
                    break
            second, third = session.run("waits"), session.run("waits too")
            await anyio.lowlevel.checkpoint()
            second.interrupt()
            assert (await second.result()).outcome is Outcome.STOPPED
            assert first.finished is None
            assert third.finished is None
            first.interrupt()
            await first.result()
    assert rig.sent()[:1] == ["never ends"]
    assert "waits" not in rig.sent()


async def test_the_newest_message_is_refused_where_too_many_wait(rig: Rig) -> None:
    """RS04's plain cap.

    What is accepted is run, what is not is said, and others are not held up.
    """
    rig.codex.on("turn/start", NEVER_ENDS)
    async with rig.opened() as runtime:
        session = runtime.session("a")
        runs = [session.run(f"message {number}") for number in range(WAITING_MOST + 1)]
        with pytest.raises(QueueFull) as refused:
            session.run("one too many")
        assert refused.value.retryable
        assert refused.value.fields["waiting"] == WAITING_MOST
        other = runtime.session("b").run("in another session")
        with anyio.fail_after(TURN_S):
            for run in (*runs, other):
                run.interrupt()
                await run.result()
        again = session.run("there is room again")
        again.interrupt()
        with anyio.fail_after(TURN_S):
            await again.result()
    assert "one too many" not in rig.sent()
