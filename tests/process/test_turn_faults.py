"""Codex, the model, the message and the engine fail; the answer says what to do, nothing is lost.

Each case breaks one thing on the real codex, looks at the outcome, and then says something more.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest
from anyio.lowlevel import checkpoint

from tests.process.faults_rig import (
    Overrides,
    World,
    children,
    command,
    program,
    say,
    texts_of,
    times_said,
    transcript,
    user_texts,
)
from treadle.contract.engine import EngineContext
from treadle.model.errors import MessageTooLarge, UsageError
from treadle.model.json import JsonObject
from treadle.model.turn import Outcome, PartDelta, RunEvent
from treadle.runtime.handle import RunHandle
from treadle.testing.engine import BreakingEngine, Fault
from treadle.testing.model import (
    Answer,
    HttpError,
    ScriptedModel,
    cut,
    failed,
    gate,
    reply,
    text,
)

pytestmark = [pytest.mark.anyio, pytest.mark.codex]


# ------------------------------------------------------------------------------ codex itself


async def test_codex_that_ends_at_its_start_fails_the_run_and_the_next_one_works(
    codex_binary: Path, scratch: Path
) -> None:
    """Issue 2 bad input: dies at start."""
    flag = scratch / "broken"
    flag.touch()
    source = f"""
import os, sys
if "app-server" in sys.argv and os.path.exists({str(flag)!r}):
    sys.stderr.write("no luck today\\n")
    raise SystemExit(3)
os.execv({str(codex_binary)!r}, [{str(codex_binary)!r}, *sys.argv[1:]])
"""
    wrapper = program(scratch / "bin" / "codex", source)
    async with ScriptedModel() as model:
        model.enqueue("fine")
        world = World(root=scratch, base_url=model.base_url, more=command(wrapper))
        async with world.runtime() as runtime:
            session = runtime.session("s", cwd=world.work)
            ran = await say(session, "hello")
            assert (ran.end.outcome, ran.error_code) == (Outcome.FAILED, "codex.start_failed")
            assert "no luck today" in ran.advice
            flag.unlink()
            again = await say(session, "hello again")
            assert (again.end.outcome, again.end.text) == (Outcome.COMPLETED, "fine")
        assert len(model.requests) == 1


async def test_codex_that_never_answers_at_its_start_is_given_up(
    codex_binary: Path, scratch: Path
) -> None:
    """Issue 2 bad input: hangs; S-12: the start has a deadline and leaves no process behind."""
    source = f"""
import os, sys, time
if "app-server" not in sys.argv:
    os.execv({str(codex_binary)!r}, [{str(codex_binary)!r}, *sys.argv[1:]])
while sys.stdin.buffer.read(1):
    pass
