"""What was written: the transcript, the engine's commits, deliveries and events.

INV-5 to INV-8 and INV-15.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from bench.reliability.found import Found, Violation, grouped
from bench.reliability.history import EntryRow, InboxRow


def entries_stay(found: Found) -> Iterator[Violation]:
    """INV-5: no gap, nothing twice, nothing moved or gone."""
    for entries in found.entries_by_generation.values():
        session = entries[0].session
        depths = [entry.depth for entry in entries]
        if depths != list(range(len(depths))):
            yield Violation(
                promise="INV-5",
                what="gap",
                text=f"its entries stand at {_runs_of(depths)}",
                session=session,
            )
        for name, times in Counter(_names(entries)).items():
            if times > 1:
                yield Violation(
                    promise="INV-5",
                    what="entry_twice",
                    text=f"{name} stands there {times} times",
                    session=session,
                    message=name.rpartition(" ")[2][2:] if "mark" in name else "",
                )
    yield from _prefixes(found)


def _names(entries: Sequence[EntryRow]) -> Iterator[str]:
    for entry in entries:
        yield f"key {entry.key}"
        wanted = {"user": "m:", "assistant": "r:"}.get(entry.role)
        for mark in dict.fromkeys(entry.marks):
            if wanted is not None and mark.startswith(wanted):
                yield f"{entry.role} mark {mark}"


def _runs_of(numbers: Sequence[int]) -> str:
    """Return numbers as `0-4, 6`."""
    parts: list[str] = []
    begin = previous = None
    for number in [*numbers, None]:
        if begin is None:
            begin = number
        elif number is None or previous is None or number != previous + 1:
            parts.append(str(begin) if begin == previous else f"{begin}-{previous}")
            begin = number
        previous = number
    return ", ".join(parts)


def _prefixes(found: Found) -> Iterator[Violation]:
    seen = grouped((f"{one.session}\n{one.session_id}", one) for one in found.history.snapshots)
    for snapshots in seen.values():
        session, generation = snapshots[0].session, snapshots[0].session_id
        stored = tuple(
            f"{entry.id} {entry.content_hash}"
            for entry in found.entries_by_generation.get(generation, [])
        )
        shown = [*(one.entries for one in snapshots), stored]
        for earlier, later in pairwise(shown):
            if later[: len(earlier)] != earlier:
                place = next(
                    (
                        at
                        for at, pair in enumerate(zip(earlier, later, strict=False))
                        if pair[0] != pair[1]
                    ),
                    len(later),
                )
                yield Violation(
                    promise="INV-5",
                    what="history_changed",
                    text=f"what the client was shown at {place} is not what it was shown before",
                    session=session,
                )


def model_saw_it_all(found: Found) -> Iterator[Violation]:
    """INV-5, as the model saw it: each earlier answer once, in order.

    For an engine that leaves nothing out, in turns for which it was asked.
    """
    order = {message: row.seq for message, row in found.row_of.items()}
    for session, requests in found.asked_by_session.items():
        rows = found.rows_by_session.get(session, [])
        for one in requests:
            row = found.row_of.get(one.message)
            if row is None:
                continue
            answers = Counter(mark[2:] for mark in one.marks if mark.startswith("r:"))
            for message, times in answers.items():
                if times > 1:
                    yield _in_context(
                        session, one.message, "context_doubled", f"r:{message} {times} times"
                    )
            messages = [mark[2:] for mark in one.marks if mark.startswith("m:")]
            known = [order[message] for message in messages if message in order]
            if known != sorted(known):
                yield _in_context(session, one.message, "context_disorder", "messages out of order")
            if one.message in found.assembled:
                lost = _left_out(found, rows, row, answers)
                if lost:
                    yield _in_context(session, one.message, "context_lost", f"no answer to {lost}")


def _left_out(found: Found, rows: Sequence[InboxRow], row: InboxRow, answers: Counter[str]) -> str:
    earlier = [
        found.message_of[one.session, one.client_id]
        for one in rows
        if one.seq < row.seq
        and one.state == "answered"
        and (one.session, one.client_id) in found.message_of
    ]
    return ", ".join(message for message in earlier if message not in answers)


def _in_context(session: str, message: str, what: str, text: str) -> Violation:
    return Violation(
        promise="INV-5",
        what=what,
        text=f"the model was sent {text}",
        session=session,
        message=message,
    )


def all_or_nothing(found: Found) -> Iterator[Violation]:
    """INV-6: no message is consumed without its entries, and none of them is without it."""
    for message, row in found.row_of.items():
        said = {
            mark
            for entry in found.entries_by_run.get(row.run_id, [])
            if entry.role == "assistant"
            for mark in entry.marks
        }
        if row.state == "answered" and f"r:{message}" not in said:
            yield Violation(
                promise="INV-6",
                what="answer_without_entry",
                text="it counts as answered and no entry holds the answer",
                session=row.session,
                message=message,
            )
    for entries in found.entries_by_generation.values():
        yield from _questions(found, entries)
    ids = {entry.id for entry in found.history.database.entries}
    for delivery in found.history.database.deliveries:
        if delivery.entry_id and delivery.entry_id not in ids:
            yield Violation(
                promise="INV-6",
                what="delivery_without_entry",
                text=f"delivery {delivery.id} is of entry {delivery.entry_id}, which is not there",
                message=found.message_of_run.get(delivery.run_id, ""),
            )


def _questions(found: Found, entries: Sequence[EntryRow]) -> Iterator[Violation]:
    asked: set[str] = set()
    for entry in entries:
        for mark in entry.marks:
            message = mark[2:]
            if entry.role == "user" and mark.startswith("m:"):
                asked.add(message)
                if message not in found.row_of:
                    yield Violation(
                        promise="INV-6",
                        what="entry_without_row",
                        text=f"entry {entry.id} holds it; the inbox does not know it",
                        session=entry.session,
                        message=message,
                    )
            elif entry.role == "assistant" and mark.startswith("r:") and message not in asked:
                yield Violation(
                    promise="INV-6",
                    what="reply_without_question",
                    text=f"entry {entry.id} answers what nobody asked before it",
                    session=entry.session,
                    message=message,
                )


def commits(found: Found) -> Iterator[Violation]:
    """INV-7: once for each accepted turn, in order; never for another."""
    for message, row in found.row_of.items():
        effects = found.effects.get(message, [])
        wrong = _commit_fault(found, message, row, len(effects))
        if wrong is not None:
            what, text = wrong
            yield Violation(
                promise="INV-7", what=what, text=text, session=row.session, message=message
            )
    committed = grouped(
        (call.session, call.message)
        for call in found.history.engine
        if call.effect and call.message in found.row_of
    )
    for session, messages in committed.items():
        for earlier, later in pairwise(dict.fromkeys(messages)):
            if found.row_of[earlier].seq > found.row_of[later].seq:
                yield Violation(
                    promise="INV-7",
                    what="commit_order",
                    text=f"the engine was given it after {earlier}",
                    session=session,
                    message=later,
                )


def _commit_fault(
    found: Found, message: str, row: InboxRow, effects: int
) -> tuple[str, str] | None:
    if effects > 1:
        return "commit_twice", f"the engine took it {effects} times"
    if row.state != "answered":
        if effects:
            return "commit_unaccepted", f"the engine took it, though it ended as {row.state!r}"
        return None
    commit = found.commit_of_run.get(row.run_id)
    state = commit.state if commit is not None else None
    if effects or state == "blocked":
        return None
    if state in {"committed", "settled"}:
        return "claims_commit", f"the outbox says {state!r}; the engine has nothing of it"
    if commit is not None or message in found.assembled:
        return "commit_missing", f"the engine never took it; the outbox says {state!r}"
    return None


def keys(found: Found) -> Iterator[Violation]:
    """INV-8: a key stands for one payload."""
    calls = grouped((call.key, call) for call in found.history.engine if call.call == "commit")
    for key, several in calls.items():
        if len({(call.session, call.message, call.payload_hash) for call in several}) > 1:
            yield Violation(
                promise="INV-8",
                what="key_changed",
                text=f"key {key} came with different payloads",
                session=several[-1].session,
                message=several[-1].message,
            )


def deliveries(found: Found) -> Iterator[Violation]:
    """INV-15: shown at most once; what counts as delivered was shown. No event is missed."""
    shown = Counter((one.destination, one.reply) for one in found.history.shown)
    for (destination, reply), times in shown.items():
        if times > 1:
            yield Violation(
                promise="INV-15",
                what="shown_twice",
                text=f"{destination} showed {reply} {times} times",
            )
    for row in found.history.database.deliveries:
        if row.state == "done" and not shown[row.destination, row.reply]:
            yield Violation(
                promise="INV-15",
                what="claims_delivery",
                text=f"delivery {row.id} counts as done; {row.destination} never showed it",
                message=found.message_of_run.get(row.run_id, ""),
            )
    lines = grouped((f"{one.subscription} {one.stream}", one) for one in found.history.received)
    for events in lines.values():
        for earlier, later in pairwise(events):
            if later.epoch == earlier.epoch and later.seq != earlier.seq + 1:
                yield Violation(
                    promise="INV-15",
                    what="stream_gap",
                    text=f"{later.stream}: event {later.seq} came behind {earlier.seq}",
                    session=later.stream,
                )
