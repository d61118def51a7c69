"""The table of events, and that the house speaks no other."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import treadle
from treadle.observe.counters import Counters
from treadle.observe.events import EVENTS

SOURCE = Path(treadle.__file__).parent
DOC = Path(__file__).parents[2] / "docs" / "events.md"

T_01 = {
    "engine.bootstrap_started": "codex context engine bootstrap started",
    "engine.bootstrap_completed": "codex context engine bootstrap completed",
    "engine.bootstrap_failed": "codex context engine bootstrap failed",
    "engine.assemble_applied": "codex context engine assemble applied",
    "engine.finalize_completed": "codex context engine finalize completed",
    "engine.finalize_failed": "codex context engine finalize failed",
    "engine.maintenance_skipped": "codex context engine maintenance skipped",
    "compaction.native_completed": (
        "codex native compaction completed alongside context-engine compaction"
    ),
}


@pytest.mark.parametrize(("name", "message"), T_01.items())
def test_the_contracts_texts_are_the_messages_of_their_events(name: str, message: str) -> None:
    """Spec T-01, decision 19."""
    assert EVENTS[name].message == message


def test_every_event_is_noun_and_past_verb_and_sorted() -> None:
    names = list(EVENTS)
    assert all(re.fullmatch(r"[a-z]+\.[a-z]+(_[a-z]+)*", name) for name in names)
    assert names == sorted(names, key=lambda n: (n.partition(".")[0], names.index(n)))
    assert len({event.message for event in EVENTS.values()}) == len(names)


def emitted_names() -> dict[str, str]:
    found: dict[str, str] = {}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func
            name = called.id if isinstance(called, ast.Name) else called
            argument = node.args[0]
            if (
                name == "emit"
                and isinstance(argument, ast.Constant)
                and isinstance(argument.value, str)
            ):
                found[argument.value] = f"{path.relative_to(SOURCE)}:{node.lineno}"
    return found


def test_no_room_emits_an_event_outside_the_table() -> None:
    """Every literal given to `emit` anywhere in the package is a row."""
    assert {name: at for name, at in emitted_names().items() if name not in EVENTS} == {}


def test_the_page_lists_every_event_with_its_level_and_message() -> None:
    """docs/events.md and the table are the same rows."""
    rows = re.findall(r"^\| `([a-z_.]+)` \| (\w+) \| (.+?) \|$", DOC.read_text("utf-8"), re.M)
    assert rows == [(e.name, e.level.name.lower(), e.message) for e in EVENTS.values()]


def test_counters_start_at_zero_and_add_up() -> None:
    """INV-25."""
    counters = Counters()
    assert counters.value("wire.unknown_methods") == 0
    assert counters.add("wire.unknown_methods") == 1
    assert counters.add("engine.late_calls", 3) == 3
    assert counters.snapshot() == {"engine.late_calls": 3, "wire.unknown_methods": 1}
    with pytest.raises(ValueError, match="no counter name"):
        counters.add("Bad Name")