"""
    wrapper = program(scratch / "bin" / "codex", source)
    async with ScriptedModel() as model:
        world = World(root=scratch, base_url=model.base_url, more=command(wrapper))
        more: Overrides = {("deadlines", "initializeSeconds"): 0.5}
        async with world.runtime(more=more) as runtime:
            ran = await say(runtime.session("s", cwd=world.work), "hello")
            assert ran.end.outcome in {Outcome.FAILED, Outcome.CLIENT_LOST}
            assert ran.error_code in {"codex.start_failed", "codex.rpc_timeout"}
            assert str((ran.end.error or {}).get("next_step"))
            assert not children()


@pytest.mark.parametrize("has_output", [False, True], ids=["before output", "after output"])
@pytest.mark.parametrize("engine", ["legacy", "window"])
async def test_codex_that_dies_in_mid_turn_is_replaced_and_nothing_is_said_twice(
    codex_binary: Path, scratch: Path, has_output: bool, engine: str
) -> None:
    """Spec S-09, INV-9, INV-10: repeated only where the first provably did nothing."""
    held = gate()
    async with ScriptedModel() as model:
        model.enqueue(reply(*([text("half")] if has_output else []), held), "second", "third")
        world = World(root=scratch, base_url=model.base_url, more=command(codex_binary))
        async with world.runtime() as runtime:
            session = runtime.session("s", cwd=world.work)
            handle = session.run("FIRST", engine=engine)
            with anyio.fail_after(30):
                await held.reached.wait()
                if has_output:
                    await _until(handle, PartDelta)
                [pid] = children()
                os.kill(pid, signal.SIGKILL)
                end = await handle.result()
            if has_output:
                assert end.outcome is Outcome.CLIENT_LOST
                assert not end.replay_safe
                assert end.error is not None
            else:
                assert (end.outcome, end.text) == (Outcome.COMPLETED, "second")
                assert times_said(model.requests[1], "FIRST") == 1
            following = await say(session, "SECOND", engine=engine)
            assert following.end.outcome is Outcome.COMPLETED
            said = await transcript(session)
        assert user_texts(said) == ["FIRST", "SECOND"]
        last = model.requests[-1]
        assert times_said(last, "FIRST") == times_said(last, "SECOND") == 1


async def test_a_turn_that_is_tried_again_on_a_fresh_thread_says_its_message_once(
    codex_binary: Path, scratch: Path
) -> None:
    """Spec S-09, F-19: codex died before any output, and its thread went with it."""
    held = gate()
    async with ScriptedModel() as model:
        model.enqueue("ANSWER", reply(held), "second")
        world = World(root=scratch, base_url=model.base_url, more=command(codex_binary))
        async with world.runtime() as runtime:
            session = runtime.session("s", cwd=world.work)
            await say(session, "FIRST")
            handle = session.run("SECOND")
            with anyio.fail_after(30):
                await held.reached.wait()
                [pid] = children()
                os.kill(pid, signal.SIGSTOP)
                for rollout in (world.state / "agents").rglob("rollout-*.jsonl"):
                    rollout.unlink()
                os.kill(pid, signal.SIGKILL)
                end = await handle.result()
            assert (end.outcome, end.text) == (Outcome.COMPLETED, "second")
        last = model.requests[-1]
        assert [times_said(last, mark) for mark in ("FIRST", "ANSWER", "SECOND")] == [1, 1, 1]
        model.check()


async def test_codex_that_hangs_is_given_up_after_an_unanswered_interrupt(
    codex_binary: Path, scratch: Path
) -> None:
    """Reliability matrix, codex SIGSTOP: no idle kill; cancel, grace, retire; then a new one."""
    held = gate()
    async with ScriptedModel() as model:
        model.enqueue(reply(held), "fine")
        world = World(root=scratch, base_url=model.base_url, more=command(codex_binary))
        more: Overrides = {
            ("deadlines", "interruptSeconds"): 0.5,
            ("deadlines", "stopEofSeconds"): 0.2,
            ("deadlines", "stopTermSeconds"): 0.2,
        }
        async with world.runtime(more=more) as runtime:
            session = runtime.session("s", cwd=world.work)
            handle = session.run("FIRST")
            with anyio.fail_after(40):
                await held.reached.wait()
                [pid] = children()
                os.kill(pid, signal.SIGSTOP)
                handle.interrupt()
                end = await handle.result()
            assert end.outcome is Outcome.STOPPED
            following = await say(session, "SECOND")
            assert (following.end.outcome, following.end.text) == (Outcome.COMPLETED, "fine")
            assert pid not in children()
            said = await transcript(session)
        assert user_texts(said) == ["FIRST", "SECOND"]


async def test_codex_that_closes_its_output_and_lives_on_is_ended_at_once(scratch: Path) -> None:
    """RS11, codex#26533: the turn is lost when stdout ends, and the process goes, deaf as it is."""
    begun: JsonObject = {
        "turn": {"id": "$turn", "items": [], "status": "inProgress", "error": None}
    }
    told = {"method": "turn/started", "params": {"threadId": "$thread", "turn": {"id": "$turn"}}}
    steps = [{"answer": begun}, {"tell": told}, {"close": True}]
    script = scratch / "script.json"
    script.write_text(json.dumps({"hang": True, "on": {"turn/start": steps}}), encoding="utf-8")
    source = f"""
import os, sys
if "app-server" not in sys.argv:
    print("codex-cli 0.163.0")
    raise SystemExit
os.execv({sys.executable!r}, [{sys.executable!r}, "-m", "treadle.testing.codex", {str(script)!r}])
"""
    codex = program(scratch / "bin" / "codex", source)
    world = World(root=scratch, base_url="http://127.0.0.1:9/v1", more=command(codex))
    async with world.runtime() as runtime:
        session = runtime.session("s", cwd=world.work)
        ran = await say(session, "hello")  # which fails if it waits for anything
        assert ran.end.outcome is Outcome.CLIENT_LOST
        with anyio.fail_after(30):
            while await runtime.store.children.open_children():
                await checkpoint()
        assert not children()
        rows = await runtime.store.children.closed_children()
        assert len(rows) == 2  # nothing had been done, so it was tried once more (S-09)
    assert len(world.logged("wire.killed")) == 2


