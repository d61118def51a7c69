"""What every test gets: an asyncio loop, a world of its own, and a look at what it leaves behind.

A test runs with empty XDG folders and without the variables that steer Treadle or Codex, fails when
`treadle` code blocks the event loop (BlockBuster; not in `process`, where real start-up is under
test), and fails when a child process that it started is still there at its end.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx

LOOP_MUST_NOT_BLOCK = ("unit", "contract", "turn")
"""Folders of tests/ in which a blocking call on the event loop is a failure."""

FOREIGN_PREFIXES = ("TREADLE_", "OPENCLAW_", "CODEX_", "OPENAI_")
"""Variables of the person who runs the tests that would change what is tested."""

TESTS = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that drive the real binary, so that `-m "not codex"` leaves them out."""
    for item in items:
        if "codex_binary" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.codex)


@pytest.fixture
def anyio_backend() -> str:
    """Run `pytest.mark.anyio` tests on asyncio, the one backend of the product (decision 18)."""
    return "asyncio"


@pytest.fixture(scope="session")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Name the folder that holds the worlds of all tests of this run."""
    return tmp_path_factory.mktemp("worlds")


@pytest.fixture(autouse=True)
def own_world(worlds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the test XDG folders of its own, and none of the person's settings."""
    for name in list(os.environ):
        if name.startswith(FOREIGN_PREFIXES):
            monkeypatch.delenv(name)
    world = worlds / uuid.uuid4().hex[:12]
    world.mkdir(mode=0o700)
    for kind in ("CONFIG", "STATE", "DATA", "CACHE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(world / kind.lower()))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)


@pytest.fixture(autouse=True)
def loop_is_never_blocked(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail an async test whose event loop `treadle` code blocks with file or socket calls."""
    folder = request.path.relative_to(TESTS).parts[0]
    if folder not in LOOP_MUST_NOT_BLOCK or "anyio_backend" not in request.fixturenames:
        yield
        return
    has_kit = importlib.util.find_spec("treadle.testing") is not None
    with blockbuster_ctx("treadle", excluded_modules=["treadle.testing"] if has_kit else []):
        yield


@pytest.fixture(autouse=True)
def no_child_is_left() -> Iterator[None]:
    """Fail a test that ends while a child process that it started has not been reaped."""
    before = _children()
    yield
    left = {pid: what for pid, what in _children().items() if pid not in before}
    for pid in left:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert not left, f"child processes left behind by the test: {left}"


@pytest.fixture
def scratch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make a private folder for tests that run the real Codex; removed afterwards.

    It lies in the person's cache folder, not under TMPDIR, since Codex refuses to put its helper
    programs under the temporary folder; TMPDIR becomes a folder inside it. Its path is short enough
    for unix sockets. Source: facts on codex app-server 0.163, start-up.
    """
    parent = Path.home() / ".cache" / "treadle-tests"
    path = parent / uuid.uuid4().hex[:12]
    (path / "tmp").mkdir(parents=True)
    path.chmod(0o700)
    monkeypatch.setenv("TMPDIR", str(path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield path
    shutil.rmtree(path, onerror=_make_writable_and_retry)


@pytest.fixture(scope="session")
def codex_binary() -> Path:
    """Name the pinned `codex` binary; where it is missing, skip the test, and in CI fail it."""
    try:
        from codex_cli_bin import bundled_codex_path  # optional extra

        return Path(bundled_codex_path())
    except (ImportError, FileNotFoundError) as error:
        reason = f"the pinned codex binary is not installed (pip install 'treadle[codex]'): {error}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)


def _children() -> dict[int, str]:
    """Map each process whose parent we are (zombies too) to its command, where /proc tells."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return {}  # none at all: the usual case, and much cheaper than a walk through /proc
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # it ended while we looked
        command, _, rest = stat.partition("(")[2].rpartition(")")
        if int(rest.split()[1]) == os.getpid():
            found[int(folder.name)] = command
    return found


def _make_writable_and_retry(remove: object, name: str, error: object) -> None:
    """Remove what a test made read-only; what still cannot be removed fails the test."""
    del remove, error
    path = Path(name)
    path.parent.chmod(0o700)
    if path.is_dir() and not path.is_symlink():
        path.chmod(0o700)
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
