"""Make the history of a violation as small as it can be, and tell it.

What is left out must not change the verdict: after each step the violation is still found. Knows
nothing of how a history came about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace
from typing import Any, Final

from bench.reliability.check import check
from bench.reliability.found import Violation
from bench.reliability.history import Database, EntryRow, History

BY_PLACE: Final = frozenset({"gap", "history_changed", "stream_gap"})
"""Violations of a whole sequence: a message less would make another one of them."""

LINE_CHARS: Final = 220
"""Where a line is cut: marks of a long session say nothing more to a reader."""

Judge = Callable[[History], list[Violation]]


def minimal(history: History, violation: Violation, judge: Judge = check) -> History:
    """Return the least part of the history in which the violation is still found.

    First the session concerned alone, then as few of its messages as will do, then without the
    lists that say nothing about it.
    """

    def shows(smaller: History) -> bool:
        return any(_same(one, violation) for one in judge(smaller))

    alone = _only_sessions(history, {violation.session})
    if shows(alone):
        history = alone
    for name in ("snapshots", "received", "decoys"):
        smaller = _without_list(history, name)
        if shows(smaller):
            history = smaller
    if violation.what not in BY_PLACE:
        history = _fewest_messages(history, shows)
    smaller = _time_cut(history)
    return smaller if shows(smaller) else history


def _same(one: Violation, other: Violation) -> bool:
    """Texts may count what is no longer there."""
    return (one.promise, one.what, one.session, one.message) == (
        other.promise,
        other.what,
        other.session,
        other.message,
    )


def _fewest_messages(history: History, shows: Callable[[History], bool]) -> History:
    """Leave out messages: halves first, then smaller pieces, until each one is needed."""
    kept = list(dict.fromkeys(one.message for one in history.sent))
    size = max(1, len(kept) // 2)
    while kept:
        for at in range(0, len(kept), size):
            fewer = kept[:at] + kept[at + size :]
            smaller = _only_messages(history, set(fewer))
            if shows(smaller):
                kept, history = fewer, smaller
                break
        else:
            if size == 1:
                break
            size = max(1, size // 2)
    return history


def _only_sessions(history: History, sessions: set[str]) -> History:
    if sessions == {""}:
        return history
    chosen = {one.message for one in history.sent if one.session in sessions}
    smaller = _only_messages(history, chosen)
    return replace(
        smaller,
        snapshots=tuple(one for one in smaller.snapshots if one.session in sessions),
        received=tuple(one for one in smaller.received if one.stream in sessions),
        database=replace(
            smaller.database,
            bindings=tuple(one for one in smaller.database.bindings if one.session in sessions),
            entries=tuple(one for one in smaller.database.entries if one.session in sessions),
        ),
    )


def _only_messages(history: History, messages: set[str]) -> History:
    """Leave out all that belongs to other messages which the client sent."""
    others = {one.message for one in history.sent} - messages
    places = {(one.session, one.client_id) for one in history.sent if one.message in others}
    database = history.database
    gone = [row for row in database.inbox if (row.session, row.client_id) in places]
    kept = {row.run_id for row in database.inbox} - {row.run_id for row in gone}
    runs = {row.run_id for row in gone} - kept
    smaller: dict[str, Any] = {
        "sent": _without(history.sent, lambda one: one.message in others),
        "asked": tuple(
            replace(one, marks=tuple(mark for mark in one.marks if mark[2:] not in others))
            for one in history.asked
            if one.message not in others
        ),
        "engine": _without(history.engine, lambda one: one.message in others),
        "effects": _without(history.effects, lambda one: one in others),
        "shown": _without(history.shown, lambda one: one.reply in _replies(database, runs)),
        **{
            name: _without(getattr(history, name), lambda one: one.run_id in runs)
            for name in ("told", "noticed")
        },
        **{
            name: _without(
                getattr(history, name), lambda one: (one.session, one.client_id) in places
            )
            for name in ("acked", "cancels")
        },
        "database": replace(
            database,
            inbox=_without(database.inbox, lambda one: (one.session, one.client_id) in places),
            entries=_closed_up(database.entries, others, runs),
            commits=_without(database.commits, lambda one: one.run_id in runs),
            deliveries=_without(database.deliveries, lambda one: one.run_id in runs),
        ),
    }
    return replace(history, **smaller)


def _closed_up(
    entries: Iterable[EntryRow], others: set[str], runs: set[str]
) -> tuple[EntryRow, ...]:
    """Leave out entries of others, and move the rest up as if those had never been."""
    lost: dict[str, int] = {}
    kept = []
    for entry in sorted(entries, key=lambda one: one.depth):
        if entry.run_id in runs or any(mark[2:] in others for mark in entry.marks):
            lost[entry.session_id] = lost.get(entry.session_id, 0) + 1
        else:
            kept.append(replace(entry, depth=entry.depth - lost.get(entry.session_id, 0)))
    return tuple(kept)


def _replies(database: Database, runs: set[str]) -> set[str]:
    return {one.reply for one in database.deliveries if one.run_id in runs}


def _without(values: Iterable[Any], gone: Callable[[Any], bool]) -> tuple[Any, ...]:
    return tuple(value for value in values if not gone(value))


def _without_list(history: History, name: str) -> History:
    empty: dict[str, Any] = {name: ()}
    return replace(history, **empty)


def _time_cut(history: History) -> History:
    """Leave out faults and processes that were over before the first message left was sent."""
    begin = min((one.at for one in history.sent), default=0)
    return replace(
        history,
        faults=_without(history.faults, lambda one: one.until_at < begin),
        processes=_without(history.processes, lambda one: one.ended_at < begin),
    )


def told(history: History, *, most: int = 120) -> str:
    """Return the history as lines: what happened in order, then what the store holds.

    Of more than `most` events, or rows, the first and the last are told.
    """
    events = sorted(_events(history))
    lines = _ends([line for _, line in events], most)
    database = history.database
    rows = [
        *database.inbox,
        *database.entries,
        *database.commits,
        *database.deliveries,
        *database.bindings,
        *history.left,
        *history.decoys,
    ]
    lines += _ends([_line(row) for row in rows], most)
    if history.effects:
        lines.append(f"effects {' '.join(history.effects)}"[:LINE_CHARS])
    return "\n".join(lines)


def _ends(lines: list[str], most: int) -> list[str]:
    if len(lines) <= most:
        return lines
    half = most // 2
    return [*lines[:half], f"… {len(lines) - most} more …", *lines[-half:]]


def _events(history: History) -> Iterator[tuple[int, str]]:
    for name in ("sent", "acked", "cancels", "told", "noticed", "snapshots", "received"):
        yield from ((one.at, _line(one)) for one in getattr(history, name))
    for name in ("asked", "engine", "shown", "faults"):
        yield from ((one.at, _line(one)) for one in getattr(history, name))
    for one in history.processes:
        yield one.started_at, _line(one)


def _line(record: Any) -> str:
    values = {field.name: getattr(record, field.name) for field in fields(record)}
    at = values.pop("at", None)
    place = "" if at is None else f"{at:>7} "
    said = " ".join(f"{name}={_short(value)}" for name, value in values.items() if value)
    return f"{place}{type(record).__name__.removesuffix('Row').lower()} {said}"[:LINE_CHARS]


def _short(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{' '.join(map(str, value))}]"
    return f"{value:.3f}" if isinstance(value, float) else str(value)
