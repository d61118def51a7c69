"""Events that pass: merged per part, dropped where a watcher is slow, told at their place."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from treadle.model.ids import ItemId, RunId
from treadle.model.turn import PartDelta, PartValue
from treadle.runtime.passing import MAX_CHARS, MAX_FRAMES, MERGE_CHARS, Backlog, Passing

RUN = RunId("r_1")


def delta(at: int, text: str, *, part: str = "m", base: int = 0) -> Passing:
    event = PartDelta(run_id=RUN, part=ItemId(part), kind="text", at=at, text=text)
    return Passing(base=base, event=event)


def value(number: int, *, part: str = "t", base: int = 0) -> Passing:
    event = PartValue(run_id=RUN, part=ItemId(part), kind="tool", value={"n": number})
    return Passing(base=base, event=event)


def filled(*passing: Passing) -> Backlog:
    backlog = Backlog()
    for one in passing:
        backlog.put(one)
    return backlog


def texts(passing: list[Passing]) -> str:
    return "".join(one.event.text for one in passing if isinstance(one.event, PartDelta))


def test_deltas_of_a_part_are_merged_and_the_last_value_of_one_wins() -> None:
    """Ours: design of the page, back-pressure."""
    backlog = filled(delta(0, "a"), delta(1, "b"), value(1), value(2), delta(2, "c"))
    assert backlog.take(0) == [delta(0, "ab"), value(2), delta(2, "c")]
    assert (backlog.waiting, backlog.chars) == ([], 0)


def test_what_does_not_join_is_kept_apart() -> None:
    """Ours: another part, a gap, a durable event between, another run."""
    other = Passing(
        base=0, event=PartDelta(run_id=RunId("r_2"), part=ItemId("m"), kind="text", at=5, text="e")
    )
    parts = [
        delta(0, "a"),
        delta(0, "b", part="n"),
        delta(3, "c", part="n"),
        delta(4, "d", part="n", base=1),
        other,
    ]
    assert filled(*parts).take(1) == parts


def test_an_event_waits_for_the_durable_one_that_it_follows() -> None:
    """Ours: a delta is not told before the event that it came after."""
    backlog = filled(delta(0, "a"), delta(1, "b", base=2))
    assert backlog.take(1) == [delta(0, "a")]
    assert backlog.next_base == 2
    assert backlog.take(1) == []
    assert backlog.take(2) == [delta(1, "b", base=2)]
    assert backlog.next_base is None


def test_a_watcher_that_is_too_slow_loses_them_all_and_is_told_how_many() -> None:
    """INV-17: bounded in number and in size."""
    many = filled(*(delta(0, "x", part=f"p{n}") for n in range(MAX_FRAMES + 1)))
    assert (many.take(9), many.take_dropped(), many.take_dropped()) == ([], MAX_FRAMES + 1, 0)
    large = filled(delta(0, "x" * (MAX_CHARS + 1)))
    assert (large.take(9), large.take_dropped(), large.chars) == ([], 1, 0)


@given(pieces=st.lists(st.integers(1, 2 * MERGE_CHARS), max_size=30), cut=st.integers(0, 30))
def test_merging_loses_no_character(pieces: list[int], cut: int) -> None:
    """Ours: whatever the pieces, taken in between or not; offsets go on without a gap."""
    whole = "".join(chr(97 + n % 26) * size for n, size in enumerate(pieces))[: MAX_CHARS // 2]
    backlog, at, got = Backlog(), 0, list[Passing]()
    for number, size in enumerate(pieces):
        piece = whole[at : at + size]
        if piece:
            backlog.put(delta(at, piece))
        at += size
        if number == cut:
            got += backlog.take(0)
    got += backlog.take(0)
    assert texts(got) == whole
    assert backlog.chars == 0
    ends = 0
    for one in got:
        assert isinstance(one.event, PartDelta)
        assert one.event.at == ends
        ends += len(one.event.text)