# ------------------------------------------------------------------------------ the model


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """One way for the model to fail, and what the person is told."""

    name: str
    answer: Answer
    code: str
    says: str


def _refused(status: int, code: str, message: str) -> HttpError:
    return HttpError(status, {"error": {"code": code, "message": message}})


BROKEN = (
    Broken(
        name="429",
        answer=_refused(429, "rate_limit_exceeded", "slow down"),
        code="codex.overloaded",
        says="429 Too Many Requests Try again in a minute.",
    ),
    Broken(
        name="400",
        answer=_refused(400, "invalid_request", "the request is odd"),
        code="turn.failed",
        says="the request is odd Read the message",
    ),
    Broken(
        name="401",
        answer=_refused(401, "invalid_api_key", "bad key"),
        code="codex_not_signed_in",
        says="Run `treadle login`",
    ),
    Broken(
        name="overflow",
        answer=failed("context_length_exceeded", "too much"),
        code="turn.context_overflow",
        says="Start a new session, or choose a context engine",
    ),
    Broken(
        name="cut in mid-stream",
        answer=cut(text("half an answer")),
        code="turn.failed",
        says="stream disconnected",
    ),
    Broken(
        name="overloaded",
        answer=failed("server_is_overloaded", "busy"),
        code="codex.overloaded",
        says="Try again in a minute.",
    ),
    Broken(
        name="quota",
        answer=failed("insufficient_quota", "quota is used up"),
        code="codex.usage_limit",
        says="Wait until the limit resets.",
    ),
)


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.name)
async def test_a_failing_model_ends_the_turn_with_advice_and_the_next_turn_works(
    codex_binary: Path, scratch: Path, broken: Broken
) -> None:
    """Issue 2 bad input; facts section 11; the user's message stays, the reason is named."""
    async with ScriptedModel() as model:
        world = World(root=scratch, base_url=model.base_url, more=command(codex_binary))
        model.fallback = lambda request: broken.answer
        async with world.runtime() as runtime:
            session = runtime.session("s", cwd=world.work)
            ran = await say(session, "FIRST")
            assert (ran.end.outcome, ran.error_code) == (Outcome.FAILED, broken.code)
            assert broken.says in ran.advice
            assert ran.end.partial == bool(ran.end.text)
            model.fallback = lambda request: "fine"
            following = await say(session, "SECOND")
            assert (following.end.outcome, following.end.text) == (Outcome.COMPLETED, "fine")
            said = await transcript(session)
        assert user_texts(said) == ["FIRST", "SECOND"]
        last = model.requests[-1]
        assert times_said(last, "FIRST") == times_said(last, "SECOND") == 1


async def test_an_endpoint_that_is_down_fails_the_turn_and_serves_the_next_when_it_is_back(
    codex_binary: Path, scratch: Path
) -> None:
    """Facts section 11: without the feature switched off a dead endpoint hangs for ever."""
    async with ScriptedModel() as model:
        model.fallback = lambda request: "fine"
        world = World(root=scratch, base_url=model.base_url, more=command(codex_binary))
        port = model.port
        await model.stop()
        async with world.runtime() as runtime:
            session = runtime.session("s", cwd=world.work)
            ran = await say(session, "FIRST")
            assert (ran.end.outcome, ran.error_code) == (Outcome.FAILED, "codex.model_unreachable")
            assert "Check the network and the address" in ran.advice
            await model.start(port)
            following = await say(session, "SECOND")
            assert (following.end.outcome, following.end.text) == (Outcome.COMPLETED, "fine")
            said = await transcript(session)
        assert user_texts(said) == ["FIRST", "SECOND"]
        assert times_said(model.requests[-1], "FIRST") == 1


