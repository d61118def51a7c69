"""Turn a turn's error into one a person can act on, by the app-server's own code for it.

Knows nothing of turns or retries of ours. Source: spec G-16, G-17; facts section 11.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from treadle.model.json import JsonObject, JsonValue
from treadle.model.text import redact

CONTEXT_OVERFLOW: Final = "turn.context_overflow"
"""Our code for a context that does not fit the model's window."""

_DEFAULT: Final = "Codex ended the turn without saying why."
_READ_IT: Final = "Read the message; what you said is kept, so you can go on or say it again."

_KNOWN: Final[Mapping[str, tuple[str, str, bool]]] = MappingProxyType({
    "contextWindowExceeded": (
        CONTEXT_OVERFLOW,
        "Start a new session, or choose a context engine that keeps the context smaller.",
        False,
    ),
    "usageLimitExceeded": ("codex.usage_limit", "Wait until the limit resets.", True),
    "serverOverloaded": ("codex.overloaded", "Try again in a minute.", True),
    "httpConnectionFailed": (
        "codex.model_unreachable",
        "Check the network and the address of the model provider, then try again.",
        True,
    ),
    "responseStreamConnectionFailed": (
        "codex.model_unreachable",
        "Check the network and the address of the model provider, then try again.",
        True,
    ),
    "responseStreamDisconnected": ("codex.model_stream_lost", "Try again.", True),
    "responseTooManyFailedAttempts": ("codex.model_stream_lost", "Try again later.", True),
    "internalServerError": ("codex.model_failed", "Try again.", True),
    "unauthorized": (
        "codex_not_signed_in",
        "Run `treadle login`, or check the key of the model provider.",
        False,
    ),
    "badRequest": ("codex.bad_request", "Read the message: the model provider refused it.", False),
    "sandboxError": ("codex.sandbox_failed", "Run `treadle doctor`.", False),
})
"""Code of ours, what to do next, and whether the same turn may succeed later, by Codex's code."""

_BY_STATUS: Final[Mapping[int, str]] = MappingProxyType({
    401: "unauthorized",
    403: "unauthorized",
    429: "serverOverloaded",
})
"""HTTP status that says more than the code beside it."""


def turn_fault(error: JsonValue, rate_limits: JsonObject | None = None) -> JsonObject:
    """Return `{code, message, next_step, retry}` of a turn's or a notification's error.

    A usage limit is told with the last rate limits that were reported. Source: spec G-16.
    """
    fields = error if isinstance(error, Mapping) else {}
    message = fields.get("message")
    said = _said(message) if isinstance(message, str) else ""
    text = redact(said) or _DEFAULT
    named = codex_code(fields.get("codexErrorInfo"))
    code, next_step, retry = _KNOWN.get(named or "", ("turn.failed", _READ_IT, False))
    if named == "usageLimitExceeded" and rate_limits is not None:
        text = " ".join([text, *_limits(rate_limits)])
    fault: dict[str, JsonValue] = {
        "code": code,
        "message": text,
        "next_step": next_step,
        "retry": retry,
    }
    if named is not None:
        fault["codex_code"] = named
    return fault


def codex_code(info: JsonValue) -> str | None:
    """Return Codex's own code: a text, or a mapping's one key; an HTTP status may refine it."""
    if isinstance(info, str):
        return info
    if not isinstance(info, Mapping) or not info:
        return None
    name, details = next(iter(info.items()))
    status = details.get("httpStatusCode") if isinstance(details, Mapping) else None
    return _BY_STATUS.get(status, name) if isinstance(status, int) else name


def _said(message: str) -> str:
    """Return the sentence in a message that is a provider's raw body (HTTP 400), else all of it."""
    try:
        body: JsonValue = msgspec.json.decode(message)
    except msgspec.DecodeError:
        return message.strip()
    match body:
        case {"error": {"message": str() as sentence}} if sentence.strip():
            return sentence.strip()
        case _:
            return message.strip()


def _limits(rate_limits: JsonObject) -> list[str]:
    said: list[str] = []
    for key in ("primary", "secondary"):
        window = rate_limits.get(key)
        if not isinstance(window, Mapping):
            continue
        used, minutes = window.get("usedPercent"), window.get("windowDurationMins")
        resets = window.get("resetsAt")
        if isinstance(used, int | float):
            of = f" of the {minutes} minute window" if isinstance(minutes, int) else ""
            at = f"; it resets at {resets} (Unix seconds)" if isinstance(resets, int) else ""
            said.append(f"Used: {used:g} %{of}{at}.")
    return said
