"""Clocks and ids."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.clock import CROCKFORD, Clock, Ids, RandomIds, SystemClock, ulid
from treadle.testing.clock import CountedIds, ManualClock


@given(st.lists(st.floats(-5, 5), max_size=40))
def test_ids_sort_in_the_order_of_their_making_even_when_the_clock_goes_back(
    moves: list[float],
) -> None:
    clock = ManualClock()
    ids: Ids = RandomIds(clock)
    made = [ids.new("run")]
    for move in moves:
        clock.set_now(clock.now() + move)
        made.append(ids.new("run"))
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_ids_have_a_prefix_and_26_crockford_digits() -> None:
    prefix, _, rest = RandomIds(SystemClock()).new("ses").partition("_")
    assert prefix == "ses"
    assert len(rest) == 26
    assert set(rest) <= set(CROCKFORD)


def test_the_text_form_is_that_of_the_published_example() -> None:
    """The ULID specification's example begins with the time 1469918176385."""
    assert ulid(1469918176385, 0)[:10] == "01ARYZ6S41"


def test_counted_ids_repeat_and_sort() -> None:
    one, other = CountedIds(), CountedIds()
    assert [one.new("a"), one.new("b")] == [other.new("a"), other.new("b")]
    assert one.new("x") < one.new("x")


def test_a_manual_clock_moves_only_when_told() -> None:
    clock = ManualClock(100.0)
    typed: Clock = clock
    assert (typed.now(), typed.monotonic()) == (100.0, 0.0)
    clock.advance(2.5)
    clock.set_now(50.0)
    assert (clock.now(), clock.monotonic()) == (50.0, 2.5)
    with pytest.raises(ValueError, match="cannot pass"):
        clock.advance(-1)


def test_the_system_clock_never_goes_back() -> None:
    clock: Clock = SystemClock()
    assert clock.monotonic() <= clock.monotonic()
    assert clock.now() > 1_700_000_000
