"""A turn without Codex's own tools: a thread of its own, and the session's goes on behind it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.process.rig import CODE_MODE, PLAIN, Turn, all_entries, echo_tool, rig_over_model
from treadle.contract.engine import ContextProjection
from treadle.contract.harness import ProjectionMode
from treadle.contract.store import Binding, Held
from treadle.model.message import text_of
from treadle.protocol.responses import item_kind, item_text
from treadle.runtime.service import Runtime
from treadle.runtime.sessions import Session
from treadle.testing.engine import RecordingEngine
from treadle.testing.replies import call, custom_call, reply

pytestmark = [pytest.mark.anyio, pytest.mark.codex]

CLASSIC = "scripted/gpt-5.5"
"""A model of the bundled catalog with classic tools, `apply_patch` among them."""

PATCH = "*** Begin Patch\n*** Add File: made.txt\n+no\n*** End Patch"
SCRIPT = """
text(Object.keys(tools).sort().join(' '));
try { await tools.exec_command({cmd: 'touch made.txt'}) } catch (error) { text(String(error)) }
"""
HARMLESS = {
    "clock__curr_time",
    "list_mcp_resource_templates",
    "list_mcp_resources",
    "memory_search",
    "note",
    "read_mcp_resource",
}
"""What a script can reach without native tools: ours, and what neither runs nor writes anything."""


async def bound(runtime: Runtime, session: Session) -> tuple[Binding, tuple[Held, ...]]:
    """Return what the session is bound to, and what that thread holds."""
    record = await session.record()
    assert record is not None
    binding = await runtime.store.bindings.get(record.id)
    assert binding is not None
    return binding, await runtime.store.bindings.held(binding.thread_id)


def said_in(turn: Turn) -> list[str]:
    """Return every message that the model saw in the turn's first request, in order."""
    kinds = ("one.", "two.", "three.", "four.")
    texts = [item_text(item) for item in turn.input if item_kind(item) == "message"]
    return [text for text in texts if text.endswith(kinds)]


@pytest.mark.parametrize("engine", ["legacy", "recording", "window"])
@pytest.mark.parametrize("mode", ["history", "prompt"])
async def test_a_turn_without_native_tools_leaves_the_sessions_thread_and_is_told_to_it(
    codex_binary: Path, scratch: Path, engine: str, mode: ProjectionMode
) -> None:
    """Spec D-39: projected anew and whole, not bound; D-27: the next turn extends the old thread.

    Across a restart, so that the old thread is resumed with its tools.
    """
    engines = {"recording": lambda _: RecordingEngine()}
    turns: list[Turn] = []
    async with rig_over_model(scratch, codex_binary) as rig:
        async with rig.opened(engine=engine, engines=engines, tools=[echo_tool()]) as runtime:
            session = rig.session(runtime)
            turns.append(await rig.turn(session, "message one.", "answer one.", projection=mode))
            before = await bound(runtime, session)
            note = reply(call("note", {"n": 1}))
            turns.append(
                await rig.turn(
                    session, "message two.", note, "answer two.",
                    projection=mode, native_tools=False,
                )
            )  # fmt: skip
            after = await bound(runtime, session)
        rollouts = [path.name for path in (rig.codex_home / "sessions").rglob("*.jsonl")]
        async with rig.opened(engine=engine, engines=engines, tools=[echo_tool()]) as runtime:
            session = rig.session(runtime)
            more = [
                await rig.turn(session, f"message {text}.", f"answer {text}.", projection=mode)
                for text in ("three", "four")
            ]
            stored = [text_of(entry.message) for entry in await all_entries(session)]
    (one, apart), (three, four) = turns, more
    assert one.thread_id == three.thread_id == four.thread_id != apart.thread_id
    assert len(rollouts) == 1, "the transient thread is in no file"
    assert one.thread_id in rollouts[0]
    kept, held = before
    assert (after[0].thread_id, after[0].open_turn, after[1]) == (kept.thread_id, None, held)
    assert "raw_items_missing" not in apart.notices, "they came as notifications"
    assert "exec_command" in one.requests[0].tool_names
    assert "exec_command" in three.requests[0].tool_names
    assert apart.requests[0].tool_names == ["memory_search", "note"]
    assert stored[:2] == ["message one.", "answer one."]
    assert (stored[2], stored[-5:]) == (
        "message two.",
        ["answer two.", "message three.", "answer three.", "message four.", "answer four."],
    )
    for turn in (apart, three, four):
        asked = turn.requests[0].raw.decode()
        assert "message one." in asked
        assert "answer one." in asked
    for turn in (three, four):
        asked = turn.requests[0].raw.decode()
        assert "message two." in asked
        assert "remember the milk" in asked
        assert "answer two." in asked
    if mode == "history":
        assert said_in(apart) == ["message one.", "answer one.", "message two."]
        assert said_in(three) == [*said_in(apart), "answer two.", "message three."]
        assert (three.decision, four.decision) == ("extend", "continue")
        assert three.input[: len(one.input)] == one.input, "the thread kept its prefix"


