"""One engine round whole turns, in each projection mode, over a scripted app-server."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import anyio
import pytest

from tests.turn.rig import TURN_S, Rig, injected_texts, turn_steps
from treadle.contract.engine import (
    AfterTurnParams,
    Assembled,
    AssembleParams,
    BootstrapParams,
    Capability,
    ContextProjection,
    IngestBatchParams,
    IngestParams,
    MaintainParams,
    MaintainResult,
)
from treadle.contract.store import TranscriptSnapshot
from treadle.harness.codex.attempt import CAPABILITIES
from treadle.harness.views import MessageView
from treadle.model.message import text_of
from treadle.model.turn import Outcome
from treadle.protocol.methods import is_known
from treadle.runtime.requests import RunRequest
from treadle.runtime.service import Runtime
from treadle.testing.engine import BreakingEngine, RecordingEngine, Takes

pytestmark = pytest.mark.anyio

Mode = Literal["history", "prompt", "bootstrap"]
MODES: tuple[Mode, ...] = ("history", "prompt", "bootstrap")
ADDITION = "ADDITION"
MEMORY = "MEMORY"


def engine_for(mode: Mode, **more: Any) -> RecordingEngine:
    """Return an engine that adds a text and a memory, and asks for its carrier if it can."""
    engine = RecordingEngine(addition=ADDITION, recalled=MEMORY, **more)
    if mode == "bootstrap":
        engine.projection = ContextProjection(mode="thread_bootstrap", epoch="e1")
    return engine


def rig_in(root: Path, mode: Mode) -> Rig:
    """Return a rig whose projection mode is configured."""
    root.mkdir(exist_ok=True)
    rig = Rig(root=root)
    if mode != "bootstrap":
        rig.keys["plugins", "entries", "codex", "config", "projection"] = mode
    return rig


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> Mode:
    found: Mode = request.param
    return found


@pytest.fixture
def rig(tmp_path: Path, mode: Mode) -> Rig:
    return rig_in(tmp_path, mode)


async def test_an_engine_is_asked_in_order_with_what_each_call_is_due(rig: Rig, mode: Mode) -> None:
    """Spec W-01, W-04, W-07, W-08, B-08, B-10, B-14, B-32, C-05: two turns show bootstrap."""
    rig.keys["models", "providers", "openai", "models", "gpt-x", "contextWindow"] = 64_000
    engine = engine_for(mode)
    async with rig.opened(engine) as runtime:
        session = runtime.session("t")
        rig.answers("one", "two")
        await rig.say(session, "first")
        assert engine.operations == ["assemble", "after_turn", "maintain", "dispose"]
        engine.calls.clear()
        await rig.say(session, "second")
    assert engine.operations == [
        "bootstrap",
        "maintain",
        "assemble",
        "after_turn",
        "maintain",
        "dispose",
    ]
    before, upkeep, assembled, after, last = (one.params for one in engine.calls[:-1])
    assert isinstance(before, BootstrapParams)
    assert isinstance(upkeep, MaintainParams)
    assert isinstance(assembled, AssembleParams)
    assert isinstance(after, AfterTurnParams)
    assert isinstance(last, MaintainParams)
    assert (upkeep.reason, last.reason) == ("bootstrap", "turn")
    assert [text_of(one) for one in engine.calls[2].messages] == ["first", "one"]
    assert (assembled.token_budget, assembled.model, assembled.prompt) == (
        64_000,
        "gpt-x",
        "second",
    )
    assert assembled.citations_mode == "auto"
    assert "memory_search" in assembled.available_tools
    assert [text_of(one) for one in engine.calls[3].messages] == ["first", "one", "second", "two"]
    assert after.pre_prompt_message_count == 2
    assert all(one.entry_id for one in engine.calls[3].messages), "read back from the mirror"
    assert last.runtime_settings is after.runtime_settings, "the same object (B-32)"
    keys = {one.params.session_key for one in engine.calls if one.params is not None}
    assert keys == {"agent:main:t"}
    context = after.runtime_context
    assert context is not None
    assert context.last_call_usage is not None
    assert (context.token_budget, context.current_token_count) == (64_000, 1020)


async def test_the_addition_stands_in_the_instructions_and_the_context_before_the_request(
    rig: Rig, mode: Mode
) -> None:
    """Spec W-01, W-02, W-06, W-07, E-02, D-07: and a second world is given the same bytes."""
    second = rig_in(rig.root / "second", mode)
    for one in (rig, second):
        async with one.opened(engine_for(mode)) as runtime:
            one.answers("one", "two")
            await one.say(runtime.session("t"), "first")
            await one.say(runtime.session("t"), "second")
    (started,) = rig.codex.requests("thread/start")
    assert str(started["developerInstructions"]).endswith(f"\n\n{ADDITION}")
    injected, sent = injected_texts(rig.codex), rig.sent()
    if mode == "prompt":
        assert injected == []
        assert [text.count(MEMORY) for text in sent] == [1, 1]
        assert sent[1].index(MEMORY) < sent[1].index("second")
    else:
        assert injected == [("user", MEMORY)]
        assert sent == ["first", "second"]
        assert rig.methods() == ["thread/start", "thread/inject_items", "turn/start", "turn/start"]
    assert ADDITION not in json.dumps([injected, sent])
    assert sent[1].endswith("second")
    assert sent == second.sent()
    assert injected == injected_texts(second.codex)


@pytest.mark.parametrize("takes", ["ingest_batch", "ingest"])
async def test_an_engine_of_the_documents_alone_is_served_on_every_turn(
    takes: Takes, rig: Rig, mode: Mode
) -> None:
    """Spec B-48, B-15, I-04, I-05, W-01: only what the turn added, in order, each once."""
    engine = engine_for(mode, takes=takes)
    async with rig.opened(engine) as runtime:
        rig.answers("one", "two", "three")
        for text in ("first", "second", "third"):
            turn = await rig.say(runtime.session("t"), text)
            assert "engine_unavailable" not in turn.notices
    given = [one for one in engine.calls if one.operation == takes]
    texts = [text_of(message) for one in given for message in one.messages]
    assert texts == ["first", "one", "second", "two", "third", "three"]
    for one in given:
        assert isinstance(one.params, IngestBatchParams | IngestParams)
        assert (one.params.session_key, one.params.is_heartbeat) == ("agent:main:t", False)
    assert engine.operations.count("assemble") == 3


class Committing(RecordingEngine):
    """An engine that can commit turns, and must not be asked to for bad ones."""

    committed = 0

    def commit_turn(self, params: object) -> Any:
        """Count."""
        self.committed += 1
        return {"status": "committed"}


@pytest.mark.parametrize("end", ["failed", "interrupted", "stopped"])
async def test_a_bad_turn_is_handed_over_and_neither_maintained_nor_committed(
    end: str, rig: Rig, mode: Mode
) -> None:
    """Spec W-01, W-06, I-08 to I-11, S3."""
    engine = Committing(addition=ADDITION, recalled=MEMORY, has_bootstrap=False)
    async with rig.opened(engine) as runtime:
        session = runtime.session("t")
        if end == "stopped":
            rig.codex.once("turn/start", turn_steps({})[:1])
            with anyio.fail_after(TURN_S):
                run = session.run("first")
                async for event in run:
                    if event.type == "entry.committed":
                        run.interrupt()
                outcome = (await run.result()).outcome
        else:
            error = {"message": "no"} if end == "failed" else None
            rig.codex.once("turn/start", turn_steps({"text": "", "status": end, "error": error}))
            outcome = (await rig.say(session, "first")).finished.outcome
        assert outcome is (Outcome.FAILED if end == "failed" else Outcome.STOPPED)
        assert engine.operations == ["assemble", "after_turn", "dispose"]
        assert text_of(engine.calls[1].messages[0]) == "first"
        rig.answers("two")
        await rig.say(session, "second")
    assert engine.operations[3:] == ["maintain", "assemble", "after_turn", "maintain", "dispose"]
    assert engine.committed == 0


@pytest.mark.parametrize("trigger", ["user", "heartbeat"])
@pytest.mark.parametrize("kind", ["message", "heartbeat", "commitment-only"])
@pytest.mark.parametrize("takes", ["after_turn", "ingest_batch", "ingest"])
async def test_a_heartbeat_is_told_as_one_whichever_way_it_came(
    takes: Takes, kind: str, trigger: str, tmp_path: Path
) -> None:
    """Spec I-14."""
    rig = rig_in(tmp_path, "history")
    engine = RecordingEngine(takes=takes)
    async with rig.opened(engine) as runtime:
        rig.answers("one")
        session = runtime.session("t")
        request = RunRequest(text="look around", trigger=trigger, kind=kind)
        with anyio.fail_after(TURN_S):
            await runtime.submit(request, session._site).result()
    told = [one.params for one in engine.calls if one.operation == takes]
    wanted = trigger == "heartbeat" or kind != "message"
    assert [getattr(one, "is_heartbeat", None) for one in told] == [wanted] * len(told)
    assert told


async def test_an_engine_gets_a_reader_of_the_transcript_and_nothing_to_write_it_with(
    tmp_path: Path,
) -> None:
    """Spec C-06, B-13, B-17, A-27: before the turn, also in bootstrap maintenance."""
    rig = rig_in(tmp_path, "history")
    seen: list[tuple[str, Any]] = []

    class Looking(RecordingEngine):
        def bootstrap(self, params: BootstrapParams) -> Any:
            seen.append(("bootstrap", params))
            return super().bootstrap(params)

        def assemble(self, params: AssembleParams) -> Assembled:
            seen.append(("assemble", params))
            return super().assemble(params)

        def maintain(self, params: MaintainParams) -> MaintainResult:
            seen.append((f"maintain {params.reason}", params))
            return super().maintain(params)

    async with rig.opened(Looking()) as runtime:
        rig.answers("one", "two")
        await rig.say(runtime.session("t"), "first")
        await rig.say(runtime.session("t"), "second")
    early = [params for name, params in seen if name != "maintain turn"]
    assert len(early) == 4
    for params in early:
        assert params.runtime_context.rewrite_transcript_entries is None
        if not isinstance(params, MaintainParams):
            assert isinstance(params.messages, TranscriptSnapshot | MessageView | Sequence)
            assert not hasattr(params.messages, "append")


async def test_history_comes_from_the_mirror_whoever_spoke_and_whatever_codex_kept(
    tmp_path: Path,
) -> None:
    """Spec C-10: engine, model and thread change; the transcript is what each engine is given."""
    rig = rig_in(tmp_path, "history")
    engine = RecordingEngine()
    async with rig.opened(engine) as runtime:
        session = runtime.session("t")
        rig.answers("one", "two", "three")
        with anyio.fail_after(TURN_S):
            await session.run("first", engine="legacy").result()
            await session.run("second", engine="legacy", model="codex/gpt-y").result()
        await rig.say(session, "third")
        assert [text_of(one) for one in engine.calls[0].messages] == [
            "first",
            "one",
            "second",
            "two",
        ]
        await session.reset()
        engine.calls.clear()
        rig.answers("four")
        await rig.say(session, "fourth")
    assert engine.operations[0] == "assemble", "a new generation has no transcript to bootstrap"
    assert engine.calls[0].messages == ()


async def test_threads_are_changed_by_documented_calls_alone(rig: Rig, mode: Mode) -> None:
    """Spec C-09, A-29: every request of three turns and a restart stands in the method table."""
    engine = engine_for(mode)
    for round_ in (1, 2):
        async with rig.opened(engine) as runtime:
            rig.answers("one", "two")
            await rig.say(runtime.session("t"), f"first {round_}")
            engine.summary_of = round_
            await rig.say(runtime.session("t"), f"second {round_}")
    assert all(is_known(seen.method) for seen in rig.codex.seen)
    changing = {
        "thread/start",
        "thread/resume",
        "thread/inject_items",
        "thread/archive",
        "thread/unsubscribe",
        "turn/start",
    }
    assert set(rig.methods()) <= changing


async def test_runs_of_one_session_go_one_after_another_and_sessions_side_by_side(
    tmp_path: Path,
) -> None:
    """Spec A-14, A-16: three messages at once; each engine call sees the turn before it whole."""
    rig = rig_in(tmp_path, "history")
    engine = RecordingEngine()
    async with rig.opened(engine) as runtime:
        rig.answers("one", "two", "three")
        session = runtime.session("t")
        with anyio.fail_after(TURN_S):
            runs = [session.run(text) for text in ("first", "second", "third")]
            ends = [await run.result() for run in runs]
    assert [end.text for end in ends] == ["one", "two", "three"]
    lengths = [len(one.messages) for one in engine.calls if one.operation == "assemble"]
    assert lengths == [0, 2, 4]
    taken, released = rig.logged("claim.taken"), rig.logged("claim.released")
    assert [one["lease_epoch"] for one in taken] == [1, 2, 3]
    for before, after in zip(released, taken[1:], strict=False):
        assert before["time"] <= after["time"]


async def test_two_sessions_run_at_the_same_time(tmp_path: Path) -> None:
    """Spec A-14: both turns are open before either ends."""
    rig = rig_in(tmp_path, "history")
    rig.codex.on("turn/start", turn_steps({})[:1])
    async with rig.opened() as runtime:
        with anyio.fail_after(TURN_S):
            runs = [runtime.session(key).run("hello") for key in ("a", "b")]
            await _until_started(runtime, rig, 2)
            for run in runs:
                run.interrupt()
            ends = [await run.result() for run in runs]
    assert {end.outcome for end in ends} == {Outcome.STOPPED}


async def _until_started(runtime: Runtime, rig: Rig, count: int) -> None:
    while len(rig.codex.requests("turn/start")) < count:
        assert len(runtime.running) == count
        await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("on", ["bootstrap", "assemble", "after_turn", "maintain", "ingest"])
async def test_no_failure_of_an_engine_costs_a_reply_and_the_same_engine_is_asked_again(
    on: str, rig: Rig
) -> None:
    """Spec B-45, B-47, S-01, S-02, S-05, S-06, W-06: it fails in turn 2 and recovers in turn 3."""
    first = 2 if on in {"assemble", "after_turn"} else 1
    engine = BreakingEngine("throws", on=on, calls=frozenset({first}))
    async with rig.opened(engine) as runtime:
        rig.answers("one", "two", "three")
        turns = [await rig.say(runtime.session("t"), text) for text in ("first", "second", "third")]
    assert [turn.finished.text for turn in turns] == ["one", "two", "three"]
    assert (engine.counted["assemble"], engine.counted["after_turn"]) == (3, 3)
    assert engine.counted["bootstrap"] == 2
    assert rig.logged("engine.quarantined", "engine.fell_back") == []


def test_what_codex_offers_to_engines_is_what_is_built() -> None:
    """Spec B-26: all of the table but `runtime-llm-complete`, which nothing here can serve yet."""
    every = set(get_args(Capability))
    assert len(every) == 7
    assert every - CAPABILITIES == {"runtime-llm-complete"}
