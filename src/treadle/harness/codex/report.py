"""What the model was given in a turn, as the record that `context show` prints.

Knows nothing of how it is shown. Counting tokens happens here, after the turn, so that no turn
waits for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.contract.harness import AttemptParams, AttemptResult
from treadle.harness.codex.opening import decision_name
from treadle.harness.codex.prepare import message_tokens
from treadle.harness.codex.services import CodexServices
from treadle.model.json import JsonObject, JsonValue
from treadle.projection.history import explain

if TYPE_CHECKING:
    from treadle.harness.codex.finish import TurnRecord


def report_of(
    services: CodexServices, params: AttemptParams, record: TurnRecord, result: AttemptResult
) -> JsonObject:
    """Return the report of one turn.

    Decision, reason, kinds, tokens, what was new, what was left out.
    """
    opened, gathered = record.opened, record.gathered
    turn = opened.projected.turn
    injected = [
        {"role": one.role, "entry_id": one.entry_id, "tokens": message_tokens(services, one)}
        for one in turn.inject
    ]
    usage = result.attempt_usage
    report: dict[str, JsonValue] = {
        "engine": params.engine.info.id,
        "decision": decision_name(opened),
        "reason": explain(turn.plan),
        "thread": opened.binding.thread_id,
        "previous_thread": opened.previous,
        "injected": injected,
        "left_out": turn.left_out_count,
        "addition_changed": opened.superseded_addition,
        "history_messages": gathered.pre_prompt_message_count,
        "reported": None
        if usage is None
        else {"input": usage.input, "output": usage.output, "cached": usage.cache_read},
    }
    return report
