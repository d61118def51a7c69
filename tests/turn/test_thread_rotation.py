"""When a session keeps its native thread, when it gets another one, and what is bound to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.turn.rig import Rig, injected_texts
from treadle.cli.exit_codes import exit_of_run
from treadle.clock import RandomIds, SystemClock
from treadle.contract.engine import ContextProjection
from treadle.contract.store import Binding
from treadle.contract.tool import DynamicTool
from treadle.model.ids import SessionKey
from treadle.model.turn import Outcome
from treadle.store.open import open_store
from treadle.testing.engine import RecordingEngine

pytestmark = pytest.mark.anyio

EXCLUDE = ("plugins", "entries", "codex", "config", "codexDynamicToolsExclude")


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(root=tmp_path)


def tool(name: str) -> DynamicTool:
    return DynamicTool(
        name=name,
        description="Do it.",
        input_schema={"type": "object", "properties": {}},
        call=lambda _: "done",
    )


async def binding_of(rig: Rig) -> Binding | None:
    """Return what is stored, with Treadle closed."""
    clock = SystemClock()
    database = rig.state / "treadle.sqlite3"
    async with open_store(database, clock=clock, ids=RandomIds(clock)) as store:
        session = await store.sessions.get(SessionKey("agent:main:t"))
        assert session is not None
        return await store.bindings.get(session.id)


async def one_turn(rig: Rig, text: str, tools: list[DynamicTool], **engine: Any) -> None:
    """Run one turn under an engine in a Treadle of its own."""
    async with rig.opened(RecordingEngine(**engine), tools=tools) as runtime:
        rig.answers(f"answer to {text}")
        turn = await rig.say(runtime.session("t"), text)
    assert turn.finished.outcome is Outcome.COMPLETED, turn.finished


async def test_tools_that_go_and_come_back_cost_threads_and_no_message(rig: Rig) -> None:
    """Spec F-13, F-14: each thread has its tools and holds everything that was said before.

    OpenClaw keeps the old binding for a tool-less maintenance turn; we have no such turns, and a
    thread that is given everything needs no way back.
    """
    await one_turn(rig, "one", [tool("a")])
    rig.keys[EXCLUDE] = ["memory_search"]
    await one_turn(rig, "two", [])
    del rig.keys[EXCLUDE]
    await one_turn(rig, "three", [tool("a")])
    started = rig.codex.requests("thread/start")
    specs: list[Any] = [params.get("dynamicTools", ()) for params in started]
    names = [sorted(spec["name"] for spec in given) for given in specs]
    assert names == [["a", "memory_search"], [], ["a", "memory_search"]]
    assert injected_texts(rig.codex, "thread-3") == [
        ("user", "one"), ("assistant", "answer to one"),
        ("user", "two"), ("assistant", "answer to two"),
    ]  # fmt: skip


async def test_the_binding_says_what_the_thread_was_given(rig: Rig) -> None:
    """Spec F-17, F-18, D-34."""
    once = ContextProjection(mode="thread_bootstrap", epoch=" e1 ", fingerprint="f")
    await one_turn(rig, "one", [tool("a")], projection=once)
    binding = await binding_of(rig)
    assert binding is not None
    assert (binding.thread_id, binding.model, binding.model_provider) == ("thread-1", "gpt-x", None)
    assert binding.home.endswith("agents/main/codex")
    assert Path(binding.cwd).is_absolute()
    assert binding.tool_fingerprint
    assert binding.engine is not None
    assert {key: value for key, value in binding.engine.items() if key != "policyFingerprint"} == {
        "schemaVersion": 1,
        "engineId": "recording",
        "projection": {
            "schemaVersion": 1, "mode": "thread_bootstrap", "epoch": "e1", "fingerprint": "f",
        },
    }  # fmt: skip
    assert (binding.open_turn, binding.pinned, binding.overflowed) == (None, False, False)
    await one_turn(rig, "two", [tool("a")])
    after = await binding_of(rig)
    assert after is not None
    assert after.engine is not None
    assert "projection" not in after.engine
    assert after.thread_id == "thread-2"


TAKEN = [{"error": {"code": -32600, "message": "thread thread-1 already has an active writer"}}]
BUSY = ("deadlines", "threadBusySeconds")


async def test_a_thread_that_another_process_writes_is_waited_for(rig: Rig) -> None:
    """Reliability F7, INV-18: a former writer is ending, or is found and stopped."""
    await one_turn(rig, "one", [])
    for _ in range(2):
        rig.codex.once("thread/resume", TAKEN)
    await one_turn(rig, "two", [])
    assert len(rig.codex.requests("thread/resume")) == 3
    assert len(rig.codex.requests("thread/start")) == 1
    binding = await binding_of(rig)
    assert binding is not None
    assert binding.thread_id == "thread-1"


async def test_a_thread_that_stays_taken_fails_the_run_and_never_costs_the_binding(
    rig: Rig,
) -> None:
    """Reliability F7, INV-20: visible, with its exit code; the thread is neither left nor lost."""
    await one_turn(rig, "one", [])
    before = await binding_of(rig)
    rig.keys[BUSY] = 0.05
    rig.codex.on("thread/resume", TAKEN)
    async with rig.opened(RecordingEngine()) as runtime:
        turn = await rig.say(runtime.session("t"), "two")
    assert turn.finished.outcome is Outcome.FAILED
    assert (turn.error["code"], turn.error["retry"]) == ("codex.thread_busy", True)
    assert turn.error["next_step"]
    assert exit_of_run("failed", str(turn.error["code"])) == 5
    assert await binding_of(rig) == before
    rig.codex.on("thread/resume", [{"answer": {"thread": {"id": "thread-1"}}}])
    await one_turn(rig, "three", [])
    assert len(rig.codex.requests("thread/start")) == 1
    assert [params["threadId"] for params in rig.codex.requests("turn/start")] == ["thread-1"] * 2


async def test_a_left_thread_that_is_taken_is_put_away_another_time(rig: Rig) -> None:
    """Reliability F7: a refused archive is logged; it costs neither the turn nor the binding."""
    await one_turn(rig, "one", [tool("a")])
    rig.codex.on("thread/archive", TAKEN)
    await one_turn(rig, "two", [tool("b")])
    after = await binding_of(rig)
    assert after is not None
    assert after.thread_id == "thread-2"
    (failed,) = rig.logged("thread.cleanup_failed")
    assert failed["thread_id"] == "thread-1"


async def test_a_connection_that_ends_during_resume_never_costs_the_binding(rig: Rig) -> None:
    """Spec F-20: the run fails or goes again, and it is always the same thread."""
    await one_turn(rig, "one", [])
    for _ in range(2):
        rig.codex.once("thread/resume", [{"exit": 1}])
    async with rig.opened(RecordingEngine()) as runtime:
        turn = await rig.say(runtime.session("t"), "two")
    assert turn.finished.outcome is Outcome.CLIENT_LOST
    await one_turn(rig, "three", [])
    assert len(rig.codex.requests("thread/start")) == 1
    resumed = [params["threadId"] for params in rig.codex.requests("thread/resume")]
    assert set(resumed) == {"thread-1"}
    binding = await binding_of(rig)
    assert binding is not None
    assert binding.thread_id == "thread-1"


async def test_a_codex_model_reference_names_the_model_and_no_provider(rig: Rig) -> None:
    """Spec V-31, F-08, A-06; E-09: nothing turn-scoped, so the native mode's own text applies."""
    await one_turn(rig, "one", [])
    (started,), (turn,) = rig.codex.requests("thread/start"), rig.codex.requests("turn/start")
    assert (started["model"], turn["model"]) == ("gpt-x", "gpt-x")
    assert "modelProvider" not in started
    assert "collaborationMode" not in turn
