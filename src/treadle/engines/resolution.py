"""What is said of an engine that was asked for: what serves, what does not, and why.

Pure records, and the one check that fails an operation instead of falling back. Knows nothing of
how engines are found.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from treadle.contract.engine import Capability, EngineInfo, Operation
from treadle.engines.guard import GuardedEngine
from treadle.model.errors import HostCapabilityMissing
from treadle.model.ids import EngineId

State = Literal["ready", "disabled", "discovery-only", "quarantined"]
"""Whether an engine can serve."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFault:
    """Why an engine does not serve (spec B-40, T-08). `reason` is redacted."""

    engine_id: EngineId
    owner: str
    operation: str
    """`register`, `resolve`, `factory`, `contract-validation`, or the method that failed."""

    reason: str
    at: float
    """Unix seconds."""

    quarantined: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineListing:
    """One engine, for `engines list` and health."""

    engine_id: EngineId
    owner: str
    state: State
    failing_runs: int
    fault: EngineFault | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The engine of one run."""

    engine: GuardedEngine
    selected_id: EngineId
    """What was asked for, whatever serves (spec B-05: the slot keeps its value)."""

    fault: EngineFault | None = None
    """Why legacy serves instead; show it as a notice. None where the selected engine serves, and
    where its owner is switched off, which is no fault (spec B-05)."""

    @property
    def notice(self) -> str:
        """One line for a person; empty where there is nothing to say."""
        if self.fault is None:
            return ""
        return (
            f"Context engine {self.selected_id!r} does not serve ({self.fault.operation}:"
            f" {self.fault.reason}); this turn runs without it."
        )


def require_capabilities(
    info: EngineInfo, operation: Operation, offered: Iterable[Capability] | None, host: str
) -> None:
    """Refuse an operation that needs what the host does not offer; `offered` None asks nothing.

    Raises: HostCapabilityMissing. Source: spec B-25, B-27.
    """
    requirement = info.host_requirements.get(operation)
    if requirement is None or offered is None:
        return
    given = frozenset(offered)
    missing = requirement.required_capabilities - given
    if missing:
        raise HostCapabilityMissing(
            f"context engine {info.id!r} cannot do {operation!r} on host {host!r}:"
            f" missing {_names(missing)}; required {_names(requirement.required_capabilities)};"
            f" offered {_names(given)}. {requirement.unsupported_message}".rstrip(),
            next_step="Choose another runtime, or another engine with `--engine`.",
            engine_id=info.id,
            operation=operation,
            missing=sorted(missing),
        )


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
