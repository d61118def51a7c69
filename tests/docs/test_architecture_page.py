"""ARCHITECTURE.md, held against the rooms that exist. Ours."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| \d+b? \| `(\w+)` \| .+ \| (built|planned) \|$", re.MULTILINE)


def rooms_that_exist() -> set[str]:
    """List the packages and modules directly under treadle; the kit stands beside the house."""
    children = (ROOT / "src" / "treadle").iterdir()
    return {
        path.stem for path in children if path.suffix == ".py" or (path / "__init__.py").exists()
    } - {
        "__init__",
        "__main__",
        "testing",
    }


def test_rooms_called_built_are_the_rooms_that_exist() -> None:
    """Ours: the map shows no room that is not there, and hides none."""
    assert {room for room, state in ROW.findall(PAGE) if state == "built"} == rooms_that_exist()


def test_every_room_stands_in_the_table_once() -> None:
    """Ours: a room has one floor."""
    rooms = [room for room, _ in ROW.findall(PAGE)]
    assert sorted(rooms) == sorted(set(rooms))
