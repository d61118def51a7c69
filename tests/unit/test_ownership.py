"""Who owns what between Codex and Treadle, read off the sources."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from treadle.harness import lifecycle
from treadle.testing.engine import RecordingEngine

SRC = Path(__file__).resolve().parents[2] / "src" / "treadle"
CODEX = sorted((SRC / "harness" / "codex").glob("*.py"))
CHANGES_FILES = {
    "mkdir",
    "open_writer",
    "remove",
    "rename",
    "replace_file",
    "rmtree",
    "touch",
    "truncate",
    "unlink",
    "write_bytes",
    "write_text",
}
"""Names of calls that change a file or folder."""


def calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    """Yield every call of a module with the last part of its name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            match node.func:
                case ast.Name(id=name) | ast.Attribute(attr=name):
                    yield name, node


def imports(path: Path) -> set[str]:
    """Return the names of all modules that a module imports from."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.ImportFrom(module=str() as name):
                found.add(name)
            case ast.Import(names=names):
                found |= {one.name for one in names}
    return found


@pytest.mark.parametrize("path", CODEX, ids=lambda path: path.name)
def test_the_harness_changes_no_file_of_codex(path: Path) -> None:
    """Spec A-29, C-09, A-27: rollout files are read; everything else goes over the protocol."""
    for name, call in calls(path):
        assert name not in CHANGES_FILES, f"line {call.lineno}"
        if name in {"open", "open_file", "fdopen"}:
            given = [one.value for one in ast.walk(call) if isinstance(one, ast.Constant)]
            modes = {one for one in given if isinstance(one, str) and set(one) <= set("rwxab+")}
            assert modes <= {"r", "rb"}, f"line {call.lineno}"
    assert not imports(path) & {"sqlite3", "apsw", "shutil"}


def test_the_lifecycle_belongs_to_no_harness() -> None:
    """Spec A-26: neutral names in a module that knows neither Codex nor its protocol."""
    shared = {
        "assemble",
        "bootstrap",
        "finalize",
        "maintain",
        "runtime_context",
        "runtime_context_from_usage",
    }
    assert shared <= set(lifecycle.__all__)
    for name in ("lifecycle", "outcomes", "views", "settings"):
        known = imports(SRC / "harness" / f"{name}.py")
        assert not any(one.startswith(("treadle.harness.codex", "treadle.wire")) for one in known)
        assert not any(one.startswith("treadle.protocol") for one in known)


def test_no_core_module_needs_the_lossless_engine() -> None:
    """Spec W-09: it is a plugin like any other, and the fake engine lives here."""
    core = [path for path in SRC.rglob("*.py") if "lossless" not in path.parts]
    assert not [path for path in core if any("lossless" in one for one in imports(path))]
    assert RecordingEngine.__module__ == "treadle.testing.engine"
