"""What a turn's settlement may cost, and that nothing is lost where it costs more."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from tests.process.rig import TURN_S, Turn, all_entries, rig_over_model
from treadle.contract.hook import HookRegistration, MessageWrite
from treadle.model.message import ASSISTANT, Message, text_of
from treadle.model.turn import Outcome, PartDelta
from treadle.testing.engine import RecordingEngine
from treadle.testing.model import gate, reply, text

pytestmark = [pytest.mark.anyio, pytest.mark.codex]

NEVER_S = 86_400
"""As a deadline: the other one has to end the wait."""

SHORT_S = 0.3


class Stuck:
    """A hook that takes for ever over an answer, until it is let go."""

    def __init__(self) -> None:
        self.free = anyio.Event()

    async def __call__(self, payload: MessageWrite) -> Message:
        if payload.message.role == ASSISTANT:
            await self.free.wait()
        return payload.message

    @property
    def registrations(self) -> list[HookRegistration]:
        return [HookRegistration(name="before_message_write", handler=self, owner="test")]


def keys(*, settlement_s: float, drain_s: float) -> dict[tuple[str, ...], float]:
    return {
        ("deadlines", "settlementSeconds"): settlement_s,
        ("deadlines", "drainSeconds"): drain_s,
        ("hooks", "timeoutMs"): 600_000,
    }


async def test_a_whole_answer_outlives_its_settlement_and_is_written_by_the_next_run(
    codex_binary: Path, scratch: Path
) -> None:
    """Spec A-19, I-03: a degraded success, said so; the engine is told what was said."""
    stuck, engine = Stuck(), RecordingEngine()
    engines = {"recording": lambda _: engine}
    async with rig_over_model(scratch, codex_binary) as rig:
        rig.keys.update(keys(settlement_s=SHORT_S, drain_s=NEVER_S))
        async with rig.opened(
            engine="recording", engines=engines, hooks=stuck.registrations
        ) as runtime:
            session = rig.session(runtime)
            late = await rig.turn(session, "message one.", "answer one.")
            before = [text_of(entry.message) for entry in await all_entries(session)]
            [told] = [one for one in engine.calls if one.operation == "after_turn"]
            stuck.free.set()
        rig.keys.clear()
        async with rig.opened(engine="recording", engines=engines) as runtime:
            session = rig.session(runtime)
            again = await rig.turn(session, "message two.", "answer two.")
            after = [text_of(entry.message) for entry in await all_entries(session)]
    assert (late.finished.outcome, late.text) == (Outcome.COMPLETED, "answer one.")
    assert "mirror_failed" in late.notices
    assert before == ["message one."]
    assert [text_of(message) for message in told.messages] == ["message one.", "answer one."]
    assert after == ["message one.", "answer one.", "message two.", "answer two."]
    assert "mirror_failed" not in again.notices
    assert again.thread_id == late.thread_id


async def test_after_an_abort_settlement_has_a_short_time_of_its_own(
    codex_binary: Path, scratch: Path
) -> None:
    """Spec A-19: whoever stopped a turn does not wait for its whole settlement budget."""
    stuck, held = Stuck(), gate()
    async with rig_over_model(scratch, codex_binary) as rig:
        rig.keys.update(keys(settlement_s=NEVER_S, drain_s=SHORT_S))
        async with rig.opened(hooks=stuck.registrations) as runtime:
            rig.model.enqueue(reply(text("half"), held))
            run = rig.session(runtime).run("message one.")
            with anyio.fail_after(TURN_S):
                async for event in run:
                    if isinstance(event, PartDelta):
                        run.interrupt()
            stopped = Turn(events=tuple([event async for event in run]), requests=())
            stuck.free.set()
        rig.keys.clear()
        async with rig.opened() as runtime:
            session = rig.session(runtime)
            await rig.turn(session, "message two.", "answer two.")
            after = [text_of(entry.message) for entry in await all_entries(session)]
    assert stopped.finished.outcome is Outcome.STOPPED
    assert "mirror_failed" in stopped.notices
    assert (after[0], after[-2:]) == ("message one.", ["message two.", "answer two."])
    assert "half" in after, "nothing is lost: the next run wrote it"
