"""The hooks of this process round one turn: what they are told, and what they may change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from tests.turn.rig import Rig, injected_texts, item
from treadle.contract.hook import (
    AgentEnd,
    CompactionObserved,
    HookRegistration,
    MessageWrite,
    PromptBuild,
    PromptBuildResult,
)
from treadle.model.message import Entry, Message, text_of, user_message
from treadle.model.turn import CompactionFinished, CompactionStarted, Outcome
from treadle.runtime.sessions import Session
from treadle.testing.clock import ManualClock
from treadle.testing.engine import RecordingEngine

pytestmark = pytest.mark.anyio

COMPACTION = {"type": "contextCompaction", "id": "compaction-1"}


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(root=tmp_path)


def observing(*names: str, seen: list[tuple[str, object]]) -> list[HookRegistration]:
    """Return observers that note what they are told."""

    def noting(name: str) -> HookRegistration:
        def note(payload: object) -> None:
            seen.append((name, payload))

        return HookRegistration(name=name, handler=note)  # type: ignore[arg-type] # names as given

    return [noting(name) for name in names]


def compacting(*which: str) -> list[dict[str, object]]:
    return [item(one, **COMPACTION) for one in which]


async def test_a_native_compaction_is_told_to_hooks_and_watchers_and_the_turn_goes_on(
    rig: Rig,
) -> None:
    """Spec C-13, C-14, G-19, S-07: one compaction, one turn, nothing sent again."""
    seen: list[tuple[str, object]] = []
    hooks = observing("before_compaction", "after_compaction", "agent_end", seen=seen)
    async with rig.opened(RecordingEngine(), hooks=hooks) as runtime:
        rig.answers("fine", between=compacting("started", "completed", "completed"))
        turn = await rig.say(runtime.session("t"), "hello")
    assert turn.finished.outcome is Outcome.COMPLETED
    assert [name for name, _ in seen] == ["before_compaction", "after_compaction", "agent_end"]
    before, after = seen[0][1], seen[1][1]
    assert isinstance(before, CompactionObserved)
    assert isinstance(after, CompactionObserved)
    assert (before.backend, after.backend, after.compacted_count) == ("codex-app-server",) * 2 + (
        -1,
    )
    assert before.ctx == after.ctx
    assert before.ctx.session_key == "agent:main:t"
    ids = {"threadId": "thread-1", "turnId": "thread-1-turn-1", "itemId": "compaction-1"}
    (started,) = [one for one in turn.events if isinstance(one, CompactionStarted)]
    (ended,) = [one for one in turn.events if isinstance(one, CompactionFinished)]
    for details, phase in ((started.details, "start"), (ended.details, "end")):
        assert {name: details[name] for name in ids} == ids
        assert (details["phase"], details["backend"]) == (phase, "codex-app-server")
    assert ended.details["completed"] is True
    assert before.details == started.details
    assert after.details == ended.details
    assert rig.methods().count("turn/start") == 1


async def test_a_failing_compaction_hook_stops_neither_the_turn_nor_the_other_hooks(
    rig: Rig,
) -> None:
    """Spec C-13, E-13."""
    seen: list[tuple[str, object]] = []

    def broken(payload: CompactionObserved) -> None:
        raise RuntimeError("as told")

    hooks = [
        HookRegistration(name="before_compaction", handler=broken),
        *observing("before_compaction", "after_compaction", seen=seen),
    ]
    async with rig.opened(hooks=hooks) as runtime:
        rig.answers("fine", between=compacting("started", "completed"))
        turn = await rig.say(runtime.session("t"), "hello")
    assert turn.finished.text == "fine"
    assert [name for name, _ in seen] == ["before_compaction", "after_compaction"]
    assert len(rig.logged("hook.failed")) == 1


async def test_the_end_of_an_attempt_is_told_with_its_real_duration(rig: Rig) -> None:
    """Spec C-13, L-22: measured by the injected clock, from the attempt's begin to its end."""
    clock = ManualClock()
    ends: list[AgentEnd] = []

    def told(payload: AgentEnd) -> None:
        ends.append(payload)

    def slowly(payload: PromptBuild) -> None:
        clock.advance(2.5)

    hooks = [
        HookRegistration(name="agent_end", handler=told),
        HookRegistration(name="before_prompt_build", handler=slowly),
    ]
    async with rig.opened(hooks=hooks, clock=clock) as runtime:
        rig.answers("fine")
        await rig.say(runtime.session("t"), "hello")
        rig.answers("bad", status="failed", error={"message": "no"})
        await rig.say(runtime.session("t"), "again")
        assert [(end.success, end.duration_s) for end in ends] == [(True, 2.5), (False, 2.5)]


