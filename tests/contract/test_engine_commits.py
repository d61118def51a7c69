"""Engines that commit turns: what they declare, what the guard takes for an answer, the kit."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from treadle.config import Deadlines
from treadle.contract.engine import (
    LEGACY,
    CommitTurnParams,
    CommitTurnResult,
    EngineContext,
    EngineInfo,
)
from treadle.engines import legacy, window
from treadle.engines.answers import engine_info
from treadle.engines.guard import GuardedEngine
from treadle.foreign import ForeignCalls
from treadle.model.errors import EngineContractError, EngineError, EngineTimeout
from treadle.model.ids import EngineId, EntryId, SessionId
from treadle.model.message import Message, assistant_message, user_message
from treadle.observe import emit
from treadle.testing.commits import CommitLog
from treadle.testing.engine import (
    RECORDING_INFO,
    BreakingEngine,
    RecordingEngine,
    committing,
    committing_engine,
    create_breaking,
    create_recording,
)

pytestmark = pytest.mark.anyio

TURN = (
    replace(user_message("the kiln fires"), entry_id=EntryId("ent_1")),
    replace(assistant_message("noted"), entry_id=EntryId("ent_2")),
)


def turn(key: str = "key-1", messages: tuple[Message, ...] = TURN) -> CommitTurnParams:
    return CommitTurnParams(
        session_id=SessionId("ses_1"),
        advancement_key=key,
        admission=EntryId("ent_1"),
        terminal=EntryId("ent_2"),
        messages=messages,
    )


@pytest.fixture
async def foreign() -> AsyncIterator[ForeignCalls]:
    async with ForeignCalls(emit, close_within_s=0.05) as calls:
        yield calls


def guarded(engine: Any, foreign: ForeignCalls, *, commit_s: float = 5) -> GuardedEngine:
    deadlines = Deadlines(engine_commit_s=commit_s)
    return GuardedEngine(engine, engine_info("e", engine), foreign=foreign, deadlines=deadlines)


@dataclass(frozen=True, kw_only=True)
class Declared:
    info: EngineInfo
    has_method: bool = True
    durable: bool = False


DECLARED = {
    "both and the method": Declared(info=committing(RECORDING_INFO), durable=True),
    "no method": Declared(info=committing(RECORDING_INFO), has_method=False),
    "no fence": Declared(info=replace(committing(RECORDING_INFO), current_turn_fence=None)),
    "no idempotency": Declared(
        info=replace(committing(RECORDING_INFO), turn_advancement_idempotency=None)
    ),
    "a later fence": Declared(
        info=replace(committing(RECORDING_INFO), current_turn_fence="v2")  # type: ignore[arg-type]
    ),
    "neither": Declared(info=RECORDING_INFO),
    "legacy's own id": Declared(info=replace(committing(RECORDING_INFO), id=LEGACY)),
}


@pytest.mark.parametrize("case", DECLARED.values(), ids=DECLARED.keys())
async def test_durable_commits_need_both_declarations_and_the_method(
    case: Declared, foreign: ForeignCalls, tmp_path: Path
) -> None:
    """Spec B-34."""
    log = CommitLog(tmp_path / "log") if case.has_method else None
    engine = guarded(RecordingEngine(info=case.info, commits=log), foreign)
    assert engine.commits_durably is case.durable


async def test_declarations_may_come_in_a_plain_object(foreign: ForeignCalls) -> None:
    """Spec B-22, B-34: in the documents' spelling."""

    class Plain:
        def __init__(self) -> None:
            self.info = {
                "id": "plain",
                "name": "Plain",
                "currentTurnFence": "before-current-turn-entry-v1",
                "turnAdvancementIdempotency": "atomic-idempotent-v1",
            }

        def ingest(self, params: object) -> None: ...
        def assemble(self, params: object) -> None: ...
        def compact(self, params: object) -> None: ...
        def commit_turn(self, params: object) -> dict[str, str]:
            return {"status": "duplicate"}

    engine = guarded(Plain(), foreign)
    assert engine.commits_durably
    assert await engine.commit_turn(turn()) == CommitTurnResult(status="duplicate")


