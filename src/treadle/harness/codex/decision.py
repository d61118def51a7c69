"""Log what was decided about one turn's projection.

Knows nothing of the texts themselves: only counts and lengths leave here. Source: spec T-03, T-04.
"""

from __future__ import annotations

from collections.abc import Mapping

from treadle.contract.store import Binding
from treadle.harness.codex.planning import TurnPlan
from treadle.model.json import JsonObject
from treadle.observe import emit
from treadle.projection.history import explain


def tell_decision(
    turn: TurnPlan,
    binding: Binding | None,
    *,
    assembled_count: int | None,
    items_count: int,
    context_chars: int,
    prompt_chars: int,
) -> None:
    """Log mode, epochs, threads, reasons and sizes; `binding` is the session's until now.

    `reason` is the code of spec D-31 where the engine asked for `thread_bootstrap`, else the
    planner's own word; `projected` says whether the thread is given anything.
    """
    plan = turn.plan
    asked = _projection(turn.engine_record)
    before = _projection(binding.engine if binding is not None else None)
    emit(
        "projection.decided",
        decision=type(plan).__name__.lower(),
        mode="thread_bootstrap" if turn.thread_bootstrap else "per_turn",
        epoch=asked.get("epoch"),
        fingerprint=asked.get("fingerprint"),
        previous_thread=binding.thread_id if binding is not None else None,
        previous_epoch=before.get("epoch"),
        projected=bool(turn.inject or turn.quoted),
        reason=plan.detail if turn.thread_bootstrap and plan.detail else plan.reason.value,
        explanation=explain(plan),
        assembled_count=assembled_count,
        injected_count=len(turn.inject),
        quoted_count=len(turn.quoted),
        left_out_count=turn.left_out_count,
        items_count=items_count,
        context_chars=context_chars,
        prompt_chars=prompt_chars,
    )


def _projection(record: JsonObject | None) -> JsonObject:
    found = record.get("projection") if record is not None else None
    return found if isinstance(found, Mapping) else {}
