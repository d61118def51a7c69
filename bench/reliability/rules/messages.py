"""What became of each message: INV-1 to INV-4."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from bench.reliability.found import FINAL, Found, Violation, grouped
from bench.reliability.history import InboxRow


def kept_and_ended(found: Found) -> Iterator[Violation]:
    """INV-1: what was acknowledged is there and has one end, of which somebody is told."""
    for place in dict.fromkeys((one.session, one.client_id) for one in found.history.acked):
        if place not in found.rows:
            yield Violation(
                promise="INV-1",
                what="lost_after_ack",
                text=f"the client was told that {place[1]} is accepted; there is no such row",
                session=place[0],
                message=found.message_of.get(place, ""),
            )
    noticed = {entry.run_id for entry in found.history.database.entries if entry.kind == "notice"}
    told = grouped((one.run_id, one.state) for one in found.history.told)
    for message, row in found.row_of.items():
        yield from _one_end(message, row, told.get(row.run_id, []), row.run_id in noticed)


def _one_end(message: str, row: InboxRow, told: list[str], noticed: bool) -> Iterator[Violation]:
    def violation(what: str, text: str) -> Violation:
        return Violation(
            promise="INV-1", what=what, text=text, session=row.session, message=message
        )

    if row.state not in FINAL:
        yield violation(
            "no_final_state", f"it is still {row.state!r} after everything came to rest"
        )
        return
    if any(state != row.state for state in told):
        ends = ", ".join(dict.fromkeys([*told, row.state]))
        yield violation("two_ends", f"it ended in more than one way: {ends}")
    if row.state == "unknown" and not noticed:
        yield violation("silent_unknown", "its outcome is unknown and no entry says so")
    if row.state == "failed" and not (noticed or told):
        yield violation("silent_failure", "it failed and nobody was told")


def one_message_one_row(found: Found) -> Iterator[Violation]:
    """INV-2: the same client message id is the same message, with the same acknowledgement."""
    rows = grouped((f"{row.session}\n{row.client_id}", row) for row in found.history.database.inbox)
    for several in rows.values():
        if len(several) > 1:
            yield _of_row(found, several[0], "two_rows", f"it has {len(several)} rows")
    runs = grouped((row.run_id, row) for row in found.history.database.inbox)
    for run_id, several in runs.items():
        clients = {(row.session, row.client_id) for row in several}
        if len(clients) > 1:
            yield _of_row(found, several[0], "shared_run", f"{run_id} is the run of others as well")
    acks = grouped((f"{one.session}\n{one.client_id}", one) for one in found.history.acked)
    for one in acks.values():
        named = dict.fromkeys(ack.run_id for ack in one)
        if len(named) > 1:
            yield Violation(
                promise="INV-2",
                what="another_ack",
                text=f"it was acknowledged as different runs: {', '.join(named)}",
                session=one[0].session,
                message=found.message_of.get((one[0].session, one[0].client_id), ""),
            )


def _of_row(found: Found, row: InboxRow, what: str, text: str) -> Violation:
    message = found.message_of.get((row.session, row.client_id), "")
    return Violation(promise="INV-2", what=what, text=text, session=row.session, message=message)


def in_order(found: Found) -> Iterator[Violation]:
    """INV-3: accepted in the order of acknowledgement, begun in the order of acceptance."""
    yield from _accepted_in_order(found)
    for session, entries in _prompts(found).items():
        for (_, earlier), (_, later) in pairwise(entries):
            if found.row_of[earlier].seq > found.row_of[later].seq:
                yield Violation(
                    promise="INV-3",
                    what="overtaken",
                    text=f"it stands behind {earlier}, which was accepted after it",
                    session=session,
                    message=later,
                )


def _prompts(found: Found) -> dict[str, list[tuple[int, str]]]:
    """Return the messages in each session's transcript, in its order."""
    return grouped(
        (entry.session, (entry.depth, mark[2:]))
        for entries in found.entries_by_generation.values()
        for entry in entries
        if entry.role == "user"
        for mark in entry.marks
        if mark.startswith("m:") and mark[2:] in found.row_of
    )


def _accepted_in_order(found: Found) -> Iterator[Violation]:
    acked: dict[str, int] = {}
    for ack in found.history.acked:
        message = found.message_of.get((ack.session, ack.client_id))
        if message is not None:
            acked.setdefault(message, ack.at)
    first_sent: dict[str, int] = {}
    for sent in found.history.sent:
        first_sent.setdefault(sent.message, sent.at)
    for session, rows in found.rows_by_session.items():
        messages = [found.message_of.get((session, row.client_id), "") for row in rows]
        known = [one for one in messages if one in acked]
        for at, later in enumerate(known):
            for earlier in known[at + 1 :]:
                if acked[earlier] < first_sent[later]:
                    yield Violation(
                        promise="INV-3",
                        what="accepted_out_of_order",
                        text=f"it was sent after {earlier} was acknowledged, and has its place"
                        " before it",
                        session=session,
                        message=later,
                    )
                    break


def one_owner(found: Found) -> Iterator[Violation]:
    """INV-4: one gateway owns the state, one run at a time a session."""
    gateways = sorted(
        (one for one in found.history.processes if one.kind == "gateway" and one.ready_at),
        key=lambda one: one.ready_at,
    )
    for before, after in pairwise(gateways):
        if after.ready_at < before.ended_at:
            yield Violation(
                promise="INV-4",
                what="two_owners",
                text=f"gateway {after.pid} served before {before.pid} had ended",
            )
    for session, requests in found.asked_by_session.items():
        newest, newest_message = -1, ""
        for one in requests:
            row = found.row_of.get(one.message)
            if row is None:
                continue
            if row.seq < newest:
                yield Violation(
                    promise="INV-4",
                    what="late_request",
                    text=f"the model was asked for it after {newest_message} had begun",
                    session=session,
                    message=one.message,
                )
            elif row.seq > newest:
                newest, newest_message = row.seq, one.message


def one_run_at_a_time(found: Found) -> Iterator[Violation]:
    """INV-4: the entries of a run stand together; whoever lost the session writes no more."""
    for entries in found.entries_by_generation.values():
        over: set[str] = set()
        current = ""
        for entry in entries:
            if entry.kind == "notice" or not entry.run_id or entry.run_id == current:
                continue
            if entry.run_id in over:
                yield Violation(
                    promise="INV-4",
                    what="interleaved_runs",
                    text=f"entry {entry.id} of {entry.run_id} stands behind those of {current}",
                    session=entry.session,
                    message=found.message_of_run.get(entry.run_id, ""),
                )
            over.add(current)
            current = entry.run_id
