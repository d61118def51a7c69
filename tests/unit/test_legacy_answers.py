"""What legacy answers to calls outside an attempt, its optional methods included."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from treadle.config import Deadlines
from treadle.contract.engine import (
    AfterTurnParams,
    AssembleParams,
    BootstrapParams,
    CommitTurnParams,
    CompactParams,
    EngineContext,
    IngestBatchParams,
    IngestParams,
    MaintainParams,
)
from treadle.engines import legacy
from treadle.engines.guard import GuardedEngine
from treadle.foreign import ForeignCalls
from treadle.model.ids import EntryId, SessionId
from treadle.model.message import assistant_message, user_message
from treadle.observe import emit

pytestmark = pytest.mark.anyio

SESSION = SessionId("ses_1")
MESSAGES = (user_message("one"), assistant_message("two"))


@pytest.fixture
async def engine() -> AsyncIterator[GuardedEngine]:
    async with ForeignCalls(emit, close_within_s=0.05) as foreign:
        made = legacy.create(EngineContext(config={}))
        yield GuardedEngine(made, made.info, foreign=foreign, deadlines=Deadlines())


async def test_legacy_passes_through_takes_nothing_and_leaves_compaction_to_codex(
    engine: GuardedEngine,
) -> None:
    """Spec B-04: no tools, no addition, `afterTurn` does nothing."""
    assembled = await engine.assemble(
        AssembleParams(
            session_id=SESSION,
            messages=MESSAGES,
            token_budget=None,
            available_tools=frozenset(),
            citations_mode=None,
            model=None,
            prompt="p",
        )
    )
    assert tuple(assembled.messages) == MESSAGES
    assert assembled.system_prompt_addition is None
    assert engine.tools() == ()
    taken = await engine.ingest(IngestParams(session_id=SESSION, message=MESSAGES[0]))
    assert not taken.ingested
    told = AfterTurnParams(session_id=SESSION, messages=MESSAGES, pre_prompt_message_count=0)
    assert await engine.after_turn(told)
    compacted = await engine.compact(CompactParams(session_id=SESSION))
    assert (compacted.ok, compacted.compacted) == (True, False)
    assert compacted.reason


async def test_what_legacy_lacks_has_an_answer_that_says_that_nothing_was_done(
    engine: GuardedEngine,
) -> None:
    """Spec B-42."""
    booted = await engine.bootstrap(BootstrapParams(session_id=SESSION, messages=MESSAGES))
    assert booted is not None
    assert not booted.bootstrapped
    assert booted.reason
    kept = await engine.maintain(MaintainParams(session_id=SESSION, reason="turn"))
    assert kept is not None
    assert (kept.changed, kept.bytes_freed, kept.rewritten_entries) == (False, 0, 0)
    assert kept.reason
    taken = await engine.ingest_batch(IngestBatchParams(session_id=SESSION, messages=MESSAGES))
    assert taken is not None
    assert taken.ingested_count == 0


def test_a_committed_turn_is_named_by_its_key_and_its_two_ends() -> None:
    """Spec B-19: what a turn's commit says; who calls it, and when, comes with durable turns."""
    params = CommitTurnParams(
        session_id=SESSION,
        advancement_key="ses_1:1",
        admission=EntryId("e_1"),
        terminal=EntryId("e_2"),
        messages=MESSAGES,
    )
    assert (params.admission, params.terminal, len(params.messages)) == ("e_1", "e_2", 2)
    assert not params.is_heartbeat
