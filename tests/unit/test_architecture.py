"""The rules between rooms and the house rules that import-linter and ruff cannot say.

Ours, from ARCHITECTURE.md and CONTRIBUTING.md. The tests read the sources as text and as trees;
nothing of `treadle` is imported.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src" / "treadle"
MODULES = sorted(SRC.rglob("*.py"))
TEST_FILES = sorted((ROOT / "tests").rglob("*.py"))
GENERATED = {SRC / "protocol" / "generated.py"}

MAX_MODULE_LINES = 500

LAZY_PACKAGES = {"codex_cli_bin", "rs_bpe", "tiktoken"}
"""Packages that may be imported inside a function: those of extras, and the tokenizer, whose 75 MB
only a process that counts tokens should pay."""

LAZY_MODULES = ("__init__.py", "cli/", "testing/plugin.py")
"""Where any import may stand inside a function: the package's face, the commands and the pytest
plugin import what they need when it is used, so that `treadle --help` stays under 100 ms of CPU and
every start of pytest where Treadle is installed costs nothing."""

CLOCK_MODULES = ("clock.py", "testing/")
"""Where the wall clock is read and chance is drawn; everyone else is handed a Clock and Ids."""

VAGUE_NAMES = {"utils", "util", "helpers", "common", "manager", "misc"}

WORKPLACE = re.compile(
    r"/work/(?:main|shared|\.library)|/root/|\.pyenv|/opt/pypi|(?:extra-)?index-url|find-links"
)
"""Places of one machine and addresses of package indexes: neither belongs into the project."""

PUBLIC_INDEX = {"pypi.org", "files.pythonhosted.org"}
"""The only hosts that uv.lock may name: those that uv writes where no other index is set."""


def name_of(path: Path) -> str:
    """Name a module by its path below src/treadle, for messages and test ids."""
    return path.relative_to(SRC).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    """Parse a module once for all tests."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def imported(node: ast.AST) -> list[str]:
    """List the modules that an import statement names; empty for other nodes."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return []


def every_module(*, skip: set[Path] | None = None) -> pytest.MarkDecorator:
    """Parametrise a test over the modules of the product."""
    paths = [path for path in MODULES if path not in (skip or set())]
    return pytest.mark.parametrize("path", paths, ids=[name_of(path) for path in paths])


def offenders(path: Path, found: list[tuple[int, str]]) -> str:
    """Write findings as `file:line: text`, one a line; empty when there are none."""
    return "\n".join(f"{path.relative_to(ROOT)}:{line}: {text}" for line, text in found)


def source_line(path: Path, number: int) -> str:
    """Return one line of a source file, counted from 1."""
    return path.read_text(encoding="utf-8").splitlines()[number - 1]


def called_name(node: ast.AST) -> str:
    """Write the dotted name of a call (`time.sleep`); empty for other nodes."""
    return ast.unparse(node.func) if isinstance(node, ast.Call) else ""


@every_module(skip=GENERATED)
def test_module_has_at_most_500_lines(path: Path) -> None:
    """Ours: a longer one is split by decision and action."""
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_MODULE_LINES


@every_module()
def test_module_name_says_what_the_module_is(path: Path) -> None:
    """Ours: no room for whatever fits nowhere."""
    assert not VAGUE_NAMES & set(path.relative_to(SRC).with_suffix("").parts)


@every_module()
def test_import_stands_at_the_top(path: Path) -> None:
    """Ours: an import inside a function hides an arrow between rooms; extras are the exception."""
    if name_of(path).startswith(LAZY_MODULES):
        return
    functions = [
        node
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    found = [
        (getattr(inner, "lineno", 0), module)
        for function in functions
        for inner in ast.walk(function)
        for module in imported(inner)
        if module.partition(".")[0] not in LAZY_PACKAGES
    ]
    assert not found, offenders(path, found)


@every_module()
def test_task_lives_in_a_task_group(path: Path) -> None:
    """Ours, decision 18: every task is a child of a lexically visible task group."""
    detached = {"create_task", "ensure_future", "run_coroutine_threadsafe"}
    found = [
        (node.lineno, called_name(node))
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and called_name(node).rpartition(".")[2] in detached
    ]
    assert not found, offenders(path, found)


@every_module()
def test_hook_trust_is_never_bypassed(path: Path) -> None:
    """Decision 2: hooks are trusted by hash; the bypass would run a project's own hooks."""
    text = path.read_text(encoding="utf-8").lower().replace("-", "_")
    assert "bypass_hook_trust" not in text
    assert "bypasshooktrust" not in text


