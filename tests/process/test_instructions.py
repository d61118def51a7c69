"""What an engine adds to the instructions reaches the model once, in force until it is replaced."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.process.rig import Turn, assert_grows, rig_over_model
from treadle.contract.engine import Assembled, AssembleParams
from treadle.protocol.responses import item_role, item_text
from treadle.testing.engine import RecordingEngine
from treadle.testing.replies import Usage, reply

pytestmark = [pytest.mark.anyio, pytest.mark.codex]

RESTART_BEFORE = 7
REBASE_AT = 12


async def test_each_change_comes_once_supersedes_and_stays_until_the_rebase(
    codex_binary: Path, scratch: Path
) -> None:
    """Done when 4; spec E-02, E-15, decision 6: changed at 5 and 9, over a restart."""
    engine = RecordingEngine(addition="Rule A: answer in verse.")
    turns: list[Turn] = []
    async with rig_over_model(scratch, codex_binary) as rig:
        for numbers in (range(1, RESTART_BEFORE), range(RESTART_BEFORE, REBASE_AT + 2)):
            async with rig.opened(
                engine="recording", engines={"recording": lambda _: engine}
            ) as runtime:
                session = rig.session(runtime)
                for number in numbers:
                    match number:
                        case 5:
                            engine.addition = "Rule B: answer in prose."
                        case 9:
                            engine.addition = "Rule C: answer in one word."
                        case 12:
                            engine.summary_of = 6
                    turns.append(await rig.turn(session, f"message {number}", f"answer {number}"))
    before, after = turns[: REBASE_AT - 1], turns[REBASE_AT - 1 :]
    assert [turn.decision for turn in turns[1:]] == [
        *["continue"] * (REBASE_AT - 2), "rebase", "continue",
    ]  # fmt: skip
    for same_thread in (before, after):
        assert_grows([request for turn in same_thread for request in turn.requests])
    assert_added(before, {5: "Rule B: answer in prose.", 9: "Rule C: answer in one word."})
    assert "Rule A: answer in verse." in developer_text(before[0])
    last = before[-1]
    assert [last.requests[0].raw.decode().count(f"Rule {name}:") for name in "ABC"] == [1, 1, 1]
    assert [after[0].requests[0].raw.decode().count(f"Rule {name}:") for name in "ABC"] == [0, 0, 1]
    assert "superseded" not in developer_text(after[0])
    assert_no_user_text_holds("Rule ", turns)


async def test_withdrawn_instructions_are_said_to_be_withdrawn(
    codex_binary: Path, scratch: Path
) -> None:
    """Spec E-15: addition A, then B, then none, then A again."""
    engine = RecordingEngine(addition="Rule A: answer in verse.")
    turns: list[Turn] = []
    async with (
        rig_over_model(scratch, codex_binary) as rig,
        rig.opened(engine="recording", engines={"recording": lambda _: engine}) as runtime,
    ):
        session = rig.session(runtime)
        additions = ("Rule A: x.", "Rule B: y.", None, None, "Rule A: x.")
        for number, engine.addition in enumerate(additions, 1):
            turns.append(await rig.turn(session, f"message {number}", f"answer {number}"))
    assert len({turn.thread_id for turn in turns}) == 1
    assert_grows([request for turn in turns for request in turn.requests])
    assert_added(turns, {2: "Rule B: y.", 3: "withdrawn", 5: "Rule A: x."})
    assert_no_user_text_holds("Rule ", turns)


async def test_a_long_addition_is_not_cut(codex_binary: Path, scratch: Path) -> None:
    """Spec E-15: 200 KB go whole, at the start of the thread and as a change."""
    engine = RecordingEngine(addition="a" * 200_000)
    async with (
        rig_over_model(scratch, codex_binary) as rig,
        rig.opened(engine="recording", engines={"recording": lambda _: engine}) as runtime,
    ):
        session = rig.session(runtime)
        first = await rig.turn(session, "one", "1")
        engine.addition = "b" * 200_000
        second = await rig.turn(session, "two", "2")
    assert "a" * 200_000 in developer_text(first)
    assert "b" * 200_000 in developer_text(second)


async def test_an_engine_that_fails_leaves_the_instructions_as_they_are(
    codex_binary: Path, scratch: Path
) -> None:
    """Spec D-57, E-15: nothing is withdrawn because assemble broke, and nothing comes twice."""

    class Failing(RecordingEngine):
        broken = False

        def assemble(self, params: AssembleParams) -> Assembled:
            if self.broken:
                raise RuntimeError("broken, as told")
            return super().assemble(params)

    engine = Failing(addition="Rule A: x.")
    turns: list[Turn] = []
    async with (
        rig_over_model(scratch, codex_binary) as rig,
        rig.opened(engine="recording", engines={"recording": lambda _: engine}) as runtime,
    ):
        session = rig.session(runtime)
        for number in range(1, 5):
            engine.broken = number in {2, 3}
            turns.append(await rig.turn(session, f"message {number}", f"answer {number}"))
    assert_grows([request for turn in turns for request in turn.requests])
    assert_added(turns, {})
    assert [turn.decision for turn in turns[1:]] == ["continue"] * 3
    assert [turn.notices.count("assemble_failed") for turn in turns] == [0, 1, 1, 0]


def assert_added(turns: Sequence[Turn], expected: dict[int, str]) -> None:
    """Assert which turns brought a developer item of ours, one each, and what it said."""
    found: dict[int, str] = {}
    for number, (earlier, later) in enumerate(itertools.pairwise(turns), 2):
        fresh = later.input[len(earlier.requests[-1].input) :]
        texts = [item_text(item) for item in fresh if item_role(item) == "developer"]
        assert len(texts) <= 1, texts
        if texts:
            found[number] = texts[0]
    assert found.keys() == expected.keys(), found
    for number, text in expected.items():
        assert text in found[number]
        before = next((earlier for earlier in reversed(found) if earlier < number), None)
        was_withdrawn = before is not None and "withdrawn" in found[before]
        assert ("superseded" in found[number]) is not was_withdrawn


def developer_text(turn: Turn) -> str:
    """Return all developer text of the turn's first request."""
    return "\n".join(turn.requests[0].texts("developer"))


