"""What earlier Treadles left is found and stopped, and nothing else is ever signalled."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from anyio import fail_after, run_process

from tests.process.children_rig import (
    DEAF,
    IDLE,
    owner,
    register,
    running,
    runs,
    starting,
    stop,
    stored,
    told,
)
from tests.process.faults_rig import World, command, program, say
from tests.turn.rig import Rig
from treadle.clock import RandomIds, SystemClock
from treadle.contract.children import Closed
from treadle.model.errors import OrphanUnconfirmed
from treadle.store.open import SqliteStore
from treadle.wire.children.policy import ProcessTable
from treadle.wire.children.registered import ChildLimits, RegisteredChildren
from treadle.wire.children.stopping import StopLimits
from treadle.wire.children.table import read_table, started_child
from treadle.wire.launch import MARKER
from treadle.wire.process import Spawn, StopGrace

pytestmark = pytest.mark.anyio

ID = "chd_TEST"
QUICK = ChildLimits(check_s=20, stop=StopLimits(term_s=0.2, kill_s=10))
GRACE = StopGrace(eof_s=0.2, term_s=5, kill_s=5)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    async with stored(tmp_path / "store.sqlite3") as store:
        yield store


def children_of(store: SqliteStore, limits: ChildLimits = QUICK) -> RegisteredChildren:
    return RegisteredChildren(store.children, RandomIds(SystemClock()), limits)


async def closed(store: SqliteStore) -> dict[str, Closed | None]:
    """Return why each row was closed; None for one that is open."""
    rows = [*await store.children.open_children(), *await store.children.closed_children()]
    return {one.id: one.closed_because for one in rows}


# ---------------------------------------------------------------------- what is left behind


@pytest.mark.parametrize("proof", ["command", "marker"])
async def test_an_app_server_whose_owner_is_gone_is_stopped_with_all_it_started(
    store: SqliteStore, proof: str
) -> None:
    """Spec S-11, INV-19: its command line or its marker proves it; its tree goes with it."""
    with running(starting(2, clean=True), marker=ID if proof == "marker" else None) as app:
        below = told(app)
        digest = app.found.command_digest if proof == "command" else "of the wrapper"
        await register(store, ID, replace(app.found, command_digest=digest))
        with fail_after(30):
            await children_of(store).settle()
        assert app.popen.wait() == -signal.SIGTERM
        assert not any(runs(pid) for pid in below)
    assert await closed(store) == {ID: Closed.STOPPED}


@pytest.mark.parametrize("is_known", [True, False], ids=["pid known", "killed before it was"])
async def test_commands_of_a_dead_app_server_are_found_by_their_marker(
    store: SqliteStore, is_known: bool
) -> None:
    """Spec S-11, F8: re-parented, in sessions of their own, each with what it started."""
    with running(IDLE) as dead:
        dead.popen.kill()
        dead.popen.wait()
    with running(starting(1), marker=ID) as command, running(marker=ID) as other:
        (below,) = told(command)
        await register(store, ID, dead.found if is_known else None)
        with fail_after(30):
            await children_of(store).settle()
        assert command.popen.wait() == other.popen.wait() == -signal.SIGTERM
        assert not runs(below)
    assert await closed(store) == {ID: Closed.STOPPED}


async def test_one_that_is_deaf_is_killed_and_a_stopped_one_is_not_continued(
    store: SqliteStore,
) -> None:
    """Spec S-11: TERM, then KILL; F9: what a stopped process was asked for must not run late."""
    with running(DEAF) as deaf, running() as held:
        stop(held.pid)
        await register(store, "chd_DEAF", deaf.found)
        await register(store, "chd_HELD", held.found)
        with fail_after(30):
            await children_of(store).settle()
        assert deaf.popen.wait() == held.popen.wait() == -signal.SIGKILL
    assert await closed(store) == {"chd_DEAF": Closed.STOPPED, "chd_HELD": Closed.STOPPED}


async def test_rows_of_processes_that_are_gone_are_closed(store: SqliteStore) -> None:
    """Spec S-11: also one that was never started."""
    with running() as app:
        app.popen.kill()
        app.popen.wait()
    await register(store, "chd_GONE", app.found)
    await register(store, "chd_NEVER", None)
    await children_of(store).settle()
    assert await closed(store) == {"chd_GONE": Closed.GONE, "chd_NEVER": Closed.GONE}


# ------------------------------------------------------------------------- who is left alone


async def test_a_decoy_at_the_pid_of_a_row_lives_and_the_row_is_closed(
    store: SqliteStore,
) -> None:
    """RS25, INV-19: another start, another boot, another command without the marker."""
    with ExitStack() as stack:
        decoys = {name: stack.enter_context(running()) for name in ("start", "boot", "command")}
        found = decoys["start"].found
        await register(store, "start", replace(found, start_ticks=found.start_ticks - 1))
        here = owner(os.getpid())
        elsewhere = replace(here, boot_id="another")
        await register(store, "boot", decoys["boot"].found, parent=elsewhere)
        await register(store, "command", replace(decoys["command"].found, command_digest="another"))
        await children_of(store).settle()
        assert [one.ended_by for one in decoys.values()] == [None, None, None]
    assert await closed(store) == {
        "start": Closed.REPLACED,
        "boot": Closed.REBOOTED,
        "command": Closed.REPLACED,
    }


async def test_children_of_an_owner_that_lives_are_never_touched(store: SqliteStore) -> None:
    """Spec S-11: neither its app-server nor what bears its marker, whoever looks."""
    with running() as treadle, running(marker=ID) as app, running(marker=ID) as command:
        await register(store, ID, app.found, parent=owner(treadle.pid))
        await children_of(store).settle()
        assert (app.ended_by, command.ended_by) == (None, None)
        assert await closed(store) == {ID: None}
        treadle.popen.kill()
        treadle.popen.wait()
        with fail_after(30):
            await children_of(store).settle()
        assert app.popen.wait() == command.popen.wait() == -signal.SIGTERM
    assert await closed(store) == {ID: Closed.STOPPED}


async def test_strangers_with_the_same_command_and_another_marker_live(
    store: SqliteStore,
) -> None:
    """INV-19: decoys beside an orphan; only what is proved to be its own is signalled."""
    with ExitStack() as stack:
        orphan = stack.enter_context(running(marker=ID))
        decoys = [
            stack.enter_context(running(marker=marker))
            for marker in (None, "", f"{ID}2", "chd_OTHER")
        ]
        await register(store, ID, orphan.found)
        with fail_after(30):
            await children_of(store).settle()
        assert orphan.popen.wait() == -signal.SIGTERM
        assert [one.ended_by for one in decoys] == [None] * 4


async def test_a_pid_that_changes_hands_between_the_look_and_the_signal_is_not_signalled(
    store: SqliteStore,
) -> None:
    """RS25, INV-19: the table is old by the time of the signal; the identity is looked at again."""
    with running() as decoy:
        ticks = decoy.found.start_ticks - 1
        await register(store, ID, replace(decoy.found, start_ticks=ticks))
        looks = 0

        def read(pids: object) -> ProcessTable:
            nonlocal looks
            looks += 1
            table = read_table([decoy.pid])
            if looks > 1:
                return table
            old = replace(table.entries[decoy.pid], start_ticks=ticks)
            return replace(table, entries={**table.entries, decoy.pid: old})

        children = RegisteredChildren(store.children, RandomIds(SystemClock()), QUICK, read=read)
        await children.settle()
        assert (looks, decoy.ended_by) == (2, None)


REUSE = """
import os, subprocess, sys
from pathlib import Path
import anyio
from tests.process.children_rig import IDLE, register, running, stored
from tests.process.test_orphans import children_of, closed