async def test_what_prompt_hooks_change_reaches_codex_and_leaves_the_engines_addition(
    rig: Rig,
) -> None:
    """Spec E-11, C-11: round the prompt and the instructions; the mirror keeps the request."""
    seen: list[PromptBuild] = []

    def change(payload: PromptBuild) -> PromptBuildResult:
        seen.append(payload)
        return PromptBuildResult(
            system_prompt="SYSTEM",
            prepend_system_context="FIRST",
            append_system_context="LAST",
            prepend_context="before",
            append_context="after",
        )

    hooks = [HookRegistration(name="before_prompt_build", handler=change)]
    async with rig.opened(RecordingEngine(addition="ADDITION"), hooks=hooks) as runtime:
        session = runtime.session("t")
        rig.answers("fine")
        await rig.say(session, "  hello  ")
        entries = await session.entries()
    (started,) = rig.codex.requests("thread/start")
    assert started["developerInstructions"] == "FIRST\n\nSYSTEM\n\nADDITION\n\nLAST"
    assert rig.sent() == ["before\n\nhello\n\nafter"]
    assert text_of(entries[0].message) == "  hello  "
    (built,) = seen
    assert (built.prompt, built.current_user_message) == ("hello", "  hello  ")
    assert built.developer_instructions.endswith("\n\nADDITION")


async def test_a_withdrawn_system_prompt_leaves_the_engines_addition_alone(rig: Rig) -> None:
    """Spec E-11: an empty string withdraws the generic policy."""

    def withdraw(payload: PromptBuild) -> PromptBuildResult:
        return PromptBuildResult(system_prompt="")

    hooks = [HookRegistration(name="before_prompt_build", handler=withdraw)]
    async with rig.opened(RecordingEngine(addition="ADDITION"), hooks=hooks) as runtime:
        rig.answers("fine")
        await rig.say(runtime.session("t"), "hello")
    (started,) = rig.codex.requests("thread/start")
    assert started["developerInstructions"] == "ADDITION"


async def test_prompt_hooks_see_the_projected_prompt_and_the_planned_items(rig: Rig) -> None:
    """Spec C-11, C-16: `messages` is the mirrored history, whatever the engine assembled."""
    seen: list[PromptBuild] = []

    def note(payload: PromptBuild) -> None:
        seen.append(replace(payload, messages=[text_of(one) for one in payload.messages]))  # type: ignore[misc] # read while the store is open

    hooks = [HookRegistration(name="before_prompt_build", handler=note)]
    engine = RecordingEngine(recalled="RECALLED")
    async with rig.opened(engine, hooks=hooks) as runtime:
        rig.answers("one", "two")
        await rig.say(runtime.session("t"), "first")
        await rig.say(runtime.session("t"), "second", projection="prompt")
    history, prompt = seen
    assert [text for _, text in injected_texts(rig.codex)] == ["RECALLED"]
    assert len(history.planned_items) == 1
    assert (history.prompt, list(history.messages)) == ("first", [])
    assert prompt.planned_items == ()
    assert prompt.prompt == rig.sent()[1]
    assert "RECALLED" in prompt.prompt
    assert [str(one) for one in prompt.messages] == ["first", "one"]


