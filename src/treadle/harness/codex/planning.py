"""What one turn does to its native thread.

Gather the planner's inputs, take its plan, choose what to inject.

Pure but for reading the lazy transcript; knows nothing of calls. Source: spec D-51…D-58, E-15,
decisions 4–6, 8.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from treadle.contract.engine import Assembled, EngineInfo
from treadle.contract.harness import ProjectionMode
from treadle.contract.store import Binding, Held, Holding
from treadle.model.json import JsonObject
from treadle.model.message import Message, user_message
from treadle.projection.bootstrap import (
    BootstrapDecision,
    BootstrapInput,
    bootstrap_request,
    decide_bootstrap,
    engine_record,
    has_projection,
    leaves_bootstrap,
    policy_fingerprint,
)
from treadle.projection.context_report import OUTSIDE_LISTED
from treadle.projection.history import (
    Continue,
    Extend,
    Plan,
    PlanInput,
    PromptCarrier,
    Reason,
    Rebase,
    Seed,
    grown_from,
    held_by_messages,
    holding_of,
    not_held,
    plan,
    seed_budget,
)
from treadle.projection.seed import left_out_note, seed_selection, units_of
from treadle.projection.wanted import Wanted, wanted_messages

UNKNOWN_WINDOW: Final = 258_400
"""Tokens: what Codex assumes of a model that it does not know (facts, section 2)."""

NEAR_WINDOW_SHARE: Final = 0.9
"""Of the window: past it Codex would soon compact what was projected (spec D-40)."""

DAMPENED: Final = "dampened"
"""Key of the engine record: what was wanted in the last dampened turn, and for how many turns."""

_SEED_PAGE: Final = 200
"""Messages read at a time from the end of a long transcript."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningInput:
    """What a plan stands on; `binding` None means that there is no thread."""

    binding: Binding | None
    holding: Holding
    held_hashes: Callable[[], Sequence[str]]
    """The whole list that the thread holds.

    Asked for only where a part of the context has to be quoted.
    """

    history: Sequence[Message]
    """The mirrored messages before this turn."""

    prompt: str
    engine: EngineInfo
    engine_active: bool
    assembled: Assembled | None
    """None without an active engine, or where assemble failed."""

    mode: ProjectionMode
    tool_fingerprint: str
    citations_mode: str | None
    count_tokens: Callable[[Message], int]
    prompt_is_stored: bool = False
    """Whether `history` ends with this run's own prompt, stored by an earlier attempt."""

    unfit_because: str | None = None
    supports_inject: bool = True
    transient: bool = False
    """The turn gets a thread of its own (spec D-39); `binding` is then None."""

    window: int | None = None
    """The model's window in tokens where no binding tells it."""

    said_elsewhere: Sequence[Message] = ()
    """The newest mirrored messages that this thread never got, because another one had the turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPlan:
    """The plan and what it means for the thread."""

    plan: Plan
    inject: tuple[Message, ...] = ()
    """Messages to inject, in order."""

    held: tuple[Held, ...] = ()
    """What the thread holds more once they are in; more than `inject` where some were left out."""

    quoted: tuple[Message, ...] = ()
    """Messages that go as text before the prompt."""

    left_out: tuple[Message, ...] = ()
    """The newest of the messages that did not fit a seed's budget."""

    left_out_count: int = 0
    first_position: int = 0
    """How many messages the thread holds before the injected ones."""

    engine_record: JsonObject | None = None
    thread_bootstrap: bool = False
    warning: str | None = None

    @property
    def fresh_thread(self) -> bool:
        """Whether a new native thread is needed."""
        match self.plan:
            case Seed() | Rebase():
                return True
            case PromptCarrier(fresh_thread=fresh):
                return fresh
            case Continue() | Extend():
                return False


