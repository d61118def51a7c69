"""`docs/library.md`: its program runs, and its tables are those of the code."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import treadle
from tests.docs.pages import blocks, page, printed, rows, run_program
from treadle.model import turn
from treadle.model.errors import TreadleError
from treadle.projection import fault
from treadle.runtime.handle import RunHandle
from treadle.runtime.service import Runtime
from treadle.runtime.sessions import Session

PAGE = page("library.md")
CODE = re.compile(r"`([\w.]+)`")
ROOT = Path(__file__).resolve().parents[2]


def errors(kind: type[TreadleError] = TreadleError) -> Iterator[type[TreadleError]]:
    """Yield the whole tree of errors."""
    yield kind
    for one in kind.__subclasses__():
        if one.__module__ == "treadle.model.errors":
            yield from errors(one)


def public(kind: type) -> set[str]:
    """Return what a caller may use of a class."""
    return {name for name in vars(kind) if not name.startswith("_")}


def first(row: str) -> list[str]:
    """Return the codes in the first cell of a row."""
    return CODE.findall(row.split("|")[1])


def named(cells: list[list[str]]) -> set[str]:
    """Return the members that a table's first column names."""
    return {name for row in cells for name in re.findall(r"[`,] ?(?:await )?(\w+)", row[0])}


@pytest.mark.codex
def test_the_example_of_the_page_runs_and_prints_what_it_says(
    scratch: Path, codex_binary: Path
) -> None:
    """Issue 2 item 8: a tool of the caller's own, called by the real Codex."""
    del codex_binary
    (program,) = blocks(PAGE, "python")
    done = run_program(scratch, {}, program)
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed(PAGE, program)


def test_arguments_of_open_runtime_are_all_there() -> None:
    """Ours."""
    listed = {name for row in rows(PAGE, "Opening") for name in CODE.findall(row[0])}
    assert listed == set(inspect.signature(treadle.open_runtime).parameters)


def test_every_event_stands_in_the_table_with_its_fields() -> None:
    """Ours; decision 21."""
    expected = [
        (
            kind.type,
            kind.__name__,
            [field.name for field in dataclasses.fields(kind) if field.name != "run_id"],
        )
        for kind in turn.RunEvent.__args__
    ]
    found = [
        (CODE.findall(row[0])[0], CODE.findall(row[1])[0], CODE.findall(row[2]))
        for row in rows(PAGE, "Events")
        if len(row) == 4
    ]
    assert found == expected
    assert {name for _, name, _ in found} <= set(treadle.__all__)


def test_every_error_code_has_its_row() -> None:
    """Ours; style 36."""
    expected = [(kind.code, kind.__name__, kind.retryable) for kind in errors()]
    found = [
        (CODE.findall(row[0])[0], CODE.findall(row[1])[0], row[2] == "yes")
        for row in rows(PAGE, "Errors")
        if len(row) == 4
    ]
    assert found == expected
    assert len({code for code, _, _ in found}) == len(found)


def test_every_code_of_a_failed_turn_has_its_row() -> None:
    """Spec G-16, G-17."""
    expected: dict[str, tuple[set[str], bool]] = {}
    for codex, (code, _, retry) in fault._KNOWN.items():
        expected.setdefault(code, (set(), retry))[0].add(codex)
    found = {
        CODE.findall(row[0])[0]: (set(CODE.findall(row[1])), row[2] == "yes")
        for row in rows(PAGE, "Errors")
        if len(row) == 3
    }
    assert found == expected


OF_THE_SERVICE = {
    "publish",
    "acknowledge",
    "acknowledge_again",
    "refuse",
    "ended",
    "answered",
}
"""Members of a run's handle that the service calls, not its caller."""


@pytest.mark.parametrize(
    ("heading", "kind", "hidden"),
    [
        ("Sessions", Session, set()),
        ("Sessions", Runtime, {"session", "submit"}),
        (
            "Runs",
            RunHandle,
            {"publish", "acknowledge", "acknowledge_again", "refuse", "ended", "answered"},
        ),
    ],
)
def test_members_of_a_class_stand_on_the_page(heading: str, kind: type, hidden: set[str]) -> None:
    """Ours: what is not there is the service's own."""
    listed = named(rows(PAGE, heading))
    assert public(kind) - hidden <= listed


def test_notices_on_the_page_are_those_of_the_code() -> None:
    """Ours."""
    source = "\n".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "src/treadle").rglob("*.py")
    )
    table = PAGE.split("Notices have stable codes", 1)[1].split("\n## ", 1)[0]
    codes = {code for row in table.splitlines() if row.startswith("| `") for code in first(row)}
    assert codes
    assert {code for code in codes if f'"{code}"' not in source} == set()
