"""The manifest of requirements, held against the contract's ids and against the tests.

Ours. Reads test sources as text; runs none of them.
"""

from __future__ import annotations

import re

import pytest

from scripts import requirements as writer
from tests.requirements import OUT_OF_SCOPE, REQUIREMENTS

CONTRACT_IDS = (writer.ROOT / "tests" / "contract_ids.txt").read_text(encoding="utf-8").split()


def test_every_id_of_the_contract_has_a_test_or_a_reason() -> None:
    """Ours: nothing of the contract is forgotten."""
    assert sorted(set(CONTRACT_IDS) - set(REQUIREMENTS) - set(OUT_OF_SCOPE)) == []


def test_no_id_is_unknown_to_the_contract() -> None:
    """Ours: a mistyped id stands for nothing."""
    assert sorted((set(REQUIREMENTS) | set(OUT_OF_SCOPE)) - set(CONTRACT_IDS)) == []


def test_list_of_ids_is_sorted_and_has_each_once() -> None:
    """Ours: the committed list can be compared by eye."""
    assert sorted(set(CONTRACT_IDS)) == sorted(CONTRACT_IDS)
    assert len(CONTRACT_IDS) == 586


def test_every_node_of_the_manifest_is_a_test() -> None:
    """Ours: a test that was renamed or removed no longer stands for an id."""
    known = set(writer.all_tests())
    assert sorted({node for nodes in REQUIREMENTS.values() for node in nodes} - known) == []


def test_manifest_is_what_the_docstrings_say() -> None:
    """Ours: `scripts/requirements` was run after the last change."""
    source = writer.TABLE.read_text(encoding="utf-8")
    is_current = source == writer.renewed(source, writer.table_of(writer.all_tests()))
    assert is_current, "run scripts/requirements"


def test_every_reason_names_a_part_a_later_work_or_a_refusal() -> None:
    """Ours: a reason says when, or that it never comes."""
    form = re.compile(r"[2-6] of 6: .+|later: .+|not built: .+")
    assert [case for case, reason in OUT_OF_SCOPE.items() if not form.fullmatch(reason)] == []


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        ("Spec D-12 and RS48.", {"D-12", "RS48"}),
        ("spec C-01…C-03", {"C-01", "C-02", "C-03"}),
        ("spec RS01–RS03, D-51...53", {"RS01", "RS02", "RS03", "D-51", "D-52", "D-53"}),
        ("INV-15, X-11, UTF-16, AD-12", set()),
        ("", set()),
    ],
    ids=["plain", "span with prefix", "span in other signs", "look-alikes", "empty"],
)
def test_ids_are_read_from_a_docstring(docstring: str, expected: set[str]) -> None:
    """Ours: how a test names the ids that it stands for."""
    assert writer.ids_in(docstring) == expected
