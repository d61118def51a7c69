"""Judge a history: pure, from what everybody wrote down to the promises that were broken.

Knows nothing of how the history came about. Source: reliability, section 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from bench.reliability.found import Found, Violation
from bench.reliability.history import History
from bench.reliability.rules import messages, records, world

Rule = Callable[[Found], Iterator[Violation]]

RULES: Final[tuple[Rule, ...]] = (
    messages.kept_and_ended,
    messages.one_message_one_row,
    messages.in_order,
    messages.one_owner,
    messages.one_run_at_a_time,
    records.entries_stay,
    records.model_saw_it_all,
    records.all_or_nothing,
    records.commits,
    records.keys,
    records.deliveries,
    world.nothing_repeated,
    world.retries_have_proof,
    world.waits_end,
    world.processes,
    world.bindings,
    world.store,
)
"""In the order of the promises."""


def check(history: History) -> list[Violation]:
    """Return every broken promise, each once; empty if all were kept."""
    found = Found(history)
    return list(dict.fromkeys(one for rule in RULES for one in rule(found)))
