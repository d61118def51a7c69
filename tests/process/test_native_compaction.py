"""Codex's own compaction over a small window: Treadle adds none, and an owning engine one rebase.

The same script runs through Treadle and through the bare client; compactions are counted in the
requests that the model gets.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.process.faults_rig import Overrides, Ran, World, command, say, texts_of, times_said
from treadle.harness.codex.launch import thread_config
from treadle.model.turn import CompactionFinished, ContextAssembled, Outcome
from treadle.testing.bare import BareCodex
from treadle.testing.model import Answer, Request, ScriptedModel, Usage, reply
from treadle.testing.provider import dotted, provider_config, write_config

pytestmark = [pytest.mark.anyio, pytest.mark.codex]

WINDOW = 24_000
"""Tokens; Codex reports 95 % of it and compacts at nine tenths."""

TURNS = 40
LONG = "a good part of the window is filled by words that nobody reads " * 60
"""What the model says: a compaction keeps what the user said and drops this."""

WINDOWED: Overrides = {
    ("models", "providers", "scripted", "models", "scripted-1", "contextWindow"): WINDOW,
}


def is_compaction(request: Request) -> bool:
    """Whether Codex asked for a summary with this request."""
    told = json.loads(request.headers.get("x-codex-turn-metadata", "{}"))
    return bool(told.get("request_kind") == "compaction")


def answering(request: Request) -> Answer:
    """Answer at length with honest usage, at four characters a token."""
    if is_compaction(request):
        return reply("SUMMARY of what was said")
    used = Usage(input=len(json.dumps(request.fields["input"])) // 4, output=len(LONG) // 4)
    return reply(LONG, usage=used)


def prompt(number: int) -> str:
    """Return the prompt of a turn."""
    return f"PROMPT-{number:02}"


def compactions(model: ScriptedModel) -> int:
    """Return how many compactions the model was asked for."""
    return sum(map(is_compaction, model.requests))


async def bare_compactions(codex_binary: Path, scratch: Path) -> int:
    """Run the script through the bare client with what Treadle tells its threads."""
    async with ScriptedModel() as model:
        model.fallback = answering
        home = scratch / "bare"
        write_config(home, provider_config(model.base_url))
        config = dotted(thread_config(None, window=WINDOW))
        async with BareCodex(codex_binary, home, cwd=scratch) as app:
            await app.initialize()
            started = await app.request("thread/start", {"config": config, "cwd": str(scratch)})
            for number in range(TURNS):
                turn = await app.turn(started["thread"]["id"], prompt(number))
                assert turn.status == "completed", turn.error
        return compactions(model)


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_legacy_compacts_at_most_once_more_than_the_bare_client(
    codex_binary: Path, scratch: Path
) -> None:
    """Issue 2 done-when 5; D-55, U-06: the thread stays, nothing is injected anew."""
    bare = await bare_compactions(codex_binary, scratch)
    async with ScriptedModel() as model:
        model.fallback = answering
        world = World(
            root=scratch, base_url=model.base_url, more={**WINDOWED, **command(codex_binary)}
        )
        ran: list[Ran] = []
        async with world.runtime() as runtime:
            session = runtime.session("s", cwd=world.work)
            for number in range(TURNS):
                ran.append(await say(session, prompt(number)))
                assert ran[-1].end.outcome is Outcome.COMPLETED, ran[-1].end.error
        ours = compactions(model)
    assert bare >= 2, "the script has to provoke some"
    assert ours <= bare + 1
    assert decisions(ran) == ["seed", *["continue"] * (TURNS - 1)]
    told = [event for one in ran for event in one.events if isinstance(event, CompactionFinished)]
    assert [event.owner for event in told] == ["codex"] * ours


@pytest.mark.parametrize("fits", [True, False], ids=["it fits", "it does not fit"])
async def test_an_owning_engine_answers_a_compaction_by_one_rebase_if_what_it_wants_fits(
    codex_binary: Path, scratch: Path, fits: bool
) -> None:
    """Decision 4, D-55: at most once a compaction; else it continues and the person is told."""
    full = {"PROMPT-03", "PROMPT-07"}

    def answer(request: Request) -> Answer:
        if is_compaction(request):
            return reply("SUMMARY of what was said")
        newest = texts_of(request)[-1]
        said = "noted" if fits else LONG * 12
        return reply(said, usage=Usage(input=WINDOW - 500 if newest in full else 5_000, output=10))

    async with ScriptedModel() as model:
        model.fallback = answer
        more: Overrides = {
            **WINDOWED,
            **command(codex_binary),
            ("plugins", "slots", "contextEngine"): "window",
        }
        world = World(root=scratch, base_url=model.base_url, more=more)
        ran: list[Ran] = []
        async with world.runtime() as runtime:
            session = runtime.session("s", cwd=world.work)
            for number in range(12):
                ran.append(await say(session, prompt(number)))
                assert ran[-1].end.outcome is Outcome.COMPLETED, ran[-1].end.error
        native = compactions(model)
        last = model.requests[-1]
    decided = decisions(ran)
    rebased = [number for number, decision in enumerate(decided) if decision == "rebase"]
    assert native == 2
    if fits:
        # Compacted at the start of turns 4 and 8, answered by the turn after each.
        assert rebased == [5, 9]
        assert all(times_said(last, prompt(number)) == 1 for number in range(12))
        assert not any(one.notices for one in ran)
    else:
        assert rebased == []
        assert "needs_smaller_context" in ran[5].notices


def decisions(ran: list[Ran]) -> list[str]:
    """Return what was decided in each turn."""
    return [
        event.decision for one in ran for event in one.events if isinstance(event, ContextAssembled)
    ]
