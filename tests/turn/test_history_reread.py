"""The history is read again once `bootstrap` is through: it may have changed the transcript."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.turn.rig import Rig
from treadle.contract.engine import (
    AfterTurnParams,
    BootstrapParams,
    BootstrapResult,
    RuntimeContext,
)
from treadle.contract.store import Claim, TranscriptStore
from treadle.model.ids import RunId
from treadle.model.message import NewEntry, text_of, user_message
from treadle.testing.engine import RecordingEngine

pytestmark = pytest.mark.anyio


class Importing(RecordingEngine):
    """An engine that brings a message of its own into the transcript, under the run's claim."""

    transcript: TranscriptStore
    run_ids: list[RunId]

    async def bootstrap(self, params: BootstrapParams) -> BootstrapResult:  # type: ignore[override] # may be async
        context = params.runtime_context
        assert isinstance(context, RuntimeContext)
        claim = Claim(session_id=params.session_id, run_id=self.run_ids[-1], lease_epoch=2)
        imported = NewEntry(key="imported", message=user_message("IMPORTED"))
        await self.transcript.append(claim, [imported])
        return BootstrapResult(bootstrapped=True, imported_messages=1)


async def test_what_bootstrap_adds_is_assembled_and_counted(tmp_path: Path) -> None:
    """Spec C-04: the list that `assemble` gets and `prePromptMessageCount` are the re-read ones."""
    engine = Importing()
    engine.run_ids = []
    rig = Rig(root=tmp_path)
    async with rig.opened(engine) as runtime:
        engine.transcript = runtime.store.transcript
        session = runtime.session("t")
        rig.answers("one", "two")
        for text in ("first", "second"):
            run = session.run(text)
            engine.run_ids.append(run.run_id)
            async for _ in run:
                pass
    assembled = [one for one in engine.calls if one.operation == "assemble"]
    assert [text_of(one) for one in assembled[-1].messages] == ["first", "one", "IMPORTED"]
    handed = [one for one in engine.calls if one.operation == "after_turn"]
    assert isinstance(handed[-1].params, AfterTurnParams)
    assert handed[-1].params.pre_prompt_message_count == 3
    assert [text_of(one) for one in handed[-1].messages][3:] == ["second", "two"]
