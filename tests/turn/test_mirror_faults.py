"""A mirror that fails, or is given odd text, costs the record and never the reply."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.turn.rig import Rig
from treadle.contract.engine import AfterTurnParams
from treadle.contract.hook import HookRegistration, MessageWrite
from treadle.model.message import Message, text_of
from treadle.model.turn import Outcome
from treadle.testing.engine import RecordingEngine

pytestmark = pytest.mark.anyio


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(root=tmp_path)


def rewriting(content: Any) -> HookRegistration:
    """Return a hook that puts this content in place of what the assistant said."""

    def write(payload: MessageWrite) -> Message:
        is_answer = payload.message.role == "assistant"
        return replace(payload.message, content=content) if is_answer else payload.message

    return HookRegistration(name="before_message_write", handler=write)


@pytest.mark.parametrize(
    ("content", "stored"),
    [("half \ud800", "half \ufffd"), ({"odd": float}, "fine")],
    ids=["half a character", "no JSON"],
)
async def test_odd_text_of_a_write_hook_costs_no_reply(
    rig: Rig, content: object, stored: str
) -> None:
    """Spec H-01, H-07, RS12: made valid where it can be, else the message stays as it was."""
    engine = RecordingEngine()
    async with rig.opened(engine, hooks=[rewriting(content)]) as runtime:
        session = runtime.session("t")
        rig.answers("fine")
        turn = await rig.say(session, "hello")
        entries = await session.entries()
    assert turn.finished.text == "fine"
    assert [text_of(one.message) for one in entries] == ["hello", stored]
    assert engine.operations.count("after_turn") == 1


async def test_a_mirror_that_cannot_be_written_costs_no_reply(rig: Rig) -> None:
    """Spec H-01, I-03, S-04: told to the person, and the engine gets the turn all the same."""
    database, kept = rig.state / "treadle.sqlite3", rig.state / "kept"

    def take_the_file_away(payload: MessageWrite) -> Message:
        if payload.message.role == "assistant":
            database.rename(kept)
            shutil.copy2(kept, database)
        return payload.message

    class Engine(RecordingEngine):
        def after_turn(self, params: AfterTurnParams) -> None:
            super().after_turn(params)
            kept.replace(database)

    engine = Engine()
    hooks = [HookRegistration(name="before_message_write", handler=take_the_file_away)]
    async with rig.opened(engine, hooks=hooks) as runtime:
        rig.answers("fine")
        turn = await rig.say(runtime.session("t"), "hello")
    assert turn.finished.outcome is Outcome.COMPLETED
    assert turn.finished.text == "fine"
    assert "mirror_failed" in turn.notices
    (told,) = [one for one in engine.calls if one.operation == "after_turn"]
    assert [text_of(one) for one in told.messages] == ["hello", "fine"]