async def main() -> None:
    async with stored(Path(sys.argv[1])) as store:
        with running() as app:
            app.popen.kill()
            app.popen.wait()
        await register(store, "chd_REUSED", app.found)
        Path("/proc/sys/kernel/ns_last_pid").write_text(str(app.pid - 1))
        with running() as decoy:
            assert decoy.pid == app.pid, (decoy.pid, app.pid)
            await children_of(store).settle()
            print(decoy.ended_by, await closed(store))

anyio.run(main)
"""


def test_a_pid_that_the_kernel_gave_again_is_left_alone(tmp_path: Path) -> None:
    """RS25, fault matrix "PID reuse": forced in a pid namespace of its own."""
    root = Path(__file__).resolve().parents[2]
    ended = subprocess.run(
        ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", REUSE,
         str(tmp_path / "store.sqlite3")],
        check=False, capture_output=True, cwd=root, timeout=60,
        env={**os.environ, "PYTHONPATH": str(root)},
    )  # fmt: skip
    if b"unshare failed" in ended.stderr or b"Permission denied" in ended.stderr:
        pytest.skip(f"this machine makes no pid namespace: {ended.stderr.decode()[-200:]}")
    assert ended.stdout.decode().split("\n")[0] == (
        "None {'chd_REUSED': <Closed.REPLACED: 'replaced'>}"
    ), ended.stderr.decode()


# ---------------------------------------------------------------------------- round a start


def fake(source: str, *argv: str) -> Spawn:
    return Spawn(argv=[sys.executable, "-IS", "-c", source, *argv], environment={})


async def test_a_child_is_registered_marked_and_closed_with_what_it_left(
    store: SqliteStore, tmp_path: Path
) -> None:
    """Spec S-11: after a clean end no process of it runs, `setsid` or not."""
    children = children_of(store)

    def spawn(marker: str) -> Spawn:
        plain = fake(starting(2))
        return Spawn(argv=plain.argv, environment={MARKER: marker})

    async with children.open(spawn, home=tmp_path, grace=GRACE) as child:
        assert child.pid is not None
        said = b""
        while said.count(b"\n") < 2:
            said += await child.read()
        below = [int(part) for part in said.split()[1:]]
        (row,) = await store.children.open_children()
        assert (row.pid, row.start_ticks) == (child.pid, owner(child.pid).start_ticks)
        assert row.parent == owner(os.getpid())
        assert row.home == str(tmp_path)
        assert read_table([child.pid]).entries[child.pid].command_digest == row.command_digest
        assert read_table().entries[below[0]].marker == row.id
        await children.settle()  # in use: left alone
        assert runs(child.pid)
    assert not any(runs(pid) for pid in (child.pid, *below))
    assert await closed(store) == {row.id: Closed.ENDED}


LOOKS = r"""
import json, os, sqlite3, sys
if "app-server" not in sys.argv:
    print("codex-cli 0.163.0")
    raise SystemExit
