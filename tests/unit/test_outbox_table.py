"""The table of the engine outbox: which state follows what, and what is never a step."""

from __future__ import annotations

import itertools

import pytest

from treadle.contract.outbox import (
    MAX_ATTEMPTS,
    MAX_BYTES,
    MAX_MESSAGES,
    Accepted,
    Answered,
    CommitEvent,
    CommitState,
    Dropped,
    Failed,
    HandedOver,
    Measure,
    NoSuchStep,
    Unsendable,
    payload_hash,
    step,
)
from treadle.model.ids import EntryId

SMALL = Measure(message_count=2, size_bytes=200)
LARGEST = Measure(message_count=MAX_MESSAGES, size_bytes=MAX_BYTES)
LONG = Measure(message_count=MAX_MESSAGES + 1, size_bytes=1)
BIG = Measure(message_count=1, size_bytes=MAX_BYTES + 1)
GONE = Unsendable(reason="gone")

TABLE: list[tuple[CommitState, CommitEvent, CommitState | None]] = [
    (CommitState.ADMITTED, Accepted(commits=True, measure=SMALL), CommitState.READY),
    (CommitState.ADMITTED, Accepted(commits=True, measure=LARGEST), CommitState.READY),
    (CommitState.ADMITTED, Accepted(commits=True, measure=LONG), CommitState.BLOCKED),
    (CommitState.ADMITTED, Accepted(commits=True, measure=BIG), CommitState.BLOCKED),
    (CommitState.ADMITTED, Accepted(commits=True, measure=None), CommitState.BLOCKED),
    (CommitState.ADMITTED, Accepted(commits=False, measure=BIG), CommitState.ACCEPTED),
    (CommitState.ADMITTED, Accepted(commits=False, measure=None), CommitState.ACCEPTED),
    (CommitState.ADMITTED, Dropped(), None),
    (CommitState.ACCEPTED, HandedOver(), CommitState.SETTLED),
    (CommitState.READY, Answered(), CommitState.COMMITTED),
    (CommitState.READY, Failed(attempts=1), CommitState.READY),
    (CommitState.READY, Failed(attempts=MAX_ATTEMPTS - 1), CommitState.READY),
    (CommitState.READY, Failed(attempts=MAX_ATTEMPTS), CommitState.BLOCKED),
    (CommitState.READY, GONE, CommitState.BLOCKED),
]

EVENTS: list[CommitEvent] = [
    Accepted(commits=True, measure=SMALL),
    Dropped(),
    Answered(),
    Failed(attempts=1),
    GONE,
    HandedOver(),
]


@pytest.mark.parametrize(("state", "event", "after"), TABLE)
def test_each_row_of_the_table_holds(
    state: CommitState, event: CommitEvent, after: CommitState | None
) -> None:
    """Spec B-36, B-37, B-38, B-48."""
    assert step(state, event) is after


def test_nothing_else_is_a_step() -> None:
    """INV-7: what is committed, blocked or settled stays so, and nothing is committed unsent."""
    known = {(state, type(event)) for state, event, _ in TABLE}
    others = [
        (state, event)
        for state, event in itertools.product(CommitState, EVENTS)
        if (state, type(event)) not in known
    ]
    assert len(others) == len(CommitState) * len(EVENTS) - 6
    for state, event in others:
        with pytest.raises(NoSuchStep):
            step(state, event)


def test_the_bounds_are_those_of_the_contract() -> None:
    """Spec B-38: 20 000 events and 8 MiB."""
    assert (MAX_MESSAGES, MAX_BYTES) == (20_000, 8_388_608)
    assert LONG.fault == "the turn has 20,001 messages, more than 20,000"
    assert BIG.fault == "the turn has 8,388,609 bytes, more than 8,388,608"


def test_a_payload_is_told_from_every_other() -> None:
    """INV-8: another key, another entry, another text, another order, another kind of turn."""
    one, two = (EntryId("ent_1"), "a"), (EntryId("ent_2"), "b")
    payloads = [
        payload_hash("k", [one, two], is_heartbeat=False),
        payload_hash("k2", [one, two], is_heartbeat=False),
        payload_hash("k", [two, one], is_heartbeat=False),
        payload_hash("k", [one, (EntryId("ent_2"), "c")], is_heartbeat=False),
        payload_hash("k", [one, (EntryId("ent_3"), "b")], is_heartbeat=False),
        payload_hash("k", [one], is_heartbeat=False),
        payload_hash("k", [one, two], is_heartbeat=True),
    ]
    assert len(set(payloads)) == len(payloads)
    assert payloads[0] == payload_hash("k", [one, two], is_heartbeat=False)
