"""What the Codex path may touch: supported calls, the shared lifecycle, no engine by name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from treadle.harness import lifecycle
from treadle.testing import engine as fake_engines

SRC = Path(__file__).resolve().parents[2] / "src" / "treadle"
HARNESS = sorted((SRC / "harness").rglob("*.py"))
WRITES = {
    "write_text", "write_bytes", "touch", "unlink", "rename", "mkdir", "rmdir", "symlink_to",
    "chmod", "rmtree", "copy2", "copyfile", "move", "truncate",
}  # fmt: skip
"""Names of calls that change files."""

STEPS = {
    "bootstrap", "assemble", "finalize", "runtime_context", "runtime_context_from_usage",
    "maintain",
}  # fmt: skip
"""What harnesses share (spec A-30)."""


def imported_by(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)


@pytest.mark.parametrize("path", HARNESS, ids=lambda path: path.relative_to(SRC).as_posix())
def test_a_harness_changes_no_file(path: Path) -> None:
    """Spec A-29, C-09, H-17: a native thread is changed by calls and else only read."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        assert called not in WRITES, f"line {node.lineno} changes files"
        if called == "open" or (isinstance(node.func, ast.Name) and node.func.id == "open"):
            modes = {one.value for one in node.args if isinstance(one, ast.Constant)}
            assert not {mode for mode in modes if set(str(mode)) & set("wax+")}
    assert not {"sqlite3", "apsw", "shutil"} & set(imported_by(path))


def test_the_lifecycle_is_neutral_and_both_halves_of_a_turn_use_it() -> None:
    """Spec A-26, A-30: the steps stand in one module that no harness's name is in."""
    assert set(lifecycle.__all__) >= STEPS
    assert not [name for name in vars(lifecycle) if "codex" in name.lower()]
    assert not [name for name in imported_by(SRC / "harness/lifecycle.py") if ".codex" in name]
    users = {
        name.rpartition(".")[2]
        for path in (SRC / "harness" / "codex").rglob("*.py")
        for name in imported_by(path)
        if name.startswith("treadle.harness.lifecycle.")
    }
    assert {"bootstrap", "assemble", "finalize", "maintain"} <= users


def test_nothing_needs_the_lossless_engine() -> None:
    """Spec W-09: it is a plugin like any other, and the engine of the tests lives here."""
    own = SRC / "engines" / "lossless"
    for path in SRC.rglob("*.py"):
        if own not in path.parents:
            assert not [name for name in imported_by(path) if "engines.lossless" in name], path
    assert Path(fake_engines.__file__).is_relative_to(SRC)
