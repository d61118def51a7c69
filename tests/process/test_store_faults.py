# ruff: noqa: ASYNC220, ASYNC221, ASYNC240 - the tests do to the files what a vandal would, between
# calls
"""The store on real files under real faults: kills, full disks, damage, foreign and newer files."""

from __future__ import annotations

import os
import random
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import anyio
import apsw
import pytest

from treadle.clock import RandomIds, SystemClock
from treadle.contract.events import NewEvent
from treadle.contract.store import Claim, SessionRecord
from treadle.model.errors import (
    MigrationNeeded,
    StateDirectoryRefused,
    StoreDamaged,
    StoreError,
    StoreFull,
)
from treadle.model.ids import AgentId, RunId, SessionKey, StreamId
from treadle.model.message import NewEntry, user_message
from treadle.store import open as store_open
from treadle.store.driver import Migration, load_migrations
from treadle.store.open import SqliteStore, open_store

pytestmark = pytest.mark.anyio

KEY = SessionKey("agent:main:work")
KILLS = 8
CLOCK = SystemClock()

APPENDER = """
import sys
from pathlib import Path
import anyio
from treadle.clock import RandomIds, SystemClock
from treadle.contract.events import NewEvent
from treadle.contract.store import Claim
from treadle.model.ids import AgentId, RunId, SessionKey
from treadle.model.message import NewEntry, user_message
from treadle.store.open import open_store

async def main(path, first):
    clock = SystemClock()
    async with open_store(Path(path), clock=clock, ids=RandomIds(clock)) as store:
        key = SessionKey("agent:main:work")
        session = await store.sessions.open(key, agent_id=AgentId("main"), owner="local")
        claim = await store.transcript.claim(session.id, RunId(f"run {first}"))
        number = int(first)
        while True:
            pair = [
                NewEntry(key=f"{number}{part}", message=user_message(f"{number} {part}" * 50))
                for part in "ab"
            ]
            await store.transcript.append(claim, pair)
            print(number, flush=True)
            number += 1

anyio.run(main, *sys.argv[1:])
"""


async def filled(store: SqliteStore, count: int = 50) -> tuple[SessionRecord, Claim]:
    session = await store.sessions.open(KEY, agent_id=AgentId("main"), owner="local")
    claim = await store.transcript.claim(session.id, RunId("run"))
    entries = [NewEntry(key=f"{n}", message=user_message(f"text {n} " * 100)) for n in range(count)]
    await store.transcript.append(claim, entries)
    return session, claim


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """Give a store with some entries, closed."""
    place = tmp_path / "treadle.db"
    async with open_store(place, clock=CLOCK, ids=RandomIds(CLOCK)) as store:
        await filled(store)
    return place


async def test_what_was_acknowledged_is_there_after_kills(tmp_path: Path) -> None:
    """INV-1, INV-5, INV-6; reliability F12: kill -9 at any moment."""
    place = tmp_path / "treadle.db"
    chance = random.Random(7)
    acknowledged: list[int] = []
    for _ in range(KILLS):
        first = acknowledged[-1] + 2 if acknowledged else 0  # one may be stored and not told
        child = subprocess.Popen(
            [sys.executable, "-c", APPENDER, str(place), str(first)], stdout=subprocess.PIPE
        )
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(chance.randrange(1, 12))]
        select.select([child.stdout], [], [], chance.random() / 100)
        child.send_signal(signal.SIGKILL)
        rest, _ = child.communicate()
        acknowledged += [int(line) for line in b"".join([*lines, rest]).split(b"\n") if line]

        async with open_store(place, clock=CLOCK, ids=RandomIds(CLOCK)) as store:
            session = await store.sessions.get(KEY)
            assert session is not None
            keys = [one.key for one in await store.transcript.entries(session.id, limit=100_000)]
            assert (await store.check()).faults == ()
        numbers = [int(key[:-1]) for key in keys]
        assert keys == [f"{n}{part}" for n in numbers[::2] for part in "ab"]  # pairs, in order
        assert set(acknowledged) <= set(numbers)
        assert len(set(numbers) - set(acknowledged)) <= KILLS


@pytest.fixture
def file_size_limit() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("file_size_limit")
async def test_a_full_disk_is_told_and_leaves_nothing_half(path: Path) -> None:
    """Reliability F12 and fault matrix, disk full: rolled back, reads go on, then writes again."""
    async with open_store(path, clock=CLOCK, ids=RandomIds(CLOCK)) as store:
        session, claim = await filled(store, 10)  # the same keys: nothing new
        before = await store.transcript.entries(session.id)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 100_000, hard))
        big = [NewEntry(key=f"big {n}", message=user_message("x" * 100_000)) for n in range(20)]

        with pytest.raises(StoreFull):
            await store.transcript.append(claim, big)

        assert await store.transcript.entries(session.id) == before
        assert len(await store.transcript.snapshot(session.id)) == len(before)
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        await store.transcript.append(claim, big)
        assert len(await store.transcript.snapshot(session.id)) == len(before) + 20
        assert (await store.check()).faults == ()


