"""An engine that changes the past: one fresh thread, and nothing is lost."""

from __future__ import annotations

import shutil
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from itertools import chain, pairwise
from pathlib import Path

import pytest

from tests.process.rig import (
    CALLS,
    CODE_MODE,
    PLAIN,
    Rig,
    Turn,
    all_entries,
    assert_grows,
    bare,
    echo_tool,
    rig_over_model,
)
from treadle.contract.tool import DynamicTool, ToolImage, ToolResult, ToolText
from treadle.engines.window import cut_at
from treadle.model.json import JsonObject
from treadle.model.message import text_of
from treadle.protocol.responses import is_output, item_kind, item_role, item_text, with_id
from treadle.runtime.service import Runtime
from treadle.runtime.sessions import Session
from treadle.testing.engine import RecordingEngine
from treadle.testing.model import Answer
from treadle.testing.replies import call, reasoning, reply

pytestmark = [pytest.mark.anyio, pytest.mark.codex]

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    "rkJggg=="
)

REPLACED_AT = 20
RESTART_BEFORE = 16
CALLS_AT = (14, 17)
"""Turns with every kind of call: one before the restart, one after it."""


@pytest.mark.parametrize("model", [PLAIN, CODE_MODE])
async def test_replacing_the_first_half_costs_one_thread_and_loses_nothing(
    codex_binary: Path, scratch: Path, model: str
) -> None:
    """Done when 3; spec D-51 to D-54, decisions 7 and 8: what comes back is what was there."""
    engine = RecordingEngine()
    turns: list[Turn] = []
    async with rig_over_model(scratch, codex_binary) as rig:
        rig.work.mkdir()
        (rig.work / "AGENTS.md").write_text("Speak plainly.\n")
        for numbers in (
            range(1, RESTART_BEFORE),
            range(RESTART_BEFORE, REPLACED_AT + 2),
            (REPLACED_AT + 2,),
        ):
            async with rig.opened(
                engine="recording",
                model=model,
                engines={"recording": lambda _: engine},
                tools=[echo_tool()],
            ) as runtime:
                session = rig.session(runtime)
                for number in numbers:
                    if number == REPLACED_AT:
                        stored = await all_entries(session)
                        said = [text_of(entry.message) for entry in stored]
                        engine.summary_of = said.index(f"message {REPLACED_AT // 2 + 1}")
                    turns.append(await _turn(rig, session, number, model))
    before, after = turns[: REPLACED_AT - 1], turns[REPLACED_AT - 1 :]
    assert [turn.decision for turn in turns] == [
        "seed", *["continue"] * (REPLACED_AT - 2), "rebase", "continue", "continue",
    ]  # fmt: skip
    assert len({turn.thread_id for turn in before}) == len({turn.thread_id for turn in after}) == 1
    for same_thread in (before, after):
        assert_grows([request for turn in same_thread for request in turn.requests])

    first, rebased = turns[0].input, after[0].input
    head = _first_at(first, "message 1")
    assert bare(rebased[:head]) == bare(first[:head])
    assert "Speak plainly." in str(rebased[:head])
    kept_from = stored[engine.summary_of].message
    old = [*before[-1].requests[-1].input, _answer_like(before[-1].input, REPLACED_AT - 1)]
    kept = old[_first_at(old, _text(kept_from.content)) :]
    assert _texts(rebased[head : head + 1]) == [f"Summary of {engine.summary_of} messages."]
    behind = rebased[head + 1 : head + 1 + len(kept)]
    assert bare(behind) == bare(kept)
    assert sum("exec-worked" in str(item.get("output")) for item in behind) == 2 * len(CALLS_AT)
    assert sum(item_kind(item) == "reasoning" for item in behind) == 2 * len(CALLS_AT)
    rest = rebased[head + 1 + len(kept) :]
    assert item_text(rest[-1]) == f"message {REPLACED_AT}"
    assert _texts(rest) == [f"message {REPLACED_AT}"]  # Codex had nothing of its own to say


async def _turn(rig: Rig, session: Session, number: int, model: str) -> Turn:
    answers: list[Answer | str] = [f"answer {number}"]
    if number in CALLS_AT:
        one_by_one = map(reply, CALLS[model])
        at_once = reply(reasoning("Two at once."), *CALLS[model][:2])
        answers = [*one_by_one, at_once, reply(reasoning("Now I know."), f"answer {number}")]
    return await rig.turn(session, f"message {number}", *answers)


def _first_at(items: list[JsonObject], text: str) -> int:
    return next(
        at for at, item in enumerate(items) if item_role(item) == "user" and item_text(item) == text
    )


