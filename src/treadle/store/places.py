"""Places in a transcript: where an entry lies, and whether a session may be cut behind it.

Knows nothing of what is done with a cut. A turn is never parted, nor a call from its result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from treadle.contract.lives import Place
from treadle.contract.store import SessionRecord
from treadle.model.errors import InvalidCut, NotFound
from treadle.model.ids import EntryId, SessionId
from treadle.model.json import JsonValue
from treadle.model.message import TOOL_RESULT, Message, call_ids
from treadle.store.driver import Connection, Row
from treadle.store.rows import decoded
from treadle.store.sessions import Fork
from treadle.store.snapshot import Segment, segments_of
from treadle.store.threads import read_binding


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """An entry and where it lies."""

    id: EntryId
    branch: int
    depth: int
    run_id: str | None
    turn_id: str | None
    message: Message
    session_key: str


def _placed(row: Row) -> Placed:
    content: JsonValue = decoded(row[6])
    return Placed(
        id=EntryId(row[0]),
        branch=row[1],
        depth=row[2],
        run_id=row[3],
        turn_id=row[4],
        message=Message(role=row[5], content=content),
        session_key=row[7],
    )


def active_path(connection: Connection, session_id: SessionId) -> tuple[Segment, ...]:
    """Return the path of a generation, from the root on."""
    return segments_of(connection.rows("branch_path", session_id=session_id))


def path_to(connection: Connection, last: Placed) -> list[Segment]:
    """Return the path that ends with an entry."""
    path = segments_of(connection.rows("path_of_branch", branch=last.branch))
    stop = last.depth + 1
    return [
        replace(part, stop_depth=min(part.stop_depth, stop))
        for part in path
        if part.start_depth < stop
    ]


def find_place(
    connection: Connection, session: SessionRecord, active: Sequence[Segment], where: Place
) -> Placed:
    """Find an entry behind which the session may be cut. Raises: NotFound, InvalidCut."""
    if isinstance(where, int):
        found = at_depth(connection, active, where)
        if found is None:
            there = f"0 to {session.entry_count - 1}" if session.entry_count else "none yet"
            raise _no_entry(session, f"number {where}", f"its entries are {there}")
    else:
        row = connection.one("entry_place", id=where)
        found = None if row is None else _placed(row)
        if found is None or not (_holds(active, found) or found.session_key == session.key):
            raise _no_entry(session, repr(where), "it is not among its entries")
    _check_cut(connection, session, found)
    return found


def at_depth(connection: Connection, active: Sequence[Segment], depth: int) -> Placed | None:
    """Return the entry of a path at a depth, or None."""
    for part in active:
        if part.start_depth <= depth < part.stop_depth:
            row = connection.one("entry_place_in", branch=part.branch, depth=depth)
            return None if row is None else _placed(row)
    return None


def _holds(path: Sequence[Segment], entry: Placed) -> bool:
    return any(
        part.branch == entry.branch and part.start_depth <= entry.depth < part.stop_depth
        for part in path
    )


def shared(active: Sequence[Segment], to: Sequence[Segment]) -> int:
    """Return how many entries two paths have in common, from the first one on."""
    common = 0
    for one, other in zip(active, to, strict=False):
        if one.branch != other.branch:
            break
        common = min(one.stop_depth, other.stop_depth)
        if one.stop_depth != other.stop_depth:
            break
    return common


def _check_cut(connection: Connection, session: SessionRecord, last: Placed) -> None:
    """Pass if no turn and no call is parted from its end. Raises: InvalidCut."""
    row = connection.one("entry_place_in", branch=last.branch, depth=last.depth + 1)
    if row is None or not _goes_on(last, _placed(row)):
        return
    hint = "Name the last entry of a turn."
    span = connection.one("run_span", branch=last.branch, run_id=last.run_id)
    if span is not None and span[0] is not None:
        ends = [str(depth) for depth in (span[0] - 1, span[1]) if depth >= 0]
        hint = f"Cut behind entry {' or '.join(ends)}."
    raise InvalidCut(
        f"session {session.key!r} cannot be cut behind entry {last.depth}:"
        " the turn goes on with the next one; nothing was changed",
        next_step=hint,
        session_key=session.key,
        entry_id=last.id,
        depth=last.depth,
    )


def _goes_on(last: Placed, following: Placed) -> bool:
    """Whether what follows belongs to the turn of the last one, or answers a call of it."""
    same_run = last.run_id is not None and last.run_id == following.run_id
    same_turn = last.turn_id is not None and last.turn_id == following.turn_id
    answers = following.message.role == TOOL_RESULT or bool(call_ids(last.message))
    return same_run or same_turn or answers


def fork_after(connection: Connection, last: Placed) -> Fork:
    """Return the fork that keeps what stands up to an entry."""
    row = connection.one("positions_up_to", branch=last.branch, depth=last.depth)
    assert row is not None, "the query always answers"
    return Fork(parent=last.branch, depth=last.depth + 1, position=row[0], head=last.id)


def _no_entry(session: SessionRecord, what: str, found: str) -> NotFound:
    return NotFound(
        f"session {session.key!r} has no entry {what}: {found}",
        next_step=f"treadle sessions show {session.key} numbers them.",
        session_key=session.key,
    )


def last_whole_turn(connection: Connection, session: SessionRecord) -> Fork:
    """Return the fork behind the last turn that is over; one that still runs is left out."""
    active = active_path(connection, session.id)
    stop = session.entry_count
    binding = read_binding(connection, session.id)
    if binding is not None and binding.open_turn is not None and active:
        run_id = binding.open_turn.run_id
        span = connection.one("run_span", branch=active[-1].branch, run_id=run_id)
        if span is not None and span[0] is not None:
            stop = span[0]
    last = at_depth(connection, active, stop - 1)
    return Fork() if last is None else fork_after(connection, last)
