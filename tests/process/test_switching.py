"""Carriers, engines and models changed on a live session and back, on the real Codex."""

from __future__ import annotations

import itertools
from pathlib import Path

import anyio
import pytest

from tests.process.rig import CODE_MODE, PLAIN, Rig, Turn, all_entries, echo_tool, rig_over_model
from treadle.clock import RandomIds, SystemClock
from treadle.contract.engine import Assembled, AssembleParams
from treadle.contract.harness import ProjectionMode
from treadle.model.ids import AgentId, RunId, SessionKey
from treadle.model.json import JsonObject
from treadle.model.message import Message, NewEntry, assistant_message, text_of, user_message
from treadle.model.turn import CompactionFinished, Notice, Outcome, ThreadChanged
from treadle.protocol.responses import item_text
from treadle.runtime.sessions import Session
from treadle.store.open import open_store
from treadle.testing.engine import RecordingEngine
from treadle.testing.replies import call, custom_call, reply

pytestmark = [pytest.mark.anyio, pytest.mark.codex]

CLASSIC = "scripted/gpt-5.5"
"""A model of the bundled catalog with classic tools."""

LONG = 10_000
MODES: tuple[ProjectionMode, ...] = ("history", "prompt")


async def switched(
    rig: Rig,
    session: Session,
    number: int,
    *before: str,
    engine: str,
    model: str,
    mode: ProjectionMode,
) -> Turn:
    """Run one turn with these choices; `before` answers what Codex asks the model ahead of it."""
    rig.model.enqueue(*before, f"answer {number}.")
    asked = len(rig.model.requests)
    with anyio.fail_after(120):
        run = session.run(f"message {number}.", engine=engine, model=model, projection=mode)
        events = tuple([event async for event in run])
    turn = Turn(events=events, requests=tuple(rig.model.requests[asked:]))
    assert turn.finished.outcome is Outcome.COMPLETED, turn.finished
    return turn


@pytest.mark.parametrize("mode", MODES)
async def test_a_change_of_model_keeps_the_thread_under_an_engine(
    codex_binary: Path, scratch: Path, mode: ProjectionMode
) -> None:
    """Spec F-03, F-04, F-10, F-28: the next turn just names the new model."""
    engine = RecordingEngine()
    models = [PLAIN, CLASSIC, PLAIN, CODE_MODE, PLAIN]
    async with (
        rig_over_model(scratch, codex_binary) as rig,
        rig.opened(engines={"recording": lambda _: engine}, tools=[echo_tool()]) as runtime,
    ):
        session = rig.session(runtime)
        turns = [
            await switched(rig, session, number, engine="recording", model=model, mode=mode)
            for number, model in enumerate(models, 1)
        ]
    assert len({turn.thread_id for turn in turns}) == 1
    assert [turn.requests[0].fields["model"] for turn in turns] == [
        model.partition("/")[2] for model in models
    ]
    asked = turns[-1].requests[0].raw.decode()
    for number in range(1, len(models)):
        assert f"message {number}." in asked
        assert f"answer {number}." in asked


async def test_codex_compacts_between_two_catalogued_models_and_the_thread_stays(
    codex_binary: Path, scratch: Path
) -> None:
    """Spec D-55, F-04, G-19: its own doing where their compactions differ; shown, none of ours."""
    engine = RecordingEngine()
    async with (
        rig_over_model(scratch, codex_binary) as rig,
        rig.opened(engines={"recording": lambda _: engine}) as runtime,
    ):
        session = rig.session(runtime)
        common = {"engine": "recording", "mode": "history"}
        first = await switched(rig, session, 1, model=CLASSIC, **common)  # type: ignore[arg-type]
        second = await switched(rig, session, 2, "The gist.", model=CODE_MODE, **common)  # type: ignore[arg-type]
        third = await switched(rig, session, 3, model=CODE_MODE, **common)  # type: ignore[arg-type]
        stored = [text_of(entry.message) for entry in await all_entries(session)]
    assert [request.is_compaction for request in second.requests] == [True, False]
    assert sum(isinstance(event, CompactionFinished) for event in second.events) == 1
    assert first.thread_id == second.thread_id == third.thread_id
    assert [second.decision, third.decision] == ["continue", "continue"]
    assert stored == [f"{who} {n}." for n in (1, 2, 3) for who in ("message", "answer")]


@pytest.mark.parametrize("mode", MODES)
async def test_an_engine_switched_on_and_off_keeps_the_thread(
    codex_binary: Path, scratch: Path, mode: ProjectionMode
) -> None:
    """Spec A-20, D-37, F-10, F-28."""
    engine = RecordingEngine()
    async with (
        rig_over_model(scratch, codex_binary) as rig,
        rig.opened(engines={"recording": lambda _: engine}) as runtime,
    ):
        session = rig.session(runtime)
        turns = [
            await switched(rig, session, number, engine=name, model=PLAIN, mode=mode)
            for number, name in enumerate(("legacy", "recording", "legacy", "recording"), 1)
        ]
    assert len({turn.thread_id for turn in turns}) == 1
    assert engine.operations.count("assemble") == 2