@pytest.mark.parametrize("model", [PLAIN, CLASSIC, CODE_MODE])
async def test_no_native_tool_is_offered_or_runs_in_such_a_turn(
    codex_binary: Path, scratch: Path, model: str
) -> None:
    """Spec D-39, F-24: not even one that the model calls without having been offered it."""
    attempts = [
        reply(call("exec_command", {"cmd": "touch made.txt"}, call_id="shell")),
        reply(custom_call("apply_patch", PATCH, call_id="patch")),
        reply(call("note", {"n": 7}, call_id="note")),
    ]
    if model == CODE_MODE:
        attempts.append(reply(custom_call("exec", SCRIPT, call_id="script")))
        spawn = {"message": "touch made.txt", "task_name": "other"}
        agent = call("spawn_agent", spawn, namespace="collaboration", call_id="agent")
        attempts.append(reply(agent))
    async with (
        rig_over_model(scratch, codex_binary) as rig,
        rig.opened(model=model, tools=[echo_tool()]) as runtime,
    ):
        session = rig.session(runtime)
        turn = await rig.turn(session, "hello", *attempts, "done", native_tools=False)
        offered, last = turn.requests[0].tool_names, turn.requests[-1]
        assert list(rig.work.iterdir()) == []
    assert {request.thread_id for request in rig.model.requests} == {turn.thread_id}
    for call_id in ("shell", "patch"):
        assert str(last.output_of(call_id)).startswith("unsupported")
    assert "remember the milk" in str(last.output_of("note"))
    if model != CODE_MODE:
        assert offered == ["memory_search", "note"]
        return
    assert offered == ["functions", "collaboration"]
    said = str(last.output_of("script"))
    assert "tools.exec_command is not a function" in said
    listed = next(part for part in said.split("'") if "memory_search" in part)
    assert set(listed.split()) == HARMLESS
    assert "spawn failed" in str(last.output_of("agent"))


@pytest.mark.parametrize("engine", ["legacy", "recording"])
async def test_a_session_that_begins_so_gets_its_own_thread_with_the_next_turn(
    codex_binary: Path, scratch: Path, engine: str
) -> None:
    """Spec D-39, D-27: nothing is bound until then, and then everything is carried."""
    async with (
        rig_over_model(scratch, codex_binary) as rig,
        rig.opened(engine=engine, engines={"recording": lambda _: RecordingEngine()}) as runtime,
    ):
        session = rig.session(runtime)
        apart = await rig.turn(session, "message one.", "answer one.", native_tools=False)
        record = await session.record()
        assert record is not None
        assert await runtime.store.bindings.get(record.id) is None
        own = await rig.turn(session, "message two.", "answer two.")
        more = await rig.turn(session, "message three.", "answer three.")
        assert (await bound(runtime, session))[0].thread_id == own.thread_id
    assert apart.thread_id != own.thread_id == more.thread_id
    assert said_in(own) == ["message one.", "answer one.", "message two."]
    assert (own.decision, more.decision) == ("seed", "continue")


@pytest.mark.parametrize("mode", ["history", "prompt"])
async def test_an_epochs_thread_is_told_of_it_and_not_given_its_context_again(
    codex_binary: Path, scratch: Path, mode: ProjectionMode
) -> None:
    """Spec D-39, D-31, D-32: its thread is projected to, the bound one keeps its epoch."""
    engine = RecordingEngine(projection=ContextProjection(mode="thread_bootstrap", epoch="e"))
    async with (
        rig_over_model(scratch, codex_binary) as rig,
        rig.opened(engine="recording", engines={"recording": lambda _: engine}) as runtime,
    ):
        session = rig.session(runtime)
        turns = [
            await rig.turn(
                session, f"message {text}.", f"answer {text}.",
                projection=mode, native_tools=text != "two",
            )
            for text in ("one", "two", "three", "four")
        ]  # fmt: skip
        binding, _ = await bound(runtime, session)
    one, apart, three, four = turns
    assert one.thread_id == three.thread_id == four.thread_id != apart.thread_id
    assert binding.engine is not None
    assert binding.engine["projection"] == {
        "schemaVersion": 1, "mode": "thread_bootstrap", "epoch": "e",
    }  # fmt: skip
    asked = [turn.requests[0].raw.decode() for turn in turns]
    assert "message one." in asked[1]
    assert [text.count("message two.") for text in asked] == [0, 1, 1, 1]
    assert [text.count("answer two.") for text in asked] == [0, 0, 1, 1]
    assert [text.count("message one.") for text in asked] == [1, 1, 1, 1]
    assert four.decision == "continue"
