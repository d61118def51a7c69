"""Say in the contract's words how a turn ended that gave no answer.

Pure. Knows nothing of what is done about it. Source: spec A-22, A-23, S-09.
"""

from __future__ import annotations

from typing import Final

from treadle.contract.harness import Classification
from treadle.model.errors import WireError
from treadle.model.ids import ThreadId
from treadle.model.json import JsonObject
from treadle.model.turn import Outcome
from treadle.projection.ledger import SILENT_TOKEN, ItemLedger
from treadle.protocol.items import Plan, Reasoning

CLIENT_CLOSED: Final = "client_closed_before_turn_completed"


def client_closed(lost: WireError, thread_id: ThreadId | None, *, replay_safe: bool) -> JsonObject:
    """Return the error of a turn whose app-server went away before its end (spec S-09)."""
    return {
        **lost.to_json(),
        "kind": CLIENT_CLOSED,
        "transport": "stdio",
        "thread_id": thread_id,
        "replay_safe": replay_safe,
    }


def classification_of(outcome: Outcome, text: str, items: ItemLedger) -> Classification | None:
    """Classify a good turn without visible text; None for every other one.

    A turn that failed or was stopped stays unclassified, and so does one that meant to be silent.
    """
    if outcome is not Outcome.COMPLETED or text.strip() or items.final_text == SILENT_TOKEN:
        return None
    seen = [one.item for one in items.seen()]
    if any(isinstance(one, Plan) and one.text.strip() for one in seen):
        return "planning-only"
    return "reasoning-only" if any(isinstance(one, Reasoning) for one in seen) else "empty"
