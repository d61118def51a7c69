"""What the model was given in a turn, as the record that `context show` prints.

Knows nothing of how it is shown. Tokens are counted here, after the turn, so that no turn waits for
it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.contract.harness import AttemptParams, AttemptResult
from treadle.harness.codex.services import CodexServices
from treadle.model.json import JsonObject, JsonValue
from treadle.projection.context_report import ReportInput, context_report

if TYPE_CHECKING:
    from treadle.harness.codex.finish import TurnRecord


def report_of(
    services: CodexServices, params: AttemptParams, record: TurnRecord, result: AttemptResult
) -> JsonObject:
    """Return the report of one turn: what Codex was given, why, and what it said it used.

    `reported` are the numbers of the turn's last model response; one that was not reported is null.
    """
    opened, gathered = record.opened, record.gathered
    turn = opened.projected.turn
    fresh = not opened.resumed
    sent_addition = fresh or opened.superseded_addition
    report = context_report(
        ReportInput(
            engine_id=params.engine.info.id,
            plan=turn.plan,
            same_count=0 if fresh else opened.projected.held_count,
            new=turn.inject or turn.quoted,
            prompt=params.prompt,
            addition=gathered.addition if sent_addition else None,
            left_out=turn.left_out,
            left_out_unread=turn.left_out_count - len(turn.left_out),
        ),
        services.counter,
    )
    usage = result.attempt_usage
    reported: JsonValue = None
    if usage is not None:
        reported = {
            "input": usage.input + (usage.cache_read or 0) + (usage.cache_write or 0),
            "cached": usage.cache_read,
            "cache_write": usage.cache_write,
            "output": usage.output,
            "reasoning": usage.reasoning,
            "window": usage.window,
        }
    return {
        **report,
        "thread": opened.binding.thread_id,
        "previous_thread": opened.previous if fresh else None,
        "items_injected": len(opened.projected.items),
        "history_messages": gathered.pre_prompt_message_count,
        "addition_changed": opened.superseded_addition,
        "assemble_failed": gathered.assemble_failed,
        "native_compactions": result.item_lifecycle.compaction_count,
        "reported": reported,
    }
