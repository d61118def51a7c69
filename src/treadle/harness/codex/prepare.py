"""Decide what the model is given in this turn, before anything is sent.

Order: tools, was there a transcript, history, bootstrap, maintenance, history again, assemble,
project, the hook (spec C-01, C-07). Every engine failure has its fallback here; nothing of the
thread is touched yet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import anyio.to_thread

from treadle.contract.engine import Assembled
from treadle.contract.harness import AttemptParams
from treadle.contract.hook import HookContext, PromptBuild, PromptBuildResult
from treadle.contract.store import Binding, Holding, TranscriptSnapshot
from treadle.harness.codex.decision import tell_decision
from treadle.harness.codex.elsewhere import said_elsewhere
from treadle.harness.codex.launch import codex_provider
from treadle.harness.codex.planning import PlanningInput, TurnPlan, plan_turn, read_most
from treadle.harness.codex.services import CodexServices
from treadle.harness.codex.workspace import workspace_reference
from treadle.harness.lifecycle import (
    LifecycleCall,
    assemble,
    bootstrap,
    effective_key,
    with_settings,
)
from treadle.model.ids import EngineId
from treadle.model.json import JsonObject
from treadle.model.message import USER, Message, parts_of
from treadle.observe import emit
from treadle.projection.bootstrap import has_projection
from treadle.projection.history import Continue, Reason
from treadle.projection.injection import ItemOptions, PlannedItem, items_for
from treadle.projection.instructions import (
    BaseSections,
    base_sections,
    compose,
    text_hash,
)
from treadle.projection.prompt import (
    FittedInput,
    ProjectionInput,
    TurnInput,
    context_limits,
    fit_turn_input,
    project_prompt,
    reserve_tokens_from,
    without_trailing_prompt,
)
from treadle.projection.quoted_images import QuotedImage, images_left, quoted_images
from treadle.projection.rendering import REQUEST_HEADING
from treadle.tools.catalog import ToolSet

MANY_MESSAGES: Final = 1_000
"""From here on a plan is made in a thread: to read, hash and chain 100,000 takes most of a second,
in which no other session would move."""

_T = TypeVar("_T")
_TurnText = tuple[str, tuple[int, int] | None, tuple[QuotedImage, ...]]

NOTHING: Final = Holding()
"""What a thread holds that does not exist yet."""

IMAGE_TOKENS: Final = 1_000
"""What an image counts for in a seed's budget.

