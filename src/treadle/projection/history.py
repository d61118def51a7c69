"""Decide how the engine's messages reach a native thread: continue, extend, rebase, seed, prompt.

Compares what the thread is known to hold with what the engine wants, by number and chained hash
alone, and says what to do and why. Knows nothing of items, of the store or of the wire.

In words, first line that fits:

    a turn with a thread of its own        seed (prompt, where nothing can be injected)
    thread_bootstrap asked for             its projection stands -> as legacy, else fresh
    no thread                              seed (prompt, where nothing can be injected)
    another thread is needed anyway        rebase (a pinned thread stays)
    legacy, something was said elsewhere   extend by that (prompt, where nothing can be injected)
    legacy, or assemble failed             continue
    nothing can be injected                prompt
    holding unknown                        rebase; pinned: prompt
    native compaction, engine owns it      rebase once if it fits; else continue or extend
    equal                                  continue
    held is a strict prefix                extend
    pinned                                 prompt
    three rebases in successive turns      prompt, until what is wanted was steady for three turns
    otherwise                              rebase

Source: spec D-27, D-39, D-51…D-58, F-11, F-13, F-23; decisions 3, 4, 5, 8.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from types import MappingProxyType
from typing import Final, Literal

from treadle.contract.store import Held, Holding
from treadle.model.message import Message
from treadle.projection.bootstrap import BootstrapDecision, BootstrapReason

Mode = Literal["auto", "history", "prompt"]

MAX_SUCCESSIVE_REBASES: Final = 3
"""After so many rebases in as many turns the context goes by prompt (spec D-54)."""

STEADY_TURNS: Final = 3
"""After so many turns in which the wanted list only grew, a dampened session may rebase again."""

LEFT: Final = "left"
"""Detail of a plan: the engine had a projected thread and wants none any more (spec D-36)."""

WINDOW_SHARE: Final = 0.6
"""Of the reported window that a seeded or rebased thread may fill (decisions 4, 5)."""


class Reason(StrEnum):
    """Why a plan is as it is; stable, for logs, events and `context show`."""

    EQUAL = "equal"
    LEGACY = "no-active-engine"
    ASSEMBLE_FAILED = "assemble-failed"
    PROJECTION_FAILED = "projection-failed"
    BOOTSTRAP_HELD = "bootstrap-held"
    NEEDS_SMALLER_CONTEXT = "needs-smaller-context"
    MISSING_TAIL = "missing-tail"
    REPLACED = "context-replaced"
    COMPACTED = "native-compaction"
    HOLDING_UNKNOWN = "holding-unknown"
    TOOLS_CHANGED = "tools-changed"
    BOOTSTRAP_EPOCH = "bootstrap-epoch"
    THREAD_UNFIT = "thread-unfit"
    NEW_THREAD = "new-thread"
    TRANSIENT = "transient-thread"
    SAID_ELSEWHERE = "said-elsewhere"
    MODE_PROMPT = "mode-prompt"
    NO_INJECTION = "no-injection"
    PINNED = "pinned"
    DAMPENED = "rebases-dampened"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanInput:
    """What the plan stands on."""

    holding: Holding
    """What the thread holds by our own account."""

    holding_known: bool = True
    """False after an unconfirmed injection that could not be settled (decision 3)."""

    wanted: Sequence[str]
    """Content hash of each message that the engine wants, after D-12; mirror hashes for legacy."""

    thread_exists: bool
    engine_active: bool
    owns_compaction: bool = False
    assemble_failed: bool = False
    tools_compatible: bool = True
    unfit_because: str | None = None
    """Why this thread cannot go on whatever the engine wants (gone, near its window: D-40)."""

    pinned: bool = False
    """Bound by hand or locked (spec D-56)."""

    supports_inject: bool = True
    transient: bool = False
    """A turn that gets a thread of its own, which is nobody's afterwards (spec D-39)."""

    said_elsewhere: bool = False
    """Whether the mirror ends with messages that came from elsewhere and the thread lacks."""

    mode: Mode = "auto"
    bootstrap: BootstrapDecision | None = None
    """Given where the engine asked for `thread_bootstrap`."""

    leaves_bootstrap: bool = False
    """The engine had a projected thread and wants none any more (spec D-36)."""

    native_compactions: int = 0
    """Of this thread since it was made."""

    rebased_for_compaction: bool = False
    """Whether the last of them was answered by a rebase already."""

    successive_rebases: int = 0
    steady_turns: int = 0
    """For how many turns the wanted list has only grown, since rebases are dampened."""

    wanted_tokens: int | None = None
    window: int | None = None
    """The model's window as reported, in tokens; None if nobody said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Continue:
    """Send the prompt alone on the thread that is there."""

    reason: Reason
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extend:
    """Inject `wanted[from_index:]` into the thread that is there, then send the prompt."""

    from_index: int
    reason: Reason = Reason.MISSING_TAIL
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebase:
    """Give the session a fresh thread that holds all of `wanted` (or what fits: decision 5)."""

    reason: Reason
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """Make the session's first thread and inject all of `wanted`, which may be nothing."""

    reason: Reason = Reason.NEW_THREAD
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptCarrier:
    """Send the context as quoted text before the prompt; nothing is injected or held more."""

    reason: Reason
    fresh_thread: bool = False
    """On a new thread: there is none, or the old one cannot be used."""

    cause: Reason | None = None
    """Why it is a new thread."""

    detail: str = ""


