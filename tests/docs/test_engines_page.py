"""`docs/engines.md`: its engine runs as it stands there, and its tables are those of the code."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from tests.docs.pages import blocks, page, printed, rows, run_program
from treadle import DynamicTool, ToolCall
from treadle.config import Deadlines
from treadle.contract import engine as contract
from treadle.contract import session_calls
from treadle.engines.answers import engine_info
from treadle.engines.registry import GROUP
from treadle.tools.specs import fault_of

PAGE = page("engines.md")
ENGINE, PROGRAM, TOOL = blocks(PAGE, "python")
CODE = re.compile(r"`(\w+)`")


def record(name: str) -> type:
    """Return a record of the contract by its name."""
    found = getattr(contract, name, None) or getattr(session_calls, name)
    assert isinstance(found, type)
    return found


def test_the_example_engine_is_whole_and_short() -> None:
    """Ours: fewer than 60 lines, and everything that the contract asks for."""
    assert len(ENGINE.splitlines()) < 60
    space: dict[str, object] = {}
    exec(compile(ENGINE, "headlines.py", "exec"), space)  # the page is ours
    create = space["create"]
    assert callable(create)
    made = create(contract.EngineContext(config={}))
    assert engine_info("headlines", made).id == "headlines"


@pytest.mark.codex
def test_the_example_engine_decides_what_the_model_sees(scratch: Path, codex_binary: Path) -> None:
    """Spec B-01, B-10: the page's program, on the real Codex and the offline model."""
    del codex_binary
    done = run_program(scratch, {"headlines.py": ENGINE}, PROGRAM)
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed(PAGE, PROGRAM)


def test_the_example_tool_can_be_offered() -> None:
    """Spec K-01; decision 13."""
    space: dict[str, object] = {}
    exec(compile(TOOL, "tool.py", "exec"), space)  # the page is ours
    tool = space["TOOL"]
    assert isinstance(tool, DynamicTool)
    assert fault_of(tool) is None
    assert callable(tool.call)
    assert ToolCall.__doc__


def test_the_packaging_names_the_group_that_is_read() -> None:
    """Spec B-01."""
    package, config = (tomllib.loads(text) for text in blocks(PAGE, "toml"))
    points = package["project"]["entry-points"][GROUP]
    (point,) = (EntryPoint(name, value, GROUP) for name, value in points.items())
    assert f"def {point.attr}(" in ENGINE
    assert config["plugins"]["slots"]["contextEngine"] == point.name
    assert point.name in config["plugins"]["entries"]


def test_every_method_of_the_contract_stands_on_the_page() -> None:
    """Spec B-07: required and optional ones, those that are never called among the gaps."""
    named = set(re.findall(r"`(\w+)", PAGE))
    assert set(contract.REQUIRED_METHODS + contract.OPTIONAL_METHODS) <= named


def test_fields_of_what_an_engine_says_of_itself_are_those_of_the_code() -> None:
    """Spec B-22."""
    listed = rows(PAGE, "What an engine says of itself")
    named = {name for row in listed for name in CODE.findall(row[0])}
    assert named == {field.name for field in dataclasses.fields(contract.EngineInfo)}


def test_host_fields_that_can_be_filtered_are_those_of_the_code() -> None:
    """Spec B-23."""
    row = next(r for r in rows(PAGE, "What an engine says of itself") if "accepted" in r[0])
    assert set(CODE.findall(row[1])) >= contract.HOST_PARAMS


def test_fields_of_every_call_are_those_of_the_code() -> None:
    """Spec B-28…B-33: the common ones in one table, the others by record."""
    tables = rows(PAGE, "What every call holds")
    common = {field.name for field in dataclasses.fields(contract.SessionCall)}
    named = {
        name
        for row in tables
        if not row[0].removeprefix("`").startswith(("Assemble", "Bootstrap", "After", "Ingest"))
        for name in CODE.findall(row[0])
    }
    assert common <= named
    for row in tables:
        kinds = [record(name) for name in CODE.findall(row[0]) if name.endswith("Params")]
        own = {field.name for kind in kinds for field in dataclasses.fields(kind)} - common
        assert own <= set(CODE.findall(row[1])), row[0]


def test_fields_of_every_answer_are_those_of_the_code() -> None:
    """Spec B-11, B-15…B-18."""
    for names, fields in rows(PAGE, "What it answers"):
        kinds = [record(name) for name in CODE.findall(names)]
        own = {field.name for kind in kinds for field in dataclasses.fields(kind)}
        assert own == set(CODE.findall(fields)), names


def test_the_deadlines_are_the_defaults() -> None:
    """Spec A-17; decision 14."""
    given = Deadlines()
    sentence = PAGE.split("Each call has a deadline", 1)[1].split("the import", 1)[0]
    said = [int(number) for number in re.findall(r"(\d+) s\b", sentence)]
    assert said == [
        given.engine_call_s,
        given.engine_bootstrap_s,
        given.engine_maintain_s,
        given.engine_factory_s,
    ]
    assert given.engine_factory_s == given.engine_dispose_s