def plan_turn(given: PlanningInput) -> TurnPlan:
    """Return what this turn does to its thread."""
    found = _wanted(given)
    wanted, hashes = found.messages, found.hashes
    record, decision, warning = _bootstrap(given)
    steady = steady_turns(given.binding, hashes)
    decided = plan(_plan_input(given, hashes, decision, steady))
    if record is not None and decided.reason is Reason.DAMPENED:
        record = {**record, DAMPENED: _dampened(hashes, steady)}
    done = _carried_out(given, decided, wanted, hashes)
    if record is None and given.binding is not None and not done.fresh_thread:
        record = given.binding.engine  # nobody was asked: what the thread was given stays true
    return TurnPlan(
        plan=decided,
        inject=done.inject,
        held=done.held,
        quoted=done.quoted,
        left_out=done.left_out,
        left_out_count=done.left_out_count,
        first_position=given.holding.count if isinstance(decided, Extend) else 0,
        engine_record=record,
        thread_bootstrap=decision is not None,
        warning=warning,
    )


def _wanted(given: PlanningInput) -> Wanted:
    """Return the engine's messages after D-12.

    The mirror's where a fresh thread has no engine to ask (D-27).
    """
    if given.assembled is not None:
        return wanted_messages(given.assembled.messages, given.prompt)
    # Without an engine nothing is compared: the last message is what was said, not a repeated
    # prompt, unless an earlier attempt of this very run stored it.
    repeated = given.prompt if given.prompt_is_stored else ""
    return wanted_messages(_newest(given) if _needs_seed(given) else (), repeated)


def _needs_seed(given: PlanningInput) -> bool:
    return given.binding is None or given.unfit_because is not None or not _tools_compatible(given)


def read_most(given: PlanningInput) -> int:
    """Return how many messages a plan may read, which tells how long it may take."""
    if given.assembled is not None:
        return len(given.assembled.messages)
    return len(given.history) if _needs_seed(given) else len(given.said_elsewhere)


def _newest(given: PlanningInput) -> Sequence[Message]:
    """Read backwards until the seed's budget is passed.

    A transcript may be far longer than any window.
    """
    budget = _budget(given)
    start = len(given.history)
    cost = 0
    pages: list[Sequence[Message]] = []
    while start > 0 and cost <= budget:
        page = given.history[max(0, start - _SEED_PAGE) : start]
        cost += sum(given.count_tokens(message) for message in page)
        pages.insert(0, page)
        start -= len(page)
    return tuple(chain.from_iterable(pages))


def _budget(given: PlanningInput) -> int:
    window = given.binding.window if given.binding is not None else given.window
    return seed_budget(window or UNKNOWN_WINDOW)


def _bootstrap(
    given: PlanningInput,
) -> tuple[JsonObject | None, BootstrapDecision | None, str | None]:
    if not given.engine_active:
        return None, None, None
    fingerprint = policy_fingerprint(
        given.engine, citations_mode=given.citations_mode, projection_max_chars=None
    )
    if given.assembled is None:
        return None, None, None
    request, warning = bootstrap_request(given.assembled.context_projection)
    record = engine_record(given.engine.id, fingerprint, request)
    if request is None:
        return record, None, warning
    decision = decide_bootstrap(
        BootstrapInput(
            has_thread=given.binding is not None,
            bound=given.binding.engine if given.binding is not None else None,
            wanted=record,
            tools_compatible=_tools_compatible(given),
        )
    )
    return record, decision, warning


def _plan_input(
    given: PlanningInput,
    hashes: Sequence[str],
    decision: BootstrapDecision | None,
    steady: int,
) -> PlanInput:
    binding = given.binding
    assembled = given.assembled
    asked = assembled.context_projection if assembled is not None else None
    request = bootstrap_request(asked)[0] if asked is not None else None
    return PlanInput(
        holding=given.holding,
        holding_known=binding.holding_known if binding is not None else True,
        wanted=hashes,
        thread_exists=binding is not None,
        engine_active=given.engine_active,
        owns_compaction=given.engine.owns_compaction,
        assemble_failed=given.engine_active and assembled is None,
        tools_compatible=_tools_compatible(given),
        unfit_because=given.unfit_because or _no_room(given),
        pinned=binding.pinned if binding is not None else False,
        supports_inject=given.supports_inject,
        transient=given.transient,
        said_elsewhere=bool(given.said_elsewhere),
        mode=given.mode,
        bootstrap=decision,
        leaves_bootstrap=binding is not None and leaves_bootstrap(binding.engine, request),
        native_compactions=binding.compactions_seen if binding is not None else 0,
        rebased_for_compaction=binding.rebased_for_compaction if binding is not None else False,
        successive_rebases=binding.successive_rebases if binding is not None else 0,
        steady_turns=steady,
        wanted_tokens=assembled.estimated_tokens if assembled is not None else None,
        window=binding.window if binding is not None else None,
    )


