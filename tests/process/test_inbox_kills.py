"""SIGKILL of a real Treadle, of the real codex, or of both: no message is lost, none runs twice.

Treadle is a child of the test that kills itself at named points, or is killed while the model is
held. Afterwards it is started again on the same state directory.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import anyio
import pytest

from tests.process.faults_rig import World, texts_of, times_said
from tests.process.kill_rig import KillRig
from treadle.testing.model import (
    Gate,
    Request,
    ScriptedModel,
    call,
    gate,
    hang,
    reply,
    text,
)

pytestmark = [pytest.mark.anyio, pytest.mark.codex]

NOT_YET_IN_THREAD = ("S2", "S3", "S4", "S5-before-commit", "S5-after-commit", "S6")
WHILE_THE_MODEL_WORKS = ("S7", "S8")
ANSWERED_ALREADY = ("S9", "S10-before-commit", "S10-after-commit", "S13")


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    async with ScriptedModel() as scripted:
        scripted.fallback = answer
        yield scripted


@pytest.fixture
def rig(model: ScriptedModel, scratch: Path, codex_binary: Path) -> KillRig:
    return KillRig(world=World(root=scratch, base_url=model.base_url), codex=codex_binary)


def answer(request: Request) -> str:
    return f"ANSWER to {texts_of(request)[-1]}"


@contextmanager
def silent(model: ScriptedModel) -> Iterator[None]:
    """Let the model take requests and say nothing until the end of the block."""
    model.fallback = lambda request: hang()
    yield
    model.fallback = answer


@contextmanager
def held(model: ScriptedModel, *parts: str) -> Iterator[Gate]:
    """Hold the next answer of the model until the end of the block, after these texts."""
    hold = gate()
    model.enqueue(reply(*map(text, parts), hold))
    yield hold
    hold.event.set()


async def reached(hold: Gate) -> None:
    with anyio.fail_after(60):
        await hold.reached.wait()


def said(rig: KillRig, role: str) -> list[str]:
    return [words for kind, words in rig.entries() if kind == role]


# ------------------------------------------------------------------------------------ acceptance


async def test_a_message_killed_before_it_was_stored_is_accepted_once_when_it_comes_again(
    rig: KillRig, model: ScriptedModel
) -> None:
    """RS01, INV-1: no acknowledgement, no row; sent again under its id, it is answered once."""
    async with rig.started(failpoints="S1-before-commit=kill") as child:
        await child.ask("send", text="FIRST", id="1", session="s", options={})
        assert await child.ended() == -signal.SIGKILL
        assert [told["told"] for told in child.told] == ["open"]
    assert rig.rows() == []
    async with rig.started() as child:
        assert (await child.send("FIRST", id="1"))["told"] == "accepted"
        assert (await child.end("1"))["text"] == "ANSWER to FIRST"
        assert child.types("1")[0] == "message.accepted"
    assert rig.states() == {"1": "answered"}
    assert len(model.requests) == 1


async def test_a_message_stored_and_not_acknowledged_is_answered_without_coming_again(
    rig: KillRig, model: ScriptedModel
) -> None:
    """RS01, RS03, INV-2: the row is the acceptance; the same id three times is the same run."""
    async with rig.started(failpoints="S1-after-commit=kill") as child:
        await child.ask("send", text="FIRST", id="1", session="s", options={})
        assert await child.ended() == -signal.SIGKILL
    [row] = rig.rows()
    assert (row.state, row.attempts) == ("accepted", 0)
    async with rig.started() as child:
        acknowledged = [await child.send("FIRST", id="1") for _ in range(3)]
        assert {one["run"] for one in acknowledged} == {row.run}
        assert (await child.end("1"))["text"] == "ANSWER to FIRST"
    assert rig.states() == {"1": "answered"}
    assert len(model.requests) == 1
    async with rig.started() as child:
        assert (await child.send("FIRST", id="1"))["run"] == row.run
        assert (await child.end("1"))["text"] == "ANSWER to FIRST"
        assert (await child.send("OTHER", id="1"))["code"] == "message_conflict"
    assert len(model.requests) == 1


async def test_a_full_disk_refuses_the_message_and_keeps_nothing_of_it(
    rig: KillRig, model: ScriptedModel
) -> None:
    """Reliability matrix, disk full: no acknowledgement; the same id works later."""
    async with rig.started(failpoints="S1-before-commit=error:StoreFull@1") as child:
        refused = await child.send("FIRST", id="1")
        assert (refused["told"], refused["code"]) == ("refused", "storage_full")
        assert (await child.send("FIRST", id="1"))["told"] == "accepted"
        assert (await child.end("1"))["text"] == "ANSWER to FIRST"
    assert rig.states() == {"1": "answered"}
    assert len(model.requests) == 1


# ------------------------------------------------------------------------------- kill of Treadle


async def test_accepted_messages_outlive_the_process_and_are_answered_in_their_order(
    rig: KillRig, model: ScriptedModel
) -> None:
    """RS02, INV-1, INV-3: five accepted, the first one running; nothing overtakes."""
    numbers = [str(number) for number in range(1, 6)]
    with held(model) as hold:
        async with rig.started() as child:
            for number in numbers:
                assert (await child.send(f"MESSAGE-{number}", id=number))["told"] == "accepted"
            await reached(hold)
            child.kill()
            await child.ended()
    assert [row.state for row in rig.rows()] == ["running", *["accepted"] * 4]
    async with rig.started() as child:
        for number in numbers:
            await child.send(f"MESSAGE-{number}", id=number)
        ends = [await child.end(number) for number in numbers]
    assert [end["text"] for end in ends] == [f"ANSWER to MESSAGE-{number}" for number in numbers]
    assert set(rig.states().values()) == {"answered"}
    assert said(rig, "user") == [f"MESSAGE-{number}" for number in numbers]
    assert [texts_of(request)[-1] for request in model.requests[1:]] == [
        f"MESSAGE-{number}" for number in numbers
    ]
    assert [row.attempts for row in rig.rows()] == [2, 1, 1, 1, 1]


@pytest.mark.parametrize("point", [*NOT_YET_IN_THREAD, *WHILE_THE_MODEL_WORKS, *ANSWERED_ALREADY])
async def test_a_message_whose_treadle_is_killed_is_answered_once_by_the_next_one(
    rig: KillRig, model: ScriptedModel, point: str
) -> None:
    """INV-1, INV-5, INV-6, INV-10, RS16: at each point of a turn."""
    with silent(model) if point in WHILE_THE_MODEL_WORKS else nullcontext():
        async with rig.started(failpoints=f"{point}=kill") as child:
            assert (await child.send("FIRST", id="1"))["told"] == "accepted"
            assert await child.ended() == -signal.SIGKILL
    was = rig.states()["1"]
    assert was == ("answered" if point in {"S10-after-commit", "S13"} else "running")
    async with rig.started() as child:
        await child.send("FIRST", id="1")
        end = await child.end("1")
        assert (end["outcome"], end["text"]) == ("completed", "ANSWER to FIRST")
        await child.send("SECOND", id="2")
        assert (await child.end("2"))["text"] == "ANSWER to SECOND"
    assert rig.states() == {"1": "answered", "2": "answered"}
    assert rig.entries() == [
        ("user", "FIRST"),
        ("assistant", "ANSWER to FIRST"),
        ("user", "SECOND"),
        ("assistant", "ANSWER to SECOND"),
    ]
    last = model.requests[-1]
    marks = ("FIRST", "ANSWER to FIRST", "SECOND")
    assert [texts_of(last).count(mark) for mark in marks] == [1, 1, 1]


async def test_a_turn_mirrored_three_times_with_kills_between_stands_once(
    rig: KillRig, model: ScriptedModel
) -> None:
    """RS16, INV-5: killed while it is written, killed while it is found again, then written."""
    for _ in range(3):
        async with rig.started(failpoints="S10-before-commit=kill") as child:
            await child.ask("send", text="FIRST", id="1", session="s", options={})
            assert await child.ended() == -signal.SIGKILL
    assert rig.states() == {"1": "running"}
    async with rig.started() as child:
        await child.send("FIRST", id="1")
        assert (await child.end("1"))["text"] == "ANSWER to FIRST"
    assert rig.entries() == [("user", "FIRST"), ("assistant", "ANSWER to FIRST")]
    assert len(model.requests) == 1


# ---------------------------------------------------------------------------- effects and unknown


@pytest.mark.parametrize("victims", ["codex", "treadle", "both"])
async def test_an_effect_is_never_repeated_and_its_turn_is_said_to_be_unknown(
    rig: KillRig, model: ScriptedModel, victims: str
) -> None:
    """RS09, INV-9: killed behind the effect of a tool; the next message works."""
    effects = rig.world.work / "effects"
    model.enqueue(reply(call("exec_command", {"cmd": f"echo effect >> {effects}"})))
    with held(model) as hold:
        async with rig.started() as child:
            await child.send("FIRST", id="1")
            await reached(hold)
            strike(child.pid, child.codex, victims)
            if victims == "codex":
                end = await child.end("1")
                assert (end["outcome"], end["replay_safe"]) == ("client_lost", False)
            else:
                assert await child.ended() == -signal.SIGKILL
    async with rig.started() as child:
        await child.send("FIRST", id="1")
        end = await child.end("1")
        assert (end["outcome"], end["replay_safe"]) == ("client_lost", False)
        await child.send("SECOND", id="2")
        assert (await child.end("2"))["text"] == "ANSWER to SECOND"
    assert rig.states() == {"1": "unknown", "2": "answered"}
    assert "unknown" in " ".join(said(rig, "notice"))
    assert said(rig, "user") == ["FIRST", "SECOND"]
    assert times_said(model.requests[-1], "FIRST") == 1
    asked = [request for request in model.requests if texts_of(request)[-1] == "FIRST"]
    assert len(asked) == 2


def strike(treadle: int, codex: list[int], victims: str) -> None:
    if victims in {"codex", "both"}:
        for pid in codex:
            os.kill(pid, signal.SIGKILL)
    if victims in {"treadle", "both"}:
        os.kill(treadle, signal.SIGKILL)


async def test_codex_killed_before_any_output_costs_one_more_try(
    rig: KillRig, model: ScriptedModel
) -> None:
    """RS07, S-09: one retry on a new process, one answer."""
    with held(model) as hold:
        async with rig.started() as child:
            await child.send("FIRST", id="1")
            await reached(hold)
            strike(child.pid, child.codex, "codex")
            end = await child.end("1")
    assert (end["outcome"], end["text"]) == ("completed", "ANSWER to FIRST")
    assert rig.states() == {"1": "answered"}
    assert len(model.requests) == 2
    assert rig.entries() == [("user", "FIRST"), ("assistant", "ANSWER to FIRST")]


async def test_output_of_a_turn_that_was_cut_off_stays_and_says_that_it_is_not_all(
    rig: KillRig, model: ScriptedModel
) -> None:
    """INV-9, S-10: text was seen, so the turn is not tried again."""
    with held(model, "half an answer") as hold:
        async with rig.started() as child:
            await child.send("FIRST", id="1")
            await reached(hold)
            await child.until(lambda told: told.get("type") == "part.delta")
            strike(child.pid, child.codex, "both")
            await child.ended()
    async with rig.started() as child:
        await child.send("FIRST", id="1")
        end = await child.end("1")
        assert end["outcome"] in {"client_lost", "completed"}
        await child.send("SECOND", id="2")
        assert (await child.end("2"))["text"] == "ANSWER to SECOND"
    assert rig.states()["2"] == "answered"
    assert Counter(said(rig, "user")) == Counter(["FIRST", "SECOND"])


# ------------------------------------------------------------------------------------------ order


async def test_a_message_that_is_taken_up_again_sees_nothing_of_a_later_one(
    model: ScriptedModel, scratch: Path, codex_binary: Path
) -> None:
    """RS10, INV-3: the engine assembles the first message as if the second had not come."""
    world = World(root=scratch, base_url=model.base_url)
    rig = KillRig(world=world, codex=codex_binary, engine="journal")
    async with rig.started(failpoints="S4=kill") as child:
        await child.ask("send", text="FIRST", id="1", session="s", options={})
        await child.ask("send", text="SECOND", id="2", session="s", options={})
        assert await child.ended() == -signal.SIGKILL
    async with rig.started() as child:
        await child.send("THIRD", id="3")
        assert (await child.end("3"))["text"] == "ANSWER to THIRD"
    assert rig.states() == {"1": "answered", "2": "answered", "3": "answered"}
    assert [prompt for prompt, _ in rig.assemblies()] == ["FIRST", "FIRST", "SECOND", "THIRD"]
    for prompt, texts in rig.assemblies():
        later = {"FIRST": ("SECOND", "THIRD"), "SECOND": ("THIRD",)}.get(prompt, ())
        assert not [text for text in texts if any(mark in text for mark in later)], prompt


# ------------------------------------------------------------------------------------------ drain


async def test_sigterm_lets_the_running_turn_end_and_keeps_what_waits(
    rig: KillRig, model: ScriptedModel
) -> None:
    """RS06: new ones are refused, what waits has begun no attempt and is answered later."""
    with held(model) as hold:
        async with rig.started() as child:
            for number in ("1", "2", "3"):
                await child.send(f"MESSAGE-{number}", id=number)
            await reached(hold)
            child.terminate()
            await child.until(lambda told: told["told"] == "draining")
            assert (await child.send("MESSAGE-4", id="4"))["code"] == "draining"
            hold.event.set()
            assert (await child.end("1"))["outcome"] == "completed"
            drained = await child.until(lambda told: told["told"] == "drained")
            assert drained["all"] is True
            assert await child.ended() == 0
    kept = [(row.id, row.state, row.attempts) for row in rig.rows()]
    assert kept == [("1", "answered", 1), ("2", "accepted", 0), ("3", "accepted", 0)]
    async with rig.started() as child:
        await child.send("MESSAGE-3", id="3")
        assert (await child.end("3"))["text"] == "ANSWER to MESSAGE-3"
    assert set(rig.states().values()) == {"answered"}
    assert [texts_of(request)[-1] for request in model.requests[1:]] == ["MESSAGE-2", "MESSAGE-3"]


async def test_a_turn_that_outlasts_the_drain_is_interrupted_and_recorded(
    rig: KillRig, model: ScriptedModel
) -> None:
    """Reliability matrix, SIGTERM: wait, then interrupt and record; what waits stays."""
    with held(model) as hold:
        async with rig.started(settings={"shutdownSeconds": 0.5}) as child:
            await child.send("FIRST", id="1")
            await child.send("SECOND", id="2")
            await reached(hold)
            child.terminate()
            drained = await child.until(lambda told: told["told"] == "drained")
            assert drained["all"] is False
            assert await child.ended() == 0
    states = {row.id: (row.state, row.attempts) for row in rig.rows()}
    assert states["1"][0] in {"failed", "accepted", "running"}
    assert states["2"] == ("accepted", 0)
    async with rig.started() as child:
        await child.send("SECOND", id="2")
        assert (await child.end("2"))["text"] == "ANSWER to SECOND"
