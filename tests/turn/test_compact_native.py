"""What becomes of a session whose native compaction is refused or never ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.turn.rig import TURN_S, Rig
from treadle.contract.engine import ContextProjection
from treadle.contract.store import Binding
from treadle.model.errors import CompactionRefused, CompactionUnconfirmed
from treadle.runtime.service import Runtime
from treadle.runtime.sessions import Session
from treadle.testing.engine import RecordingEngine

pytestmark = pytest.mark.anyio

IDS = {"threadId": "$thread", "turnId": "compaction-1"}
TURN: dict[str, Any] = {
    "id": "compaction-1", "items": [], "status": "inProgress", "error": None,
}  # fmt: skip
ITEM = {"type": "contextCompaction", "id": "c1"}


def started() -> dict[str, Any]:
    return {"tell": {"method": "turn/started", "params": {"threadId": "$thread", "turn": TURN}}}


def item(which: str) -> dict[str, Any]:
    params = {**IDS, "item": ITEM, f"{which}AtMs": 1}
    return {"tell": {"method": f"item/{which}", "params": params}}


def completed(status: str) -> dict[str, Any]:
    turn = {**TURN, "status": status}
    return {"tell": {"method": "turn/completed", "params": {"threadId": "$thread", "turn": turn}}}


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(root=tmp_path)


async def begun(rig: Rig, runtime: Runtime) -> tuple[Session, Binding]:
    """Return a session whose thread was given an epoch's context, and its binding."""
    session = runtime.session("t")
    rig.answers("1")
    await rig.say(session, "one")
    return session, await binding_of(runtime, session)


async def binding_of(runtime: Runtime, session: Session) -> Binding:
    record = await session.record()
    assert record is not None
    binding = await runtime.store.bindings.get(record.id)
    assert binding is not None
    return binding


def engine() -> RecordingEngine:
    return RecordingEngine(projection=ContextProjection(mode="thread_bootstrap", epoch="e"))


async def test_a_refused_start_restores_the_binding(rig: Rig) -> None:
    """Spec D-38, J-34: a refusal is definite, so nothing is projected again because of it."""
    async with rig.opened(engine()) as runtime:
        session, before = await begun(rig, runtime)
        assert before.engine is not None
        assert "projection" in before.engine
        error = {"error": {"code": -32600, "message": "not now"}}
        rig.codex.once("thread/compact/start", [error])
        with pytest.raises(CompactionRefused, match="not now") as refused:
            await session.compact()
        after = await binding_of(runtime, session)
        rig.answers("2")
        turn = await rig.say(session, "two")
    assert refused.value.fields["reason"] == "start_rejected"
    assert {**_fields(after), "revision": 0} == {**_fields(before), "revision": 0}
    assert turn.decision == "continue"
    assert len(rig.codex.requests("thread/start")) == 1


def _fields(binding: Binding) -> dict[str, object]:
    return {name: getattr(binding, name) for name in Binding.__dataclass_fields__}


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ([started(), completed("completed")], "no_compaction_item"),
        ([started(), item("started"), completed("completed")], "no_compaction_item"),
        ([started(), item("started"), completed("interrupted")], "interrupted"),
        ([started(), item("started"), item("completed"), completed("failed")], "failed"),
        ([started(), item("started"), item("completed"), completed("completed")], None),
    ],
    ids=["no item", "its item never ended", "interrupted", "failed behind its item", "done"],
)
async def test_only_a_whole_turn_with_a_whole_item_is_a_compaction(
    rig: Rig, told: list[dict[str, Any]], reason: str | None
) -> None:
    """Spec J-18, J-19, J-20, D-38: in any case the next turn projects again."""
    async with rig.opened(engine()) as runtime:
        session, _ = await begun(rig, runtime)
        rig.codex.once("thread/compact/start", [{"answer": {}}, *told])
        result = await session.compact()
        rig.answers("2")
        turn = await rig.say(session, "two")
    assert (result.compacted, result.reason) == (reason is None, reason)
    assert result.details["completed"] is (reason is None)
    assert turn.decision == "rebase"


async def test_a_compaction_that_ends_after_its_interrupt_is_not_completed(rig: Rig) -> None:
    """Spec J-10, J-21, J-22, V-15."""
    rig.keys["agents", "defaults", "compaction", "timeoutSeconds"] = 0.2
    end = completed("interrupted")
    async with rig.opened(engine()) as runtime:
        session, _ = await begun(rig, runtime)
        rig.codex.once("thread/compact/start", [{"answer": {}}, started(), item("started")])
        rig.codex.once("turn/interrupt", [{"answer": {}}, end])
        with anyio.fail_after(TURN_S):
            result = await session.compact()
    assert (result.compacted, result.reason) == (False, "timed_out")
    [asked] = rig.codex.requests("turn/interrupt")
    assert asked == {"threadId": "thread-1", "turnId": "compaction-1"}


@pytest.mark.parametrize("begins", [True, False])
async def test_an_end_that_never_comes_retires_the_connection(rig: Rig, begins: bool) -> None:
    """Spec J-23, J-34, D-38: unconfirmed; the next turn has another connection and all it needs."""
    rig.keys["agents", "defaults", "compaction", "timeoutSeconds"] = 0.2
    rig.keys["deadlines", "interruptSeconds"] = 0.2
    async with rig.opened(engine()) as runtime:
        session, before = await begun(rig, runtime)
        steps: list[dict[str, Any]] = [{"answer": {}}, *([started()] if begins else [])]
        rig.codex.once("thread/compact/start", steps)
        rig.codex.once("turn/interrupt", [{"answer": {}}])
        with anyio.fail_after(TURN_S), pytest.raises(CompactionUnconfirmed):
            await session.compact()
        after = await binding_of(runtime, session)
        rig.answers("2")
        turn = await rig.say(session, "two")
    assert after.thread_id == before.thread_id
    assert after.engine is not None
    assert "projection" not in after.engine
    assert len(rig.links) == 2
    assert turn.decision == "rebase"
    assert turn.finished.text == "2"
