"""What native compaction does to the engine's addition, on the real binary."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.process.rig import Rig, rig_over_model
from treadle import Assembled, AssembleParams, EngineInfo
from treadle.testing.model import Request, reply
from treadle.testing.replies import Usage

pytestmark = [pytest.mark.anyio, pytest.mark.codex]

NEARLY_FULL = Usage(input=250_000, output=10)
"""Reported usage that makes Codex compact before the next turn (window 258,400)."""


class Speaking:
    """Passes the history on and says one thing beside it; `ownsCompaction` is off."""

    def __init__(self) -> None:
        self.info = EngineInfo(id="speaking", name="Speaking")
        self.says: str | None = None

    def ingest(self, params: object) -> dict[str, bool]:
        del params
        return {"ingested": True}

    def compact(self, params: object) -> dict[str, bool]:
        del params
        return {"ok": True, "compacted": False}

    def assemble(self, params: AssembleParams) -> Assembled:
        return Assembled(
            messages=params.messages, estimated_tokens=0, system_prompt_addition=self.says
        )


def developer_texts(request: Request) -> str:
    return "\n".join(request.texts("developer"))


async def compacting_turn(rig: Rig, session: object, text: str) -> Request:
    """Run a turn before which Codex compacts; return the turn's own request."""
    turn = await rig.turn(session, text, "a summary of it all", "answered")  # type: ignore[arg-type]
    compaction, own = turn.requests
    assert compaction.is_compaction
    return own


async def test_a_superseded_addition_is_said_again_after_native_compaction(
    scratch: Path, codex_binary: Path
) -> None:
    """Spec E-15: compaction drops the superseding item and brings the thread's first one back."""
    engine = Speaking()
    async with (
        rig_over_model(scratch, codex_binary) as rig,
        rig.opened(engine="speaking", engines={"speaking": lambda _context: engine}) as runtime,
    ):
        session = rig.session(runtime)
        engine.says = "ADDITION-ONE"
        await rig.turn(session, "one", "ok")
        engine.says = "ADDITION-TWO"
        await rig.turn(session, "two", reply("ok", usage=NEARLY_FULL))
        compacted = developer_texts(await compacting_turn(rig, session, "three"))
        four = developer_texts((await rig.turn(session, "four", "ok")).requests[0])
        assert four.count("ADDITION-TWO") == 1
        assert four.rindex("ADDITION-TWO") > four.rfind("ADDITION-ONE")
        five = developer_texts((await rig.turn(session, "five", "ok")).requests[0])
        assert five.count("ADDITION-TWO") == 1
        del compacted


async def test_without_an_addition_nothing_is_said_after_native_compaction(
    scratch: Path, codex_binary: Path
) -> None:
    """Spec D-55: a plain session is left as Codex compacted it."""
    async with rig_over_model(scratch, codex_binary) as rig, rig.opened() as runtime:
        session = rig.session(runtime)
        await rig.turn(session, "one", reply("ok", usage=NEARLY_FULL))
        await compacting_turn(rig, session, "two")
        turn = await rig.turn(session, "three", "ok")
        assert "superseded" not in developer_texts(turn.requests[0])
        assert turn.decision == "continue"
