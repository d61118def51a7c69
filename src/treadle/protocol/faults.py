"""What the app-server's refusals mean, and how its requests are refused; it decides no next step.

Almost every refusal has the code -32600 and only its text tells it apart (facts section 11), so the
patterns live here, once, each with its source. `error_from_answer` makes the error that a caller
sees, `fault_of` names it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import Final

from treadle.model.errors import RpcError, ThreadBusy, WireError
from treadle.model.json import JsonObject, JsonValue


class Fault(Enum):
    """What a refusal means."""

    THREAD_BUSY = "thread_busy"
    """Another process writes the thread: never a reason to rotate or clear a binding (F7)."""
    THREAD_NOT_LOADED = "thread_not_loaded"
    """Resume first."""
    NO_ROLLOUT = "no_rollout"
    """The thread never ran a turn, or its file is gone."""
    THREAD_ARCHIVED = "thread_archived"
    """Unarchive first."""
    NO_ACTIVE_TURN = "no_active_turn"
    """Nothing to steer or interrupt; just after `turn/start` it is a race."""
    OTHER_TURN = "other_turn"
    """Another turn runs than the one named."""
    NOT_STEERABLE = "not_steerable"
    """A compaction or review runs."""
    INPUT_TOO_LARGE = "input_too_large"
    """The input is longer than 2^20 characters."""
    OVERLOADED = "overloaded"
    """Too many requests at once; retry later."""
    NOT_SIGNED_IN = "not_signed_in"
    """The call needs an account."""
    UNKNOWN_METHOD = "unknown_method"
    """An older or newer binary without this method."""
    OTHER = "other"
    """None of these."""


_PATTERNS: Final[tuple[tuple[re.Pattern[str], Fault], ...]] = (
    # facts section 7 and F7: `thread … already has an active writer`
    (re.compile(r"already has an active writer"), Fault.THREAD_BUSY),
    # facts section 7: `thread not found: …` for a thread that is not loaded
    (re.compile(r"thread not found|thread not loaded"), Fault.THREAD_NOT_LOADED),
    # facts section 7: `no rollout found for thread id …`
    (re.compile(r"no rollout found"), Fault.NO_ROLLOUT),
    # facts section 7: ``session … is archived. Run `codex unarchive …` ``
    (re.compile(r"is archived"), Fault.THREAD_ARCHIVED),
    # facts section 3: steer and interrupt without a turn
    (re.compile(r"no active turn to (?:steer|interrupt)"), Fault.NO_ACTIVE_TURN),
    # facts section 3: ``expected active turn id `X` but found `Y` ``
    (re.compile(r"expected active turn id"), Fault.OTHER_TURN),
    # facts section 3: steer and start while a compaction runs
    (re.compile(r"cannot steer a \w+ turn|ActiveTurnNotSteerable"), Fault.NOT_STEERABLE),
    # facts section 11: account/rateLimits/read and others
    (re.compile(r"codex account authentication required"), Fault.NOT_SIGNED_IN),
    # facts section 11: ``Invalid request: unknown variant `nope`, expected one of …``
    (re.compile(r"^Invalid request: unknown variant"), Fault.UNKNOWN_METHOD),
)

_OVERLOADED: Final = -32001
"""JSON-RPC code `Server overloaded; retry later.` Source: facts section 11."""


def fault_of(error: RpcError) -> Fault:
    """Return what a refusal means; `OTHER` where nothing is known about it."""
    return _classify(error.rpc_code, error.rpc_message, error.data)


def error_from_answer(method: str, code: int, message: str, data: JsonValue) -> WireError:
    """Return the error that the caller of a refused request sees."""
    if _classify(code, message, data) is Fault.THREAD_BUSY:
        return ThreadBusy(
            f"{method!r} was refused: another process writes this thread ({message})",
            next_step="Close the other Codex that has this thread open, then try again.",
            method=method,
        )
    return RpcError(method, code, message, data)


def _classify(code: int, message: str, data: JsonValue) -> Fault:
    if code == _OVERLOADED:
        return Fault.OVERLOADED
    if isinstance(data, Mapping):
        if data.get("input_error_code") == "input_too_large":
            return Fault.INPUT_TOO_LARGE
        info = data.get("codexErrorInfo")
        if isinstance(info, Mapping) and "activeTurnNotSteerable" in info:
            return Fault.NOT_STEERABLE
    for pattern, fault in _PATTERNS:
        if pattern.search(message):
            return fault
    return Fault.OTHER


def refusal_of(method: str) -> JsonObject | None:
    """Return the documented refusal of a request of the app-server; None means an error answer.

    Each says no to what was asked and lets the turn go on, so that nothing hangs where nobody
    serves the request. Source: decision 27, facts sections 4, 8 and 10.
    """
    match method:
        case "item/commandExecution/requestApproval" | "item/fileChange/requestApproval":
            return {"decision": "decline"}
        case "item/permissions/requestApproval":
            return {"permissions": {}, "scope": "turn"}
        case "item/tool/requestUserInput":
            return {"answers": {}}
        case "mcpServer/elicitation/request":
            return {"action": "decline", "content": None, "_meta": None}
        case "item/tool/call":
            text = "This tool is not available now."
            return {"contentItems": [{"type": "inputText", "text": text}], "success": False}
    return None
