"""A backup made while turns run, and what comes back of it: on the real Codex."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import stat
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
import apsw
import pytest

from tests.process.rig import CALLS, PLAIN, Rig, all_entries, bare, echo_tool, rig_over_model
from treadle.cli.exit_codes import Exit
from treadle.config.state_dir import open_state_directory
from treadle.contract.engine import AfterTurnParams, EngineContext
from treadle.model.ids import SessionKey, StreamId
from treadle.model.json import JsonObject
from treadle.model.message import EntryKind, text_of
from treadle.model.turn import Outcome
from treadle.runtime.sessions import Session
from treadle.store.driver import load_migrations
from treadle.testing.engine import RecordingEngine
from treadle.testing.model import Request, gate, reply

pytestmark = [pytest.mark.anyio, pytest.mark.codex]


@pytest.fixture
async def rig(scratch: Path, codex_binary: Path) -> AsyncIterator[Rig]:
    async with rig_over_model(scratch, codex_binary) as opened:
        yield opened


async def treadle(*arguments: str, state: Path, **more: str) -> tuple[int, str, str]:
    """Run the program; its exit code and what it printed."""
    done = await anyio.run_process(
        [sys.executable, "-m", "treadle", "--state-dir", str(state), *arguments],
        check=False,
        env={**os.environ, **more},
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


async def put_aside(rig: Rig, target: Path) -> JsonObject:
    code, out, err = await treadle("backup", str(target), "--json", state=rig.state)
    assert code == 0, err
    found: JsonObject = json.loads(out)
    return found


async def bring_back(source: Path, state: Path, *more: str) -> JsonObject:
    code, out, err = await treadle("restore", str(source), "--json", *more, state=state)
    assert code == 0, err
    found: JsonObject = json.loads(out)
    return found


def elsewhere(rig: Rig) -> Rig:
    """Return a rig over the same model with a state directory of its own, not yet made."""
    scratch = rig.scratch / "elsewhere"
    scratch.mkdir(exist_ok=True)
    again = Rig(scratch=scratch, binary=rig.binary, model=rig.model)
    (scratch / "work").symlink_to(rig.work)
    return again


async def exported(session: Session) -> list[str]:
    return [line async for line in session.export()]


async def test_a_restore_gives_equal_transcripts_and_the_next_turn_goes_on(rig: Rig) -> None:
    """Issue 4 done-when 3: from a backup that was made under load."""
    model, stop = rig.model, anyio.Event()
    held = gate()

    def answer(request: Request) -> str:
        return f"answer to {str(request.fields['input'])[-40:]!r}"

    async def keep_busy(session: Session) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            finished = await session.run(f"LOAD-{number}").result()
            assert finished.outcome is Outcome.COMPLETED, finished

    async with rig.opened(tools=[echo_tool()]) as runtime:
        idle = rig.session(runtime, "idle")
        await rig.turn(idle, "SAID-1", reply(CALLS[PLAIN][0]), "ANSWER-1")
        last = await rig.turn(idle, "SAID-2", "ANSWER-2")
        cut = rig.session(runtime, "cut")
        before_cut = await rig.turn(cut, "CUT-1", "CUT-ANSWER-1")
        model.handle(lambda request: "CUT-2" in str(request.fields["input"]), lambda _: reply(held))
        waiting = cut.run("CUT-2")
        await model.wait_for_requests(len(model.requests) + 1)
        model.fallback = answer
        busy = [rig.session(runtime, f"busy-{n}") for n in range(3)]
        async with anyio.create_task_group() as group:
            for session in busy:
                group.start_soon(keep_busy, session)
            await model.wait_for_requests(len(model.requests) + 9)
            made = await put_aside(rig, rig.scratch / "backup")
            await model.wait_for_requests(len(model.requests) + 3)
            stop.set()
        held.event.set()
        await waiting.result()
        as_it_was = {one.key: await all_entries(one) for one in (idle, cut, *busy)}
        idle_lines = await exported(idle)
        epochs = {one.key: runtime.streams.head(StreamId(one.key)).epoch for one in (idle, *busy)}
    assert made["left_out"] == []

    again = elsewhere(rig)
    report = await bring_back(rig.scratch / "backup", again.state)
    assert report["aside"] is None
    async with again.opened(tools=[echo_tool()]) as runtime:
        sessions = {key: runtime.session(key) for key in as_it_was}
        for key, session in sessions.items():
            found = await all_entries(session)
            assert found == as_it_was[SessionKey(key)][: len(found)], key
        assert await exported(sessions[idle.key]) == idle_lines
        assert len(await all_entries(sessions[cut.key])) == 3
        for key, epoch in epochs.items():
            assert runtime.streams.head(StreamId(key)).epoch > epoch + 1_000
        model.fallback = None
        model.clear()
        following = await again.turn(sessions[idle.key], "SAID-3", "ANSWER-3")
        assert following.thread_id == last.thread_id
        assert following.input[: len(last.input)] == last.input
        rotated = await again.turn(sessions[cut.key], "CUT-3", "CUT-ANSWER-3")
        assert rotated.thread_id != before_cut.thread_id
        # Codex's own instructions name its home, which is another one here.
        assert bare(rotated.input)[2 : len(before_cut.input)] == bare(before_cut.input)[2:]
        notices = [
            entry for entry in await sessions[cut.key].entries() if entry.kind is EntryKind.NOTICE
        ]
        assert [one.meta["notice"] for one in notices] == ["unknown"]
        for session in busy:
            there = sessions[session.key]
            said = [text_of(one.message) for one in await all_entries(there)]
            turn = await again.turn(there, "ONE-MORE", "AND-ANSWERED")
            texts = [text for text in map(_text_of_item, turn.input) if text in said]
            assert texts == said, "the request holds exactly what the transcript does"
        assert (await runtime.store.check()).faults == ()  # type: ignore[attr-defined] # SQL's own


def _text_of_item(item: JsonObject) -> str:
    content = item.get("content")
    parts = content if isinstance(content, list) else []
    return "".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))


async def test_what_engines_keep_comes_along(rig: Rig) -> None:
    """Ours: files as they are, databases whole, nothing that stands beside one."""

    class Keeping(RecordingEngine):
        def __init__(self, context: EngineContext) -> None:
            super().__init__()
            self.folder = Path(str(context.data_dir))
            self.database = apsw.Connection(str(self.folder / "own.db"))
            self.database.pragma("journal_mode", "wal")
            self.database.execute("CREATE TABLE IF NOT EXISTS told (count)")

        def after_turn(self, params: AfterTurnParams) -> None:
            self.database.execute("INSERT INTO told VALUES (?)", (len(params.messages),))
            with (self.folder / "log.jsonl").open("a", encoding="utf-8") as log:
                log.write(f"{len(params.messages)}\n")

        def dispose(self) -> None:
            pass  # stays open, so that its log is there when the backup is made

    made: list[Keeping] = []

    def create(context: EngineContext) -> Keeping:
        made.append(Keeping(context))
        return made[-1]

    async with rig.opened(engine="keeping", engines={"keeping": create}) as runtime:
        await rig.turn(rig.session(runtime), "SAID-1", "ANSWER-1")
        (rig.state / "engines" / "keeping" / "link").symlink_to("/etc/passwd")
        found = await put_aside(rig, rig.scratch / "backup")
    for engine in made:
        engine.database.close()
    assert found["left_out"] == ["'engines/keeping/link'"]
    folder = rig.scratch / "backup" / "engines" / "keeping"
    assert sorted(path.name for path in folder.iterdir()) == ["log.jsonl", "own.db"]
    copy = apsw.Connection(str(folder / "own.db"), flags=apsw.SQLITE_OPEN_READONLY)
    assert copy.execute("SELECT count FROM told").fetchall() == [(2,)]
    copy.close()


async def test_a_backup_is_private_and_holds_no_sign_in(rig: Rig) -> None:
    """INV-23, INV-22."""
    async with rig.opened() as runtime:
        await rig.turn(rig.session(runtime), "SAID-1", "ANSWER-1")
    (rig.codex_home / "auth.json").write_text("SECRET-KEY", encoding="utf-8")
    old = os.umask(0)
    try:
        await put_aside(rig, rig.scratch / "deep" / "backup")
    finally:
        os.umask(old)
    place = rig.scratch / "deep"
    for path in (place, *place.rglob("*")):
        mode = stat.S_IMODE(path.lstat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path
        assert path.is_dir() or b"SECRET-KEY" not in path.read_bytes()
    await bring_back(place / "backup", rig.scratch / "elsewhere" / "state")
    for path in (rig.scratch / "elsewhere" / "state").rglob("*"):
        mode = stat.S_IMODE(path.lstat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path


@pytest.fixture
async def made(rig: Rig) -> Path:
    """Give a backup of a session of one turn."""
    async with rig.opened() as runtime:
        await rig.turn(rig.session(runtime), "SAID-1", "ANSWER-1")
    await put_aside(rig, rig.scratch / "backup")
    return rig.scratch / "backup"


async def test_a_backup_never_overwrites(rig: Rig, made: Path) -> None:
    before = contents(made)
    code, _, err = await treadle("backup", str(made), state=rig.state)
    assert (code, "exists" in err) == (Exit.USAGE, True)
    assert contents(made) == before
    code, _, err = await treadle("backup", str(rig.state / "in"), state=rig.state)
    assert code == Exit.USAGE
    code, _, err = await treadle("backup", str(rig.scratch / "b"), state=rig.scratch / "nothing")
    assert code == Exit.USAGE
    assert not (rig.scratch / "nothing").exists()


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def without_lock(files: dict[str, bytes]) -> dict[str, bytes]:
    """Leave out who owned the directory last."""
    return {name: data for name, data in files.items() if name != "owner.lock"}


async def test_a_restore_into_a_used_directory_keeps_what_was_there(rig: Rig, made: Path) -> None:
    before = contents(rig.state)
    code, _, err = await treadle("restore", str(made), state=rig.state)
    assert (code, "--move-aside" in err) == (Exit.REFUSED, True)
    assert without_lock(contents(rig.state)) == without_lock(before)
    report = await bring_back(made, rig.state, "--move-aside")
    aside = Path(str(report["aside"]))
    assert aside.parent == rig.state.parent
    assert without_lock(contents(aside)) == without_lock(before)
    async with rig.opened() as runtime:
        session = rig.session(runtime)
        assert [text_of(one.message) for one in await all_entries(session)] == [
            "SAID-1",
            "ANSWER-1",
        ]


async def test_a_directory_in_use_is_not_restored_over(rig: Rig, made: Path) -> None:
    """INV-4."""
    before = contents(rig.state)
    with open_state_directory(rig.state):
        code, _, err = await treadle("restore", str(made), "--move-aside", state=rig.state)
    assert (code, str(os.getpid()) in err) == (Exit.REFUSED, True)
    assert set(contents(rig.state)) == set(before)
    assert leftovers(rig) == []


def leftovers(rig: Rig) -> list[str]:
    return [path.name for path in rig.scratch.rglob(".*") if "restore" in path.name]


def flip(path: Path) -> None:
    """Change a byte in the middle."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def damage_record(place: Path) -> None:
    flip(next(place.rglob("rollout-*.jsonl")))


