"""Decide whether a thread still carries the context that was projected into it once.

An engine that asks for `thread_bootstrap` has its context put into a fresh thread once per epoch.
Knows nothing of how it is put there. Source: spec D-30…D-41.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from treadle.contract.engine import ContextProjection, EngineInfo
from treadle.model.json import JsonObject, digest

SCHEMA_VERSION: Final = 1
"""Of the engine record and of the projection in it (spec D-34)."""

THREAD_BOOTSTRAP: Final = "thread_bootstrap"


class BootstrapReason(StrEnum):
    """Why the context is projected into a fresh thread, or is not. Source: spec D-31."""

    MISSING_THREAD = "missing-thread-binding"
    MISSING_PROJECTION = "missing-projection-binding"
    ENGINE_MISMATCH = "context-engine-binding-mismatch"
    TOOLS_MISMATCH = "dynamic-tools-mismatch"
    PROJECTION_MISMATCH = "projection-mismatch"
    MATCHING = "matching-thread-bootstrap-binding"


@dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapRequest:
    """A well-formed wish for one projection per epoch; texts are trimmed and not blank."""

    epoch: str
    fingerprint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapInput:
    """What the decision stands on."""

    has_thread: bool
    bound: JsonObject | None
    """The engine record of the binding (spec D-34), if it has one."""

    wanted: JsonObject
    """The engine record that a projection made now would leave (`engine_record`)."""

    tools_compatible: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapDecision:
    """Project into a fresh thread (spec D-33), or send the prompt alone (spec D-32)."""

    project: bool
    reason: BootstrapReason


def bootstrap_request(asked: ContextProjection) -> tuple[BootstrapRequest | None, str | None]:
    """Return the wish, or None for per-turn projection, and a warning where it was ill-formed.

    Source: spec D-30.
    """
    if asked.mode != THREAD_BOOTSTRAP:
        return None, None
    epoch = (asked.epoch or "").strip()
    if not epoch:
        return None, (
            "The context engine asked for a thread_bootstrap projection without an epoch;"
            " its context is projected on every turn."
        )
    return BootstrapRequest(
        epoch=epoch, fingerprint=(asked.fingerprint or "").strip() or None
    ), None


def policy_fingerprint(
    info: EngineInfo, *, citations_mode: str | None, projection_max_chars: int | None
) -> str:
    """Return a hash over what changes how an engine's context is made.

    `projection_max_chars` is the configured limit, never one that follows from the token budget: a
    budget or model change keeps the thread. Source: spec D-34, D-35.
    """
    return digest({
        "engineId": info.id,
        "engineVersion": info.version,
        "ownsCompaction": info.owns_compaction,
        "turnMaintenanceMode": info.turn_maintenance_mode,
        "citationsMode": citations_mode,
        "projectionMaxChars": projection_max_chars,
    })


def engine_record(engine_id: str, fingerprint: str, request: BootstrapRequest | None) -> JsonObject:
    """Return what the binding keeps of an engine; `request` None leaves the projection out.

    Source: spec D-34, D-36.
    """
    record: dict[str, JsonObject | str | int] = {
        "schemaVersion": SCHEMA_VERSION,
        "engineId": engine_id,
        "policyFingerprint": fingerprint,
    }
    if request is not None:
        projection: dict[str, str | int] = {
            "schemaVersion": SCHEMA_VERSION,
            "mode": THREAD_BOOTSTRAP,
            "epoch": request.epoch,
        }
        if request.fingerprint is not None:
            projection["fingerprint"] = request.fingerprint
        record["projection"] = projection
    return record


def without_projection(record: JsonObject) -> JsonObject:
    """Return the record without its projection, so that the next turn projects again (D-38)."""
    return {key: value for key, value in record.items() if key != "projection"}


def decide_bootstrap(given: BootstrapInput) -> BootstrapDecision:
    """Decide in the order of spec D-31; the first difference gives the reason."""
    reason = _reason(given)
    return BootstrapDecision(project=reason is not BootstrapReason.MATCHING, reason=reason)


def leaves_bootstrap(bound: JsonObject | None, request: BootstrapRequest | None) -> bool:
    """Whether an engine that had a projected thread now wants per-turn projection.

    That costs one fresh thread. Source: spec D-36.
    """
    return request is None and has_projection(bound)


def has_projection(bound: JsonObject | None) -> bool:
    """Whether a binding's engine record says that its thread was given a context for an epoch."""
    return _projection(bound) is not None


def _reason(given: BootstrapInput) -> BootstrapReason:
    bound, wanted = given.bound, given.wanted
    if not given.has_thread:
        return BootstrapReason.MISSING_THREAD
    if bound is None or _projection(bound) is None:
        return BootstrapReason.MISSING_PROJECTION
    if any(bound.get(key) != wanted.get(key) for key in _ENGINE_KEYS):
        return BootstrapReason.ENGINE_MISMATCH
    if not given.tools_compatible:
        return BootstrapReason.TOOLS_MISMATCH
    if _projection(bound) != _projection(wanted):
        return BootstrapReason.PROJECTION_MISMATCH
    return BootstrapReason.MATCHING


_ENGINE_KEYS: Final = ("schemaVersion", "engineId", "policyFingerprint")


def _projection(record: JsonObject | None) -> JsonObject | None:
    found = record.get("projection") if record is not None else None
    return found if isinstance(found, Mapping) else None
