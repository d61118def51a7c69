"""Write which tests stand for which id of the contract into `tests/requirements.py`.

A test names its ids in its docstring (`spec D-12, D-13`, `RS48`); this reads the docstrings of all
tests and rewrites the table between the two marks, sorted, so that the same tests give the same
bytes. It does not run tests and knows nothing of what an id means. `--check` only compares.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "tests" / "requirements.py"
BEGIN = "# begin: written by scripts/requirements.py"
END = "# end: written by scripts/requirements.py"

CASE = re.compile(r"\b(?:[A-W]-\d\d|RS\d\d)\b")
SPAN = re.compile(r"\b([A-W]-|RS)(\d\d)(?:…|\.\.\.?|–| to )(?:\1)?(\d\d)\b")


def ids_in(docstring: str) -> set[str]:
    """Find the ids that a docstring names; `D-12…D-14` and `D-12 to D-14` mean all three."""
    found = set(CASE.findall(docstring))
    for prefix, first, last in SPAN.findall(docstring):
        found |= {f"{prefix}{number:02d}" for number in range(int(first), int(last) + 1)}
    return found


def tests_of(path: Path) -> dict[str, str]:
    """Map the node ids of a test file to their docstrings ("" where there is none)."""
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    file = path.relative_to(ROOT).as_posix()
    found = {f"{file}::{test.name}": ast.get_docstring(test) or "" for test in tests_in(tree.body)}
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            for test in tests_in(node.body):
                found[f"{file}::{node.name}::{test.name}"] = ast.get_docstring(test) or ""
    return found


def tests_in(body: list[ast.stmt]) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """List the test functions that stand directly in a module or class."""
    return [
        node
        for node in body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test")
    ]


def all_tests() -> dict[str, str]:
    """Map every test of the project to its docstring, sorted by node id."""
    found: dict[str, str] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        found |= tests_of(path)
    return dict(sorted(found.items()))


def table_of(tests: dict[str, str]) -> dict[str, list[str]]:
    """Turn the docstrings round: each id with the tests that name it, both sorted."""
    table: dict[str, list[str]] = {}
    for node, docstring in tests.items():
        for case in ids_in(docstring):
            table.setdefault(case, []).append(node)
    return {case: sorted(table[case]) for case in sorted(table)}


def written(table: dict[str, list[str]]) -> str:
    """Write the table as the source between the marks."""
    lines = [BEGIN, "REQUIREMENTS: dict[str, list[str]] = {"]
    for case, nodes in table.items():
        lines += [f'    "{case}": [', *(f'        "{node}",' for node in nodes), "    ],"]
    return "\n".join([*lines, "}", END])


def renewed(source: str, table: dict[str, list[str]]) -> str:
    """Replace what stands between the marks of `tests/requirements.py`."""
    before, _, rest = source.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + written(table) + after


def main() -> int:
    """Rewrite the table, or with `--check` say whether it is as the docstrings say."""
    parser = argparse.ArgumentParser(description="Write tests/requirements.py from docstrings.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if it differs")
    is_check = parser.parse_args().check
    old = TABLE.read_text(encoding="utf-8")
    new = renewed(old, table_of(all_tests()))
    if old == new:
        return 0
    if is_check:
        print(
            "tests/requirements.py is behind the docstrings: run scripts/requirements",
            file=sys.stderr,
        )
        return 1
    TABLE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
