"""Choose the harness of a run: `openclaw`, `codex`, a plugin's, or whoever claims it (`auto`).

Pure. Knows nothing of how a harness runs. In order (spec A-03…A-06): the model's `agentRuntime.id`,
the provider's, a `codex/…` model reference, an old whole-agent key, then `auto`.

| runtime | who runs it | if nobody can |
|---|---|---|
| `openclaw` (old name `pi`) | the built-in harness | the run fails early |
| `codex`, or a plugin's id | that harness and no other (A-07) | the run fails early |
| `auto` | who claims it with the highest priority, else the built-in harness | as `openclaw` |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal
from urllib.parse import urlsplit

from treadle.contract.harness import AgentHarness, ModelRef, Runtime, Support, SupportQuery
from treadle.model.errors import HarnessUnavailable
from treadle.model.json import JsonObject

BUILT_IN: Final = "openclaw"
CODEX: Final = "codex"
AUTO: Final = "auto"
OLD_NAMES: Final = {"pi": BUILT_IN}
"""Old names of runtimes, still taken, with a warning (spec A-05, S4)."""

NATIVE_PROVIDER: Final = "openai"
"""What a reference without a provider means to Codex, so a legacy `codex/…` one too."""

CODEX_PREFIX: Final = "codex"
"""Provider of legacy model references `codex/MODEL`, which count as runtime `codex` (A-06)."""

OFFICIAL_HOSTS: Final = frozenset({"api.openai.com", "chatgpt.com"})
"""Hosts of the official OpenAI Responses routes (spec A-11)."""

_OVERRIDES: Final = ("headers", "proxy", "tls", "params")

Source = Literal["model", "provider", "model-reference", "agent", "auto"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimePolicy:
    """What the configuration says of runtimes; None where it says nothing."""

    model: str | None = None
    """`agentRuntime.id` of the model."""

    provider: str | None = None
    """`agentRuntime.id` of the provider."""

    agent: str | None = None
    """The old whole-agent keys (spec A-05)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which harness runs this, and why."""

    harness_id: str
    source: Source
    model: ModelRef
    """The model reference with the `codex` prefix taken off."""

    warnings: tuple[str, ...] = ()


def select(
    policy: RuntimePolicy,
    model: ModelRef,
    harnesses: Sequence[AgentHarness],
    *,
    provider_config: JsonObject | None = None,
) -> Selection:
    """Choose the harness of a run; what is chosen is never replayed elsewhere (spec A-08).

    Raises: HarnessUnavailable, before any model work.
    """
    wanted, source, warnings = _wanted(policy, model)
    by_id = {harness.id: harness for harness in harnesses}
    bare = _without_prefix(model)
    if wanted == AUTO:
        query = SupportQuery(model=bare, provider_config=provider_config, requested="auto")
        return Selection(
            harness_id=_claimed(by_id, query), source=source, model=bare, warnings=warnings
        )
    if wanted not in by_id:
        raise _missing(wanted, sorted(by_id))
    requested: Runtime = "codex" if wanted == CODEX else "openclaw"
    query = SupportQuery(model=bare, provider_config=provider_config, requested=requested)
    support = by_id[wanted].supports(query)
    if not support.supported:
        why = support.reason or "no reason given"
        if support.fallback_runtime == BUILT_IN and _built_in_runs(by_id, query):
            said = f"the runtime {wanted!r} cannot run {_named(bare)}: {why}; {BUILT_IN!r} does"
            return Selection(
                harness_id=BUILT_IN, source=source, model=bare, warnings=(*warnings, said)
            )
        raise HarnessUnavailable(
            f"the runtime {wanted!r} cannot run {_named(bare)}: {why}",
            next_step="Choose another model with `--model`, or another `agentRuntime.id`.",
            runtime=wanted,
        )
    return Selection(harness_id=wanted, source=source, model=bare, warnings=warnings)


def codex_support(query: SupportQuery) -> Support:
    """Say whether Codex runs this (spec A-10, A-11, A-13).

    Asked for by name it runs whatever Codex itself can be told of. By `auto` it claims only the
    official OpenAI route as it stands: anything else was set up for somebody else.
    """
    if query.requested == CODEX:
        return Support(supported=True, priority=100)
    provider = query.model.provider
    if provider not in (None, "openai", CODEX_PREFIX):
        return Support(supported=False, reason=f"{provider!r} is no provider of Codex's own")
    config = query.provider_config
    if config is None:
        return Support(supported=True, priority=100)
    if overrides := [name for name in _OVERRIDES if config.get(name)]:
        return Support(supported=False, reason=f"the provider sets {', '.join(overrides)}")
    base_url = config.get("baseUrl")
    if base_url is not None and not is_official_route(str(base_url)):
        return Support(supported=False, reason="the base URL is not OpenAI's own")
    return Support(supported=True, priority=100)


def is_official_route(base_url: str) -> bool:
    """Whether this is an HTTPS address of OpenAI's own, on its own port."""
    try:
        parts = urlsplit(base_url)
        port = parts.port
    except ValueError:
        return False
    return (
        parts.scheme == "https"
        and parts.hostname in OFFICIAL_HOSTS
        and port in (None, 443)
        and parts.username is None
    )