async def test_a_damaged_page_is_refused_at_start_and_the_file_kept(path: Path) -> None:
    """RS27; INV-21."""
    data = bytearray(path.read_bytes())
    chance = random.Random(3)
    pages = len(data) // 4096
    for page in range(pages // 2, pages):
        data[page * 4096 : page * 4096 + 200] = chance.randbytes(200)
    path.write_bytes(data)

    with pytest.raises(StoreDamaged) as caught:
        async with open_store(path, clock=CLOCK, ids=RandomIds(CLOCK)):
            pass

    assert str(path) in caught.value.message
    assert path.read_bytes() == data
    assert os.listdir(path.parent) == [path.name]


async def test_damage_found_while_running_stops_all_writes(path: Path) -> None:
    """RS27; fault matrix, corrupt page: read-only, nothing written."""
    async with open_store(path, clock=CLOCK, ids=RandomIds(CLOCK)) as store:
        _, claim = await filled(store, 1)
        with path.open("r+b") as file:
            for page in range(3, path.stat().st_size // 4096):
                file.seek(page * 4096)
                file.write(random.Random(page).randbytes(4096))

        new = [NewEntry(key=f"new {n}", message=user_message("x" * 500)) for n in range(200)]
        with pytest.raises(StoreDamaged):
            await store.transcript.append(claim, new)
        with pytest.raises(StoreDamaged):
            await store.sessions.update(KEY, title="T")
        assert (await store.check()).faults != ()


async def test_a_look_finds_damage_that_nobody_reads(path: Path) -> None:
    """RS27: and then the file is left as it is, although the log holds what was written."""
    async with open_store(path, clock=CLOCK, ids=RandomIds(CLOCK)) as store:
        await store.look()
        await store.sessions.update(KEY, title="kept in the log")
        damage_pages(path, 8)
        damaged = path.read_bytes()
        with pytest.raises(StoreDamaged, match=str(path)):
            await store.look()
        assert store.fault is not None
        with pytest.raises(StoreDamaged):
            await store.sessions.update(KEY, title="T")
    assert path.read_bytes() == damaged
    with pytest.raises(StoreDamaged):
        async with open_store(path, clock=CLOCK, ids=RandomIds(CLOCK)):
            pass
    assert path.read_bytes() == damaged


def damage_pages(path: Path, every: int) -> None:
    """Write 200 random bytes over the beginning of every n-th page."""
    with path.open("r+b") as file:
        for page in range(2, path.stat().st_size // 4096, every):
            file.seek(page * 4096)
            file.write(random.Random(page).randbytes(200))


@pytest.mark.parametrize("content", [b"not a database at all" * 500, b"SQLite format 3\0", b"x"])
async def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path, content: bytes) -> None:
    place = tmp_path / "treadle.db"
    place.write_bytes(content)

    with pytest.raises(StoreDamaged):
        async with open_store(place, clock=CLOCK, ids=RandomIds(CLOCK)):
            pass
    assert place.read_bytes() == content


async def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    place = tmp_path / "treadle.db"
    other = apsw.Connection(str(place))
    other.execute("CREATE TABLE theirs (x)")
    other.close()
    before = place.read_bytes()

    with pytest.raises(StoreDamaged, match="none of Treadle's"):
        async with open_store(place, clock=CLOCK, ids=RandomIds(CLOCK)):
            pass
    assert place.read_bytes() == before


async def test_a_newer_store_is_left_untouched(path: Path) -> None:
    """INV-21."""
    raw = apsw.Connection(str(path))
    raw.execute("PRAGMA user_version = 999")
    raw.close()
    before = path.read_bytes()

    with pytest.raises(MigrationNeeded):
        async with open_store(path, clock=CLOCK, ids=RandomIds(CLOCK)):
            pass

    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


async def test_a_newer_store_that_was_not_closed_is_left_untouched(
    path: Path, tmp_path: Path
) -> None:
    raw = apsw.Connection(str(path))
    raw.wal_autocheckpoint(0)
    raw.execute("PRAGMA user_version = 999")
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for name in (path.name, path.name + "-wal"):
        shutil.copy(path.parent / name, crashed / name)
    raw.close()
    before = {name: (crashed / name).read_bytes() for name in os.listdir(crashed)}

    with pytest.raises(MigrationNeeded):
        async with open_store(crashed / path.name, clock=CLOCK, ids=RandomIds(CLOCK)):
            pass

    assert {name: (crashed / name).read_bytes() for name in before} == before


SCHEMA = len(load_migrations("sqlite"))
NEXT_STEP = "CREATE TABLE extra (x INTEGER) STRICT;"


async def migrated(
    path: Path, monkeypatch: pytest.MonkeyPatch, script: str, phase: str = "pre"
) -> None:
    """Open the store as a Treadle would that has one more migration."""
    known = load_migrations("sqlite")
    step = Migration(
        number=len(known) + 1,
        phase="pre" if phase == "pre" else "post",
        name="x",
        script=script,
    )
    steps = (*known, step)
    with monkeypatch.context() as patch:
        patch.setattr(store_open, "load_migrations", lambda dialect: steps)
        async with open_store(path, clock=CLOCK, ids=RandomIds(CLOCK)) as store:
            assert (await store.check()).faults == ()


async def test_a_migration_leaves_a_backup_and_old_code_runs_on_a_pre_step(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """INV-21; style 37."""
    await migrated(path, monkeypatch, NEXT_STEP)

    backup = path.with_name(f"{path.name}.v{SCHEMA}.bak")
    assert backup.stat().st_mode & 0o777 == 0o600
    for place in (path, backup):
        async with open_store(place, clock=CLOCK, ids=RandomIds(CLOCK)) as store:
            assert (await store.check()).entry_count == 50


async def test_old_code_leaves_a_post_step_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await migrated(path, monkeypatch, NEXT_STEP, phase="post")

    with pytest.raises(MigrationNeeded):
        async with open_store(path, clock=CLOCK, ids=RandomIds(CLOCK)):
            pass


async def test_a_migration_that_fails_leaves_the_old_version(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault matrix: migration interrupted."""
    with pytest.raises(StoreError) as caught:
        await migrated(path, monkeypatch, NEXT_STEP + "INSERT INTO nowhere VALUES (1);")

    assert f"{path.name}.v{SCHEMA}.bak" in caught.value.next_step
    raw = apsw.Connection(str(path))
    assert raw.pragma("user_version") == SCHEMA
    assert not raw.execute("SELECT * FROM sqlite_schema WHERE name = 'extra'").fetchall()
    raw.close()
    async with open_store(path, clock=CLOCK, ids=RandomIds(CLOCK)) as store:
        assert (await store.check()).faults == ()


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o777])
async def test_files_are_private_whatever_the_umask(tmp_path: Path, mask: int) -> None:
    """INV-23; RS48."""
    before = os.umask(mask)
    try:
        async with open_store(tmp_path / "s.db", clock=CLOCK, ids=RandomIds(CLOCK)) as store:
            await filled(store, 1)
            modes = {p.name: p.stat().st_mode & 0o777 for p in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert modes == {"s.db": 0o600, "s.db-wal": 0o600, "s.db-shm": 0o600}


async def test_open_modes_of_an_old_file_are_closed(path: Path) -> None:
    path.chmod(0o644)
    async with open_store(path, clock=CLOCK, ids=RandomIds(CLOCK)):
        assert path.stat().st_mode & 0o777 == 0o600


async def test_a_link_a_folder_and_a_missing_folder_are_refused(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(path)
    for place in (link, tmp_path, tmp_path / "missing" / "s.db", path / "s.db"):
        with pytest.raises(StateDirectoryRefused):
            async with open_store(place, clock=CLOCK, ids=RandomIds(CLOCK)):
                pass


READ_ONLY = """
import ctypes, os, sys, tempfile
from pathlib import Path
import anyio
from treadle.clock import RandomIds, SystemClock
from treadle.model.errors import StateDirectoryRefused
from treadle.store.open import open_store

def obey_modes():
    # Root goes on as root, whose files it may need, but no longer above the modes of files:
    # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH leave the effective set.
    libc = ctypes.CDLL(None, use_errno=True)
    head = (ctypes.c_uint32 * 2)(0x20080522, 0)
    sets = (ctypes.c_uint32 * 6)()
    assert libc.capget(head, sets) == 0
    sets[0] &= ~0b110
    assert libc.capset(head, sets) == 0

async def main(path):
    clock = SystemClock()
    if os.geteuid() == 0:
        obey_modes()
    try:
        async with open_store(Path(path), clock=clock, ids=RandomIds(clock)):
            print("opened")
    except StateDirectoryRefused as error:
        print("refused", error.next_step)

anyio.run(main, sys.argv[1])
"""


@pytest.mark.parametrize("exists", [True, False])
async def test_a_folder_that_cannot_be_written_is_refused(exists: bool) -> None:
    """INV-21: refused, untouched. Runs without the powers of root, who may write anywhere."""
    folder = Path(tempfile.mkdtemp(prefix="treadle-read-only-", dir="/tmp"))
    place = folder / "s.db"
    try:
        if exists:
            async with open_store(place, clock=CLOCK, ids=RandomIds(CLOCK)) as store:
                await filled(store, 1)
        before = {p: p.read_bytes() for p in folder.iterdir()}
        folder.chmod(0o555)
        done = subprocess.run(
            [sys.executable, "-c", READ_ONLY, str(place)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        assert done.stdout.startswith("refused")
        assert {p: p.read_bytes() for p in folder.iterdir()} == before
    finally:
        folder.chmod(0o700)
        shutil.rmtree(folder)


async def test_two_openers_share_the_file_and_claims_part_them(path: Path) -> None:
    """INV-4: a second gateway is kept out elsewhere; should one come through, claims decide."""
    async with open_store(path, clock=CLOCK, ids=RandomIds(CLOCK)) as one:
        session, old = await filled(one, 1)
        async with open_store(path, clock=CLOCK, ids=RandomIds(CLOCK)) as two:
            claim = await two.transcript.claim(session.id, RunId("two"))
            title = (await two.sessions.update(KEY, title="of two")).title
        found = await one.sessions.get(KEY)
        assert found is not None
        assert found.title == title
        assert claim.lease_epoch == old.lease_epoch + 1
        await one.sessions.update(KEY, title="still writes")
        assert (await one.check()).faults == ()


async def test_a_store_that_was_replaced_is_not_written_any_more(path: Path) -> None:
    """Fault matrix: replaced file."""
    async with open_store(path, clock=CLOCK, ids=RandomIds(CLOCK)) as store:
        path.rename(path.with_name("away.db"))
        shutil.copy(path.with_name("away.db"), path)
        before = path.read_bytes()
        with pytest.raises(StoreDamaged, match="replaced"):
            await store.sessions.update(KEY, title="T")
        assert path.read_bytes() == before


async def test_the_log_shrinks_once_a_foreign_reader_ends(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """RS28: nothing is lost or blocked meanwhile, and `check` tells how large the log is."""
    caplog.set_level("INFO", logger="treadle")
    async with open_store(path, clock=CLOCK, ids=RandomIds(CLOCK), synchronous="NORMAL") as store:
        _, claim = await filled(store, 1)
        reader = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        reader.execute("BEGIN; SELECT count(*) FROM entries")

        async def write(name: str, count: int) -> None:
            for n in range(count):
                text = user_message("z" * 1_000_000)
                await store.transcript.append(claim, [NewEntry(key=f"{name}{n}", message=text)])

        await write("held", 70)
        assert (await store.check()).wal_bytes > 64 * 1024 * 1024
        assert store.log_bytes > 64 * 1024 * 1024
        reader.close()
        await write("free", 3)
        check = await store.check()
        assert store.log_bytes <= 64 * 1024 * 1024
    assert check.wal_bytes <= 64 * 1024 * 1024
    assert check.faults == ()
    assert events_in(caplog) == ["store.log_grown", "store.log_shrunk"]


def events_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the log's events about the size of the store's own log."""
    told = [str(record.__dict__.get("event")) for record in caplog.records]
    return [event for event in told if event.startswith("store.log_")]


@pytest.mark.slow
async def test_fifty_thousand_writes_go_on_while_a_reader_stays(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """RS28: the log stays below 64 MiB, or there is a warning; it recovers when the reader ends."""
    stream = StreamId(KEY)
    async with open_store(path, clock=CLOCK, ids=RandomIds(CLOCK)) as store:
        reader = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        reader.execute("BEGIN; SELECT count(*) FROM entries")

        async def write() -> None:
            event = NewEvent(type="notice", data={"text": "x" * 50})
            await store.driver.write(lambda c: store.events.add(c, stream, [event]), durable=False)

        for _ in range(100):
            async with anyio.create_task_group() as group:
                for _ in range(500):
                    group.start_soon(write)
        grown = store.log_bytes > 64 * 1024 * 1024
        reader.close()
        await write()
        await write()
        assert store.log_bytes < 64 * 1024 * 1024
        assert store.events.head(stream).seq >= 50_000
        assert (await store.check()).faults == ()
    assert ("store.log_grown" in events_in(caplog)) == grown


async def test_the_log_stays_small_while_much_is_written(path: Path) -> None:
    """RS28, without the foreign reader."""
    async with open_store(path, clock=CLOCK, ids=RandomIds(CLOCK), synchronous="NORMAL") as store:
        _, claim = await filled(store, 1)
        for n in range(300):
            text = user_message("y" * 100_000)
            await store.transcript.append(claim, [NewEntry(key=f"y{n}", message=text)])
        check = await store.check()
    assert check.size_bytes > 20_000_000
    assert check.wal_bytes < 10_000_000
