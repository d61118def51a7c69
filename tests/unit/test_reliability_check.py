"""The checker of runs under faults finds what was planted, and nothing where nothing was."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.reliability import check as checking
from bench.reliability.check import RULES, Rule, check
from bench.reliability.found import Found, Violation, without
from bench.reliability.history import History, history_from_json, history_to_json, marks_in
from bench.reliability.planted import ALLOWED, PLANTS, Plant, WrongVerdict, prove
from bench.reliability.shrink import minimal, told
from bench.reliability.story import clean_history

every_plant = pytest.mark.parametrize(
    "plant", PLANTS, ids=lambda one: f"{one.what}-{PLANTS.index(one)}"
)


def test_enough_is_planted() -> None:
    """Ours: issue 4, build 5: twenty planted faults, and every word of every rule among them."""
    assert len(PLANTS) >= 20
    rules = Path(checking.__file__).parent / "rules"
    text = "".join(file.read_text(encoding="utf-8") for file in rules.glob("*.py"))
    planted = {plant.what for plant in PLANTS}
    assert planted <= set(re.findall(r'"([a-z_]+)"', text)), "a rule's word has changed"
    assert set(re.findall(r'what="([a-z_]+)"', text)) <= planted
    assert {plant.promise for plant in PLANTS} == {
        f"INV-{number}" for number in (*range(1, 11), *range(15, 22))
    }


@every_plant
def test_a_planted_fault_is_found_and_nothing_else(plant: Plant) -> None:
    """Ours: reliability section 3: each gives exactly that violation."""
    found = check(plant.into(clean_history()))
    assert [(one.promise, one.what) for one in found] == [(plant.promise, plant.what)]


@pytest.mark.parametrize(("name", "change"), ALLOWED, ids=[name for name, _ in ALLOWED])
def test_what_only_looks_odd_is_no_violation(name: str, change: object) -> None:
    """Ours: a checker that cries wolf is switched off."""
    del name
    assert callable(change)
    assert check(change(clean_history())) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_checker_without_one_of_its_rules_does_not_prove_itself(rule: Rule) -> None:
    """Ours: the proof at each start of the runner can fail."""

    def lazy(history: History) -> list[Violation]:
        found = Found(history)
        return [one for other in RULES if other is not rule for one in other(found)]

    with pytest.raises(WrongVerdict, match="expected INV-"):
        prove(lazy)


def test_a_checker_that_sees_ghosts_does_not_prove_itself() -> None:
    """Ours."""
    ghost = Violation(promise="INV-1", what="ghost", text="there is none")
    with pytest.raises(WrongVerdict, match="expected nothing"):
        prove(lambda _: [ghost])


def test_the_proof_counts_what_it_found() -> None:
    """Ours."""
    assert prove() == len(PLANTS)


@every_plant
def test_the_least_history_still_shows_the_violation(plant: Plant) -> None:
    """Ours: issue 4, build 5: a minimal history is printed on a violation."""
    history = plant.into(clean_history())
    (violation,) = check(history)

    least = minimal(history, violation)

    again = [
        one for one in check(least) if (one.what, one.message) == (plant.what, violation.message)
    ]
    assert again
    assert len(least.sent) <= len(history.sent)
    assert told(least)


def test_the_least_history_holds_only_the_messages_concerned() -> None:
    """Ours."""
    plant = next(one for one in PLANTS if one.what == "overtaken")
    history = plant.into(clean_history())
    (violation,) = check(history)

    least = minimal(history, violation)

    assert {one.message for one in least.sent} == {"a4", "a5"}
    assert {row.client_id for row in least.database.inbox} == {"c-a4", "c-a5"}
    text = told(least)
    assert "session=a message=a4" in text
    assert "b1" not in text


def test_a_long_history_is_told_by_its_ends() -> None:
    """Ours."""
    lines = told(clean_history(), most=4).split("\n")
    assert lines[2].startswith("… ")
    assert lines[2].endswith(" more …")


def test_a_history_survives_being_written_down() -> None:
    """Ours."""
    history = clean_history()
    assert history_from_json(history_to_json(history)) == history


def test_marks_are_found_wherever_they_stand() -> None:
    """Ours: reliability section 3, nonces."""
    assert marks_in("Say «m:1a-2b» and «r:ff», not «x:1».") == ("m:1a-2b", "r:ff")


def test_faults_are_cut_out_of_the_time_of_service() -> None:
    """Ours: INV-18 counts undisturbed service."""
    assert list(without([(0, 10), (20, 30)], [(2, 4), (3, 5), (9, 22), (40, 50)])) == [
        (0, 2),
        (5, 9),
        (22, 30),
    ]
