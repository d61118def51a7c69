"""The table of `scripts/break`: every change still fits, and stands for a test of its id."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from scripts.requirements import all_tests, ids_in
from tests.breakages.all import BREAKAGES
from tests.breakages.breakage import Breakage, DoesNotFit, broken_text

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "treadle"
DOCSTRINGS = all_tests()

LETTERS = "ABCDEFGHISTVW"
"""Areas of the contract that a change has to stand for, one at least (issue 3, item 7)."""

every_breakage = pytest.mark.parametrize("one", BREAKAGES, ids=lambda one: one.name)


@every_breakage
def test_a_change_fits_the_source_exactly_once(one: Breakage) -> None:
    """Ours: a change that no longer fits breaks nothing, so it proves nothing."""
    source = (PACKAGE / one.file).read_text(encoding="utf-8")
    assert broken_text(source, one) != source


@every_breakage
def test_a_change_leaves_the_source_readable(one: Breakage) -> None:
    """Ours: a test that fails because nothing can be imported has noticed nothing."""
    source = (PACKAGE / one.file).read_text(encoding="utf-8")
    compile(broken_text(source, one), one.file, "exec")


@every_breakage
def test_each_test_of_a_change_names_its_id(one: Breakage) -> None:
    """Ours: the test that turns red is the one that stands for what was broken."""
    assert one.tests
    for node in one.tests:
        assert node in DOCSTRINGS, "there is no such test"
        said = DOCSTRINGS[node]
        assert one.case in ids_in(said) or one.case.lower() in said.lower()


def test_there_are_enough_changes_of_every_area() -> None:
    """Ours: issue 3, item 7."""
    assert len(BREAKAGES) >= 40
    assert set(LETTERS) <= {one.case[0] for one in BREAKAGES}
    twice = [name for name, times in Counter(one.name for one in BREAKAGES).items() if times > 1]
    assert not twice


def test_a_text_that_stands_there_twice_is_refused() -> None:
    """Ours: nobody would know which of the two was changed."""
    one = Breakage("twice", "A-01", "x.py", "same", "other", ())
    with pytest.raises(DoesNotFit, match="2 times"):
        broken_text("same same", one)
    with pytest.raises(DoesNotFit, match="0 times"):
        broken_text("", one)
