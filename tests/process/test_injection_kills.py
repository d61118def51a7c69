"""SIGKILL of Treadle, of codex and of both at five points round an injection: each item once.

The killed Treadle is a child of the test; a proxy before the real codex strikes at the named line.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.process.faults_rig import (
    ChildPlan,
    World,
    proxy_for,
    run_child,
    say,
    times_said,
    transcript,
    turning_engines,
    user_texts,
)
from treadle.model.json import JsonValue
from treadle.model.turn import Outcome
from treadle.testing.model import Request, ScriptedModel

pytestmark = [pytest.mark.anyio, pytest.mark.codex]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Where the kill falls: at a call of Treadle's, or before its intent is stored."""

    name: str
    method: str | None = None
    at: str = "before"


INTENT = Point(name="before the intent is stored")
CALL = Point(name="intent stored, call not sent", method="thread/inject_items")
SENT = Point(name="call sent, nothing awaited", method="thread/inject_items", at="sent")
SILENT = Point(name="call sent, answer lost", method="thread/inject_items", at="unanswered")
UNCONFIRMED = Point(name="answered, not confirmed", method="thread/inject_items", at="answered")
CONFIRMED = Point(name="confirmed, turn not sent", method="turn/start")
TAKEN = Point(name="turn taken, answer lost", method="turn/start", at="unanswered")

EVERY = (INTENT, CALL, SENT, SILENT, UNCONFIRMED, CONFIRMED, TAKEN)
TREADLE, CODEX, BOTH = ("treadle",), ("codex",), ("treadle", "codex")

Case = tuple[str, Point, tuple[str, ...]]
CASES: tuple[Case, ...] = (
    *(("extend", point, victims) for point in EVERY for victims in (TREADLE, CODEX, BOTH)),
    *(("supersede", point, victims) for point in EVERY[1:6] for victims in (TREADLE, CODEX)),
    # The fresh thread of a rebase is bound only once it is confirmed.
    *(("rebase", point, BOTH) for point in (INTENT, SILENT, UNCONFIRMED, CONFIRMED)),
    *(("rebase", point, CODEX) for point in (SILENT, CONFIRMED)),
)


def _name(case: Case) -> str:
    change, point, victims = case
    return f"{change}: {point.name}, kill {' and '.join(victims)}"


def answer(request: Request) -> str:
    """Answer with the number of the newest prompt."""
    said = str(request.fields["input"])
    return f"ANSWER-{max(n for n in range(1, 5) if f'PROMPT-{n}' in said)}"


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("case", CASES, ids=_name)
async def test_a_kill_round_an_injection_loses_and_doubles_nothing(
    codex_binary: Path, scratch: Path, case: Case
) -> None:
    """Issue 2 done-when 5; decision 3; spec D-58, E-15; reliability section 1."""
    change, _, victims = case
    async with ScriptedModel() as model:
        model.fallback = answer
        world = World(root=scratch, base_url=model.base_url)
        code, told = await struck(world, codex_binary, case)
        assert code == (-9 if "treadle" in victims else 0)
        if "treadle" not in victims:
            assert told[-1] == "end completed ANSWER-3", told
        said = await one_more_turn(world, change)
        last = model.requests[-1]
        third = times_said(last, "PROMPT-3")
        assert third == user_texts(said).count("PROMPT-3") <= 1
        if "entry user" in told:
            assert third == 1
        expected = EXPECTED[change] | {"PROMPT-2": 1, "ANSWER-2": 1, "PROMPT-4": 1}
        assert {mark: times_said(last, mark) for mark in expected} == expected
        model.check()


async def test_an_injection_of_which_a_part_was_written_is_given_anew_on_a_fresh_thread(
    codex_binary: Path, scratch: Path
) -> None:
    """Decision 3: some but not all of it in the rollout means unknown, never a guess."""
    async with ScriptedModel() as model:
        model.fallback = answer
        world = World(root=scratch, base_url=model.base_url)
        await struck(world, codex_binary, ("extend", SILENT, BOTH))
        [rollout] = (world.state / "agents").rglob("rollout-*.jsonl")
        written = rollout.read_bytes()
        assert b"APPENDED-1" in written
        rollout.write_bytes(written[: written.index(b"APPENDED-2")])
        await one_more_turn(world, "extend")
        last = model.requests[-1]
        marks = ("PROMPT-1", "ANSWER-1", "PROMPT-2", "ANSWER-2", "APPENDED-1", "APPENDED-2")
        assert [times_said(last, mark) for mark in marks] == [1] * len(marks)
        # The killed message's own run gets the fresh thread; the next one may want another order.
        assert world.logged("thread.rotated")


EXPECTED: dict[str, dict[str, int]] = {
    "rebase": {"Summary of 2": 1, "PROMPT-1": 0, "ANSWER-1": 0},
    "extend": {"APPENDED-1": 1, "APPENDED-2": 1, "PROMPT-1": 1, "ANSWER-1": 1},
    "supersede": {"ADDITION-B": 1, "PROMPT-1": 1, "ANSWER-1": 1},
}
"""How often the last request has to say what."""


async def struck(world: World, codex_binary: Path, case: Case) -> tuple[int, list[str]]:
    """Run two turns in a child, change the engine's mind, and kill in the third."""
    change, point, victims = case
    proxy = proxy_for(world, codex_binary)
    strike: dict[str, JsonValue] | None = None
    if point.method is not None:
        strike = {"method": point.method, "at": point.at, "victims": list(victims)}
    plan = ChildPlan(
        root=str(world.root),
        base_url=world.base_url,
        codex=str(proxy.path),
        change=change,
        strike=strike,
        strike_before_intent=victims if point.method is None else (),
    )
    code, told = await run_child(plan)
    assert proxy.has_struck
    return code, told


async def one_more_turn(world: World, change: str) -> list[tuple[str, str]]:
    """Start Treadle again with the engine as it was, say something; the transcript afterwards."""
    _, engines = turning_engines(change)
    async with world.runtime(engines=engines) as runtime:
        session = runtime.session("s", cwd=world.work)
        ran = await say(session, "PROMPT-4", engine="turning")
        assert (ran.end.outcome, ran.end.text) == (Outcome.COMPLETED, "ANSWER-4")
        return await transcript(session)
