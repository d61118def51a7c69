"""The example of docs/testing.md runs, and its table names the fixtures that there are."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks, page, rows
from treadle.testing import plugin

PAGE = page("testing.md")
ENTRY_POINT = 'pytest11]\ntreadle = "treadle.testing.plugin"'
RUN_S = 90


def test_the_plugin_is_registered_with_pytest() -> None:
    assert ENTRY_POINT in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_the_table_names_every_fixture() -> None:
    named = {row[0].strip("`") for row in rows(PAGE, "Testing a plugin")}

    assert named == {name for name in vars(plugin) if name.startswith("treadle_")}


def test_loading_the_plugin_imports_nothing_of_treadle() -> None:
    """It is loaded at every start of pytest, wherever Treadle is installed."""
    program = (
        "import sys, treadle.testing.plugin\n"
        "print(sorted(m for m in sys.modules if m.startswith(('treadle', 'anyio', 'apsw'))))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    loaded = done.stdout.decode().split()
    assert [name.strip("[],'") for name in loaded] == [
        "treadle",
        "treadle.testing",
        "treadle.testing.plugin",
    ]


@pytest.mark.codex
@pytest.mark.usefixtures("codex_binary")
def test_the_example_passes_as_it_stands(tmp_path: Path) -> None:
    """In a folder of its own, with the plugins that pytest finds there."""
    (example,) = blocks(PAGE, "python")
    (tmp_path / "test_last_word.py").write_text(example, encoding="utf-8")
    known = {found.name for found in entry_points(group="pytest11")}
    by_name = [] if "treadle" in known else ["-p", "treadle.testing.plugin"]

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *by_name, "test_last_word.py"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=RUN_S,
        check=False,
    )

    assert "1 passed" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0