@pytest.mark.parametrize("model", [PLAIN, CLASSIC, CODE_MODE])
@pytest.mark.parametrize("mode", MODES)
async def test_the_engines_context_reaches_the_request_of_every_kind_of_model(
    codex_binary: Path, scratch: Path, mode: ProjectionMode, model: str
) -> None:
    """Done when 4; spec A-01, C-02, E-02, W-07: catalogued, code mode, unlisted, tools included."""
    engine = RecordingEngine(recalled="Recalled: the cat is called Tom.", addition="Rule A: x.")
    note = call("note", {"n": 7}, call_id="call_7")
    if model == CODE_MODE:
        note = custom_call("exec", "text(await tools.note({n: 7}));", call_id="call_7")
    async with rig_over_model(scratch, codex_binary) as rig:
        rig.keys["plugins", "entries", "codex", "config", "projection"] = mode
        async with rig.opened(
            engine="recording",
            model=model,
            engines={"recording": lambda _: engine},
            tools=[echo_tool()],
        ) as runtime:
            turn = await rig.turn(rig.session(runtime), "message 1.", reply(note), "answer 1.")
    assert engine.operations.count("assemble") == 1
    for request in turn.requests:
        said = request.texts("user")
        at = next(n for n, text in enumerate(said) if "the cat is called Tom" in text)
        request_at = next(n for n, text in enumerate(said) if text.endswith("message 1."))
        assert at <= request_at
        assert any("Rule A: x." in text for text in request.texts("developer"))
        assert not any("Rule A: x." in text for text in said)
    assert "note 7: remember the milk" in turn.requests[1].raw.decode()


async def test_a_long_session_changed_in_every_way_and_back_loses_no_reply(
    codex_binary: Path, scratch: Path
) -> None:
    """Done when 7; spec D-51, D-54, F-28: 10,000 entries, each change of thread explained."""
    engine = RecordingEngine()
    choices: list[tuple[str, str, ProjectionMode]] = [
        ("legacy", PLAIN, "history"),
        ("recording", PLAIN, "history"),
        ("recording", CODE_MODE, "prompt"),
        ("window", CODE_MODE, "prompt"),
        ("window", PLAIN, "history"),
        ("legacy", CODE_MODE, "prompt"),
    ]
    path = [*choices, *reversed(choices)]
    turns: list[Turn] = []
    async with rig_over_model(scratch, codex_binary) as rig:
        async with rig.opened():
            pass  # makes the state directory
        await _write_long(rig)
        rig.keys["plugins", "entries", "window", "config"] = {"size": 40}
        for part in (path[: len(path) // 2], path[len(path) // 2 :]):
            async with rig.opened(engines={"recording": lambda _: engine}) as runtime:
                session = rig.session(runtime)
                for name, model, mode in part:
                    turns.append(
                        await switched(
                            rig, session, len(turns) + 1, engine=name, model=model, mode=mode
                        )
                    )
                stored = [text_of(entry.message) for entry in await all_entries(session)]
    said = [f"{who} {n}." for n in range(1, len(path) + 1) for who in ("message", "answer")]
    assert stored[:2] == ["old message 0", "old answer 1"]
    assert len(stored) == LONG + len(said)
    assert stored[LONG:] == said
    assert [turn.text for turn in turns] == [f"answer {n}." for n in range(1, len(path) + 1)]
    for earlier, later in itertools.pairwise(turns):
        changes = [one for one in later.events if isinstance(one, ThreadChanged)]
        if earlier.thread_id == later.thread_id:
            assert not changes
        else:
            (change,) = changes
            assert change.previous == earlier.thread_id
            assert len(change.reason.split()) > 8, change.reason
        asked = later.requests[0].raw.decode()
        assert earlier.text in asked, "the newest reply is in front of the model whoever assembles"
        assert not [one for one in later.events if isinstance(one, Notice) and "fail" in one.code]


async def _write_long(rig: Rig) -> None:
    clock = SystemClock()
    database = next(rig.state.glob("*.sqlite*"))
    async with open_store(database, clock=clock, ids=RandomIds(clock)) as store:
        session = await store.sessions.open(
            SessionKey("agent:main:t"), agent_id=AgentId("main"), owner="local", cwd=str(rig.work)
        )
        claim = await store.transcript.claim(session.id, RunId("r_long"))
        for first in range(0, LONG, 1_000):
            batch = [
                NewEntry(
                    key=f"long:{number}",
                    message=user_message(f"old message {number}")
                    if number % 2 == 0
                    else assistant_message(f"old answer {number}"),
                )
                for number in range(first, first + 1_000)
            ]
            await store.transcript.append(claim, batch)
        await store.transcript.release(claim)


PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5E"
    "rkJggg=="
)


@pytest.mark.parametrize("mode", MODES)
async def test_an_image_that_the_engine_shows_reaches_the_model_in_each_mode(
    codex_binary: Path, scratch: Path, mode: ProjectionMode
) -> None:
    """Spec D-28, F-07: as an input image, and only once."""

    class Showing(RecordingEngine):
        def assemble(self, params: AssembleParams) -> Assembled:
            image: JsonObject = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
            shown = Message(role="user", content=[{"type": "text", "text": "Look."}, image])
            return Assembled(messages=[shown, *params.messages], estimated_tokens=0)

    async with (
        rig_over_model(scratch, codex_binary) as rig,
        rig.opened(engines={"showing": lambda _: Showing()}) as runtime,
    ):
        turn = await switched(
            rig, rig.session(runtime), 1, engine="showing", model=PLAIN, mode=mode
        )
    asked = turn.requests[0].raw.decode()
    assert asked.count("input_image") == 1
    assert asked.count(PIXEL) == 1
    assert item_text(turn.input[-1]).endswith("message 1.")
