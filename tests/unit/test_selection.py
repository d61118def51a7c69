"""Which harness runs what: the rows of spec A-03…A-13 as one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from treadle.contract.engine import Capability
from treadle.contract.harness import (
    AttemptParams,
    AttemptResult,
    Emit,
    ModelRef,
    Support,
    SupportQuery,
)
from treadle.harness.selection import (
    RuntimePolicy,
    Selection,
    codex_support,
    is_official_route,
    select,
)
from treadle.model.errors import HarnessUnavailable
from treadle.model.ids import AgentId, ThreadId


@dataclass(frozen=True, slots=True, kw_only=True)
class Harness:
    """A harness that only says what it supports."""

    id: str
    support: Support | None = None
    capabilities: frozenset[Capability] = frozenset()

    def supports(self, query: SupportQuery) -> Support:
        return self.support or codex_support(query)

    async def run_attempt(self, params: AttemptParams, emit: Emit) -> AttemptResult:
        raise NotImplementedError

    async def put_away(self, agent_id: AgentId, thread_ids: Sequence[ThreadId]) -> None:
        raise NotImplementedError


CODEX = Harness(id="codex")
BUILT_IN = Harness(id="openclaw", support=Support(supported=True))
OPENAI = ModelRef(provider="openai", model="gpt-5.5")
OTHER = ModelRef(provider="anthropic", model="some-model")
NONE = ModelRef()
NO_POLICY = RuntimePolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    policy: RuntimePolicy = NO_POLICY
    model: ModelRef = OPENAI
    config: dict[str, Any] | None = None
    harness: str
    source: str


CASES = {
    "auto claims the official route": Case(harness="codex", source="auto"),
    "auto claims the default model": Case(model=NONE, harness="codex", source="auto"),
    "another provider is not forced onto codex (A-13)": Case(
        model=OTHER, harness="openclaw", source="auto"
    ),
    "a custom base URL is not claimed (A-11)": Case(
        config={"baseUrl": "https://example.org/v1"}, harness="openclaw", source="auto"
    ),
    "the official base URL is": Case(
        config={"baseUrl": "https://api.openai.com/v1"}, harness="codex", source="auto"
    ),
    "plain http is not": Case(
        config={"baseUrl": "http://api.openai.com/v1"}, harness="openclaw", source="auto"
    ),
    "authored headers are not (A-11)": Case(
        config={"headers": {"x": "y"}}, harness="openclaw", source="auto"
    ),
    "model policy first (A-04)": Case(
        policy=RuntimePolicy(model="openclaw", provider="codex", agent="codex"),
        harness="openclaw",
        source="model",
    ),
    "provider policy second": Case(
        policy=RuntimePolicy(provider="codex", agent="openclaw"),
        model=OTHER,
        harness="codex",
        source="provider",
    ),
    "codex/MODEL is runtime codex (A-06)": Case(
        model=ModelRef(provider="codex", model="gpt-5.5"), harness="codex", source="model-reference"
    ),
    "a model policy wins over codex/MODEL": Case(
        policy=RuntimePolicy(model="openclaw"),
        model=ModelRef(provider="codex", model="gpt-5.5"),
        harness="openclaw",
        source="model",
    ),
    "the whole-agent key last (A-05)": Case(
        policy=RuntimePolicy(agent="openclaw"), harness="openclaw", source="agent"
    ),
    "pi is openclaw (A-05)": Case(
        policy=RuntimePolicy(model="pi"), harness="openclaw", source="model"
    ),
    "a blank id says nothing": Case(
        policy=RuntimePolicy(model=" "), harness="codex", source="auto"
    ),
    "auto by name": Case(policy=RuntimePolicy(model="auto"), harness="codex", source="model"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_selection(case: Case) -> None:
    """Spec A-03…A-06, A-10, A-11, A-13."""
    chosen = select(case.policy, case.model, [CODEX, BUILT_IN], provider_config=case.config)
    assert (chosen.harness_id, chosen.source) == (case.harness, case.source)


def test_the_codex_prefix_is_taken_off_the_model() -> None:
    """Spec A-06, F-08."""
    chosen = select(RuntimePolicy(), ModelRef(provider="codex", model="gpt-5.5"), [CODEX])
    assert chosen == Selection(
        harness_id="codex", source="model-reference", model=ModelRef(model="gpt-5.5")
    )


def test_old_settings_are_named_in_warnings() -> None:
    """Spec A-05."""
    used = select(RuntimePolicy(agent="pi"), OPENAI, [CODEX, BUILT_IN])
    ignored = select(RuntimePolicy(agent="codex", model="openclaw"), OPENAI, [CODEX, BUILT_IN])
    assert len(used.warnings) == 2
    assert "is used once more" in used.warnings[0]
    assert "'pi' is now called 'openclaw'" in used.warnings[1]
    assert "is ignored here" in ignored.warnings[0]


def test_the_highest_priority_claims_and_ties_go_to_the_first() -> None:
    """Spec A-04."""
    low = Harness(id="low", support=Support(supported=True, priority=1))
    high = Harness(id="high", support=Support(supported=True, priority=500))
    same = Harness(id="same", support=Support(supported=True, priority=500))
    assert select(RuntimePolicy(), OPENAI, [low, CODEX, high, same]).harness_id == "high"


@pytest.mark.parametrize(
    ("policy", "model", "harnesses", "says"),
    [
        (
            RuntimePolicy(model="openclaw"),
            OPENAI,
            [CODEX],
            "'openclaw' is not part of this version",
        ),
        (RuntimePolicy(model="pi"), OPENAI, [CODEX], "'openclaw' is not part of this version"),
        (RuntimePolicy(), OTHER, [CODEX], "no runtime claims 'anthropic/some-model'"),
        (RuntimePolicy(model="codex"), OPENAI, [BUILT_IN], "'codex' is not registered"),
        (RuntimePolicy(model="nope"), OPENAI, [CODEX], "'nope' is not registered"),
        (RuntimePolicy(), OPENAI, [], "none is registered"),
    ],
)
def test_what_cannot_run_fails_early_with_a_next_step(
    policy: RuntimePolicy, model: ModelRef, harnesses: list[Harness], says: str
) -> None:
    """Spec A-07: fail-closed, never replayed through another runtime."""
    with pytest.raises(HarnessUnavailable) as caught:
        select(policy, model, harnesses)
    assert says in caught.value.message
    assert caught.value.next_step


def test_a_named_runtime_that_does_not_support_the_route_fails_the_run() -> None:
    """Spec A-07."""
    picky = Harness(id="codex", support=Support(supported=False, reason="too old"))
    with pytest.raises(HarnessUnavailable, match="too old"):
        select(RuntimePolicy(model="codex"), OPENAI, [picky, BUILT_IN])


ANSWERS: dict[str, tuple[SupportQuery, Support]] = {
    "by name": (
        SupportQuery(model=OTHER, requested="codex"),
        Support(supported=True, priority=100),
    ),
    "its own route": (
        SupportQuery(model=OPENAI, provider_config={"baseUrl": "https://api.openai.com/v1"}),
        Support(supported=True, priority=100),
    ),
    "another provider": (
        SupportQuery(model=OTHER),
        Support(supported=False, reason="'anthropic' is no provider of Codex's own"),
    ),
    "another address": (
        SupportQuery(model=OPENAI, provider_config={"baseUrl": "https://example.org"}),
        Support(supported=False, reason="the base URL is not OpenAI's own"),
    ),
    "authored headers": (
        SupportQuery(model=OPENAI, provider_config={"headers": True}),
        Support(supported=False, reason="the provider sets headers"),
    ),
}


@pytest.mark.parametrize(("query", "expected"), ANSWERS.values(), ids=ANSWERS.keys())
def test_an_answer_is_a_priority_or_a_reason(query: SupportQuery, expected: Support) -> None:
    """Spec A-10: nothing else in it; Codex sends no request to another runtime (A-07)."""
    assert codex_support(query) == expected


PICKY = Support(supported=False, reason="no such model", fallback_runtime="openclaw")
UNABLE = Harness(id="openclaw", support=Support(supported=False, reason="no key"))


def test_the_built_in_runtime_takes_over_only_exactly_what_was_asked() -> None:
    """Spec A-10, A-07: named by who refuses, and able to."""
    asked: list[SupportQuery] = []

    class BuiltIn(Harness):
        def supports(self, query: SupportQuery) -> Support:
            asked.append(query)
            return Support(supported=True)

    config = {"baseUrl": "https://example.org"}
    policy = RuntimePolicy(provider="picky")
    harnesses = [Harness(id="picky", support=PICKY), BuiltIn(id="openclaw")]
    chosen = select(policy, OTHER, harnesses, provider_config=config)
    assert (chosen.harness_id, chosen.source, chosen.model) == ("openclaw", "provider", OTHER)
    assert "no such model" in chosen.warnings[0]
    assert asked == [SupportQuery(model=OTHER, provider_config=config, requested="openclaw")]


@pytest.mark.parametrize(
    ("harnesses", "says"),
    [
        ([Harness(id="picky", support=PICKY), UNABLE], "no such model"),
        ([Harness(id="picky", support=PICKY)], "no such model"),
        ([Harness(id="picky", support=replace(PICKY, fallback_runtime=None)), BUILT_IN], "model"),
    ],
    ids=["it cannot", "it is not there", "nobody named it"],
)
def test_a_refusal_stands_where_nobody_can_take_over(harnesses: list[Harness], says: str) -> None:
    """Spec A-10, A-07."""
    with pytest.raises(HarnessUnavailable, match=says):
        select(RuntimePolicy(provider="picky"), OTHER, harnesses)


def test_what_nobody_claims_is_refused_where_the_built_in_runtime_cannot_run_it() -> None:
    """Spec A-10, A-03."""
    with pytest.raises(HarnessUnavailable, match="cannot run it"):
        select(RuntimePolicy(), OTHER, [CODEX, UNABLE])


@pytest.mark.parametrize(
    ("url", "official"),
    [
        ("https://api.openai.com/v1", True),
        ("https://api.openai.com:443", True),
        ("https://api.openai.com:8443", False),
        ("http://api.openai.com/v1", False),
        ("https://api.openai.com.evil.org", False),
        ("https://user@api.openai.com", False),
        ("https://api.openai.com:x", False),
        ("", False),
    ],
)
def test_official_routes(url: str, official: bool) -> None:
    """Spec A-11."""
    assert is_official_route(url) is official
