"""How a run's result ends its message. Pure; knows no harness and no store.

Source: reliability section 1 (S10, INV-1, INV-9).
"""

from __future__ import annotations

from typing import Final, TypedDict

from treadle.contract.harness import AttemptResult
from treadle.contract.inbox import MessageState, Settlement, state_after
from treadle.model.errors import TurnInterrupted
from treadle.model.ids import RunId
from treadle.model.json import JsonObject
from treadle.model.turn import (
    MessageCancelled,
    MessageFailed,
    MessageUnconfirmed,
    Outcome,
    RunEvent,
    RunFinished,
    event_data,
)

SHUTDOWN: Final = "shutdown"
"""Reason of an abort that nobody asked for: the service ends."""


def finished(run_id: RunId, result: AttemptResult, duration_s: float) -> RunFinished:
    """Return the last event of a run."""
    return RunFinished(
        run_id=run_id,
        outcome=result.outcome,
        text=result.text,
        error=result.prompt_error,
        replay_safe=result.replay_safe,
        partial=result.outcome is not Outcome.COMPLETED and bool(result.text),
        usage=result.attempt_usage,
        duration_s=duration_s,
    )


def settlement_of(end: RunFinished, abort_reason: str | None = None) -> Settlement:
    """Return what ends the run's message.

    A run that the end of the service stopped was not cancelled by anybody: its message has failed.
    """
    state = state_after(end.outcome, replay_safe=end.replay_safe)
    error = end.error
    if state is MessageState.CANCELLED and abort_reason == SHUTDOWN:
        state = MessageState.FAILED
        if error is None:
            stopped = TurnInterrupted("Treadle was stopped while the turn ran")
            error = stopped.to_json()
    outcome = {**event_data(end), "error": error}
    del outcome["run_id"]
    return Settlement(
        run_id=end.run_id,
        state=state,
        outcome=outcome,
        reason=_reason(error) or (abort_reason or "" if state is not MessageState.ANSWERED else ""),
    )


def ending(settlement: Settlement, client_message_id: str) -> RunEvent | None:
    """Return the event that tells of the message's end; an answer is told by its run alone."""
    ended = _Ended(
        run_id=settlement.run_id,
        client_message_id=client_message_id,
        reason=settlement.reason,
    )
    match settlement.state:
        case MessageState.FAILED:
            return MessageFailed(**ended)
        case MessageState.CANCELLED:
            return MessageCancelled(**ended)
        case MessageState.UNKNOWN:
            return MessageUnconfirmed(**ended)
        case _:
            return None


class _Ended(TypedDict):
    run_id: RunId
    client_message_id: str
    reason: str


def _reason(error: JsonObject | None) -> str:
    message = error.get("message") if error is not None else None
    return message if isinstance(message, str) else ""