def _text(content: object) -> str:
    match content:
        case [{"type": "text", "text": str() as text}]:
            return text
        case _:
            raise AssertionError(content)


def _texts(items: list[JsonObject]) -> list[str]:
    return [item_text(item) for item in items]


def _answer_like(items: list[JsonObject], number: int) -> JsonObject:
    """Return the answer of that turn as Codex keeps it, made from the newest one that it sent."""
    newest = next(item for item in reversed(items) if item_role(item) == "assistant")
    text = [{"type": "output_text", "text": f"answer {number}"}]
    return with_id({**newest, "content": text}, "of the old thread")


async def test_another_memory_in_front_of_each_turn_costs_at_most_four_threads(
    codex_binary: Path, scratch: Path
) -> None:
    """Spec D-54: the right memory in each request, nothing doubled; steady again, it is gone."""
    engine = RecordingEngine()
    turns: list[Turn] = []
    async with rig_over_model(scratch, codex_binary) as rig:
        for numbers in (range(1, 11), range(11, 21)):
            async with rig.opened(
                engine="recording", engines={"recording": lambda _: engine}
            ) as runtime:
                session = rig.session(runtime)
                for number in numbers:
                    engine.recalled = f"recalled for turn {number}."
                    turns.append(await rig.turn(session, f"message {number}.", f"answer {number}."))
        engine.recalled = None
        async with rig.opened(
            engine="recording", engines={"recording": lambda _: engine}
        ) as runtime:
            session = rig.session(runtime)
            steady = [
                await rig.turn(session, f"message {number}.", f"answer {number}.")
                for number in range(21, 26)
            ]
    assert [turn.decision for turn in turns] == [
        "seed", *["rebase"] * 3, *["prompt"] * 16,
    ]  # fmt: skip
    assert len({turn.thread_id for turn in turns}) == 4
    for number, turn in enumerate(turns, 1):
        asked = turn.requests[0].raw.decode()
        assert asked.count(f"recalled for turn {number}.") == 1
        assert turn.requests[0].texts("user")[-1].endswith(f"message {number}.")
        for earlier in range(1, number):
            assert asked.count(f"message {earlier}.") == asked.count(f"answer {earlier}.") == 1
    assert_grows([request for turn in turns[3:] for request in turn.requests])
    assert [turn.decision for turn in steady] == [*["prompt"] * 3, "rebase", "continue"]
    last = steady[-1].requests[0].raw.decode()
    assert "recalled for turn" not in last
    assert [last.count(f"message {number}.") for number in range(1, 26)] == [1] * 25


async def test_a_window_rebases_at_its_cuts_and_only_grows_between_them(
    codex_binary: Path, scratch: Path
) -> None:
    """Spec D-51, D-52, D-54: 60 turns, size 10, over a restart."""
    size, count = 10, 60
    turns: list[Turn] = []
    async with rig_over_model(scratch, codex_binary) as rig:
        rig.keys["plugins", "entries", "window", "config"] = {"size": size}
        for numbers in (range(1, 36), range(36, count + 1)):
            async with rig.opened(engine="window") as runtime:
                session = rig.session(runtime)
                turns += [await rig.turn(session, f"message {n}.", f"answer {n}.") for n in numbers]
            stored = await _stored_texts(rig)
    cuts = [cut_at(2 * (number - 1), size) for number in range(1, count + 1)]
    expected = ["seed", *("continue" if a == b else "rebase" for a, b in pairwise(cuts))]
    assert [turn.decision for turn in turns] == expected
    assert 8 <= expected.count("rebase") <= 12
    assert len({turn.thread_id for turn in turns}) == 1 + expected.count("rebase")
    for earlier, later in pairwise(turns):
        if earlier.thread_id == later.thread_id:
            assert_grows([*earlier.requests, *later.requests])
    for number, turn in enumerate(turns, 1):
        shown = [
            text for text in turn.requests[0].texts() if text.startswith(("message", "answer"))
        ]
        first = cuts[number - 1] // 2 + 1
        said = [(f"message {n}.", f"answer {n}.") for n in range(first, number)]
        assert shown == [*chain.from_iterable(said), f"message {number}."]
    assert stored == [
        text for n in range(1, count + 1) for text in (f"message {n}.", f"answer {n}.")
    ]


async def _stored_texts(rig: Rig) -> list[str]:
    async with rig.opened() as runtime:
        return [text_of(one.message) for one in await all_entries(rig.session(runtime))]


