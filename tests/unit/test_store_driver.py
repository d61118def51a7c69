"""Named queries and migrations as files, and paths over branches."""

from __future__ import annotations

import pytest

from treadle.store.driver import load_migrations, load_queries, parse_queries
from treadle.store.snapshot import Segment, segments_of


def test_queries_are_read_by_name() -> None:
    text = "\n-- one: First.\nSELECT 1;\n\n-- two: Second.\nSELECT\n  2;\n"

    assert parse_queries(text) == {"one": "SELECT 1;", "two": "SELECT\n  2;"}


@pytest.mark.parametrize("text", ["SELECT 1;\n-- one: First.\n", "-- a: A.\nx\n-- a: A.\ny\n"])
def test_a_file_of_queries_that_is_not_clear_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"stands before|defined twice"):
        parse_queries(text)


def test_the_shipped_queries_and_migrations_can_be_read() -> None:
    assert "entry_by_key" in load_queries()
    first = load_migrations("sqlite")[0]
    assert (first.number, first.phase, first.name) == (1, "pre", "initial")
    assert load_migrations("of nobody") == ()


def segment(branch: int, depths: tuple[int, int], positions: tuple[int, int]) -> Segment:
    return Segment(
        branch=branch,
        start_depth=depths[0],
        stop_depth=depths[1],
        start=positions[0],
        stop=positions[1],
    )


def test_a_path_ends_each_branch_where_the_next_one_forks() -> None:
    # branch, fork_depth, fork_position, entry_count, message_count
    path = [(1, 0, 0, 10, 8), (4, 6, 5, 9, 7), (7, 7, 5, 7, 5), (9, 7, 5, 12, 9)]

    assert segments_of(path) == (
        segment(1, (0, 6), (0, 5)),
        segment(4, (6, 7), (5, 5)),
        segment(9, (7, 12), (5, 9)),
    )


def test_the_path_of_an_empty_session_has_no_segment() -> None:
    assert segments_of([(1, 0, 0, 0, 0)]) == ()