def _wanted(policy: RuntimePolicy, model: ModelRef) -> tuple[str, Source, tuple[str, ...]]:
    scoped: tuple[tuple[Source, str | None], ...] = (
        ("model", policy.model),
        ("provider", policy.provider),
        ("model-reference", CODEX if model.provider == CODEX_PREFIX else None),
        ("agent", policy.agent),
    )
    found = [(source, name.strip()) for source, name in scoped if name and name.strip()]
    warnings: list[str] = []
    if policy.agent:
        used = bool(found) and found[0][0] == "agent"
        warnings.append(
            "a runtime for a whole agent is an old setting and"
            f" {'is used once more' if used else 'is ignored here'}:"
            " set `agentRuntime.id` on the provider or the model"
        )
    if not found:
        return AUTO, "auto", tuple(warnings)
    source, name = found[0]
    if name in OLD_NAMES:
        warnings.append(f"the runtime {name!r} is now called {OLD_NAMES[name]!r}")
        name = OLD_NAMES[name]
    return name, source, tuple(warnings)


def _without_prefix(model: ModelRef) -> ModelRef:
    return replace(model, provider=None) if model.provider == CODEX_PREFIX else model


def _claimed(by_id: Mapping[str, AgentHarness], query: SupportQuery) -> str:
    claims = {name: harness.supports(query) for name, harness in by_id.items() if name != BUILT_IN}
    able = [(claim.priority, name) for name, claim in claims.items() if claim.supported]
    if able:
        best = max(priority for priority, _ in able)
        return next(name for priority, name in able if priority == best)
    if _built_in_runs(by_id, query):
        return BUILT_IN
    reasons = "; ".join(f"{name}: {claim.reason}" for name, claim in claims.items())
    what = "cannot run it" if BUILT_IN in by_id else "is not part of this version"
    raise HarnessUnavailable(
        f"no runtime claims {_named(query.model)} ({reasons or 'none is registered'}),"
        f" and the built-in runtime {BUILT_IN!r} {what}",
        next_step=f"Set `agentRuntime.id` to {CODEX!r} on the provider or the model.",
        runtime=AUTO,
    )


def _built_in_runs(by_id: Mapping[str, AgentHarness], query: SupportQuery) -> bool:
    """Whether the built-in runtime is there and takes exactly this request (spec A-10)."""
    built_in = by_id.get(BUILT_IN)
    return built_in is not None and built_in.supports(replace(query, requested=BUILT_IN)).supported


def _missing(wanted: str, known: list[str]) -> HarnessUnavailable:
    what = "is not part of this version" if wanted == BUILT_IN else "is not registered"
    there = ", ".join(map(repr, known)) or "none"
    step = (
        f"Set `agentRuntime.id` to {CODEX!r} on the provider or the model."
        if CODEX in known
        else "Run `treadle doctor` to see why."
    )
    return HarnessUnavailable(
        f"the runtime {wanted!r} {what}; there are: {there}", next_step=step, runtime=wanted
    )


def _named(model: ModelRef) -> str:
    if model.model is None:
        return "the default model"
    return repr(f"{model.provider}/{model.model}" if model.provider else model.model)