Plan = Continue | Extend | Rebase | Seed | PromptCarrier
"""What to do; `reason` says why in one word, `explain` in a sentence."""


def plan(given: PlanInput) -> Plan:
    """Return what to do; the same input gives the same plan (spec D-52)."""
    if given.transient:
        return _fresh(given, Reason.TRANSIENT, "")
    if given.bootstrap is not None and given.engine_active and not given.assemble_failed:
        return _bootstrap_plan(given, given.bootstrap)
    if (forced := _fresh_reason(given)) is not None:
        return _fresh(given, *forced)
    if not given.engine_active:
        return _said_elsewhere_plan(given) or Continue(reason=Reason.LEGACY)
    if given.assemble_failed:
        return Continue(reason=Reason.ASSEMBLE_FAILED)
    if (blocked := _carrier_reason(given)) is not None:
        return PromptCarrier(reason=blocked)
    if not given.holding_known:
        unknown = Reason.HOLDING_UNKNOWN
        return PromptCarrier(reason=unknown) if given.pinned else Rebase(reason=unknown)
    return _compacted_plan(given) or _compared_plan(given)


def _bootstrap_plan(given: PlanInput, decision: BootstrapDecision) -> Plan:
    detail = decision.reason.value
    if given.thread_exists and given.pinned:
        if decision.project:
            return PromptCarrier(reason=Reason.PINNED, detail=detail)
        return Continue(reason=Reason.BOOTSTRAP_HELD, detail=detail)
    if given.unfit_because is not None and given.thread_exists:
        return _fresh(given, Reason.THREAD_UNFIT, given.unfit_because)
    if not decision.project and given.thread_exists and given.holding_known:
        if isinstance(_compacted_plan(given), Rebase):
            return _fresh(given, Reason.COMPACTED, "")
        held = Continue(reason=Reason.BOOTSTRAP_HELD, detail=detail)
        return _said_elsewhere_plan(given) or held
    if decision.project or not given.thread_exists:
        return _fresh(given, Reason.BOOTSTRAP_EPOCH, detail)
    return _fresh(given, Reason.HOLDING_UNKNOWN, "")


def _said_elsewhere_plan(given: PlanInput) -> Plan | None:
    """Bring a thread that nobody compares what was said elsewhere meanwhile (spec D-27, D-39).

    As text where nothing can be injected, or where a part of it may be there already (D-58).
    """
    if not given.said_elsewhere:
        return None
    if _carrier_reason(given) is not None or not given.holding_known:
        return PromptCarrier(reason=Reason.SAID_ELSEWHERE)
    return Extend(from_index=given.holding.count, reason=Reason.SAID_ELSEWHERE)


def _fresh_reason(given: PlanInput) -> tuple[Reason, str] | None:
    if not given.thread_exists:
        return Reason.NEW_THREAD, ""
    if given.pinned:
        return None
    if given.unfit_because is not None:
        return Reason.THREAD_UNFIT, given.unfit_because
    if not given.tools_compatible:
        return Reason.TOOLS_CHANGED, ""
    if given.leaves_bootstrap and given.engine_active and not given.assemble_failed:
        return Reason.BOOTSTRAP_EPOCH, LEFT
    return None


