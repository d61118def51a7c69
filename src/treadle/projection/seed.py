"""Choose what a fresh thread is given when the session is longer than fits.

The newest whole units, behind one note that says how much is left out. Knows nothing of how a
message becomes items, nor of how tokens are counted. Source: decision 5.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

from treadle.model.message import USER, Message, user_message
from treadle.projection.pairing import pairs_of

Unit = tuple[Message, ...]
"""Messages that stay together: a turn, from a user's message up to before the next one."""


def left_out_note(count: int) -> str:
    """Return the text that stands in place of so many older messages; fixed wording."""
    noun = "message" if count == 1 else "messages"
    return (
        f"[Note about earlier messages, not a request: {count} older {noun} of this conversation"
        " did not fit into the context and are left out here.]"
    )


def units_of(messages: Sequence[Message]) -> tuple[Unit, ...]:
    """Split into turns; turns between a call and its result are joined to one unit.

    Joined in order, the units are the messages.
    """
    starts = [at for at, message in enumerate(messages) if at == 0 or message.role == USER]
    joined: set[int] = set()
    for call, result in pairs_of(messages):
        first, last = bisect_right(starts, call.at), bisect_right(starts, result.at)
        joined.update(starts[first:last])
    kept = [start for start in starts if start not in joined]
    ends = (*kept[1:], len(messages))
    return tuple(tuple(messages[start:end]) for start, end in zip(kept, ends, strict=False))


def seed_selection(
    units: Sequence[Unit],
    budget_tokens: int,
    count_tokens: Callable[[Message], int],
    *,
    unread_older: int = 0,
) -> tuple[tuple[Unit, ...], int]:
    """Return the newest whole units that fit, and how many messages are left out.

    Counts tokens from the newest unit on and no further than needed. Where something is left out,
    the note's own tokens are part of the budget. A newest unit that does not fit is left out too:
    no unit is cut. `unread_older` messages stand in front of the units and are left out anyway.
    """
    first, room = len(units), budget_tokens
    costs: list[int] = []
    while first > 0 and (cost := sum(map(count_tokens, units[first - 1]))) <= room:
        first, room = first - 1, room - cost
        costs.append(cost)
    if first > 0 or unread_older > 0:
        total = unread_older + sum(len(unit) for unit in units)
        room -= count_tokens(user_message(left_out_note(total)))
        while costs and room < 0:
            first, room = first + 1, room + costs.pop()
    return tuple(units[first:]), unread_older + sum(len(unit) for unit in units[:first])
