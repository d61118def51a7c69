"""Without a context engine the model's input only grows, over restarts of Treadle and of codex."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.process.rig import all_entries, assert_grows, echo_tool, rig_over_model
from treadle.model.message import text_of
from treadle.testing.replies import Item, call, reply

pytestmark = [pytest.mark.anyio, pytest.mark.codex]

TURNS = 50
RESTARTS_BEFORE = (18, 35)


async def test_fifty_turns_over_two_restarts_keep_every_item_and_say_everything_once(
    codex_binary: Path, scratch: Path
) -> None:
    """Done when 2; spec A-20, C-01, E-15, G-01, H-03, F-11: 100 % of the items, ids included."""
    said: list[tuple[str, str]] = []
    async with rig_over_model(scratch, codex_binary) as rig:
        first = 1
        for last in (*(one - 1 for one in RESTARTS_BEFORE), TURNS):
            async with rig.opened(tools=[echo_tool()]) as runtime:
                session = rig.session(runtime)
                for number in range(first, last + 1):
                    prompt, answer = f"message {number}", f"answer {number}"
                    calls = _calls(number)
                    turn = await rig.turn(session, prompt, *map(reply, calls), answer)
                    assert turn.text == answer
                    assert turn.decision == ("seed" if number == 1 else "continue")
                    said.append(("user", prompt))
                    said += [
                        pair for _ in calls for pair in (("assistant", ""), ("toolResult", ""))
                    ]
                    said.append(("assistant", answer))
                stored = await all_entries(session)
            first = last + 1
        assert_grows(rig.model.requests)
    assert len({request.thread_id for request in rig.model.requests}) == 1
    assert [(one.message.role, text_of(one.message)) for one in stored] == said
    assert len({entry.key for entry in stored}) == len(stored)
    outputs = [str(item.get("output")) for item in rig.model.requests[-1].input]
    assert sum("remember the milk" in output for output in outputs) == 5
    assert sum("exec-worked" in output for output in outputs) == 5


def _calls(number: int) -> list[Item]:
    if number % 10 == 3:
        return [call("note", {"n": number}, call_id=f"call_note_{number}")]
    if number % 10 == 7:
        return [call("exec_command", {"cmd": "echo exec-worked"}, call_id=f"call_exec_{number}")]
    return []
