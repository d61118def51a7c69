"""Messages between the inbox and their runs: what is stored of a request, and how it comes back.

Pure. Knows no store and carries nothing out.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final

from treadle.contract.inbox import InboxMessage, NewMessage
from treadle.model.errors import TreadleError
from treadle.model.ids import AgentId, RunId
from treadle.model.json import JsonObject
from treadle.model.session import session_name
from treadle.model.turn import Outcome, RunFinished, Usage
from treadle.runtime.requests import RunRequest
from treadle.runtime.runs import RunSite

MOST_STARTS: Final = 10
"""How often the run of one message may begin: a message that ends the process each time is no
message to be tried for ever."""

_FIELDS: Final = frozenset(field.name for field in fields(RunRequest))


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A message and where it is to be run."""

    request: RunRequest
    site: RunSite

    def to_message(self, run_id: RunId, client_message_id: str, *, place: int) -> NewMessage:
        """Return what is stored of it."""
        asked: dict[str, Any] = asdict(replace(self.request, client_message_id=None))
        return NewMessage(
            session_key=self.site.name.key,
            client_message_id=client_message_id,
            run_id=run_id,
            place=place,
            request={
                "request": asked,
                "agent": self.site.name.agent_id,
                "owner": self.site.owner,
                "cwd": self.site.cwd,
            },
        )


def asked_again(message: InboxMessage) -> Asked:
    """Return what a stored message asked for; options of a later version are left out.

    Raises: UsageError, ValueError, TypeError or KeyError for what no version of ours has stored.
    """
    stored = message.request
    asked = stored["request"]
    if not isinstance(asked, dict):
        raise TypeError("a stored message holds no request")
    known: dict[str, Any] = {name: value for name, value in asked.items() if name in _FIELDS}
    request = RunRequest(**known)
    cwd = stored.get("cwd")
    return Asked(
        request=replace(request, client_message_id=message.client_message_id),
        site=RunSite(
            name=session_name(message.session_key, agent=AgentId(_text(stored["agent"]))),
            owner=_text(stored["owner"]),
            cwd=cwd if isinstance(cwd, str) else None,
        ),
    )


def given_up(message: InboxMessage) -> TreadleError | None:
    """Return why a message is not begun once more, or None."""
    if message.attempts < MOST_STARTS:
        return None
    return TreadleError(
        f"this message was begun {message.attempts} times, and each time Treadle ended in it",
        next_step="Say it again in other words; treadle logs shows what happened.",
    )


def end_of(message: InboxMessage) -> RunFinished:
    """Return the last event of the run of a message that has its end."""
    found = message.outcome or {}
    error, usage = found.get("error"), found.get("usage")
    return RunFinished(
        run_id=message.run_id,
        outcome=Outcome(_text(found.get("outcome", Outcome.FAILED.value))),
        text=_text(found.get("text", "")),
        error=error if isinstance(error, dict) else None,
        replay_safe=found.get("replay_safe") is True,
        partial=found.get("partial") is True,
        usage=_usage(usage) if isinstance(usage, dict) else None,
        duration_s=_number(found.get("duration_s")),
    )


def _usage(found: JsonObject) -> Usage:
    known: dict[str, Any] = {
        field.name: found[field.name] for field in fields(Usage) if field.name in found
    }
    return Usage(**known)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