def _no_room(given: PlanningInput) -> str | None:
    """Say why a thread has no room for the engine's context, which a fresh one gets anew.

    Its last turn did not fit (F-25), or it is nearly full and its context was projected as a whole,
    once or as text (D-40). All other threads are Codex's to compact (D-55).
    """
    binding = given.binding
    if binding is None or given.assembled is None:
        return None
    if binding.overflowed:
        return "its last turn did not fit into its window"
    as_text = given.mode == "prompt" or not given.supports_inject
    if binding.last_total is None or not (as_text or has_projection(binding.engine)):
        return None
    window = binding.window or UNKNOWN_WINDOW
    if binding.last_total < window * NEAR_WINDOW_SHARE:
        return None
    return f"{binding.last_total:,} of the {window:,} tokens of its window are used"


def steady_turns(binding: Binding | None, hashes: Sequence[str]) -> int:
    """Return for how many dampened turns the wanted list has only grown (spec D-54)."""
    record = binding.engine if binding is not None else None
    match record.get(DAMPENED) if record is not None else None:
        case {"count": int() as count, "chain": str() as chain, "turns": int() as n}:
            return n + 1 if grown_from(Holding(count=count, chain=chain), hashes) else 0
        case _:
            return 0


def _dampened(hashes: Sequence[str], steady: int) -> JsonObject:
    wanted = holding_of(hashes)
    return {"count": wanted.count, "chain": wanted.chain, "turns": steady}


def _tools_compatible(given: PlanningInput) -> bool:
    stored = given.binding.tool_fingerprint if given.binding is not None else None
    return stored is None or stored == given.tool_fingerprint


def _carried_out(
    given: PlanningInput, decided: Plan, wanted: Sequence[Message], hashes: Sequence[str]
) -> TurnPlan:
    match decided:
        case Continue():
            return TurnPlan(plan=decided)
        case Extend(reason=Reason.SAID_ELSEWHERE):
            return _seeded(given, decided, given.said_elsewhere, unread=0)
        case PromptCarrier(reason=Reason.SAID_ELSEWHERE):
            return TurnPlan(plan=decided, quoted=tuple(given.said_elsewhere))
        case Extend(from_index=index):
            tail = tuple(wanted[index:])
            return TurnPlan(plan=decided, inject=tail, held=held_by_messages(tail))
        case Seed() | Rebase():
            unread = len(given.history) - len(wanted) if given.assembled is None else 0
            return _seeded(given, decided, wanted, unread=max(0, unread))
        case PromptCarrier(reason=reason):
            quoted = tuple(wanted)
            if reason in {Reason.DAMPENED, Reason.PINNED, Reason.HOLDING_UNKNOWN}:
                missing = not_held(hashes, given.held_hashes())
                quoted = tuple(wanted[index] for index in missing)
            return TurnPlan(plan=decided, quoted=quoted)


def _seeded(
    given: PlanningInput, decided: Plan, wanted: Sequence[Message], *, unread: int
) -> TurnPlan:
    """Inject what fits 0.6 of the window, behind a note about the rest (decision 5).

    `unread` messages stand before `wanted`, and nobody read them.
    """
    kept_units, left_out = seed_selection(units_of(wanted), _budget(given), given.count_tokens)
    kept = tuple(chain.from_iterable(kept_units))
    outside = left_out + unread
    note = (user_message(left_out_note(outside)),) if outside else ()
    # An engine that goes on wanting the same list continues: what was left out is accounted for.
    held = wanted if given.assembled is not None else (*note, *kept)
    return TurnPlan(
        plan=decided,
        inject=(*note, *kept),
        held=held_by_messages(held),
        left_out=tuple(wanted[max(0, left_out - OUTSIDE_LISTED) : left_out]),
        left_out_count=outside,
    )
