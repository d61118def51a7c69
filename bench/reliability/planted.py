"""Histories with one planted fault each, by which the checker proves itself before it judges.

Each plant changes what a broken product would have left behind in the clean history, and nothing
else; a judge has to find exactly that. Knows nothing of the rules but their words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from bench.reliability.check import check
from bench.reliability.found import Violation
from bench.reliability.history import (
    Acked,
    Asked,
    EngineCall,
    EntryRow,
    Fault,
    FaultKind,
    History,
    InboxRow,
    Left,
    Sent,
    Told,
)
from bench.reliability.story import CODEX, GATEWAYS, clean_history

Words = tuple[str, str]
"""A promise and the word of its violation."""


@dataclass(frozen=True, slots=True)
class Plant:
    """A fault, and the word of the only violation that it is."""

    promise: str
    what: str
    into: Callable[[History], History]


def _changed(history: History, place: str, one: Callable[[Any], bool], **fields: object) -> History:
    """Change the fields of the records that are meant, in the list `place`."""
    return _listed(
        history,
        place,
        lambda values: [replace(value, **fields) if one(value) else value for value in values],
    )


def _dropped(history: History, place: str, one: Callable[[Any], bool]) -> History:
    return _listed(history, place, lambda values: [value for value in values if not one(value)])


def _added(history: History, place: str, *more: object) -> History:
    return _listed(history, place, lambda values: [*values, *more])


def _repeated(history: History, place: str, one: Callable[[Any], bool], **fields: Any) -> History:
    """Add the records that are meant a second time, with other fields."""
    again = [replace(value, **fields) for value in _values(history, place) if one(value)]
    return _added(history, place, *again)


def _values(history: History, place: str) -> tuple[Any, ...]:
    owner, _, name = place.rpartition(".")
    found: tuple[Any, ...] = getattr(history.database if owner else history, name)
    return found


def _listed(
    history: History, place: str, change: Callable[[tuple[Any, ...]], list[Any]]
) -> History:
    owner, _, name = place.rpartition(".")
    values = change(_values(history, place))
    if place.endswith("entries") or not hasattr(values[0] if values else None, "at"):
        ordered = tuple(values)
    else:
        ordered = tuple(sorted(values, key=lambda value: value.at))
    field: dict[str, Any] = {name: ordered}
    if not owner:
        return replace(history, **field)
    return replace(history, database=replace(history.database, **field))


def _said(
    history: History, message: str, at: int, *, session: str = "b", run_id: str = "", **row: Any
) -> History:
    """Add a message that is acknowledged; with `seq` and `state` it also has a row."""
    place: dict[str, Any] = {"session": session, "client_id": f"c-{message}"}
    run = run_id or f"run-{message}"
    said = _added(history, "sent", Sent(at=at, t=at / 10, message=message, **place))
    said = _added(said, "acked", Acked(at=at + 1, t=at / 10, run_id=run, **place))
    if not row:
        return said
    return _added(said, "database.inbox", InboxRow(run_id=run, **place, **row))


def _entry(session: str, depth: int, run_id: str, role: str, **fields: Any) -> EntryRow:
    return EntryRow(
        session=session,
        session_id=f"{session}-1",
        depth=depth,
        id=f"{session}-more-{depth}",
        key=fields.pop("key", f"more-{depth}"),
        kind="message",
        role=role,
        content_hash=f"more-{depth}",
        run_id=run_id,
        **fields,
    )


def _asked_for(message: str) -> Callable[[Any], bool]:
    """Pick the last request for a message, by its turn."""
    return lambda one: (
        isinstance(one, Asked)
        and one.turn_id
        in {
            f"turn-{message}-again",
            f"turn-{message}",
        }
    )


def _of_run(message: str) -> Callable[[Any], bool]:
    return lambda one: bool(one.run_id == f"run-{message}")


def _of(message: str, call: str) -> Callable[[Any], bool]:
    return lambda one: bool(one.message == message and one.call == call)


def _is(**wanted: object) -> Callable[[Any], bool]:
    return lambda one: all(getattr(one, name) == value for name, value in wanted.items())


def _two_cancelled(history: History, seqs: tuple[int, int]) -> History:
    """Add two messages that were cancelled, the second sent once the first was acknowledged."""
    for message, at, seq in (("a4", 410, seqs[0]), ("a5", 420, seqs[1])):
        history = _said(history, message, at, session="a", seq=seq, state="cancelled")
    return history


def _slow(history: History, *fault: Fault) -> History:
    """Let a3 end 45 s after it was its turn."""
    late = _changed(history, "told", _of_run("a3"), t=80.0)
    return _added(late, "faults", *fault)


def _hindered(kind: FaultKind, session: str) -> Fault:
    return Fault(kind=kind, at=361, t=36.1, until_at=800, until_t=80.0, session=session)


def _given_twice(history: History) -> History:
    return _repeated(history, "engine", _is(message="a3", effect=True), key="another", at=372)


_CONTEXT_A3: Final = ("m:a1", "r:a1", "m:a2", "r:a2", "m:a3")


def _context(*marks: str) -> Callable[[History], History]:
    return lambda history: _changed(history, "asked", _asked_for("a3"), marks=marks)


PLANTS: Final[tuple[Plant, ...]] = (
    Plant("INV-1", "lost_after_ack", lambda h: _said(h, "b4", 420)),
    Plant("INV-1", "no_final_state", lambda h: _said(h, "b4", 420, seq=9, state="running")),
    Plant("INV-1", "two_ends", lambda h: _repeated(h, "told", _of_run("a3"), state="failed")),
    Plant(
        "INV-1",
        "silent_unknown",
        lambda h: _changed(h, "database.entries", _is(kind="notice"), kind="message", role="tool"),
    ),
    Plant("INV-1", "silent_failure", lambda h: _said(h, "b4", 420, seq=9, state="failed")),
    Plant(
        "INV-2",
        "two_rows",
        lambda h: _repeated(h, "database.inbox", _of_run("a3"), seq=9, run_id="run-other"),
    ),
    Plant(
        "INV-2",
        "shared_run",
        lambda h: _said(h, "b4", 420, run_id="run-b2", seq=9, state="unknown"),
    ),
    Plant("INV-2", "another_ack", lambda h: _repeated(h, "acked", _of_run("a3"), run_id="other")),
    Plant("INV-3", "accepted_out_of_order", lambda h: _two_cancelled(h, (9, 8))),
    Plant(
        "INV-3",
        "overtaken",
        lambda h: _added(
            _two_cancelled(h, (8, 9)),
            "database.entries",
            _entry("a", 9, "run-a5", "user", marks=("m:a5",)),
            _entry("a", 10, "run-a4", "user", marks=("m:a4",)),
        ),
    ),
    Plant(
        "INV-4",
        "two_owners",
        lambda h: _changed(h, "processes", _is(pid=GATEWAYS[0]), ended_at=311),
    ),
    Plant("INV-4", "late_request", lambda h: _repeated(h, "asked", _asked_for("a1"), at=103)),
    Plant(
        "INV-4",
        "interleaved_runs",
        lambda h: _added(
            h, "database.entries", _entry("a", 9, "run-a1", "tool", turn_id="turn-a1")
        ),
    ),
    Plant("INV-5", "gap", lambda h: _changed(h, "database.entries", _is(id="a-entry-8"), depth=9)),
    Plant(
        "INV-5",
        "entry_twice",
        lambda h: _added(
            h,
            "database.entries",
            _entry("a", 9, "run-a3", "tool", turn_id="turn-a3", key="a3-tool-turn-a3"),
        ),
    ),
    Plant(
        "INV-5",
        "entry_twice",
        lambda h: _added(
            h,
            "database.entries",
            _entry("a", 9, "run-a3", "assistant", turn_id="turn-a3", marks=("r:a3",)),
        ),
    ),
    Plant(
        "INV-5",
        "history_changed",
        lambda h: _changed(h, "database.entries", _is(id="a-entry-4"), content_hash="other"),
    ),
    Plant("INV-5", "context_doubled", _context(*_CONTEXT_A3, "r:a1")),
    Plant("INV-5", "context_disorder", _context("m:a2", "r:a2", "m:a1", "r:a1", "m:a3")),
    Plant("INV-5", "context_lost", _context("m:a1", "m:a2", "r:a2", "m:a3")),
    Plant(
        "INV-6",
        "answer_without_entry",
        lambda h: _changed(h, "database.entries", _is(marks=("r:a3",)), marks=()),
    ),
    Plant(
        "INV-6",
        "reply_without_question",
        lambda h: _added(
            h, "database.entries", _entry("b", 9, "", "assistant", marks=("r:nobody",))
        ),
    ),
    Plant(
        "INV-6",
        "entry_without_row",
        lambda h: _added(h, "database.entries", _entry("b", 9, "run", "user", marks=("m:nobody",))),
    ),
    Plant(
        "INV-6",
        "delivery_without_entry",
        lambda h: _changed(h, "database.deliveries", _of_run("a3"), entry_id="gone"),
    ),
    Plant(
        "INV-7",
        "commit_missing",
        lambda h: _changed(
            _dropped(h, "engine", _of("a3", "commit")),
            "database.commits",
            _of_run("a3"),
            state="ready",
        ),
    ),
    Plant(
        "INV-7",
        "commit_missing",
        lambda h: _dropped(
            _dropped(h, "engine", _of("a3", "commit")), "database.commits", _of_run("a3")
        ),
    ),
    Plant("INV-7", "claims_commit", lambda h: _dropped(h, "engine", _of("a3", "commit"))),
    Plant("INV-7", "commit_twice", _given_twice),
    Plant(
        "INV-7",
        "commit_unaccepted",
        lambda h: _added(
            h,
            "engine",
            EngineCall(at=332, call="commit", session="b", message="b2", key="k", effect=True),
        ),
    ),
    Plant(
        "INV-7",
        "commit_order",
        lambda h: _changed(h, "engine", _is(message="a3", effect=True), at=345),
    ),
    Plant(
        "INV-8",
        "key_changed",
        lambda h: _changed(
            h, "engine", _is(message="a3", call="commit", effect=False), payload_hash="other"
        ),
    ),
    Plant(
        "INV-9",
        "turn_replayed",
        lambda h: _changed(
            h, "database.entries", _is(run_id="run-a2", role="tool"), turn_id="turn-a2"
        ),
    ),
    Plant("INV-9", "effect_twice", lambda h: _added(h, "effects", "b2")),
    Plant("INV-9", "steered_twice", _context(*_CONTEXT_A3, "m:a3")),
    Plant(
        "INV-10",
        "retry_without_proof",
        lambda h: _repeated(h, "asked", _asked_for("a3"), at=365, turn_id="turn-a3-again"),
    ),
    Plant("INV-15", "shown_twice", lambda h: _repeated(h, "shown", _is(reply="reply-a3"), at=500)),
    Plant("INV-15", "claims_delivery", lambda h: _dropped(h, "shown", _is(reply="reply-a3"))),
    Plant("INV-15", "stream_gap", lambda h: _dropped(h, "received", _is(stream="a", seq=2))),
    Plant("INV-16", "blocked_by_engine", lambda h: _slow(h, _hindered("engine_hangs", "b"))),
    Plant("INV-17", "blocked_by_peer", lambda h: _slow(h, _hindered("client_stalls", "other"))),
    Plant("INV-18", "not_usable", _slow),
    Plant(
        "INV-18",
        "not_usable",
        lambda h: _added(
            h, "sent", Sent(at=420, t=42.0, session="b", message="b4", client_id="c-b4")
        ),
    ),
    Plant("INV-19", "orphan", lambda h: _added(h, "left", Left(pid=7, command="sleep 1000"))),
    Plant(
        "INV-19", "stranger_signalled", lambda h: _changed(h, "decoys", _is(pid=999), alive=False)
    ),
    Plant(
        "INV-19",
        "orphan_beside_new",
        lambda h: _changed(h, "processes", _is(pid=CODEX[0]), ended_at=330),
    ),
    Plant(
        "INV-20",
        "binding_lost",
        lambda h: _changed(h, "database.bindings", _is(session="a"), thread_id=""),
    ),
    Plant(
        "INV-20",
        "rotated_without_cause",
        lambda h: _changed(h, "asked", _asked_for("a3"), thread_id="thread-new"),
    ),
    Plant(
        "INV-21",
        "store_damaged",
        lambda h: replace(h, database=replace(h.database, faults=("row 7 missing from index",))),
    ),
    Plant(
        "INV-21",
        "refused_store_touched",
        lambda h: _changed(h, "faults", _is(kind="damaged"), after="other"),
    ),
)
"""Every word of every rule at least once."""


ALLOWED: Final[tuple[tuple[str, Callable[[History], History]], ...]] = (
    ("nothing happened at all", lambda h: History()),
    ("the kept promises of the clean run", lambda h: h),
    (
        "a message that was never acknowledged is not there, and the run ended soon after",
        lambda h: _added(
            h, "sent", Sent(at=880, t=88.0, session="b", message="b4", client_id="c-b4")
        ),
    ),
    (
        "a message was cancelled before it began",
        lambda h: _said(h, "b4", 420, seq=9, state="cancelled"),
    ),
    (
        "a message failed and the client was told",
        lambda h: _added(
            _said(h, "b4", 420, seq=9, state="failed"),
            "told",
            Told(at=430, t=43.0, session="b", run_id="run-b4", state="failed"),
        ),
    ),
    (
        "the engine stood aside for a turn, which it is not given",
        lambda h: _dropped(
            _dropped(h, "engine", _is(message="a3")), "database.commits", _of_run("a3")
        ),
    ),
    (
        "the outbox reports a turn that it cannot give",
        lambda h: _changed(
            _dropped(h, "engine", _of("a3", "commit")),
            "database.commits",
            _of_run("a3"),
            state="blocked",
        ),
    ),
    (
        "whether a reply was shown is not known",
        lambda h: _changed(h, "database.deliveries", _of_run("a3"), state="unknown"),
    ),
    (
        "a thread was given up once its process had been killed",
        lambda h: _changed(h, "asked", _is(process=CODEX[1]), thread_id="thread-new"),
    ),
    (
        "a request came in whose process was gone by then",
        lambda h: _changed(h, "asked", _is(turn_id="turn-a2"), process=0),
    ),
    (
        "Codex asked the model again in the same turn",
        lambda h: _repeated(h, "asked", _asked_for("a3"), at=365),
    ),
    (
        "a session whose own engine call hangs waits",
        lambda h: _slow(h, _hindered("engine_hangs", "a")),
    ),
    (
        "everybody waited while the model was away",
        lambda h: _slow(h, _hindered("model_refuses", "")),
    ),
)
"""What looks odd and breaks no promise."""


class WrongVerdict(Exception):
    """The checker does not find what was planted, or finds what was not."""

    def __init__(
        self, name: str, expected: Words | None, violations: tuple[Violation, ...]
    ) -> None:
        wanted = "nothing" if expected is None else " ".join(expected)
        seen = "; ".join(map(str, violations)) or "nothing"
        super().__init__(f"{name}: expected {wanted}, the checker found {seen}")


def prove(judge: Callable[[History], list[Violation]] = check) -> int:
    """Let the checker judge everything here, and return how many faults it found.

    Raises: WrongVerdict for the first history of which it says anything else than it must.
    """
    clean = clean_history()
    for name, change in ALLOWED:
        _compare(name, None, judge(change(clean)))
    for plant in PLANTS:
        found = judge(plant.into(clean))
        _compare(f"planted {plant.what}", (plant.promise, plant.what), found)
    return len(PLANTS)


def _compare(name: str, expected: Words | None, violations: Sequence[Violation]) -> None:
    found = [(one.promise, one.what) for one in violations]
    if found != ([] if expected is None else [expected]):
        raise WrongVerdict(name, expected, tuple(violations))