async def test_long_outputs_images_and_failed_calls_come_back_as_they_were(
    codex_binary: Path, scratch: Path
) -> None:
    """Decision 7, spec D-53: also what Codex cut, over a restart, and what failed."""
    pixel = f"data:image/png;base64,{PIXEL}"
    picture = DynamicTool(
        name="picture",
        description="Show a picture.",
        input_schema={"type": "object"},
        call=lambda _: ToolResult(content=(ToolText(text="see:"), ToolImage(data_url=pixel))),
    )
    longest = DynamicTool(
        name="longest",
        description="Say a lot.",
        input_schema={"type": "object"},
        call=lambda _: "\n".join(f"line {number}" for number in range(20_000)),
    )

    def failing(_: object) -> str:
        raise RuntimeError("no such note")

    broken = replace(longest, name="broken", call=failing)
    calls = (
        call("exec_command", {"cmd": "seq 1 40000"}),
        call("exec_command", {"cmd": "cat /nonexistent; exit 3"}),
        call("longest", {}),
        call("picture", {}),
        call("broken", {}),
        call("nobody_knows", {}),
        call("note", "{not json"),
    )
    engine = RecordingEngine()
    turns: list[Turn] = []
    async with rig_over_model(scratch, codex_binary) as rig:
        for numbers in ((1, 2), (3,), (4, 5)):
            async with rig.opened(
                engine="recording",
                engines={"recording": lambda _: engine},
                tools=[echo_tool(), picture, longest, broken],
            ) as runtime:
                session = rig.session(runtime)
                for number in numbers:
                    engine.summary_of = 2 if number >= 4 else 0
                    answers = map(reply, calls) if number in {2, 3} else ()
                    turns.append(
                        await rig.turn(session, f"message {number}", *answers, f"answer {number}")
                    )
    rebased, before = turns[3].input, turns[2].requests[-1].input
    assert turns[3].decision == "rebase"
    kept = before[_first_at(before, "message 2") :]
    at = _first_at(rebased, "message 2")
    assert bare(rebased[at : at + len(kept)]) == bare(kept)
    assert sum(is_output(item) for item in kept) == 2 * len(calls)
    assert_grows([*turns[3].requests, *turns[4].requests])


@pytest.mark.parametrize("engine", ["legacy", "recording"])
@pytest.mark.parametrize("why", ["tools changed", "thread gone", "provider changed"])
async def test_a_thread_that_cannot_go_on_is_replaced_and_nothing_is_lost(
    codex_binary: Path, scratch: Path, why: str, engine: str
) -> None:
    """Spec D-27, F-13, F-19, S-15; decisions 5, 7, 8: the new one holds what the old one held."""
    async with rig_over_model(scratch, codex_binary) as rig:
        other = ("models", "providers", "other")
        rig.keys[*other, "baseUrl"] = rig.model.base_url
        rig.keys[*other, "agentRuntime", "id"] = "codex"

        def opened(model: str = PLAIN, *tools: DynamicTool) -> AbstractAsyncContextManager[Runtime]:
            own = {"recording": lambda _: RecordingEngine()}
            return rig.opened(engine=engine, engines=own, model=model, tools=tools)

        async with opened(PLAIN, echo_tool()) as runtime:
            session = rig.session(runtime)
            note = reply(call("note", {"n": 1}))
            thought = reply(reasoning("Hm."), "answer 1")
            before = [
                await rig.turn(session, "message 1", note, thought),
                await rig.turn(session, "message 2", "answer 2"),
            ]
        if why == "thread gone":
            shutil.rmtree(rig.codex_home / "sessions")
        tools = () if why == "tools changed" else (echo_tool(),)
        model = "other/scripted-1" if why == "provider changed" else PLAIN
        async with opened(model, *tools) as runtime:
            session = rig.session(runtime)
            after = [
                await rig.turn(session, f"message {number}", f"answer {number}")
                for number in (3, 4)
            ]
            stored = [text_of(one.message) for one in await all_entries(session)]
    assert [turn.decision for turn in after] == ["rebase", "continue"]
    assert after[0].thread_id != before[0].thread_id
    last = before[-1].requests[-1].input
    old = [*last, _answer_like(last, 2)]
    if why == "provider changed":  # what was sealed for one provider is of no use to another
        old = [item for item in old if item_kind(item) != "reasoning"]
    at = _first_at(after[0].input, "message 1")
    expected = old[_first_at(old, "message 1") :]
    assert bare(after[0].input[at:-1]) == bare(expected)
    assert_grows([request for turn in after for request in turn.requests])
    assert [text for text in stored if text] == [
        f"{kind} {number}" for number in range(1, 5) for kind in ("message", "answer")
    ]
