"""The engine's context as quoted text, and the change from one carrier to the other and back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.process.rig import Turn, all_entries, assert_grows, echo_tool, rig_over_model
from treadle.model.message import text_of
from treadle.protocol.responses import item_text
from treadle.testing.engine import RecordingEngine
from treadle.testing.replies import call, reply

pytestmark = [pytest.mark.anyio, pytest.mark.codex]

QUOTED = """\
OpenClaw assembled context for this turn:

<conversation_context>
[user]
Summary of 2 messages.

[user]
two

[assistant]
2
</conversation_context>

Current user request:
three"""


async def test_prompt_mode_sends_the_documents_text_byte_for_byte(
    codex_binary: Path, scratch: Path
) -> None:
    """Spec D-02, D-04, D-06, D-50: quoted before the request, nothing injected, one thread."""
    engine = RecordingEngine()
    async with rig_over_model(scratch, codex_binary) as rig:
        rig.keys["plugins", "entries", "codex", "config", "projection"] = "prompt"
        async with rig.opened(
            engine="recording", engines={"recording": lambda _: engine}
        ) as runtime:
            session = rig.session(runtime)
            turns = [await rig.turn(session, "one", "1"), await rig.turn(session, "two", "2")]
            engine.summary_of = 2
            turns.append(await rig.turn(session, "three", "3"))
            stored = [text_of(entry.message) for entry in await all_entries(session)]
    assert item_text(turns[0].input[-1]) == "one"
    assert item_text(turns[2].input[-1]) == QUOTED
    assert stored == ["one", "1", "two", "2", "three", "3"]
    assert len({turn.thread_id for turn in turns}) == 1
    assert_grows([request for turn in turns for request in turn.requests])


async def test_changing_the_carrier_on_a_live_session_loses_nothing(
    codex_binary: Path, scratch: Path
) -> None:
    """Spec D-51, F-11: two turns of each in turn, and tool calls among them."""
    engine = RecordingEngine()
    turns: list[Turn] = []
    async with (
        rig_over_model(scratch, codex_binary) as rig,
        rig.opened(
            engine="recording", engines={"recording": lambda _: engine}, tools=[echo_tool()]
        ) as runtime,
    ):
        session = rig.session(runtime)
        for number in range(1, 13):
            if number == 7:
                engine.summary_of = 2
            note = reply(call("note", {"n": number}, call_id=f"call_{number}"))
            calls = [note] if number in {2, 4} else []
            turns.append(
                await rig.turn(
                    session,
                    f"message {number}.",
                    *calls,
                    f"answer {number}.",
                    projection="prompt" if number % 4 in {3, 0} else "history",
                )
            )
        stored = [text_of(one.message) for one in await all_entries(session)]
    assert [turn.decision for turn in turns] == [
        "seed", "continue", "prompt", "prompt",
        "continue", "continue", "prompt", "prompt",
        "rebase", "continue", "prompt", "prompt",
    ]  # fmt: skip
    for number, turn in enumerate(turns, 1):
        asked = turn.requests[0].raw.decode()
        first_shown = 1 if turn.thread_id == turns[0].thread_id else 2
        for earlier in range(first_shown, number):
            assert f"message {earlier}." in asked
            assert f"answer {earlier}." in asked
        if number > 2:
            assert "note 2: remember the milk" in asked
    spoken = [text for text in stored if text]
    said = [(f"message {number}.", f"answer {number}.") for number in range(1, 13)]
    assert spoken == [text for pair in said for text in pair]
    rebased = [one for one in turns if one.thread_id == turns[-1].thread_id]
    assert_grows([request for turn in rebased for request in turn.requests])
    assert item_text(turns[8].input[-1]) == "message 9."


async def test_an_engine_that_is_switched_off_and_on_goes_on_with_the_thread(
    codex_binary: Path, scratch: Path
) -> None:
    """Spec A-20, D-27, E-15, F-11: nothing comes twice, its instructions are withdrawn."""
    engine = RecordingEngine(addition="Rule A: x.")
    turns: list[Turn] = []
    async with rig_over_model(scratch, codex_binary) as rig:
        for number, slot in enumerate(("recording", "legacy", "legacy", "recording"), 1):
            async with rig.opened(engine=slot, engines={"recording": lambda _: engine}) as runtime:
                session = rig.session(runtime)
                turns.append(await rig.turn(session, f"message {number}.", f"answer {number}."))
    assert len({turn.thread_id for turn in turns}) == 1
    assert_grows([request for turn in turns for request in turn.requests])
    asked = turns[-1].requests[0].raw.decode()
    assert [asked.count(f"message {number}.") for number in range(1, 5)] == [1] * 4
    assert asked.count("withdrawn") == 1
    assert asked.count("Rule A: x.") == 2


ODD = "a lone \ud800 surrogate, a NUL \x00, a separator \u2028 and \x1b[31m"
CLEAN = ODD.replace("\ud800", "\ufffd").replace("\x00", "\ufffd")


async def test_odd_text_reaches_the_model_in_a_form_that_can_be_sent(
    codex_binary: Path, scratch: Path
) -> None:
    """RS12: from a person, from an engine as message and as instructions, and a MiB of emoji."""
    engine = RecordingEngine()
    emoji = "\N{GRINNING FACE}" * 2**18
    async with (
        rig_over_model(scratch, codex_binary) as rig,
        rig.opened(engine="recording", engines={"recording": lambda _: engine}) as runtime,
    ):
        session = rig.session(runtime)
        first = await rig.turn(session, ODD, "ok")
        engine.recalled, engine.addition = f"recalled: {ODD}", f"rule: {ODD}"
        given = await rig.turn(session, "go on", "ok")
        after = await rig.turn(session, "go on", "ok")
        quoted = await rig.turn(session, "go on", "ok", projection="prompt")
        large = await rig.turn(session, emoji, "ok")
    assert first.requests[0].texts("user")[-1] == CLEAN
    assert large.requests[0].texts("user")[-1] == emoji
    assert [turn.decision for turn in (given, after)] == ["rebase", "continue"]
    assert f"recalled: {CLEAN}" in given.requests[0].texts("user")
    assert CLEAN in given.requests[0].texts("user")
    assert any(f"rule: {CLEAN}" in text for text in given.requests[0].texts("developer"))
    assert f"recalled: {CLEAN}" in quoted.requests[0].texts("user")[-1]