def _fresh(given: PlanInput, reason: Reason, detail: str) -> Plan:
    if given.wanted and (carrier := _carrier_reason(given)) is not None:
        return PromptCarrier(reason=carrier, fresh_thread=True, cause=reason, detail=detail)
    if given.thread_exists:
        return Rebase(reason=reason, detail=detail)
    return Seed(reason=reason, detail=detail)


def _carrier_reason(given: PlanInput) -> Reason | None:
    if given.mode == "prompt":
        return Reason.MODE_PROMPT
    return None if given.supports_inject else Reason.NO_INJECTION


def _compacted_plan(given: PlanInput) -> Plan | None:
    """Answer a native compaction for an engine that owns compaction. Source: decision 4, D-55."""
    if given.native_compactions == 0 or not given.owns_compaction:
        return None
    if given.pinned or given.rebased_for_compaction:
        return None
    if fits(given.wanted_tokens, given.window):
        return Rebase(reason=Reason.COMPACTED)
    reason = Reason.NEEDS_SMALLER_CONTEXT
    if _is_strict_prefix(given.holding, given.wanted):
        return Extend(from_index=given.holding.count, reason=reason)
    return Continue(reason=reason)


def _compared_plan(given: PlanInput) -> Plan:
    if is_held(given.holding, given.wanted):
        return Continue(reason=Reason.EQUAL)
    if _is_strict_prefix(given.holding, given.wanted):
        return Extend(from_index=given.holding.count)
    if given.pinned:
        return PromptCarrier(reason=Reason.PINNED)
    is_unsteady = given.steady_turns < STEADY_TURNS
    if given.successive_rebases >= MAX_SUCCESSIVE_REBASES and is_unsteady:
        return PromptCarrier(reason=Reason.DAMPENED)
    return Rebase(reason=Reason.REPLACED)


def fits(tokens: int | None, window: int | None) -> bool:
    """Whether so many tokens fit the share of the window that is ours; False if either is unknown.

    Source: decision 4.
    """
    return tokens is not None and window is not None and tokens <= seed_budget(window)


def seed_budget(window: int) -> int:
    """Return how many tokens a seeded thread may hold. Source: decisions 4, 5."""
    return int(window * WINDOW_SHARE)


def successive_rebases_after(done: Plan, before: int) -> int:
    """Return the count to store with the binding once the turn is sent. Source: spec D-54.

    Only a rebase that the engine's choice caused counts; `continue` and `extend` end the row, the
    prompt carrier leaves it as it is.
    """
    match done:
        case Rebase(reason=Reason.REPLACED):
            return before + 1
        case Rebase() | PromptCarrier():
            return before
        case Continue() | Extend() | Seed():
            return 0


def chain_of(hashes: Sequence[str]) -> str:
    """Return `chain(n) = SHA-256(chain(n-1) + hash(n))` in hex over all of them; empty for none."""
    chain = ""
    for content_hash in hashes:
        chain = sha256((chain + content_hash).encode()).hexdigest()
    return chain


def holding_of(hashes: Sequence[str]) -> Holding:
    """Return what a thread holds that holds exactly these messages."""
    return Holding(count=len(hashes), chain=chain_of(hashes))


def held_by_messages(messages: Sequence[Message]) -> tuple[Held, ...]:
    """Return what a thread holds more, once these messages are injected.

    After a seed that left messages out this is still the *whole* wanted list: the left-out ones are
    accounted for by the note, and an unchanged engine then continues (decision 5).
    """
    return tuple(Held(content_hash=one.content_hash, entry_id=one.entry_id) for one in messages)


def not_held(wanted: Sequence[str], held: Sequence[str]) -> tuple[int, ...]:
    """Return the indexes of the wanted messages that the thread does not hold anywhere.

    The changing part of a context, which the prompt carrier has to bring (spec D-54, D-56). The
    order that the thread has them in is not looked at; of equal messages as many count as held as
    are.
    """
    left = Counter(held)
    missing: list[int] = []
    for index, content_hash in enumerate(wanted):
        if left[content_hash] > 0:
            left[content_hash] -= 1
        else:
            missing.append(index)
    return tuple(missing)


def grown_from(earlier: Holding, wanted: Sequence[str]) -> bool:
    """Whether the wanted list is the earlier one, or that one with more behind it."""
    return is_held(earlier, wanted) or _is_strict_prefix(earlier, wanted)