@pytest.mark.parametrize("engine", [legacy.create, window.create, create_recording])
async def test_engines_of_the_documents_do_not_commit(engine: Any, foreign: ForeignCalls) -> None:
    """Spec B-48: they are served by the calls that they have."""
    assert not guarded(engine(EngineContext(config={})), foreign).commits_durably


@pytest.mark.parametrize("answer", [None, {}, "committed", {"status": "done"}, {"status": True}])
async def test_an_invalid_status_is_a_failed_commit(answer: object, foreign: ForeignCalls) -> None:
    """Spec B-37."""

    class Answering(RecordingEngine):
        def commit_turn(self, params: CommitTurnParams) -> Any:
            return answer

    engine = guarded(Answering(info=committing(RECORDING_INFO), commits=CommitLog(Path())), foreign)
    with pytest.raises(EngineContractError, match="'commit_turn'"):
        await engine.commit_turn(turn())
    assert engine.has_failed


async def test_a_commit_has_a_deadline_of_its_own(foreign: ForeignCalls, tmp_path: Path) -> None:
    """Spec B-37; decision 14."""
    breaking = BreakingEngine("sleeps", on="commit_turn", commits=CommitLog(tmp_path / "log"))
    with anyio.fail_after(10), pytest.raises(EngineTimeout):
        await guarded(breaking, foreign, commit_s=0.1).commit_turn(turn())
    breaking.let_go()


async def test_an_engine_is_known_by_the_id_it_is_registered_under(foreign: ForeignCalls) -> None:
    """Spec B-03: whatever its info says."""
    engine = RecordingEngine()
    info = engine_info("mine", engine)
    named = GuardedEngine(
        engine, info, foreign=foreign, deadlines=Deadlines(), engine_id=EngineId("mine")
    )
    assert (named.engine_id, named.info.id) == ("mine", "recording")


# --------------------------------------------------------------------------- the kit's engines


async def test_the_recording_engine_commits_a_key_once(
    foreign: ForeignCalls, tmp_path: Path
) -> None:
    """Spec B-19: its log outlives it."""
    first = guarded(committing_engine(CommitLog(tmp_path / "log")), foreign)
    second = guarded(committing_engine(CommitLog(tmp_path / "log")), foreign)
    assert (await first.commit_turn(turn())).status == "committed"
    assert (await second.commit_turn(turn())).status == "duplicate"
    [commit] = CommitLog(tmp_path / "log").commits()
    assert (commit.key, commit.entries) == ("key-1", ("ent_1", "ent_2"))
    assert commit.texts == ("the kiln fires", "noted")


async def test_the_recording_engine_refuses_a_key_with_another_turn(
    foreign: ForeignCalls, tmp_path: Path
) -> None:
    """INV-8, seen from the engine."""
    engine = guarded(committing_engine(CommitLog(tmp_path / "log")), foreign)
    await engine.commit_turn(turn())
    with pytest.raises(EngineError, match="OtherPayload"):
        await engine.commit_turn(turn(messages=TURN[:1]))


async def test_the_breaking_engine_can_commit_and_then_raise(
    foreign: ForeignCalls, tmp_path: Path
) -> None:
    """Ours: the answer is lost, the work is done."""
    log = CommitLog(tmp_path / "log")
    engine = guarded(
        BreakingEngine("throws-after", on="commit_turn", calls=frozenset({1}), commits=log), foreign
    )
    with pytest.raises(EngineError):
        await engine.commit_turn(turn())
    assert log.keys == ["key-1"]
    assert (await engine.commit_turn(turn())).status == "duplicate"


@pytest.mark.parametrize("create", [create_recording, create_breaking])
async def test_the_kits_engines_commit_where_their_config_says_so(
    create: Any, foreign: ForeignCalls, tmp_path: Path
) -> None:
    """Ours: for tests that start Treadle as another process."""
    context = EngineContext(config={"commits": True}, data_dir=str(tmp_path))
    engine = guarded(create(context), foreign)
    assert engine.commits_durably
    assert (await engine.commit_turn(turn())).status == "committed"
    assert CommitLog(tmp_path / "commits.jsonl").keys == ["key-1"]
