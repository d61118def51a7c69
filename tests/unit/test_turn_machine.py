"""The turn table, row by row, and the law of its terminal states."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.harness.codex import machine as m
from treadle.harness.codex.machine import Phase, TurnCommand, TurnInput, TurnState, step
from treadle.model.ids import ThreadId, TurnId

THREAD = ThreadId("thread-1")
TURN = TurnId("turn-1")
RUNNING = TurnState(phase=Phase.RUNNING, thread_id=THREAD, turn_id=TURN, resumed=True)
STARTING = TurnState(phase=Phase.STARTING, thread_id=THREAD, resumed=True)


def ended(thread: str = THREAD, turn: str = TURN, end: m.End = m.End.COMPLETED) -> m.TurnEnded:
    return m.TurnEnded(thread_id=ThreadId(thread), turn_id=TurnId(turn), end=end)


@dataclass(frozen=True)
class Case:
    name: str
    state: TurnState
    event: TurnInput
    phase: Phase
    commands: tuple[TurnCommand, ...]


CASES = [
    Case("claim", TurnState(), m.ClaimHeld(), Phase.PREPARING, (TurnCommand.PREPARE,)),
    Case(
        "prompt ready",
        TurnState(phase=Phase.PREPARING),
        m.PromptReady(),
        Phase.STARTING,
        (TurnCommand.OPEN_THREAD, TurnCommand.START_TURN),
    ),
    Case(
        "prepare failed",
        TurnState(phase=Phase.PREPARING),
        m.PrepareFailed(),
        Phase.FAILED,
        (TurnCommand.RELEASE,),
    ),
    Case("accepted", STARTING, m.TurnAccepted(turn_id=TURN), Phase.RUNNING, ()),
    Case("rejected", STARTING, m.TurnRejected(), Phase.FAILED, (TurnCommand.RELEASE,)),
    Case(
        "overflow on a resumed thread is tried once on a fresh one",
        STARTING,
        m.Overflowed(),
        Phase.STARTING,
        (TurnCommand.OPEN_FRESH_THREAD, TurnCommand.START_TURN),
    ),
    Case(
        "a running turn that overflows with nothing said is tried once on a fresh thread",
        TurnState(phase=Phase.RUNNING, thread_id=THREAD, turn_id=TURN, resumed=True),
        m.Overflowed(),
        Phase.STARTING,
        (TurnCommand.OPEN_FRESH_THREAD, TurnCommand.START_TURN),
    ),
    Case(
        "overflow of a fresh thread's turn changes nothing",
        TurnState(phase=Phase.RUNNING, thread_id=THREAD, turn_id=TURN),
        m.Overflowed(),
        Phase.RUNNING,
        (),
    ),
    Case(
        "overflow on a fresh thread fails",
        TurnState(phase=Phase.STARTING, thread_id=THREAD),
        m.Overflowed(),
        Phase.FAILED,
        (TurnCommand.RELEASE,),
    ),
    Case(
        "cancel while starting waits for the turn id", STARTING, m.CancelAsked(), Phase.STARTING, ()
    ),
    Case(
        "a turn accepted after a cancel is interrupted",
        TurnState(phase=Phase.STARTING, thread_id=THREAD, cancelled=True),
        m.TurnAccepted(turn_id=TURN),
        Phase.STOPPING,
        (TurnCommand.INTERRUPT,),
    ),
    Case("item", RUNNING, m.ItemSeen(), Phase.RUNNING, (TurnCommand.MIRROR,)),
    Case("question", RUNNING, m.QuestionAsked(question_id="0"), Phase.RUNNING, (TurnCommand.ASK,)),
    Case("cancel", RUNNING, m.CancelAsked(), Phase.STOPPING, (TurnCommand.INTERRUPT,)),
    Case("wire lost", RUNNING, m.WireLost(), Phase.LOST, (TurnCommand.RELEASE,)),
    Case("ended", RUNNING, ended(), Phase.SETTLING, (TurnCommand.SETTLE,)),
    Case("another turn's end is no end", RUNNING, ended(turn="turn-2"), Phase.RUNNING, ()),
    Case("another thread's end is no end", RUNNING, ended(thread="thread-2"), Phase.RUNNING, ()),
    Case(
        "grace over",
        TurnState(phase=Phase.STOPPING, thread_id=THREAD, turn_id=TURN),
        m.GraceOver(),
        Phase.LOST,
        (TurnCommand.RETIRE_CLIENT, TurnCommand.RELEASE),
    ),
    Case(
        "a wire lost after the end costs nothing",
        TurnState(phase=Phase.SETTLING, thread_id=THREAD, turn_id=TURN),
        m.WireLost(),
        Phase.SETTLING,
        (),
    ),
    Case(
        "settled",
        TurnState(phase=Phase.SETTLING),
        m.Settled(),
        Phase.DONE,
        (TurnCommand.RELEASE,),
    ),
    Case(
        "settling budget over is a degraded success",
        TurnState(phase=Phase.SETTLING),
        m.BudgetOver(),
        Phase.DONE,
        (TurnCommand.RELEASE,),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_row_of_the_turn_table_holds(case: Case) -> None:
    """Spec A-18, A-19, D-41, G-16."""
    state, commands = step(case.state, case.event)
    assert (state.phase, commands) == (case.phase, case.commands)


def test_a_second_overflow_fails() -> None:
    """Spec D-41."""
    state, _ = step(STARTING, m.Overflowed())
    state, _ = step(state, m.ThreadOpened(thread_id=ThreadId("fresh"), resumed=False))
    state, commands = step(state, m.Overflowed())
    assert (state.phase, commands) == (Phase.FAILED, (TurnCommand.RELEASE,))


def test_a_settled_question_is_no_longer_open() -> None:
    """Request id 0 is an id like any other (reliability F3)."""
    state, _ = step(RUNNING, m.QuestionAsked(question_id="0"))
    assert state.open_questions == {"0"}
    state, _ = step(state, m.QuestionSettled(question_id="0"))
    assert state.open_questions == frozenset()


EVENTS = st.sampled_from([
    m.ClaimHeld(),
    m.PromptReady(),
    m.PrepareFailed(),
    m.ThreadOpened(thread_id=THREAD, resumed=True),
    m.TurnAccepted(turn_id=TURN),
    m.TurnRejected(),
    m.Overflowed(),
    m.ItemSeen(),
    m.QuestionAsked(question_id="1"),
    m.QuestionSettled(question_id="1"),
    m.CancelAsked(),
    ended(),
    m.WireLost(),
    m.GraceOver(),
    m.Settled(),
    m.BudgetOver(),
])


@given(st.lists(EVENTS, max_size=30))
def test_no_input_moves_a_terminal_state(events: list[TurnInput]) -> None:
    state = TurnState()
    for event in events:
        following, commands = step(state, event)
        if state.phase in m.TERMINAL:
            assert following == state
            assert commands == ()
        state = following
