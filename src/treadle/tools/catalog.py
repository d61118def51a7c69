"""Choose the dynamic tools of a run: Treadle's own and those of its context engine.

Knows nothing of how a call arrives. What cannot be offered is left out with a warning, the others
still are (spec K-07); what the engine answers to `assemble` never changes the choice (spec F-11).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from treadle.contract.engine import ResolvedEngine
from treadle.contract.tool import DynamicTool
from treadle.model.json import JsonObject
from treadle.observe import emit
from treadle.tools.specs import NATIVE_NAMES, fault_of, fingerprint_of, normal_name, spec_of


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedTool:
    """A tool that is not offered, and why."""

    name: str
    owner: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSet:
    """The tools of one run, in the order in which they are offered."""

    tools: Mapping[str, DynamicTool]
    specs: tuple[JsonObject, ...]
    fingerprint: str
    known: frozenset[str]
    """All registered names, those that are not offered in this run too (spec K-09)."""

    rejected: tuple[RejectedTool, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names that the model can call (spec C-02)."""
        return tuple(self.tools)


class Catalog:
    """The registered tools."""

    def __init__(self, builtin: Iterable[DynamicTool] = (), *, exclude: Iterable[str] = ()) -> None:
        """Take Treadle's own tools and the names that are not to be offered (spec K-05)."""
        self._builtin = [(tool, "treadle") for tool in builtin]
        self._excluded = NATIVE_NAMES | {normal_name(name) for name in exclude}
        self._own = _chosen(self._builtin, self._excluded)

    def choose(self, engine: ResolvedEngine) -> ToolSet:
        """Return the tools of a run under this engine."""
        chosen = self._own
        if engine.is_active and (tools := engine.tools()):
            offered = [*self._builtin, *((tool, engine.info.id) for tool in tools)]
            chosen = _chosen(offered, self._excluded)
        for one in chosen.rejected:
            emit(
                "tool.quarantined",
                tool=one.name,
                owner=one.owner,
                reason=one.reason,
                diagnostic="unsupported_tool_schema",
            )
        return chosen


def _chosen(offered: Iterable[tuple[DynamicTool, str]], excluded: Iterable[str]) -> ToolSet:
    left_out = frozenset(excluded)
    tools: dict[str, DynamicTool] = {}
    known: set[str] = set()
    rejected: list[RejectedTool] = []
    for tool, owner in offered:
        name = str(getattr(tool, "name", tool))[:80]
        fault = fault_of(tool)
        if fault is None and name in tools:
            fault = "another tool has this name already"
        if fault is not None:
            rejected.append(RejectedTool(name=name, owner=owner, reason=fault))
            continue
        known.add(name)
        if normal_name(name) not in left_out:
            tools[name] = tool
    specs = tuple(spec_of(tool) for tool in tools.values())
    return ToolSet(
        tools=tools,
        specs=specs,
        fingerprint=fingerprint_of(specs),
        known=frozenset(known),
        rejected=tuple(rejected),
    )