first = json.loads(sys.stdin.readline())["method"]
store = sqlite3.connect("file:{database}?mode=ro", uri=True)
row = store.execute(
    "SELECT pid, start_ticks, parent_pid, home FROM children WHERE id = ? AND closed_at IS NULL",
    (os.environ["TREADLE_RUN"],),
).fetchone()
with open({told!r}, "w") as file:
    json.dump([first, os.getpid(), os.environ["CODEX_HOME"], row, sys.argv], file)
"""


async def test_an_app_server_is_registered_before_it_is_spoken_to(scratch: Path) -> None:
    """Spec S-11: what it reads first is `initialize`, and its row is in the database by then."""
    told = scratch / "told.json"
    database = scratch / "state" / "treadle.sqlite3"
    codex = program(scratch / "bin" / "codex", LOOKS.format(database=database, told=str(told)))
    world = World(root=scratch, base_url="http://127.0.0.1:9/v1", more=command(codex))
    async with world.runtime() as runtime:
        ran = await say(runtime.session("s", cwd=world.work), "hello")
        (row,) = await runtime.store.children.closed_children()
    assert ran.error_code == "codex.start_failed"
    first, pid, home, (its_pid, ticks, parent, its_home), argv = json.loads(told.read_text("utf-8"))
    assert (first, its_pid, parent, its_home) == ("initialize", pid, os.getpid(), home)
    assert ticks > 0
    assert f'shell_environment_policy.set.{MARKER}="{row.id}"' in argv
    assert row.closed_because is Closed.ENDED


async def test_opening_treadle_stops_orphans_and_spares_decoys(tmp_path: Path) -> None:
    """RS25, spec S-11: before anything is accepted, and whether or not Codex is started at all."""
    rig = Rig(root=tmp_path)
    rig.state.mkdir(mode=0o700)
    with running(marker=ID) as orphan, running() as decoy:
        async with stored(rig.state / "treadle.sqlite3") as store:
            await register(store, ID, None)
            await register(store, "chd_DECOY", replace(decoy.found, start_ticks=1))
        async with rig.opened() as runtime:
            assert await runtime.store.children.open_children() == ()
            assert orphan.popen.wait() == -signal.SIGTERM
            assert decoy.ended_by is None
            found = await runtime.store.children.closed_children()
    assert {one.id: one.closed_because for one in found} == {
        ID: Closed.STOPPED,
        "chd_DECOY": Closed.REPLACED,
    }


async def test_nothing_is_started_while_what_is_left_cannot_be_stopped_in_time(
    store: SqliteStore, tmp_path: Path
) -> None:
    """Spec S-11, S-12: the checks share one deadline; then the start fails and says what to do."""
    limits = ChildLimits(check_s=0.3, stop=StopLimits(term_s=30, kill_s=10))
    started = tmp_path / "started"
    with running(DEAF) as deaf:
        await register(store, ID, deaf.found)
        children = children_of(store, limits)
        spawn = fake(f"open({str(started)!r}, 'w')")
        with pytest.raises(OrphanUnconfirmed, match=r"took more than 0\.3 s") as caught:
            async with children.open(lambda marker: spawn, home=tmp_path, grace=GRACE):
                pass
        assert caught.value.next_step
        assert not started.exists()
        assert await closed(store) == {ID: None}
        with fail_after(30):  # the next try has time enough
            await children_of(store).settle()
        assert deaf.popen.wait() == -signal.SIGKILL


async def test_nothing_is_started_while_the_processes_cannot_be_looked_at(
    store: SqliteStore, tmp_path: Path
) -> None:
    """Spec S-11: inspection that fails is no proof that nothing runs."""

    def read(pids: object) -> ProcessTable:
        raise PermissionError(13, "Permission denied", "/proc")

    await register(store, ID, None)
    children = RegisteredChildren(store.children, RandomIds(SystemClock()), QUICK, read=read)
    with pytest.raises(OrphanUnconfirmed, match="Permission denied"):
        async with children.open(lambda marker: fake(""), home=tmp_path, grace=GRACE):
            pass


async def test_a_child_that_cannot_be_started_leaves_no_open_row(
    store: SqliteStore, tmp_path: Path
) -> None:
    """Ours: the row was there before the attempt."""
    children = children_of(store)
    missing = Spawn(argv=[str(tmp_path / "missing")], environment={})
    with pytest.raises(Exception, match="does not exist"):
        async with children.open(lambda marker: missing, home=tmp_path, grace=GRACE):
            pass
    assert list((await closed(store)).values()) == [Closed.ENDED]


# ------------------------------------------------------------------------ what people see


async def treadle(state: Path, *arguments: str, **environment: str) -> tuple[int, str, str]:
    """Run the command line on a state directory; its exit code and what it said."""
    ended = await run_process(
        [sys.executable, "-m", "treadle", "--state-dir", str(state), *arguments],
        check=False,
        env={**os.environ, **environment},
    )
    return ended.returncode, ended.stdout.decode(), ended.stderr.decode()


async def test_doctor_shows_what_is_registered_and_what_starts_have_closed(
    scratch: Path,
) -> None:
    """Spec S-11: it says what runs without an owner, and signals nobody."""
    state = scratch / "state"
    state.mkdir(mode=0o700)
    with running(marker="chd_ORPHAN") as orphan, running() as living, running() as decoy:
        async with stored(state / "treadle.sqlite3") as store:
            await register(store, "chd_STOPPED", None)
            await store.children.close("chd_STOPPED", Closed.STOPPED)
            await register(store, "chd_ENDED", None)
            await store.children.close("chd_ENDED", Closed.ENDED)
            await register(store, "chd_ORPHAN", orphan.found)
            await register(store, "chd_LIVING", living.found, parent=owner(os.getpid()))
            await register(store, "chd_DECOY", replace(decoy.found, start_ticks=1))
        _, said, _ = await treadle(state, "doctor", "--json", TREADLE_CODEX="/nowhere/codex")
        assert [one.ended_by for one in (orphan, living, decoy)] == [None] * 3
    lines = [
        (one["state"], one["text"].partition(" (")[0], one["text"].rpartition(")")[2])
        for one in json.loads(said)["items"]
        if one["matter"] == "children"
    ]
    assert sorted(line[:2] for line in lines) == [
        ("ok", "app-server chd_DECOY"),
        ("ok", "app-server chd_LIVING"),
        ("ok", "app-server chd_STOPPED"),
        ("warn", "app-server chd_ORPHAN"),
    ]
    told_of = {line[1].partition(" ")[2]: line[2] for line in lines}
    assert told_of["chd_DECOY"] == " is gone; the next start closes its row"
    assert told_of["chd_LIVING"] == f" runs for process {os.getpid()}"
    assert told_of["chd_ORPHAN"].endswith(f" still runs: process {orphan.pid}")
    assert told_of["chd_STOPPED"].endswith("what still ran was stopped")


async def test_a_run_beside_an_orphan_that_cannot_be_stopped_ends_with_its_exit_code(
    scratch: Path, codex_binary: Path
) -> None:
    """Spec S-11: the start fails, with a documented exit code and what to do."""
    state = scratch / "state"
    state.mkdir(mode=0o700)
    config = scratch / "config.toml"
    config.write_text(
        "[deadlines]\nchildStartSeconds = 0.5\nstopTermSeconds = 60\n", encoding="utf-8"
    )
    with running(DEAF, marker=ID) as deaf:
        async with stored(state / "treadle.sqlite3") as store:
            await register(store, ID, deaf.found)
        code, said, why = await treadle(
            state, "--config", str(config), "run", "--offline", "--json", "hello",
            TREADLE_CODEX=str(codex_binary),
        )  # fmt: skip
        assert deaf.ended_by is None
    assert code == 5, why
    error = json.loads(said)["error"]
    assert (error["code"], error["retry"]) == ("codex.orphan_unconfirmed", True)
    assert error["next_step"]


# ---------------------------------------------------------------------------- the table


def test_a_process_is_read_whatever_its_name_and_environment(tmp_path: Path) -> None:
    """Ours: `comm` may hold blanks and brackets; a marker counts whole, in any place."""
    odd = tmp_path / "a) S (b"
    odd.symlink_to(sys.executable)
    argv = [str(odd), "-IS", "-c", IDLE]
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, env={"X": f"{MARKER}=no", MARKER: "chd_X", "Y": ""}
    ) as popen:
        assert popen.stdout is not None
        popen.stdout.readline()
        found = read_table([popen.pid]).entries[popen.pid]
        popen.kill()
    assert (found.parent_pid, found.is_own, found.marker) == (os.getpid(), True, "chd_X")
    assert found.command_digest == started_child(0, argv).command_digest
