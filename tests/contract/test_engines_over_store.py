"""Engines and `memory_search` over the real store: what they read, and whose it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from treadle.config import Deadlines
from treadle.contract.engine import EngineContext
from treadle.contract.store import SessionRecord, Store
from treadle.contract.tool import ToolCall
from treadle.engines import window
from treadle.engines.registry import EngineRegistry
from treadle.foreign import ForeignCalls
from treadle.harness import lifecycle
from treadle.harness.lifecycle import LifecycleCall
from treadle.model.ids import AgentId, RunId, SessionKey, ThreadId, TurnId
from treadle.model.message import NewEntry, user_message
from treadle.observe import emit
from treadle.store.open import open_store
from treadle.testing.clock import CountedIds, ManualClock
from treadle.tools.builtin import memory_search
from treadle.tools.call import ToolCaller
from treadle.tools.catalog import Catalog

pytestmark = pytest.mark.anyio

MINE = SessionKey("agent:main:main")
THEIRS = SessionKey("agent:main:theirs")


async def fill(store: Store, key: SessionKey, owner: str, texts: list[str]) -> SessionRecord:
    session = await store.sessions.open(key, agent_id=AgentId("main"), owner=owner)
    claim = await store.transcript.claim(session.id, RunId("run_1"))
    entries = [NewEntry(key=f"k{at}", message=user_message(text)) for at, text in enumerate(texts)]
    await store.transcript.append(claim, entries)
    await store.transcript.release(claim)
    return session


async def test_window_reads_only_the_newest_rows_of_a_long_transcript(tmp_path: Path) -> None:
    """Decision 12: read in a worker thread, while the loop goes on."""
    async with (
        open_store(tmp_path / "t.db", clock=ManualClock(), ids=CountedIds()) as store,
        ForeignCalls(emit) as foreign,
    ):
        session = await fill(store, MINE, "local", [f"message {at}" for at in range(700)])
        snapshot = await store.transcript.snapshot(session.id)
        registry = EngineRegistry(foreign, Deadlines(), ManualClock())
        registry.register("window", window.create, owner="treadle")
        async with registry.lease("window", EngineContext(config={"size": 50})) as resolution:
            outcome = await lifecycle.assemble(
                resolution.engine,
                LifecycleCall(session_id=session.id, session_key=MINE),
                messages=snapshot,
                available_tools=frozenset(),
                prompt="and now?",
            )
        assert outcome.assembled is not None
        assert len(outcome.assembled.messages) == 101
        assert outcome.assembled.messages[-1] == snapshot[-1]
        assert snapshot.rows_read <= 101 + 1


async def test_memory_search_finds_only_what_the_session_may_see(tmp_path: Path) -> None:
    """Decision 31."""
    async with (
        open_store(tmp_path / "t.db", clock=ManualClock(), ids=CountedIds()) as store,
        ForeignCalls(emit) as foreign,
    ):
        await fill(store, MINE, "local", ["the kettle is blue", "hello"])
        await fill(store, THEIRS, "somebody", ["the kettle is a secret"])
        answer = await _ask(store, foreign, {"query": "kettle"})
        (item,) = answer
        assert "the kettle is blue" in item["text"]
        assert "secret" not in item["text"]


async def _ask(store: Store, foreign: ForeignCalls, arguments: dict[str, Any]) -> Any:
    catalog: Any = Catalog([memory_search.create(store)])
    tools = catalog.choose(_Inactive())
    call = ToolCall(
        call_id="call_1",
        name="memory_search",
        arguments=arguments,
        session_key=MINE,
        run_id=RunId("run_1"),
        thread_id=ThreadId("thr_1"),
        turn_id=TurnId("turn_1"),
    )
    answer = await ToolCaller(foreign).call(tools, call)
    assert answer["success"] is True
    return answer["contentItems"]


class _Inactive:
    """As much of `legacy` as choosing tools asks for."""

    is_active = False
