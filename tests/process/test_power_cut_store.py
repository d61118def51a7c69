"""The store after power cuts: what it said is written survives, whole, and in its order."""

from __future__ import annotations

from pathlib import Path
from random import Random

import apsw
import pytest

from bench.reliability.disk import LosingDisk
from treadle.clock import RandomIds, SystemClock
from treadle.contract.store import Claim
from treadle.model.ids import AgentId, RunId, SessionKey
from treadle.model.message import NewEntry, user_message
from treadle.store.open import SqliteStore, open_store
from treadle.store.sqlite import CHECKPOINT_PAGES, Synchronous

pytestmark = pytest.mark.anyio

KEY = SessionKey("agent:main:work")
CLOCK = SystemClock()
WRITES = 60


def entries(number: int) -> list[NewEntry]:
    """A question and a long answer, so that the log grows and is copied back several times."""
    return [
        NewEntry(key=f"{number}{part}", message=user_message(f"{number} {part} " * size))
        for part, size in (("a", 20), ("b", 12_000))
    ]


async def write(store: SqliteStore, written: list[str]) -> None:
    session = await store.sessions.open(KEY, agent_id=AgentId("main"), owner="local")
    claim: Claim = await store.transcript.claim(session.id, RunId("run"))
    for number in range(WRITES):
        stored = await store.transcript.append(claim, entries(number))
        written.extend(entry.id for entry in stored)


async def images_of(
    folder: Path, synchronous: Synchronous, seed: int
) -> tuple[LosingDisk, list[str]]:
    """Write under a failing disk; each image knows which entries were confirmed by then."""
    written: list[str] = []
    disk = LosingDisk(
        Random(seed), folder / "images", often=0.5, most=60, note=lambda: len(written)
    )
    with disk:
        place = folder / "store" / "s.sqlite3"
        place.parent.mkdir()
        async with open_store(
            place, clock=CLOCK, ids=RandomIds(CLOCK), synchronous=synchronous
        ) as store:
            await write(store, written)
    return disk, written


async def survivors(folder: Path) -> list[str]:
    """Open the store of an image as a start does, and return its entries."""
    place = folder / "s.sqlite3"
    if not place.exists():
        return []
    async with open_store(place, clock=CLOCK, ids=RandomIds(CLOCK)) as store:
        assert (await store.check()).faults == ()
        session = await store.sessions.get(KEY)
        if session is None:
            return []
        return [one.id for one in await store.transcript.entries(session.id, limit=100_000)]


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_what_was_confirmed_survives_every_power_cut(tmp_path: Path, seed: int) -> None:
    """Ours: INV-5, INV-6; fault matrix, power cut (FULL): kept, each pair whole or absent."""
    disk, written = await images_of(tmp_path, "FULL", seed)
    assert disk.syncs > WRITES
    assert len(disk.images) >= 25

    for image in disk.images:
        found = await survivors(image.folder)
        assert found == written[: len(found)]
        assert len(found) >= image.known
        assert len(found) % 2 == 0


async def test_a_store_that_does_not_wait_for_the_disk_loses_what_it_confirmed(
    tmp_path: Path,
) -> None:
    """Ours: the rig does lose things; with NORMAL the newest are not safe, but the store is."""
    disk, written = await images_of(tmp_path, "NORMAL", seed=1)

    lost = 0
    for image in disk.images:
        found = await survivors(image.folder)
        assert found == written[: len(found)]
        lost += len(found) < image.known
    assert lost


async def test_the_log_was_copied_back_amid_the_cuts(tmp_path: Path) -> None:
    """Ours: cuts between log and database are the dangerous ones, so there must be some."""
    disk, _ = await images_of(tmp_path, "FULL", seed=4)
    pages = {
        image.folder: (image.folder / "s.sqlite3").stat().st_size // 4096
        for image in disk.images
        if (image.folder / "s.sqlite3").exists()
    }
    assert len(set(pages.values())) > 2, f"the database never grew: {pages}"
    assert max(pages.values()) >= CHECKPOINT_PAGES


def test_a_plain_database_is_whole_after_every_cut(tmp_path: Path) -> None:
    """Ours: the rig itself, over SQLite as it comes: each image is one of its states."""
    rows = 0
    with LosingDisk(Random(5), tmp_path / "images", note=lambda: rows) as disk:
        raw = apsw.Connection(str(tmp_path / "x.db"))
        raw.pragma("journal_mode", "wal")
        raw.pragma("synchronous", "full")
        raw.execute("CREATE TABLE t (x)")
        for number in range(1, 9):
            raw.execute("INSERT INTO t VALUES (?)", (number,))
            rows = number
        raw.close()
    kept = [image for image in disk.images if image.known]
    assert kept
    for image in kept:
        again = apsw.Connection(str(image.folder / "x.db"))
        assert again.pragma("integrity_check") == "ok"
        assert again.execute("SELECT count(*) FROM t").get in {image.known, image.known + 1}
        again.close()
