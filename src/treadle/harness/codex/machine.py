"""The turn as a table: a state and an input give the next state and what is to be done.

Knows nothing of clients, stores or engines; `attempt` carries the commands out.

    state      input                         next       commands
    ADMITTED   ClaimHeld                     PREPARING  Prepare
    PREPARING  PromptReady                   STARTING   OpenThread, StartTurn
    PREPARING  PrepareFailed                 FAILED     Release
    STARTING   TurnAccepted                  RUNNING    -
    STARTING   TurnRejected                  FAILED     Release
    STARTING   Overflowed on a resumed one   STARTING   OpenFreshThread, StartTurn   (once)
    RUNNING    Overflowed on a resumed one   STARTING   OpenFreshThread, StartTurn   (once)
    RUNNING    ItemSeen                      RUNNING    Mirror
    RUNNING    QuestionAsked                 RUNNING    Ask
    RUNNING    QuestionSettled               RUNNING    -
    ADMITTED, PREPARING  CancelAsked         FAILED     Release
    STARTING   CancelAsked                   STARTING   -   (remembered until it is accepted)
    STARTING   TurnAccepted, cancelled       STOPPING   Interrupt
    RUNNING    CancelAsked                   STOPPING   Interrupt
    before SETTLING  WireLost                LOST       Release
    RUNNING    TurnEnded, this very turn     SETTLING   Settle
    STOPPING   TurnEnded                     SETTLING   Settle
    STOPPING   GraceOver                     LOST       RetireClient, Release
    SETTLING   Settled, BudgetOver           DONE       Release
    FAILED, LOST, DONE                       terminal: whatever comes is ignored

An input that a state does not name changes nothing: once the turn has ended, losing the wire does
not matter any more. Source: architecture section 3; spec A-18, D-41, G-16.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import assert_never

from treadle.model.ids import ThreadId, TurnId


class Phase(StrEnum):
    """Where a turn stands."""

    ADMITTED = "admitted"
    PREPARING = "preparing"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    SETTLING = "settling"
    DONE = "done"
    FAILED = "failed"
    LOST = "lost"


TERMINAL = frozenset({Phase.DONE, Phase.FAILED, Phase.LOST})


class End(StrEnum):
    """How the turn itself ended, once it has."""

    COMPLETED = "completed"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnState:
    """The state of one attempt."""

    phase: Phase = Phase.ADMITTED
    thread_id: ThreadId | None = None
    turn_id: TurnId | None = None
    resumed: bool = False
    """Whether the thread existed before this attempt."""

    retried_fresh: bool = False
    open_questions: frozenset[str] = frozenset()
    cancelled: bool = False
    end: End | None = None
    degraded: bool = False


# ------------------------------------------------------------------------------------------ inputs


@dataclass(frozen=True, slots=True)
class ClaimHeld:
    """The session is ours to write."""


@dataclass(frozen=True, slots=True)
class PromptReady:
    """What the model is to be given is decided."""


@dataclass(frozen=True, slots=True)
class PrepareFailed:
    """Preparation failed in a way that no fallback covers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadOpened:
    """A native thread is loaded and holds what it should."""

    thread_id: ThreadId
    resumed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnAccepted:
    """The app-server answered `turn/start`."""

    turn_id: TurnId


@dataclass(frozen=True, slots=True)
class TurnRejected:
    """The thread could not be opened, or `turn/start` was refused."""


@dataclass(frozen=True, slots=True)
class Overflowed:
    """The context did not fit, and nothing was said or done.

    `turn/start` was refused for it, or the turn ended with it; Codex 0.163 does the latter.
    """


@dataclass(frozen=True, slots=True)
class ItemSeen:
    """A notification of this turn other than its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionAsked:
    """Codex asks for something."""

    question_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionSettled:
    """A question was answered or withdrawn."""

    question_id: str


@dataclass(frozen=True, slots=True)
class CancelAsked:
    """A person or a caller wants the turn to stop, or its time is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnded:
    """`turn/completed`, for whichever thread and turn it names."""

    thread_id: ThreadId
    turn_id: TurnId
    end: End


@dataclass(frozen=True, slots=True)
class WireLost:
    """The app-server went away."""


@dataclass(frozen=True, slots=True)
class GraceOver:
    """An interrupt was not confirmed in time."""


@dataclass(frozen=True, slots=True)
class Settled:
    """The turn is mirrored and finalized."""


@dataclass(frozen=True, slots=True)
class BudgetOver:
    """Settling took longer than its budget; what was said stands (spec A-19)."""


TurnInput = (
    ClaimHeld
    | PromptReady
    | PrepareFailed
    | ThreadOpened
    | TurnAccepted
    | TurnRejected
    | Overflowed
    | ItemSeen
    | QuestionAsked
    | QuestionSettled
    | CancelAsked
    | TurnEnded
    | WireLost
    | GraceOver
    | Settled
    | BudgetOver
)


class TurnCommand(StrEnum):
    """What the caller has to do, in order."""

    PREPARE = "prepare"
    OPEN_THREAD = "open_thread"
    OPEN_FRESH_THREAD = "open_fresh_thread"
    START_TURN = "start_turn"
    MIRROR = "mirror"
    ASK = "ask"
    INTERRUPT = "interrupt"
    RETIRE_CLIENT = "retire_client"
    SETTLE = "settle"
    RELEASE = "release"