Its real cost depends on its size and on the model.
"""


PROJECTION_FAULTS: Final = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What content of a shape that nobody thought of raises in pure code (spec S-03).

Anything else is no failure of projection, and must be seen.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """What preparation found out; it does not change when the thread has to be replaced."""

    call: LifecycleCall
    tools: ToolSet
    history: TranscriptSnapshot
    assembled: Assembled | None
    assemble_failed: str | None
    pre_prompt_message_count: int
    addition: str
    instructions: str
    """The composed developer instructions, the addition last (spec E-02)."""

    reference: str = ""
    """What the workspace holds for the model and no tool could read (spec E-07)."""

    supports_inject: bool = True
    """Whether items can be put into a thread of this app-server; else the context goes as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What is known of the thread that a turn goes to."""

    binding: Binding | None
    """None where it gets a new one."""

    holding: Holding = NOTHING
    held: Sequence[str] = ()
    """The whole list, where a part of the context may have to be quoted."""

    said_elsewhere: Sequence[Message] = ()
    window: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Projected:
    """What goes to Codex in this turn."""

    turn: TurnPlan
    items: tuple[PlannedItem, ...]
    prompt_text: str
    instructions: str
    images: tuple[str, ...] = ()
    """Data URLs of what the quoted messages show, in their order (spec D-28)."""

    held_count: int = 0
    """Messages that the thread held before this turn."""

    dropped_chars: int = 0
    failed: str | None = None
    """Why the original prompt goes alone although there was a context (spec S-03)."""


async def gather(
    services: CodexServices, params: AttemptParams, *, supports_inject: bool = True
) -> Gathered:
    """Build tools.

    Read history, ask the engine. Raises: TreadleError only for what no fallback covers.
    """
    call = lifecycle_call(services, params)
    tools = services.catalog.choose(params.engine)
    history = await services.store.transcript.snapshot(params.session.id)
    if params.engine.is_active:
        asked = await bootstrap(
            params.engine, call, had_transcript=len(history) > 0, messages=history
        )
        if asked.engine_was_asked:
            history = await services.store.transcript.snapshot(params.session.id)
    outcome = await assemble(
        params.engine,
        call,
        messages=history,
        token_budget=params.context_token_budget,
        available_tools=frozenset(tools.names),
        citations_mode=services.settings.memory.citations,
        model=params.model.model,
        prompt=params.prompt,
    )
    addition = _addition(outcome.assembled)
    reference = ""
    if not params.lightweight:
        reference = await workspace_reference(params.cwd, frozenset(tools.names))
    sections = (*base_sections(BaseSections()), addition)
    return Gathered(
        call=call,
        tools=tools,
        history=history,
        assembled=outcome.assembled,
        assemble_failed=outcome.failed,
        pre_prompt_message_count=len(history),
        addition=addition,
        instructions=compose(sections),
        reference=reference,
        supports_inject=supports_inject,
    )


async def _in_due_place(read_most: int, decide: Callable[[], _T]) -> _T:
    """Decide on the loop, or in a thread where so many messages are read that others would wait."""
    if read_most <= MANY_MESSAGES:
        return decide()
    return await anyio.to_thread.run_sync(decide)


async def project(
    services: CodexServices,
    params: AttemptParams,
    gathered: Gathered,
    binding: Binding | None,
    *,
    unfit_because: str | None = None,
) -> Projected:
    """Plan the thread.

    Make its items and the turn's text, and let the prompt hook see them (spec C-11).

    A failure of planning or projection gives the bare prompt on the thread as it is (spec S-03,
    D-58). A turn without native tools is planned for a thread of its own, whatever is bound (D-39).
    """
    known = await _known_of(services, params, gathered, binding)
    binding = known.binding
    given = _planning_input(services, params, gathered, known, unfit_because)

    def decide() -> tuple[TurnPlan, tuple[PlannedItem, ...], _TurnText]:
        turn = plan_turn(given)
        return (
            turn,
            _items(services, params, gathered, turn),
            _text(services, params, gathered, turn),
        )

    failed = None
    try:
        turn, items, (text, context_range, images) = await _in_due_place(read_most(given), decide)
    except PROJECTION_FAULTS as error:
        failed = type(error).__name__
        emit("projection.failed", cause=error)
        turn = _bare_plan(binding)
        items, text, context_range, images = (), params.prompt.strip(), None, ()
    if turn.warning:
        emit("projection.request_ignored", reason=turn.warning)
    tell_decision(
        turn,
        binding,
        assembled_count=len(gathered.assembled.messages) if gathered.assembled else None,
        items_count=len(items),
        context_chars=context_range[1] - context_range[0] if context_range else 0,
        prompt_chars=len(text),
    )
    reference = _due_reference(gathered, binding, fresh=turn.fresh_thread)
    if reference and context_range is None:
        text = f"{REQUEST_HEADING}\n{text}"  # it must not read as part of the reference (D-48)
    changed = await services.hooks.before_prompt_build(
        PromptBuild(
            prompt=reference + text,
            developer_instructions=gathered.instructions,
            messages=gathered.history,
            ctx=hook_context(params),
            current_user_message=params.prompt,
            planned_items=tuple(item.item for item in items),
        )
    )
    if changed.tools_allow is not None:
        emit(
            "hook.failed",
            hook="before_prompt_build",
            reason="toolsAllow cannot be obeyed: a Codex thread keeps the tools it started with",
        )
    fitted = fit_turn_input(
        TurnInput(
            prompt_text=text,
            context_range=context_range,
            before=_paragraph_before(changed.prepend_context) + reference,
            after=_paragraph_after(changed.append_context),
        )
    )
    dropped = fitted.dropped_context + fitted.dropped_other
    if fitted.is_cut:
        emit("message.cut", dropped_chars=dropped)
    return Projected(
        turn=turn,
        items=items,
        prompt_text=fitted.text,
        images=_images(images, fitted),
        instructions=_instructions(gathered, changed),
        held_count=known.holding.count,
        failed=failed,
        dropped_chars=dropped,
    )


async def _known_of(
    services: CodexServices, params: AttemptParams, gathered: Gathered, binding: Binding | None
) -> _Known:
    if binding is None:
        return _Known(binding=None)
    if not params.native_tools:
        return _Known(binding=None, window=binding.window)
    bindings = services.store.bindings
    held: Sequence[str] = ()
    if binding.pinned or binding.successive_rebases > 0:
        rows = await bindings.held(binding.thread_id)
        held = tuple(row.content_hash for row in rows)
    is_compared = params.engine.is_active and not has_projection(binding.engine)
    elsewhere: Sequence[Message] = ()
    if not is_compared:
        elsewhere = await said_elsewhere(bindings, params, gathered.history, binding)
    holding = await bindings.holding(binding.thread_id)
    return _Known(binding=binding, holding=holding, held=held, said_elsewhere=elsewhere)


def lifecycle_call(services: CodexServices, params: AttemptParams) -> LifecycleCall:
    """Return what all engine calls of this attempt are told (spec B-28, B-32, C-05)."""
    call = LifecycleCall(
        session_id=params.session.id,
        session_key=effective_key(params.session_key, params.session.id),
        harness_id="codex",
        model=params.model.model,
        model_provider=params.model.provider,
        cwd=params.cwd,
        workspace_dir=params.cwd,
        agent_dir=str(services.paths.agent_dir(params.agent_id)),
        token_budget=params.context_token_budget,
        attempt=params.attempt,
        is_heartbeat=params.is_heartbeat,
        session_file=f"{services.paths.database}#{params.session.id}",
        transcript_storage={"kind": "sqlite"},
        abort=params.abort,
    )
    return with_settings(call, params.engine)


def hook_context(params: AttemptParams) -> HookContext:
    """Return which run a hook is called for."""
    return HookContext(
        session_key=params.session_key,
        session_id=params.session.id,
        run_id=params.run_id,
        agent_id=params.agent_id,
        engine_id=EngineId(params.engine.info.id),
        cwd=params.cwd,
    )


def message_tokens(services: CodexServices, message: Message) -> int:
    """Return the tokens that a message costs, images at a flat rate."""
    total = 0
    for part in parts_of(message):
        if part.get("type") == "image":
            total += IMAGE_TOKENS
        else:
            total += services.counter.count(_part_text(part))
    return total


def _part_text(part: JsonObject) -> str:
    return "\n".join(_strings(value) for key, value in part.items() if key != "type")


def _strings(value: object) -> str:
    match value:
        case str():
            return value
        case dict():
            return " ".join(f"{key} {_strings(one)}" for key, one in value.items())
        case list() | tuple():
            return "\n".join(_strings(one) for one in value)
        case None:
            return ""
        case _:
            return str(value)


def _bare_plan(binding: Binding | None) -> TurnPlan:
    """Return the plan of a turn whose projection failed: what is known stays as it is."""
    return TurnPlan(
        plan=Continue(reason=Reason.PROJECTION_FAILED),
        engine_record=binding.engine if binding is not None else None,
    )


def _addition(assembled: Assembled | None) -> str:
    return (assembled.system_prompt_addition or "").strip() if assembled is not None else ""


def _ends_with_prompt(history: TranscriptSnapshot, params: AttemptParams) -> bool:
    """Whether an earlier attempt of this run has stored its prompt, and nothing after it."""
    if params.attempt == 1 or len(history) == 0:
        return False
    [newest] = history.entries(len(history) - 1, len(history))
    return newest.run_id == params.run_id and newest.message.role == USER


def _planning_input(
    services: CodexServices,
    params: AttemptParams,
    gathered: Gathered,
    known: _Known,
    unfit_because: str | None,
) -> PlanningInput:
    binding = known.binding
    provider = codex_provider(params.model)
    if binding is not None and unfit_because is None and binding.model_provider != provider:
        unfit_because = "another model provider was chosen"
    return PlanningInput(
        binding=binding,
        holding=known.holding,
        held_hashes=lambda: known.held,
        history=gathered.history,
        prompt=params.prompt,
        prompt_is_stored=_ends_with_prompt(gathered.history, params),
        engine=params.engine.info,
        engine_active=params.engine.is_active,
        assembled=gathered.assembled,
        mode=params.projection,
        tool_fingerprint=gathered.tools.fingerprint,
        citations_mode=services.settings.memory.citations,
        count_tokens=lambda message: message_tokens(services, message),
        unfit_because=unfit_because,
        supports_inject=gathered.supports_inject,
        transient=not params.native_tools,
        window=known.window,
        said_elsewhere=known.said_elsewhere,
    )


def _items(
    services: CodexServices, params: AttemptParams, gathered: Gathered, turn: TurnPlan
) -> tuple[PlannedItem, ...]:
    if not turn.inject:
        return ()
    ids = [message.entry_id for message in turn.inject if message.entry_id is not None]
    return items_for(
        turn.inject,
        gathered.history.entries_by_id(ids),
        ItemOptions(
            tool_arguments=services.settings.codex.projection.tool_arguments,
            thread_bootstrap=turn.thread_bootstrap,
            model=params.model.model,
            model_provider=codex_provider(params.model),
            first_position=turn.first_position,
        ),
    )


def _text(
    services: CodexServices, params: AttemptParams, gathered: Gathered, turn: TurnPlan
) -> _TurnText:
    compaction = services.settings.agents.defaults.compaction
    reserve = reserve_tokens_from(compaction.reserve_tokens, compaction.reserve_tokens_floor)
    limits = context_limits(params.context_token_budget, reserve)
    projected = project_prompt(
        ProjectionInput(
            assembled_messages=turn.quoted,
            original_history_messages=gathered.history,
            prompt=params.prompt,
            max_context_chars=limits.max_context_chars,
            max_part_chars=limits.max_part_chars,
        )
    )
    images = quoted_images(
        without_trailing_prompt(turn.quoted, params.prompt), limits.max_part_chars
    )
    return projected.prompt_text, projected.context_range, images


def _images(quoted: Sequence[QuotedImage], fitted: FittedInput) -> tuple[str, ...]:
    if fitted.context_range is None:
        return ()
    start, end = fitted.context_range
    return images_left(quoted, fitted.text[start:end])


def _due_reference(gathered: Gathered, binding: Binding | None, *, fresh: bool) -> str:
    """Return the workspace's section where the thread does not have it as it is (E-07, D-48)."""
    has_it = (
        binding is not None
        and not fresh
        and binding.reference_hash == text_hash(gathered.reference)
    )
    return "" if has_it else _paragraph_before(gathered.reference)


def _instructions(gathered: Gathered, changed: PromptBuildResult) -> str:
    """Apply what hooks say of the system prompt (spec E-11).

    A replaced one keeps the engine's addition.
    """
    base: tuple[str, ...] = (gathered.instructions,)
    if changed.system_prompt is not None:
        base = (changed.system_prompt, gathered.addition)
    return compose((changed.prepend_system_context, *base, changed.append_system_context))


def _paragraph_before(text: str | None) -> str:
    return f"{text.strip()}\n\n" if text and text.strip() else ""


def _paragraph_after(text: str | None) -> str:
    return f"\n\n{text.strip()}" if text and text.strip() else ""
