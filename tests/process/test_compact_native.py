"""A native compaction that a person asks for, on the real Codex."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import anyio
import pytest

from tests.process.faults_rig import children
from tests.process.rig import Rig, Turn, rig_over_model
from treadle.contract.engine import ContextProjection
from treadle.contract.hook import CompactionObserved, HookRegistration
from treadle.contract.store import Binding
from treadle.engines.window import WINDOW
from treadle.model.errors import (
    CompactionRefused,
    CompactionUnconfirmed,
    NotFound,
    SessionBusy,
)
from treadle.model.message import EntryKind
from treadle.runtime.service import Runtime
from treadle.runtime.sessions import Session
from treadle.testing.engine import RecordingEngine
from treadle.testing.model import HttpError, gate, reply

pytestmark = [pytest.mark.anyio, pytest.mark.codex]

COMPACT_S = 60.0
SUMMARY = "SUMMARY of what was said"


def bootstrapping() -> RecordingEngine:
    """Return an engine that is projected once an epoch and leaves compaction alone."""
    return RecordingEngine(projection=ContextProjection(mode="thread_bootstrap", epoch="e"))


async def binding_of(runtime: Runtime, session: Session) -> Binding:
    record = await session.record()
    assert record is not None
    binding = await runtime.store.bindings.get(record.id)
    assert binding is not None
    return binding


def marker(binding: Binding) -> object:
    return (binding.engine or {}).get("projection")


async def talk(rig: Rig, session: Session, *numbers: int) -> list[Turn]:
    return [await rig.turn(session, f"message {n}.", f"answer {n}.") for n in numbers]


async def test_the_marker_goes_first_and_the_next_turn_projects_again(
    codex_binary: Path, scratch: Path
) -> None:
    """Spec D-38, J-18, J-33, C-13, G-19, H-13: the thread is compacted, hooks and mirror know."""
    told: list[CompactionObserved] = []
    hooks = [
        HookRegistration(name=name, handler=told.append, owner="test")
        for name in ("before_compaction", "after_compaction")
    ]
    engine, held = bootstrapping(), gate()
    async with (
        rig_over_model(scratch, codex_binary) as rig,
        rig.opened(
            engine="recording", engines={"recording": lambda _: engine}, hooks=hooks
        ) as runtime,
    ):
        session = rig.session(runtime)
        one, two = await talk(rig, session, 1, 2)
        before = await binding_of(runtime, session)
        rig.model.enqueue(reply(held, SUMMARY))
        with anyio.fail_after(COMPACT_S):
            async with anyio.create_task_group() as group:
                results = []

                async def compact() -> None:
                    results.append(await session.compact())

                group.start_soon(compact)
                await held.reached.wait()
                during = await binding_of(runtime, session)
                held.event.set()
        after = await binding_of(runtime, session)
        [three] = await talk(rig, session, 3)
        kinds = [entry.kind for entry in await session.entries()]
    [result] = results
    assert (result.compacted, result.reason) == (True, None)
    assert result.details == {
        "backend": "codex-app-server",
        "threadId": one.thread_id,
        "turnId": result.details["turnId"],
        "signal": "thread/compact/start",
        "pending": False,
        "completed": True,
    }
    assert (two.decision, marker(before) is None) == ("continue", False)
    assert (during.thread_id, marker(during)) == (before.thread_id, None)
    assert (after.thread_id, after.compactions_seen) == (before.thread_id, 1)
    assert (three.decision, three.thread_id != one.thread_id) == ("rebase", True)
    asked = three.requests[0].raw.decode()
    for text in ("message 1.", "answer 1.", "message 2.", "answer 2."):
        assert asked.count(text) == 1
    assert kinds.count(EntryKind.COMPACTION) == 1
    assert len(told) == 2


async def test_without_a_marker_the_compacted_thread_goes_on(
    codex_binary: Path, scratch: Path
) -> None:
    """Spec D-55, J-38, U-06: what Codex made of it is what the model sees."""
    async with (
        rig_over_model(scratch, codex_binary) as rig,
        rig.opened() as runtime,
    ):
        session = rig.session(runtime)
        one, _ = await talk(rig, session, 1, 2)
        rig.model.enqueue(SUMMARY)
        with anyio.fail_after(COMPACT_S):
            result = await session.compact()
        [three] = await talk(rig, session, 3)
    assert result.compacted
    assert (three.decision, three.thread_id) == ("continue", one.thread_id)
    asked = three.requests[0].raw.decode()
    assert SUMMARY in asked
    assert "answer 1." not in asked


async def test_a_compaction_that_fails_is_said_to_have(codex_binary: Path, scratch: Path) -> None:
    """Spec J-19, J-20: with its reason; the thread is as it was, and the session goes on."""
    async with (
        rig_over_model(scratch, codex_binary) as rig,
        rig.opened() as runtime,
    ):
        session = rig.session(runtime)
        await talk(rig, session, 1)
        rig.model.fallback = lambda _: HttpError(400, {"error": {"message": "no such thing"}})
        with anyio.fail_after(COMPACT_S):
            result = await session.compact()
        rig.model.fallback = None
        [two] = await talk(rig, session, 2)
    assert (result.compacted, result.reason) == (False, "failed")
    assert "answer 1." in two.requests[0].raw.decode()


async def test_a_compaction_that_takes_too_long_is_interrupted(
    codex_binary: Path, scratch: Path
) -> None:
    """Spec J-10, J-21, J-22: finished, and not completed; nothing was compacted."""
    held = gate()
    async with rig_over_model(scratch, codex_binary) as rig:
        rig.keys["agents", "defaults", "compaction", "timeoutSeconds"] = 3
        async with rig.opened() as runtime:
            session = rig.session(runtime)
            await talk(rig, session, 1)
            rig.model.enqueue(reply(held))
            with anyio.fail_after(COMPACT_S):
                result = await session.compact()
            [two] = await talk(rig, session, 2)
    assert (result.compacted, result.reason) == (False, "timed_out")
    assert "answer 1." in two.requests[0].raw.decode()


async def test_a_client_that_dies_in_the_middle_leaves_it_unconfirmed(
    codex_binary: Path, scratch: Path
) -> None:
    """Spec J-19, D-38: the marker stays cleared, so that nothing the thread may lack is missing."""
    engine, held = bootstrapping(), gate()
    async with (
        rig_over_model(scratch, codex_binary) as rig,
        rig.opened(engine="recording", engines={"recording": lambda _: engine}) as runtime,
    ):
        session = rig.session(runtime)
        await talk(rig, session, 1)
        rig.model.enqueue(reply(held))

        async def kill() -> None:
            await held.reached.wait()
            [pid] = children()
            os.kill(pid, signal.SIGKILL)

        with anyio.fail_after(COMPACT_S):
            async with anyio.create_task_group() as group:
                group.start_soon(kill)
                with pytest.raises(CompactionUnconfirmed):
                    await session.compact()
        assert marker(await binding_of(runtime, session)) is None
        [two] = await talk(rig, session, 2)
    assert two.decision == "rebase"
    assert "answer 1." in two.requests[0].raw.decode()


async def test_what_cannot_be_compacted_is_refused_and_nothing_is_changed(
    codex_binary: Path, scratch: Path
) -> None:
    """Spec D-38, J-04, J-15, J-32: no thread, no session, a run that is not over, another owner."""
    held = gate()
    async with (
        rig_over_model(scratch, codex_binary) as rig,
        rig.opened() as runtime,
    ):
        with pytest.raises(NotFound):
            await rig.session(runtime, "nobody").compact()
        apart = rig.session(runtime, "apart")
        await rig.turn(apart, "message 1.", "answer 1.", native_tools=False)
        with pytest.raises(CompactionRefused) as refused:
            await apart.compact()
        assert refused.value.fields["reason"] == "missing_thread_binding"
        busy = rig.session(runtime, "busy")
        rig.model.enqueue(reply(held))
        run = busy.run("message 1.")
        with anyio.fail_after(COMPACT_S):
            await held.reached.wait()
            with pytest.raises(SessionBusy):
                await busy.compact()
            run.interrupt()
            await run.result()
        owned = rig.session(runtime, "owned")
        rig.model.enqueue("answer 1.")
        with anyio.fail_after(COMPACT_S):
            await owned.run("message 1.", engine=WINDOW).result()
        before = await binding_of(runtime, owned)
    rig.keys["plugins", "slots", "contextEngine"] = WINDOW
    async with rig.opened() as runtime:
        owned = rig.session(runtime, "owned")
        with pytest.raises(CompactionRefused) as refused:
            await owned.compact()
        assert refused.value.fields["reason"] == "engine_owns_compaction"
        assert await binding_of(runtime, owned) == before