async def test_restricting_tools_is_refused_and_said(rig: Rig) -> None:
    """Spec E-11, E-12: tools belong to the thread, so `toolsAllow` changes nothing here."""

    def restrict(payload: PromptBuild) -> PromptBuildResult:
        return PromptBuildResult(tools_allow=frozenset({"note"}), append_context="kept")

    hooks = [HookRegistration(name="before_prompt_build", handler=restrict, owner="strict")]
    async with rig.opened(hooks=hooks) as runtime:
        rig.answers("fine")
        turn = await rig.say(runtime.session("t"), "hello")
    assert turn.finished.outcome is Outcome.COMPLETED
    (started,) = rig.codex.requests("thread/start")
    tools = started["dynamicTools"]
    assert isinstance(tools, Sequence)
    assert tools
    assert rig.sent() == ["hello\n\nkept"]
    (refused,) = rig.logged("hook.failed")
    assert "toolsAllow" in refused["reason"]


async def test_a_sleeping_prompt_hook_is_skipped_and_the_others_count(rig: Rig) -> None:
    """Spec E-13: the deadline is the hook's own; it costs its change, not the turn."""
    rig.keys["hooks", "timeouts", "before_prompt_build"] = 50

    async def sleeps(payload: PromptBuild) -> None:
        await anyio.sleep_forever()

    def appends(payload: PromptBuild) -> PromptBuildResult:
        return PromptBuildResult(append_context="counts")

    hooks = [
        HookRegistration(name="before_prompt_build", handler=sleeps),
        HookRegistration(name="before_prompt_build", handler=appends),
    ]
    async with rig.opened(hooks=hooks) as runtime:
        rig.answers("fine")
        await rig.say(runtime.session("t"), "hello")
    assert rig.sent() == ["hello\n\ncounts"]
    assert len(rig.logged("hook.timed_out")) == 1


async def test_a_write_hook_redacts_or_drops_a_message_under_the_same_key(rig: Rig) -> None:
    """Spec H-07: a null result skips that message only; keys and order stay."""

    def censor(payload: MessageWrite) -> Message | None:
        text = text_of(payload.message)
        if "DROP" in text:
            return None
        return replace(payload.message, content=text.replace("secret", "[gone]"))

    async with rig.opened() as runtime:
        session = runtime.session("plain")
        rig.answers("a secret")
        await rig.say(session, "tell a secret")
        plain = await session.entries()
    other = Rig(root=rig.root / "other")
    other.root.mkdir()
    hooks = [HookRegistration(name="before_message_write", handler=censor)]
    async with other.opened(RecordingEngine(), hooks=hooks) as runtime:
        session = runtime.session("plain")
        other.answers("a secret", "kept")
        await other.say(session, "tell a secret")
        await other.say(session, "DROP this")
        hooked = await session.entries()
    assert [text_of(one.message) for one in hooked] == ["tell a [gone]", "a [gone]", "kept"]
    assert _keys(hooked[:2]) == _keys(plain)
    assert all(one.raw_items == () for one in hooked[:2])


def _keys(entries: Sequence[Entry]) -> list[str]:
    """Return the keys without the run's own id."""
    return [one.key.replace(str(one.run_id), "RUN") for one in entries]


async def test_a_message_that_a_hook_rewrote_is_what_the_engine_gets(rig: Rig) -> None:
    """Spec H-07, B-14: engine and mirror see the same text."""

    def shout(payload: MessageWrite) -> Message:
        return replace(payload.message, content=text_of(payload.message).upper())

    engine = RecordingEngine()
    hooks = [HookRegistration(name="before_message_write", handler=shout)]
    async with rig.opened(engine, hooks=hooks) as runtime:
        session: Session = runtime.session("t")
        rig.answers("quiet")
        await rig.say(session, "hello")
    (told,) = [one for one in engine.calls if one.operation == "after_turn"]
    assert [text_of(one) for one in told.messages] == ["HELLO", "QUIET"]
    assert told.messages[0].content != user_message("hello").content
