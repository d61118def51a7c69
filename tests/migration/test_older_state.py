"""State directories of earlier versions, opened by this one: nothing is lost, and they go on."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.migration.make_fixture import DATABASE, HERE, SAID
from treadle import EntryKind, Outcome, open_runtime
from treadle.clock import RandomIds, SystemClock
from treadle.config import find_paths
from treadle.contract.store import SearchQuery
from treadle.model.message import USER, text_of
from treadle.store.open import open_store

pytestmark = pytest.mark.anyio

VERSIONS = sorted(path.parent.name for path in HERE.glob(f"*/{DATABASE}"))


def copied(version: str, state: Path) -> Path:
    state.mkdir(mode=0o700, parents=True)
    shutil.copyfile(HERE / version / DATABASE, state / DATABASE)
    (state / DATABASE).chmod(0o600)
    return state / DATABASE


def test_there_is_a_state_directory_of_every_version_with_one() -> None:
    """Issue 1 of 6, item 1: each issue ends with a stored state directory."""
    assert {"0.1.0", "0.2.0"} <= set(VERSIONS)


@pytest.mark.parametrize("version", VERSIONS)
async def test_an_older_store_opens_whole(version: str, tmp_path: Path) -> None:
    """INV-5, INV-21."""
    path = copied(version, tmp_path / "state")
    clock = SystemClock()
    async with open_store(path, clock=clock, ids=RandomIds(clock)) as store:
        assert (await store.check()).faults == ()
        [session] = await store.sessions.list()
        entries = await store.transcript.entries(session.id)
        said = [text_of(one.message) for one in entries if one.message.role == USER]
        assert said == list(SAID)
        assert any(one.raw_items for one in entries if one.kind is EntryKind.MESSAGE)
        [hit] = await store.transcript.search(SearchQuery(text="千二百", role=USER))
        assert text_of(hit.entry.message) == SAID[2]
        report = await store.reports.get(session.id)
        assert report is not None
        assert report.number == len(SAID)


@pytest.mark.codex
@pytest.mark.parametrize("version", VERSIONS)
async def test_a_session_of_an_older_store_goes_on_with_its_context(
    version: str, scratch: Path, codex_binary: Path
) -> None:
    """Spec S-15, D-27: the native thread is gone, so a fresh one is given the mirrored history."""
    del codex_binary
    paths = find_paths(os.environ, state=scratch / "state", home=scratch)
    copied(version, paths.state)
    async with open_runtime(paths=paths, offline=True) as runtime:
        run = runtime.session("pottery", cwd=scratch).run("At how many degrees does the kiln fire?")
        finished = await run.result()
    assert finished.outcome is Outcome.COMPLETED, finished.error
    assert "1,240" in finished.text