Step = tuple[TurnState, tuple[TurnCommand, ...]]


def step(state: TurnState, event: TurnInput) -> Step:
    """Return the next state and the commands; pure, total, and idle in terminal states."""
    if state.phase in TERMINAL:
        return state, ()
    match event:
        case WireLost() | CancelAsked():
            return _broken_off(state, event)
        case QuestionAsked() | QuestionSettled():
            return _question(state, event)
        case TurnEnded():
            return _ended(state, event)
        case ClaimHeld() | PromptReady() | PrepareFailed():
            return _before_start(state, event)
        case ThreadOpened() | TurnAccepted() | TurnRejected() | Overflowed():
            return _starting(state, event)
        case ItemSeen():
            live = state.phase in {Phase.RUNNING, Phase.STOPPING}
            return state, ((TurnCommand.MIRROR,) if live else ())
        case GraceOver() | Settled() | BudgetOver():
            return _closing(state, event)
        case _:
            assert_never(event)


def _before_start(state: TurnState, event: ClaimHeld | PromptReady | PrepareFailed) -> Step:
    match state.phase, event:
        case Phase.ADMITTED, ClaimHeld():
            return replace(state, phase=Phase.PREPARING), (TurnCommand.PREPARE,)
        case Phase.PREPARING, PromptReady():
            return (
                replace(state, phase=Phase.STARTING),
                (TurnCommand.OPEN_THREAD, TurnCommand.START_TURN),
            )
        case ((Phase.ADMITTED | Phase.PREPARING), PrepareFailed()):
            return replace(state, phase=Phase.FAILED), (TurnCommand.RELEASE,)
        case _:
            return state, ()


def _starting(
    state: TurnState, event: ThreadOpened | TurnAccepted | TurnRejected | Overflowed
) -> Step:
    may_retry = state.resumed and not state.retried_fresh and not state.cancelled
    if state.phase is Phase.RUNNING and isinstance(event, Overflowed) and may_retry:
        return _on_a_fresh_thread(state)
    if state.phase is not Phase.STARTING:
        return state, ()
    match event:
        case ThreadOpened(thread_id=thread_id, resumed=resumed):
            return replace(state, thread_id=thread_id, resumed=resumed), ()
        case TurnAccepted(turn_id=turn_id) if state.cancelled:
            stopping = replace(state, phase=Phase.STOPPING, turn_id=turn_id)
            return stopping, (TurnCommand.INTERRUPT,)
        case TurnAccepted(turn_id=turn_id):
            return replace(state, phase=Phase.RUNNING, turn_id=turn_id), ()
        case Overflowed() if may_retry:
            return _on_a_fresh_thread(state)
        case Overflowed() | TurnRejected():
            return replace(state, phase=Phase.FAILED), (TurnCommand.RELEASE,)


def _on_a_fresh_thread(state: TurnState) -> Step:
    retried = replace(
        state,
        phase=Phase.STARTING,
        retried_fresh=True,
        resumed=False,
        thread_id=None,
        turn_id=None,
        open_questions=frozenset(),
    )
    return retried, (TurnCommand.OPEN_FRESH_THREAD, TurnCommand.START_TURN)


def _broken_off(state: TurnState, event: WireLost | CancelAsked) -> Step:
    match state.phase, event:
        case (Phase.SETTLING, _) | (Phase.STOPPING, CancelAsked()):
            return state, ()
        case _, WireLost():
            return replace(state, phase=Phase.LOST), (TurnCommand.RELEASE,)
        case Phase.RUNNING, _:
            return replace(state, phase=Phase.STOPPING, cancelled=True), (TurnCommand.INTERRUPT,)
        case Phase.STARTING, _:
            return replace(state, cancelled=True), ()
        case _:
            return replace(state, phase=Phase.FAILED, cancelled=True), (TurnCommand.RELEASE,)


def _question(state: TurnState, event: QuestionAsked | QuestionSettled) -> Step:
    if state.phase not in {Phase.RUNNING, Phase.STOPPING}:
        return state, ()
    match event:
        case QuestionAsked(question_id=question_id):
            asked = replace(state, open_questions=state.open_questions | {question_id})
            return asked, (TurnCommand.ASK,)
        case QuestionSettled(question_id=question_id):
            return replace(state, open_questions=state.open_questions - {question_id}), ()


def _ended(state: TurnState, event: TurnEnded) -> Step:
    ours = event.thread_id == state.thread_id and event.turn_id == state.turn_id
    if not ours or state.phase not in {Phase.RUNNING, Phase.STOPPING}:
        return state, ()
    ended = replace(state, phase=Phase.SETTLING, end=event.end, open_questions=frozenset())
    return ended, (TurnCommand.SETTLE,)


def _closing(state: TurnState, event: GraceOver | Settled | BudgetOver) -> Step:
    match state.phase, event:
        case Phase.STOPPING, GraceOver():
            commands = (TurnCommand.RETIRE_CLIENT, TurnCommand.RELEASE)
            return replace(state, phase=Phase.LOST), commands
        case Phase.SETTLING, Settled():
            return replace(state, phase=Phase.DONE), (TurnCommand.RELEASE,)
        case Phase.SETTLING, BudgetOver():
            return replace(state, phase=Phase.DONE, degraded=True), (TurnCommand.RELEASE,)
        case _:
            return state, ()
