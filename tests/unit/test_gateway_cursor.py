"""The cursor rules of both sides: where a stream goes on, and what a client does with an event."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.contract.events import REPLAY_MOST, StreamHead
from treadle.gateway.cursor import OPENED, Cursor, Step, opening
from treadle.gateway.requests import WantedStream
from treadle.model.ids import StreamId
from treadle.model.json import JsonObject

STREAM = StreamId("agent:main:main")


@dataclass(frozen=True)
class Case:
    name: str
    epoch: int | None
    after: int | None
    head: tuple[int, int]
    mode: str
    goes_on_behind: int


OPENINGS = (
    Case("nothing missed", 3, 40, (3, 40), "replay", 40),
    Case("some missed", 3, 40, (3, 90), "replay", 40),
    Case("as many as can be replayed", 3, 0, (3, REPLAY_MOST), "replay", 0),
    Case("one too many", 3, 0, (3, REPLAY_MOST + 1), "snapshot", REPLAY_MOST + 1),
    Case("another epoch", 2, 40, (3, 41), "snapshot", 41),
    Case("ahead of the stream", 3, 50, (3, 40), "snapshot", 40),
    Case("no cursor yet", None, None, (3, 40), "snapshot", 40),
    Case("a number without its epoch", None, 40, (3, 40), "snapshot", 40),
    Case("an empty stream", 1, 0, (1, 0), "replay", 0),
)


@pytest.mark.parametrize("case", OPENINGS, ids=lambda case: case.name)
def test_a_client_is_given_what_it_missed_or_told_to_look_anew(case: Case) -> None:
    """Cursor rules 2 and 3."""
    wanted = WantedStream(id=STREAM, epoch=case.epoch, after=case.after)
    begun = opening(wanted, StreamHead(stream=STREAM, epoch=case.head[0], seq=case.head[1]))
    assert (begun.mode, begun.after) == (case.mode, case.goes_on_behind)


def event(seq: int, epoch: int = 1) -> dict[str, Any]:
    return {"stream": STREAM, "epoch": epoch, "seq": seq, "type": "notice", "data": {}}


def test_only_the_next_event_is_applied() -> None:
    """Cursor rule 4: one that was seen is dropped; after a gap the client subscribes anew."""
    cursor = Cursor(stream=STREAM, epoch=1, seq=5)
    assert cursor.take(event(5)) is Step.DROP
    assert cursor.take(event(7)) is Step.RESUBSCRIBE
    assert cursor.wanted() == WantedStream(id=STREAM, epoch=1, after=5)
    assert cursor.take(event(6)) is Step.APPLY
    assert cursor.take(event(7)) is Step.APPLY
    assert cursor.seq == 7


def test_another_epoch_is_not_mixed_with_the_one_before() -> None:
    """Cursor rule 2: what was seen of the old one is no prefix of the new one."""
    cursor = Cursor(stream=STREAM, epoch=1, seq=5)
    assert cursor.take(event(6, epoch=2)) is Step.RESUBSCRIBE
    opened: JsonObject = {"stream": STREAM, "epoch": 2, "base": 5, "type": OPENED}
    assert cursor.take({**opened, "data": {"mode": "snapshot", "head": 5}}) is Step.APPLY
    assert cursor.take(event(6, epoch=2)) is Step.APPLY


def test_a_replay_leaves_the_cursor_where_it_was_and_a_snapshot_moves_it() -> None:
    """Cursor rule 3."""
    opened: JsonObject = {"stream": STREAM, "epoch": 1, "base": 0, "type": OPENED}
    cursor = Cursor(stream=STREAM, epoch=1, seq=5)
    cursor.take({**opened, "data": {"mode": "replay", "head": 9}})
    assert cursor.seq == 5
    cursor.take({**opened, "data": {"mode": "snapshot", "head": 9}})
    assert cursor.seq == 9


def test_what_has_no_number_never_moves_the_cursor() -> None:
    """Cursor rule 4: the cursor is the number of an event, never a count."""
    cursor = Cursor(stream=STREAM, epoch=1, seq=5)
    passing: JsonObject = {
        "stream": STREAM,
        "epoch": 1,
        "base": 9,
        "type": "part.delta",
        "data": {},
    }
    assert cursor.take(passing) is Step.APPLY
    assert cursor.seq == 5
    assert Cursor(stream=STREAM).take(event(1)) is Step.RESUBSCRIBE


@given(head=st.integers(0, 40), cuts=st.lists(st.integers(0, 45)), noise=st.randoms())
def test_every_event_is_applied_once_whatever_the_line_does(
    head: int, cuts: list[int], noise: Any
) -> None:
    """INV-15: lost, doubled and swapped frames and reconnects; no gap, no double."""
    cursor = Cursor(stream=STREAM, epoch=1, seq=0)
    applied: list[int] = []
    for cut in [*cuts, None]:
        begun = opening(cursor.wanted(), StreamHead(stream=STREAM, epoch=1, seq=head))
        sent = list(range(begun.after + 1, head + 1))
        if cut is not None:  # a bad connection: pieces lost, doubled, out of order
            sent = [one for one in sent if noise.random() > 0.2] + sent[:3]
            noise.shuffle(sent)
            sent = sent[:cut]
        applied += [seq for seq in sent if cursor.take(event(seq)) is Step.APPLY]
    assert applied == list(range(1, head + 1))
