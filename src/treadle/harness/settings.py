"""Build `runtimeSettings`, what an engine may know of the run's surroundings.

Pure. Knows nothing of how models or runtimes are chosen. Field names are the documents' own, since
this object is a payload of the engine contract. Source: spec B-28…B-32.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from treadle.contract.engine import LEGACY
from treadle.model.json import JsonObject

VERSION: Final = 1
HOST: Final = "openclaw"
"""Wire name of the kind of host; engines of others compare it."""

Mode = Literal["normal", "fallback", "degraded"]

_REASONS: Final = (
    ("provider_timeout", re.compile(r"time[ -]?out|timed[ -]out", re.I)),
    ("rate_limited", re.compile(r"rate|limit|\b429\b", re.I)),
    ("context_overflow", re.compile(r"overflow|context|pressure", re.I)),
    ("runtime_unavailable", re.compile(r"runtime", re.I)),
    ("provider_unavailable", re.compile(r"provider|primary|unavailable", re.I)),
)
"""Free text is classified by the first pattern that fits (spec B-31)."""

_CODES: Final = frozenset({code for code, _ in _REASONS} | {"unknown"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What is known of a run; None is what is not known."""

    harness_id: str | None = None
    runtime_id: str | None = None
    requested_model: str | None = None
    resolved_model: str | None = None
    provider: str | None = None
    model_family: str | None = None
    selected_engine: str | None = None
    host_id: str | None = None
    host_label: str | None = None
    prompt_token_budget: int | None = None
    max_output_tokens: int | None = None
    fallback_reason: str | None = None
    degraded_reason: str | None = None
    mode: Mode | None = None
    """None: it follows from the rest (spec B-29)."""


def reason_code(text: str | None) -> str | None:
    """Return the reason code of a code or a free text; None for a blank one (spec B-31)."""
    if text is None or not text.strip():
        return None
    bare = text.strip()
    if bare in _CODES:
        return bare
    return next((code for code, pattern in _REASONS if pattern.search(bare)), "unknown")


def mode_of(run: Surroundings) -> Mode:
    """Return the mode of a run (spec B-29)."""
    if run.mode is not None:
        return run.mode
    if reason_code(run.degraded_reason) is not None:
        return "degraded"
    other_model = (
        run.requested_model is not None
        and run.resolved_model is not None
        and run.requested_model != run.resolved_model
    )
    if reason_code(run.fallback_reason) is not None or other_model:
        return "fallback"
    return "normal"


def runtime_settings(run: Surroundings) -> JsonObject:
    """Return the object; every field is there, an unknown one is None (spec B-28).

    Make it once a run and hand the same one to `after_turn` and to maintenance (spec B-32).
    """
    selected = (run.selected_engine or "").strip() or None
    source = "unknown"
    if selected is not None:
        source = "default" if selected == LEGACY else "configured"
    return {
        "schemaVersion": VERSION,
        "runtime": {
            "host": HOST,
            "mode": mode_of(run),
            "harnessId": run.harness_id,
            "runtimeId": run.runtime_id,
        },
        "model": {
            "requested": run.requested_model,
            "resolved": run.resolved_model,
            "provider": run.provider,
            "family": run.model_family,
        },
        "contextEngineSelection": {"selectedId": selected, "source": source},
        "executionHost": {"id": run.host_id, "label": run.host_label},
        "limits": {
            "promptTokenBudget": run.prompt_token_budget,
            "maxOutputTokens": run.max_output_tokens,
        },
        "diagnostics": {
            "fallbackReason": reason_code(run.fallback_reason),
            "degradedReason": reason_code(run.degraded_reason),
        },
    }