@every_module()
def test_swallowed_exception_says_why(path: Path) -> None:
    """Ours: a broad handler hands the error on or says why not on its line; a silent one too."""
    broad = {"Exception", "BaseException", ""}
    found = []
    for node in ast.walk(tree_of(path)):
        if not isinstance(node, ast.ExceptHandler):
            continue
        is_broad = (ast.unparse(node.type) if node.type else "") in broad
        is_silent = all(isinstance(part, ast.Pass) for part in node.body)
        hands_on = any(
            isinstance(part, ast.Raise) or (isinstance(part, ast.Name) and part.id == node.name)
            for part in ast.walk(node)
        )
        lines = (source_line(path, node.lineno), source_line(path, node.body[0].lineno))
        has_reason = any("#" in line for line in lines)
        if (is_silent or (is_broad and not hands_on)) and not has_reason:
            found.append((node.lineno, lines[0].strip()))
    assert not found, offenders(path, found)


@every_module()
def test_clock_and_chance_are_handed_in(path: Path) -> None:
    """Ours: what reads the clock or draws chance by itself cannot be tested without waiting."""
    if name_of(path).startswith(CLOCK_MODULES):
        return
    own = {"time.time", "time.time_ns", "uuid.uuid4", "datetime.now", "datetime.datetime.now"}
    found = [
        (node.lineno, called_name(node))
        for node in ast.walk(tree_of(path))
        if called_name(node) in own and isinstance(node, ast.Call)
    ]
    assert not found, offenders(path, found)


@every_module()
def test_harnesses_do_not_know_each_other(path: Path) -> None:
    """Spec A-30: a lifecycle that lives in one harness only is no lifecycle."""
    other = {
        "harness/codex/": "treadle.harness.embedded",
        "harness/embedded/": "treadle.harness.codex",
    }
    for folder, forbidden in other.items():
        if name_of(path).startswith(folder):
            found = [
                (getattr(node, "lineno", 0), module)
                for node in ast.walk(tree_of(path))
                for module in imported(node)
                if module == forbidden or module.startswith(forbidden + ".")
            ]
            assert not found, offenders(path, found)


@pytest.mark.parametrize("path", TEST_FILES, ids=[path.name for path in TEST_FILES])
def test_a_test_does_not_sleep(path: Path) -> None:
    """Ours: a test waits for an event; a look at another process again and again says so there."""
    found = [
        (node.lineno, ast.unparse(node))
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call)
        and called_name(node) in {"time.sleep", "asyncio.sleep", "anyio.sleep", "sleep"}
        and not (node.args and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0)
        and "#" not in source_line(path, node.lineno)
    ]
    assert not found, offenders(path, found)


def test_no_tracked_file_names_a_workplace_or_a_package_index() -> None:
    """Ours: the project knows no machine and no index but the public one in uv.lock."""
    found = {}
    for path in tracked_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a picture or a database
        if path.resolve() != Path(__file__).resolve() and (match := WORKPLACE.search(text)):
            found[path.relative_to(ROOT).as_posix()] = match.group()
    assert not found


def test_lock_files_name_the_public_index_only() -> None:
    """Ours: uv.lock is what uv writes where no index is configured; its exports name no host."""
    hosts = re.findall(r"[a-z]+://([^/\"]+)", (ROOT / "uv.lock").read_text(encoding="utf-8"))
    assert set(hosts) <= PUBLIC_INDEX
    for name in ("requirements.lock", "requirements-dev.lock"):
        assert "://" not in (ROOT / name).read_text(encoding="utf-8")


def test_development_lock_holds_all_of_the_demo_lock() -> None:
    """Ours: `.venv` made for the tests serves the demo unchanged."""
    demo, dev = (
        set(re.findall(r"^\S+==\S+|^ +--hash=\S+", (ROOT / name).read_text("utf-8"), re.MULTILINE))
        for name in ("requirements.lock", "requirements-dev.lock")
    )
    assert demo <= dev


def test_version_is_the_newest_of_the_changelog() -> None:
    """Ours: package and changelog name the same version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    versions = re.findall(
        r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE
    )
    assert versions[0] == project["version"]


def tracked_files() -> list[Path]:
    """List the files that git tracks; skip the test where there is no checkout or no git."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout, or no git")
    done = subprocess.run(
        [git, "-c", "safe.directory=*", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True
    )
    names = done.stdout.decode("utf-8", sys.getfilesystemencodeerrors()).split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]
