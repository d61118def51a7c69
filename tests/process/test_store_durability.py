"""Which writes wait for the disk: those that somebody was promised."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import apsw
import pytest

from treadle.clock import RandomIds, SystemClock
from treadle.contract.store import Binding, ContextReport, Injection
from treadle.model.ids import AgentId, RunId, SessionKey, ThreadId
from treadle.model.message import NewEntry, user_message
from treadle.store.open import open_store

pytestmark = pytest.mark.anyio

CLOCK = SystemClock()
THREAD = ThreadId("thread")
FULL, NORMAL = 2, 1


class Commits:
    """Levels of `synchronous` of the writer's commits, in order."""

    def __init__(self) -> None:
        self.connections: list[apsw.Connection] = []
        self.levels: list[int] = []

    def watch(self) -> None:
        for connection in self.connections:
            if not connection.readonly("main"):
                connection.set_commit_hook(partial(self._note, connection))

    def taken(self) -> list[int]:
        """Return the levels since the last call."""
        levels, self.levels = self.levels, []
        return levels

    def _note(self, connection: apsw.Connection) -> bool:
        self.levels.append(int(connection.pragma("synchronous")))
        return False


@contextmanager
def watched_commits() -> Iterator[Commits]:
    commits = Commits()
    hook = commits.connections.append
    apsw.connection_hooks.append(hook)
    try:
        yield commits
    finally:
        apsw.connection_hooks.remove(hook)


async def test_only_claims_and_reports_do_not_wait_for_the_disk(tmp_path: Path) -> None:
    """Reliability, section 1: FULL at S1, S4, S5 and S10; a later one carries the others along."""
    with watched_commits() as commits:
        async with open_store(tmp_path / "treadle.db", clock=CLOCK, ids=RandomIds(CLOCK)) as store:
            commits.connections = [one for one in commits.connections if _is_open(one)]
            commits.watch()
            session = await store.sessions.open(
                SessionKey("agent:main:work"), agent_id=AgentId("main"), owner="local"
            )
            assert commits.taken() == [FULL]
            claim = await store.transcript.claim(session.id, RunId("run"))
            assert commits.taken() == [NORMAL]
            await store.transcript.append(claim, [NewEntry(key="a", message=user_message("a"))])
            binding = Binding(
                session_id=session.id,
                thread_id=THREAD,
                revision=0,
                home="/h",
                cwd="/w",
                model=None,
                model_provider=None,
                tool_fingerprint=None,
                instructions_hash="",
                addition_hash="",
            )
            await store.bindings.put(claim, binding)
            injection = Injection(
                id="i", thread_id=THREAD, purpose="messages", item_ids=("m",), held=()
            )
            await store.bindings.intend(claim, injection)
            await store.bindings.abandon(claim, "i")
            assert commits.taken() == [FULL] * 4
            await store.reports.save(
                ContextReport(
                    run_id=RunId("run"), session_id=session.id, number=0, created_at=0, report={}
                )
            )
            await store.transcript.release(claim)
            assert commits.taken() == [NORMAL] * 2


def _is_open(connection: apsw.Connection) -> bool:
    try:
        connection.readonly("main")
    except apsw.ConnectionClosedError:
        return False
    return True