async def test_a_silent_model_is_waited_for_and_an_interrupt_ends_the_turn(
    codex_binary: Path, scratch: Path
) -> None:
    """Spec A-18: silence ends nothing; the caller's interrupt does, and what was said is kept."""
    held = gate()
    async with ScriptedModel() as model:
        model.enqueue(reply(text("so far"), held), "fine")
        world = World(root=scratch, base_url=model.base_url, more=command(codex_binary))
        async with world.runtime() as runtime:
            session = runtime.session("s", cwd=world.work)
            handle = session.run("FIRST")
            with anyio.fail_after(30):
                await held.reached.wait()
                await _until(handle, PartDelta)
                assert handle.finished is None
                handle.interrupt()
                end = await handle.result()
            assert (end.outcome, end.error) == (Outcome.STOPPED, None)
            following = await say(session, "SECOND")
            assert (following.end.outcome, following.end.text) == (Outcome.COMPLETED, "fine")
            said = await transcript(session)
        assert user_texts(said) == ["FIRST", "SECOND"]
        assert not world.logged("wire.retired")
        assert times_said(model.requests[-1], "FIRST") == 1
        model.check()


async def test_a_turn_over_its_time_budget_ends_as_timed_out_and_the_next_one_works(
    codex_binary: Path, scratch: Path
) -> None:
    """Spec A-17: one budget an attempt; progress does not reset it and it is no success."""
    held = gate()
    async with ScriptedModel() as model:
        model.enqueue(reply(text("so far"), held), "fine")
        world = World(root=scratch, base_url=model.base_url, more=command(codex_binary))
        more: Overrides = {("agents", "defaults", "timeoutSeconds"): 3}
        async with world.runtime(more=more) as runtime:
            session = runtime.session("s", cwd=world.work)
            ran = await say(session, "FIRST")
            assert (ran.end.outcome, ran.error_code) == (Outcome.TIMED_OUT, "turn.interrupted")
            following = await say(session, "SECOND")
            assert (following.end.outcome, following.end.text) == (Outcome.COMPLETED, "fine")
        assert times_said(model.requests[-1], "FIRST") == 1


async def test_closing_treadle_interrupts_what_runs_and_keeps_what_was_said(
    codex_binary: Path, scratch: Path
) -> None:
    """Reliability matrix, SIGTERM: interrupt, record; the next start goes on."""
    held = gate()
    async with ScriptedModel() as model:
        model.enqueue(reply(held), "fine")
        world = World(root=scratch, base_url=model.base_url, more=command(codex_binary))
        with anyio.fail_after(40):
            async with world.runtime() as runtime:
                handle = runtime.session("s", cwd=world.work).run("FIRST")
                await held.reached.wait()
        assert handle.finished is not None
        assert handle.finished.outcome is Outcome.STOPPED
        async with world.runtime() as runtime:
            session = runtime.session("s", cwd=world.work)
            following = await say(session, "SECOND")
            assert (following.end.outcome, following.end.text) == (Outcome.COMPLETED, "fine")
            said = await transcript(session)
        assert user_texts(said) == ["FIRST", "SECOND"]
        assert times_said(model.requests[-1], "FIRST") == 1


# ------------------------------------------------------------------------------ the message


ODD_TEXTS = {
    "lone surrogates": ("a\ud800b\udfffc", "a\ufffdb\ufffdc"),
    "NUL": ("a\0b", None),
    "line separators": ("a\u2028b\u2029c", "a\u2028b\u2029c"),
    "1 MiB of emoji": ("\U0001f600" * 262_144, "\U0001f600" * 262_144),
    "2^20 characters": ("x" * 2**20, "x" * 2**20),
}


