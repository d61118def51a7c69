"""The state directory on a real file system, between real processes."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from treadle.config.state_dir import (
    LOCK_FILE,
    make_private_folder,
    open_state_directory,
    this_process,
)
from treadle.model.errors import StateDirectoryRefused
from treadle.private import make_private, open_private

HOLDER = """
import sys, pathlib
from treadle.config.state_dir import open_state_directory
with open_state_directory(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


FULL_DISK = """
import pathlib, resource, sys
from treadle.config.state_dir import open_state_directory
from treadle.model.errors import StoreFull
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
try:
    with open_state_directory(pathlib.Path(sys.argv[1])):
        pass
except StoreFull as error:
    print(error.code, error.next_step)
"""


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(path: Path) -> dict[str, int]:
    return {str(p.relative_to(path)): stat.S_IMODE(p.lstat().st_mode) for p in path.rglob("*")}


def refusal(path: Path, owner_uid: int | None = None) -> StateDirectoryRefused:
    with pytest.raises(StateDirectoryRefused) as refused, open_state_directory(path, owner_uid):
        pass
    assert refused.value.next_step
    assert refused.value.code == "state.refused"
    return refused.value


@pytest.mark.usefixtures("open_umask")
def test_all_that_is_made_is_private_whatever_the_umask(tmp_path: Path) -> None:
    """RS48, INV-23."""
    path = tmp_path / "a" / "b" / "treadle"
    with open_state_directory(path):
        folder = path / "agents" / "main" / "codex"
        make_private_folder(folder)
        os.close(open_private(folder / "file", os.O_RDWR))
        database = path / "db"
        database.write_bytes(b"")
        make_private(database)
        make_private(path / "missing")
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    found = modes(path)
    assert {found[name] for name in ("agents", "agents/main", "agents/main/codex")} == {0o700}
    assert {found[name] for name in ("agents/main/codex/file", "db", LOCK_FILE)} == {0o600}


def test_a_link_is_refused_and_names_its_target(tmp_path: Path) -> None:
    """RS48."""
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    error = refusal(tmp_path / "link")
    assert "symbolic link" in error.message
    assert str(tmp_path / "real") in error.next_step
    assert list((tmp_path / "real").iterdir()) == []


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o755, 0o701])
def test_a_directory_that_others_can_enter_is_refused_and_left_alone(
    tmp_path: Path, mode: int
) -> None:
    """RS48, INV-21."""
    path = tmp_path / "state"
    path.mkdir()
    path.chmod(mode)
    error = refusal(path)
    assert f"{mode:04o}" in error.message
    assert f"chmod 700 {path}" in error.next_step
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert list(path.iterdir()) == []


def test_a_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    """RS48; as root the directory is really given away, else we ask for another owner."""
    path = tmp_path / "state"
    path.mkdir(mode=0o700)
    if os.geteuid() == 0:
        os.chown(path, 12345, 12345)
        error = refusal(path)
    else:
        error = refusal(path, os.geteuid() + 1)
    assert "belongs to user" in error.message


def test_a_file_in_its_place_or_on_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    assert "not a directory" in refusal(tmp_path / "file").message
    assert "Not a directory" in refusal(tmp_path / "file" / "below").message


def test_a_directory_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.mkdir()
    path.chmod(0o500)
    assert "cannot be written" in refusal(path).message
    assert list(path.iterdir()) == []


def test_a_lock_file_that_is_a_link_is_refused(tmp_path: Path) -> None:
    """RS48."""
    path = tmp_path / "state"
    path.mkdir(mode=0o700)
    (tmp_path / "precious").write_text("mine", encoding="utf-8")
    (path / LOCK_FILE).symlink_to(tmp_path / "precious")
    assert refusal(path).next_step == "Remove the symbolic link"
    assert (tmp_path / "precious").read_text(encoding="utf-8") == "mine"


def test_a_second_owner_is_refused_and_told_the_first_ones_pid(tmp_path: Path) -> None:
    """INV-4."""
    path = tmp_path / "state"
    with open_state_directory(path) as state:
        assert state.owner == this_process()
        assert (path / LOCK_FILE).read_text(encoding="ascii") == state.owner.to_text()
        error = refusal(path)
        assert error.fields["owner_pid"] == os.getpid()
        assert f"process {os.getpid()}" in error.message
    with open_state_directory(path):
        pass


def test_the_lock_holds_between_processes_and_ends_with_a_killed_one(tmp_path: Path) -> None:
    """INV-4: SIGKILL leaves the file and not the lock."""
    path = tmp_path / "state"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert refusal(path).fields["owner_pid"] == holder.pid
        holder.kill()
        holder.wait(10)
        with open_state_directory(path) as state:
            assert state.owner.pid == os.getpid()


def test_an_opener_may_wait_for_the_owner_to_go(tmp_path: Path) -> None:
    path = tmp_path / "state"
    opened = threading.Event()

    def wait_and_open() -> None:
        with open_state_directory(path, wait_s=30):
            opened.set()

    with open_state_directory(path):
        waiter = threading.Thread(target=wait_and_open)
        waiter.start()
        assert not opened.is_set()
    assert opened.wait(10)
    waiter.join(10)


def test_a_child_that_outlives_us_does_not_keep_the_lock(tmp_path: Path) -> None:
    """The descriptor is closed on exec, so an app-server never owns the state directory."""
    path = tmp_path / "state"
    with subprocess.Popen(["sleep", "60"]) as outside:
        with open_state_directory(path):
            child = subprocess.Popen(["sleep", "60"], close_fds=False)
        try:
            with open_state_directory(path):
                pass
        finally:
            for process in (child, outside):
                process.kill()
                process.wait(10)


def test_a_disk_without_room_is_said_to_be_full(tmp_path: Path) -> None:
    """Issue 2: state directory full; the limit on file sizes stands for the disk."""
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path / "state")],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.startswith("storage_full Free some space")