def assert_no_user_text_holds(text: str, turns: Sequence[Turn]) -> None:
    assert not [said for turn in turns for said in turn.requests[-1].texts("user") if text in said]


@pytest.mark.parametrize("restart", [False, True], ids=["warm", "restarted"])
async def test_after_a_native_compaction_the_current_instructions_are_given_again(
    codex_binary: Path, scratch: Path, restart: bool
) -> None:
    """Spec E-15, D-55: Codex drops our item and issues the thread's first instructions again."""
    engine = RecordingEngine(addition="Rule A: x.")
    full = reply("answer 2", usage=Usage(input=245_000))
    async with rig_over_model(scratch, codex_binary) as rig:
        async with rig.opened(
            engine="recording", engines={"recording": lambda _: engine}
        ) as runtime:
            session = rig.session(runtime)
            await rig.turn(session, "message 1", "answer 1")
            engine.addition = "Rule B: y."
            second = await rig.turn(session, "message 2", full)
            compacted = await rig.turn(session, "message 3", "The summary.", "answer 3")
            assert compacted.requests[0].is_compaction
            if not restart:
                after = await rig.turn(session, "message 4", "answer 4")
        if restart:
            async with rig.opened(
                engine="recording", engines={"recording": lambda _: engine}
            ) as runtime:
                after = await rig.turn(rig.session(runtime), "message 4", "answer 4")
                steady = await rig.turn(rig.session(runtime), "message 5", "answer 5")
                assert steady.requests[0].raw.decode().count("Rule B: y.") == 1
    assert len({second.thread_id, compacted.thread_id, after.thread_id}) == 1
    assert "Rule B: y." in after.requests[0].texts("developer")[-1]
    assert_grows([compacted.requests[-1], *after.requests])
