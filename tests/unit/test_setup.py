"""What set-up decides about the `.venv` that it finds.

Ours: the README promises that both commands make and reuse one environment, and that a set-up which
was cut short does no harm.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from scripts import setup
from scripts.setup import Action, Stamp

DEMO = Stamp(root="/a", project="p1", locks=("core1",))
TESTS = replace(DEMO, locks=("core1", "dev1"))


@pytest.mark.parametrize(
    ("wanted", "found", "action"),
    [
        (DEMO, DEMO, Action.KEEP),
        (TESTS, TESTS, Action.KEEP),
        (DEMO, TESTS, Action.KEEP),
        (TESTS, DEMO, Action.UPDATE),
        (DEMO, replace(DEMO, locks=("core0",)), Action.UPDATE),
        (TESTS, replace(TESTS, locks=("core1", "dev0")), Action.UPDATE),
        (DEMO, replace(DEMO, project="p0"), Action.UPDATE),
        (DEMO, None, Action.UPDATE),
        (DEMO, replace(DEMO, root="/b"), Action.REBUILD),
    ],
    ids=[
        "demo again",
        "tests again",
        "demo where the tests were set up",
        "tests where the demo was set up",
        "other lock file",
        "other development lock file",
        "other pyproject.toml",
        "made by another tool",
        "moved tree",
    ],
)
def test_environment_is_kept_updated_or_rebuilt(
    wanted: Stamp, found: Stamp | None, action: Action
) -> None:
    """Ours: work is done only where something differs."""
    assert setup.decide(wanted, found, is_unfinished=False, python_works=True) is action


@pytest.mark.parametrize("found", [DEMO, None], ids=["stamp", "no stamp"])
def test_environment_that_was_cut_short_or_does_not_run_is_rebuilt(found: Stamp | None) -> None:
    """Ours: a half-installed package may look installed to pip."""
    assert setup.decide(DEMO, found, is_unfinished=True, python_works=True) is Action.REBUILD
    assert setup.decide(DEMO, found, is_unfinished=False, python_works=False) is Action.REBUILD


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"root": "/a"}', "null"], ids=lambda text: text or "empty"
)
def test_unreadable_stamp_is_no_stamp(tmp_path: Path, text: str) -> None:
    """Ours: a stamp that was cut short stands for nothing."""
    (tmp_path / setup.STAMP).write_text(text, encoding="utf-8")
    assert setup.read_stamp(tmp_path) is None


def test_python_of_a_missing_environment_does_not_work(tmp_path: Path) -> None:
    """Ours: nothing there is answered, not raised."""
    assert not setup.python_works(tmp_path / ".venv")