def damage_store(place: Path) -> None:
    flip(place / "treadle.sqlite3")


def lose_record(place: Path) -> None:
    next(place.rglob("rollout-*.jsonl")).unlink()


def link_record(place: Path) -> None:
    path = next(place.rglob("rollout-*.jsonl"))
    path.symlink_to(path.rename(path.with_name("real")))


def lose_manifest(place: Path) -> None:
    (place / "manifest.json").unlink()


def empty_manifest(place: Path) -> None:
    (place / "manifest.json").write_text("{}", encoding="utf-8")


DAMAGE: tuple[Callable[[Path], None], ...] = (
    damage_record,
    damage_store,
    lose_record,
    link_record,
    lose_manifest,
    empty_manifest,
)


@pytest.mark.parametrize("damage", DAMAGE)
async def test_a_damaged_backup_is_refused_and_changes_nothing(
    rig: Rig, made: Path, damage: Callable[[Path], None]
) -> None:
    """INV-21."""
    damage(made)
    before = contents(rig.state)
    code, _, err = await treadle("restore", str(made), "--move-aside", state=rig.state)
    assert code == Exit.STORE, err
    assert "nothing was changed" in err
    assert without_lock(contents(rig.state)) == without_lock(before)
    assert leftovers(rig) == []


async def test_a_newer_store_is_refused(rig: Rig, made: Path) -> None:
    """INV-21."""
    newer = len(load_migrations("sqlite")) + 1
    raw = apsw.Connection(str(made / "treadle.sqlite3"))
    raw.execute(f"PRAGMA user_version = {newer}")
    raw.execute("INSERT INTO migrations VALUES (?, 'post', 'later', 0)", (newer,))
    raw.close()
    manifest = json.loads((made / "manifest.json").read_text(encoding="utf-8"))
    for file in manifest["files"]:
        if file["path"] == "treadle.sqlite3":
            data = (made / "treadle.sqlite3").read_bytes()
            file["size"], file["sha256"] = len(data), hashlib.sha256(data).hexdigest()
    (made / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    code, _, err = await treadle("restore", str(made), state=rig.scratch / "new" / "state")
    assert (code, "store.newer" in err) == (Exit.REFUSED, True)
    assert leftovers(rig) == []


def _sha256(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize(
    ("point", "is_new"),
    [("restore-before-swap", False), ("restore-after-swap", True)],
)
async def test_a_restore_that_is_killed_has_happened_or_not(
    rig: Rig, made: Path, point: str, is_new: bool
) -> None:
    """Issue 4 item 4: never between; what was there is never lost."""
    async with rig.opened() as runtime:
        await rig.turn(rig.session(runtime), "SAID-2", "ANSWER-2")
    code, _, _ = await treadle(
        "restore",
        str(made),
        "--move-aside",
        state=rig.state,
        TREADLE_TEST_RUN="1",
        TREADLE_FAILPOINTS=f"{point}=kill",
    )
    assert code == -signal.SIGKILL
    [left] = [path for path in rig.scratch.iterdir() if ".restore_" in path.name]
    async with rig.opened() as runtime:
        said = [text_of(one.message) for one in await all_entries(rig.session(runtime))]
    expected = ["SAID-1", "ANSWER-1"]
    whole = [*expected, "SAID-2", "ANSWER-2"]
    assert said == (expected if is_new else whole)
    if is_new:
        shutil.rmtree(rig.state)
        left.rename(rig.state)
        async with rig.opened() as runtime:
            kept = [text_of(one.message) for one in await all_entries(rig.session(runtime))]
        assert kept == whole


@pytest.mark.parametrize(
    "point", ["backup-before-store", "backup-after-store", "backup-before-rename"]
)
async def test_a_backup_that_is_killed_leaves_none_under_its_name(rig: Rig, point: str) -> None:
    """Ours."""
    async with rig.opened() as runtime:
        await rig.turn(rig.session(runtime), "SAID-1", "ANSWER-1")
    code, _, _ = await treadle(
        "backup",
        str(rig.scratch / "backup"),
        state=rig.state,
        TREADLE_TEST_RUN="1",
        TREADLE_FAILPOINTS=f"{point}=kill",
    )
    assert code == -signal.SIGKILL
    assert not (rig.scratch / "backup").exists()
    await put_aside(rig, rig.scratch / "backup")