def is_held(holding: Holding, wanted: Sequence[str]) -> bool:
    """Whether the thread holds exactly these messages."""
    return holding.count == len(wanted) and holding.chain == chain_of(wanted)


def _is_strict_prefix(holding: Holding, wanted: Sequence[str]) -> bool:
    return holding.count < len(wanted) and chain_of(wanted[: holding.count]) == holding.chain


_SENTENCES: Final[Mapping[Reason, str]] = MappingProxyType({
    Reason.EQUAL: "The thread holds exactly what the engine wants.",
    Reason.LEGACY: "No context engine is active, so the thread's own history is the history.",
    Reason.ASSEMBLE_FAILED: "The engine gave no context this turn; what was known stays as it is.",
    Reason.PROJECTION_FAILED: (
        "The engine's context could not be put into Codex's terms; what was known stays as it is."
    ),
    Reason.BOOTSTRAP_HELD: "The thread was given the engine's context for this epoch already.",
    Reason.NEEDS_SMALLER_CONTEXT: (
        "Codex compacted the thread, and what the engine wants is more than 60 % of the window:"
        " the engine has to choose less."
    ),
    Reason.MISSING_TAIL: "The thread lacks only the newest messages that the engine wants.",
    Reason.REPLACED: "The engine dropped or replaced messages that the thread holds.",
    Reason.COMPACTED: (
        "Codex compacted the thread; the engine owns compaction and its context fits, so it is"
        " given anew."
    ),
    Reason.HOLDING_UNKNOWN: "It is not known whether the last injected items reached the thread.",
    Reason.TOOLS_CHANGED: "The dynamic tools changed, and a thread keeps those it started with.",
    Reason.BOOTSTRAP_EPOCH: "The engine's projection epoch is not the one the thread was given.",
    Reason.THREAD_UNFIT: "The thread cannot go on.",
    Reason.NEW_THREAD: "The session has no thread yet.",
    Reason.TRANSIENT: "This turn has a thread of its own; the session's thread stays as it is.",
    Reason.SAID_ELSEWHERE: "The thread lacks what was said elsewhere since its last turn.",
    Reason.MODE_PROMPT: "The projection mode is set to prompt.",
    Reason.NO_INJECTION: "This app-server cannot inject items.",
    Reason.PINNED: "The thread is locked or was bound by hand, so it is not replaced.",
    Reason.DAMPENED: (
        f"The engine changed the past in {MAX_SUCCESSIVE_REBASES} successive turns; until it is"
        " steady, its context goes as text."
    ),
})


_DETAILS: Final[Mapping[str, str]] = MappingProxyType({
    BootstrapReason.MISSING_THREAD: "there is no thread yet",
    BootstrapReason.MISSING_PROJECTION: "the thread was never given the context of an epoch",
    BootstrapReason.ENGINE_MISMATCH: "another engine, or another version or policy of it",
    BootstrapReason.TOOLS_MISMATCH: "the dynamic tools changed",
    BootstrapReason.PROJECTION_MISMATCH: "the engine named another epoch",
    BootstrapReason.MATCHING: "engine, tools and epoch are those of the thread",
    LEFT: "the engine wants its context in each turn again",
})
"""Codes of details in words; a detail that is no code is in words already."""


def explain(done: Plan) -> str:
    """Return what was decided and why, in words for a person."""
    match done:
        case Continue():
            what = "Continued on the same thread with the prompt alone."
        case Extend(from_index=index):
            what = f"Injected the messages from number {index + 1} on into the same thread."
        case Rebase():
            what = "Started a fresh thread that holds what the model is to see."
        case Seed(reason=Reason.TRANSIENT):
            what = "Started a thread for this turn alone."
        case Seed():
            what = "Started the session's thread."
        case PromptCarrier(fresh_thread=fresh):
            where = " on a fresh thread" if fresh else ""
            what = f"Sent the context as quoted text before the prompt{where}."
    why = _SENTENCES[done.reason]
    if isinstance(done, PromptCarrier) and done.cause is not None:
        why = f"{why} {_SENTENCES[done.cause]}"
    detail = f" ({_DETAILS.get(done.detail, done.detail)})" if done.detail else ""
    return f"{what} {why}{detail}"