@pytest.mark.parametrize("kind", ODD_TEXTS)
async def test_odd_text_reaches_the_model_as_valid_text_and_is_answered(
    codex_binary: Path, scratch: Path, kind: str
) -> None:
    """RS12: nothing waits for a timeout; F9 would drop the frame without an answer."""
    given, wanted = ODD_TEXTS[kind]
    async with ScriptedModel() as model:
        model.enqueue("fine")
        world = World(root=scratch, base_url=model.base_url, more=command(codex_binary))
        async with world.runtime() as runtime:
            session = runtime.session("s", cwd=world.work)
            ran = await say(session, given)
            assert (ran.end.outcome, ran.end.text) == (Outcome.COMPLETED, "fine")
            [said] = user_texts(await transcript(session))
        sent = texts_of(model.requests[-1])[-1]
        assert sent == said
        assert sent == wanted or (wanted is None and "\0" not in sent)


async def test_a_message_that_cannot_be_sent_is_refused_before_anything_starts(
    codex_binary: Path, scratch: Path
) -> None:
    """Issue 2 bad input: empty and 2 MB prompts; decision 25."""
    async with ScriptedModel() as model:
        world = World(root=scratch, base_url=model.base_url, more=command(codex_binary))
        async with world.runtime() as runtime:
            session = runtime.session("s", cwd=world.work)
            with pytest.raises(UsageError, match="empty"):
                session.run(" \n")
            with pytest.raises(MessageTooLarge, match="2,000,000 characters"):
                session.run("x" * 2_000_000)
            assert await session.record() is None
            assert not children()
        assert not model.requests


# ------------------------------------------------------------------------------ the engine


FAULTS: tuple[Fault, ...] = (
    "throws",
    "empty",
    "none",
    "text",
    "sleeps",
    "swallows-cancellation",
)


@pytest.mark.parametrize("fault", FAULTS)
async def test_an_engine_that_breaks_in_assemble_costs_its_context_not_the_reply(
    codex_binary: Path, scratch: Path, fault: Fault
) -> None:
    """Spec S-02, B-45; issue 2 bad input: the reply comes, one warning, nothing secret in it."""
    async with ScriptedModel() as model:
        model.fallback = lambda request: "fine"
        world = World(root=scratch, base_url=model.base_url, more=command(codex_binary))
        engine = BreakingEngine(fault)

        def create(context: EngineContext) -> BreakingEngine:
            del context
            return engine

        more: Overrides = {("deadlines", "engineCallSeconds"): 0.3}
        async with world.runtime(engines={"odd": create}, more=more) as runtime:
            session = runtime.session("s", cwd=world.work)
            ran = await say(session, "FIRST", engine="odd")
            engine.let_go()
            assert (ran.end.outcome, ran.end.text) == (Outcome.COMPLETED, "fine")
            assert ran.notices == ["assemble_failed"]
            said = await transcript(session)
        assert said == [("user", "FIRST"), ("assistant", "fine")]
        [warned] = world.logged("engine.assemble_failed")
        assert "abcdef123456" not in str(warned)
        assert times_said(model.requests[-1], "FIRST") == 1


async def test_an_engine_whose_factory_raises_is_replaced_by_legacy_with_a_notice(
    codex_binary: Path, scratch: Path
) -> None:
    """Issue 2 bad input; spec B-41: legacy serves, and the person is told."""

    def create(context: EngineContext) -> BreakingEngine:
        raise RuntimeError("the factory broke, as told")

    async with ScriptedModel() as model:
        model.fallback = lambda request: "fine"
        world = World(root=scratch, base_url=model.base_url, more=command(codex_binary))
        more: Overrides = {("plugins", "slots", "contextEngine"): "odd"}
        async with world.runtime(engines={"odd": create}, more=more) as runtime:
            ran = await say(runtime.session("s", cwd=world.work), "FIRST")
            assert (ran.end.outcome, ran.end.text) == (Outcome.COMPLETED, "fine")
            assert ran.notices == ["engine_unavailable"]
            chosen = await say(runtime.session("t", cwd=world.work), "FIRST", engine="odd")
            assert chosen.end.outcome is Outcome.COMPLETED
            assert chosen.notices == ["engine_unavailable"]
            [listed] = [one for one in await runtime.engines() if one.engine_id == "odd"]
            assert "the factory broke" in str(listed)
        assert len(world.logged("engine.quarantined")) == 1


async def _until(handle: RunHandle, kind: type[RunEvent]) -> None:
    async for event in handle:
        if isinstance(event, kind):
            return
