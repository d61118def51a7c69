"""What happened outside: repeated work, waits, processes, threads, files.

INV-9, INV-10 and INV-16 to INV-21.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from bench.reliability.found import Found, Violation, grouped
from bench.reliability.history import (
    IN_PLACE,
    KILLS,
    Asked,
    FaultKind,
    Process,
)

USABLE_S: Final = 30.0
"""Seconds of undisturbed service in which a message that is next has to get its end (INV-18)."""

MAY_ROTATE: Final[frozenset[FaultKind]] = KILLS | {"model_cuts", "engine_hangs", "engine_throws"}
"""Faults after which what a thread holds may be other than what the engine wants."""


def nothing_repeated(found: Found) -> Iterator[Violation]:
    """INV-9: no turn, side effect or message goes out a second time by itself."""
    for message, row in found.row_of.items():
        turns = {
            entry.turn_id
            for entry in found.entries_by_run.get(row.run_id, [])
            if entry.role != "user" and entry.kind != "notice" and entry.turn_id
        }
        if len(turns) > 1:
            yield _of(found, message, "INV-9", "turn_replayed", f"{len(turns)} turns left output")
    for message, times in Counter(found.history.effects).items():
        if times > 1:
            yield _of(found, message, "INV-9", "effect_twice", f"its effect happened {times} times")
    turns_of: dict[str, set[str]] = {}
    for one in found.history.asked:
        if one.message:
            turns_of.setdefault(one.message, set()).add(one.turn_id)
        for mark, times in Counter(one.marks).items():
            attempts = len(turns_of.get(mark[2:], ())) or 1
            if mark.startswith("m:") and times > attempts:
                text = f"it stands {times} times in what the model was sent in {one.turn_id}"
                yield _of(found, mark[2:], "INV-9", "steered_twice", text)


def retries_have_proof(found: Found) -> Iterator[Violation]:
    """INV-10: sent again only once the process that had it is gone."""
    for message, requests in grouped((one.message, one) for one in found.history.asked).items():
        if not message:
            continue
        for earlier, later in pairwise(_first_of_each_turn(requests)):
            if not earlier.process:
                continue  # gone before the model had looked who it was
            process = found.process_at(earlier.process, earlier.at)
            if process is None or process.ended_at > later.at:
                text = f"turn {later.turn_id} began while codex {earlier.process} was alive"
                yield _of(found, message, "INV-10", "retry_without_proof", text)


def _first_of_each_turn(requests: list[Asked]) -> list[Asked]:
    return list({one.turn_id: one for one in reversed(requests)}.values())[::-1]


def waits_end(found: Found) -> Iterator[Violation]:
    """INV-16 to INV-18: whoever is next gets an end in time, whatever happens to others."""
    acked: dict[tuple[str, str], float] = {}
    for ack in found.history.acked:
        acked.setdefault((ack.session, ack.client_id), ack.t)
    first_sent: dict[tuple[str, str], float] = {}
    for sent in found.history.sent:
        first_sent.setdefault((sent.session, sent.client_id), sent.t)
    for place, sent_t in first_sent.items():
        yield from _judged(found, place, "no acknowledgement", sent_t, acked.get(place))
    told: dict[str, float] = {}
    for one in found.history.told:
        told.setdefault(one.run_id, one.t)
    for session, rows in found.rows_by_session.items():
        free = 0.0
        for row in rows:
            place = (session, row.client_id)
            if place in acked and row.run_id in told:
                begin = max(free, acked[place])
                yield from _judged(found, place, "no end", begin, told[row.run_id])
            free = max(free, told.get(row.run_id, 0.0))


def _judged(
    found: Found, place: tuple[str, str], missed: str, begin: float, end: float | None
) -> Iterator[Violation]:
    stop = found.history.ended_t if end is None else end
    waited = found.up_s(begin, stop)
    kinds = {
        fault.kind: fault.session
        for fault in found.history.faults
        if fault.kind in IN_PLACE and fault.t < stop and fault.until_t > begin
    }
    if waited <= USABLE_S or place[0] in kinds.values():
        return
    promise, what = "INV-18", "not_usable"
    if any(kind in kinds for kind in ("engine_hangs", "engine_throws")):
        promise, what = "INV-16", "blocked_by_engine"
    elif kinds:
        promise, what = "INV-17", "blocked_by_peer"
    yield Violation(
        promise=promise,
        what=what,
        text=f"{missed} in {waited:.1f} s of undisturbed service",
        session=place[0],
        message=found.message_of.get(place, ""),
    )


def processes(found: Found) -> Iterator[Violation]:
    """INV-19: nothing of ours is left or overlaps; nothing else was signalled."""
    for left in found.history.left:
        yield Violation(promise="INV-19", what="orphan", text=f"{left.pid} is left: {left.command}")
    for decoy in found.history.decoys:
        if not decoy.alive:
            yield Violation(
                promise="INV-19",
                what="stranger_signalled",
                text=f"{decoy.pid}, which is not ours, was ended: {decoy.command}",
            )
    codex = sorted(
        (one for one in found.history.processes if one.kind == "codex"),
        key=lambda one: one.started_at,
    )
    for one, other in pairwise(codex):
        if _outlived(one, other):
            yield Violation(
                promise="INV-19",
                what="orphan_beside_new",
                text=f"codex {one.pid} of gateway {one.gateway} was alive when {other.gateway}"
                f" started {other.pid}",
            )


def _outlived(one: Process, other: Process) -> bool:
    return one.gateway != other.gateway and one.ended_at > other.started_at


def bindings(found: Found) -> Iterator[Violation]:
    """INV-20: a session keeps its thread through faults that prove nothing about it."""
    bound = {row.session for row in found.history.database.bindings if row.thread_id}
    for session, rows in found.rows_by_session.items():
        if any(row.state == "answered" for row in rows) and session not in bound:
            yield Violation(
                promise="INV-20",
                what="binding_lost",
                text="it has answers and no thread",
                session=session,
            )
    for session, requests in found.asked_by_session.items():
        for earlier, later in pairwise(requests):
            before = found.row_of.get(earlier.message)
            if (
                later.thread_id != earlier.thread_id
                and before is not None
                and before.state == "answered"
                and not _may_rotate(found, earlier.at, later.at)
            ):
                yield Violation(
                    promise="INV-20",
                    what="rotated_without_cause",
                    text=f"thread {earlier.thread_id} was given up for {later.thread_id}",
                    session=session,
                    message=later.message,
                )


def _may_rotate(found: Found, begin: int, end: int) -> bool:
    return any(
        fault.kind in MAY_ROTATE and fault.at < end and fault.until_at >= begin
        for fault in found.history.faults
    )


def store(found: Found) -> Iterator[Violation]:
    """INV-21: the store is whole, and one that was refused was left as it was."""
    for fault in found.history.database.faults:
        yield Violation(promise="INV-21", what="store_damaged", text=fault)
    for given in found.history.faults:
        if given.kind == "damaged" and given.before != given.after:
            yield Violation(
                promise="INV-21",
                what="refused_store_touched",
                text="a damaged store was changed by a start that had to refuse it",
            )


def _of(found: Found, message: str, promise: str, what: str, text: str) -> Violation:
    return Violation(
        promise=promise,
        what=what,
        text=text,
        session=found.session_of.get(message, ""),
        message=message,
    )
