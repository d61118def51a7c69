"""What becomes of a registered child, as a table and as laws; nothing here runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.contract.children import ChildRecord, Closed, ProcessIdentity
from treadle.wire.children.policy import (
    Close,
    Keep,
    ProcessEntry,
    ProcessTable,
    Pursued,
    Stop,
    Target,
    Unconfirmed,
    Verdict,
    decide,
    decide_by_group,
    descendants,
)

BOOT = "boot-1"
US, SHELL = 500, 400
"""Our own pid, and that of the shell that started us."""


def entry(pid: int, **changes: object) -> ProcessEntry:
    plain = ProcessEntry(pid=pid, parent_pid=1, group=pid, start_ticks=10 * pid, state="S")
    return replace(plain, **changes)  # type: ignore[arg-type]  # fields of the record


def table(*entries: ProcessEntry) -> ProcessTable:
    usual = (entry(1, parent_pid=0), entry(SHELL), entry(US, parent_pid=SHELL))
    return ProcessTable(
        boot_id=BOOT, our_pid=US, entries={one.pid: one for one in (*usual, *entries)}
    )


def parent(pid: int, *, boot: str = BOOT) -> ProcessIdentity:
    return ProcessIdentity(pid=pid, start_ticks=10 * pid, boot_id=boot)


def record(**changes: object) -> ChildRecord:
    return replace(ROW, **changes)  # type: ignore[arg-type]  # fields of the record


ROW = ChildRecord(
    id="chd_a",
    parent=parent(90),  # of whom the table knows nothing: gone
    pid=100,
    start_ticks=1000,
    process_group=100,
    command_digest="digest",
    home="/h",
    registered_at=0.0,
)
NOBODY = Pursued()
APP = entry(100, command_digest="digest")
MARKED = entry(100, marker="chd_a")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A row, what runs, and what is to be done."""

    name: str
    found: tuple[ProcessEntry, ...]
    verdict: Verdict
    row: ChildRecord = ROW
    in_use: frozenset[str] = frozenset()
    pursued: Pursued = NOBODY


def closed(because: Closed) -> Close:
    return Close(child_id="chd_a", because=because)


def stop(first: int | None, *others: int) -> Stop:
    return Stop(
        child_id="chd_a",
        app_server=None if first is None else target(first),
        others=tuple(target(pid) for pid in others),
    )


def target(pid: int) -> Target:
    return Target(pid=pid, start_ticks=10 * pid)


CASES = (
    # whose owner
    Case(name="nothing runs", found=(), verdict=closed(Closed.GONE)),
    Case(
        name="another boot, although pid and start fit",
        found=(APP, MARKED),
        row=record(parent=parent(90, boot="boot-0")),
        verdict=closed(Closed.REBOOTED),
    ),
    Case(
        name="owner lives",
        found=(entry(90), APP, entry(101, parent_pid=100)),
        verdict=Keep(child_id="chd_a"),
    ),
    Case(
        name="owner lives, its child does not",
        found=(entry(90), entry(101, marker="chd_a")),
        verdict=Keep(child_id="chd_a"),
    ),
    Case(name="owner waits to be reaped", found=(entry(90, state="Z"), APP), verdict=stop(100)),
    Case(name="owner's pid came again", found=(entry(90, start_ticks=1), APP), verdict=stop(100)),
    Case(
        name="ours and in use",
        found=(APP,),
        row=record(parent=parent(US)),
        in_use=frozenset({"chd_a"}),
        verdict=Keep(child_id="chd_a"),
    ),
    Case(
        name="ours, given up, still there",
        found=(APP,),
        row=record(parent=parent(US)),
        verdict=stop(100),
    ),
    Case(
        name="ours, given up, gone",
        found=(),
        row=record(parent=parent(US)),
        pursued=Pursued(targets=frozenset({(100, 1000)})),
        verdict=closed(Closed.ENDED),
    ),
    # what identifies the child
    Case(name="same pid, start and command", found=(APP,), verdict=stop(100)),
    Case(name="same pid and start, marked", found=(MARKED,), verdict=stop(100)),
    Case(
        name="same pid and start, neither command nor marker",
        found=(entry(100, command_digest="other"),),
        verdict=closed(Closed.REPLACED),
    ),
    Case(
        name="same pid and command, other start",
        found=(entry(100, start_ticks=1001, command_digest="digest"),),
        verdict=closed(Closed.REPLACED),
    ),
    Case(
        name="somebody else's process",
        found=(replace(APP, is_own=False),),
        verdict=closed(Closed.REPLACED),
    ),
    Case(
        name="it waits to be reaped", found=(replace(APP, state="Z"),), verdict=closed(Closed.GONE)
    ),
    Case(
        name="never started",
        found=(APP,),
        row=record(pid=None, start_ticks=None, process_group=None),
        verdict=closed(Closed.GONE),
    ),
    Case(
        name="started, and Treadle was killed before it knew the pid",
        found=(MARKED, entry(101, parent_pid=100)),
        row=record(pid=None, start_ticks=None, process_group=None),
        verdict=stop(None, 100, 101),
    ),
    # what belongs to it
    Case(
        name="it with its tree",
        found=(APP, entry(101, parent_pid=100), entry(102, parent_pid=101), entry(103)),
        verdict=stop(100, 101, 102),
    ),
    Case(
        name="a marked command of a dead one, and what that started",
        found=(entry(300, marker="chd_a"), entry(301, parent_pid=300), entry(302)),
        verdict=stop(None, 300, 301),
    ),
    Case(
        name="a marked command beside a stranger at its pid",
        found=(entry(100, start_ticks=7), entry(300, marker="chd_a")),
        verdict=stop(None, 300),
    ),
    Case(name="another's marker", found=(entry(300, marker="chd_b"),), verdict=closed(Closed.GONE)),
    Case(
        name="a marked command of another user",
        found=(entry(300, marker="chd_a", is_own=False),),
        verdict=closed(Closed.GONE),
    ),
    Case(
        name="followed: its parent has ended, it has not",
        found=(entry(300),),
        pursued=Pursued(targets=frozenset({(300, 3000)})),
        verdict=stop(None, 300),
    ),
    Case(
        name="followed, and its pid came again",
        found=(entry(300),),
        pursued=Pursued(targets=frozenset({(300, 2999)})),
        verdict=closed(Closed.STOPPED),
    ),
    Case(
        name="held by SIGSTOP",
        found=(replace(APP, state="T"),),
        verdict=Stop(
            child_id="chd_a",
            app_server=Target(pid=100, start_ticks=1000, is_deaf=True),
            others=(),
        ),
    ),
    # whom it never reaches
    Case(
        name="we were started by a command of it",
        found=(APP, entry(SHELL, parent_pid=100, marker="chd_a"), entry(101, parent_pid=100)),
        verdict=Keep(child_id="chd_a"),
    ),
    Case(
        name="we were started by a command of it, and it is gone",
        found=(entry(SHELL, marker="chd_a"), entry(101, parent_pid=SHELL, marker="chd_a")),
        verdict=stop(None, 101),
    ),
    Case(
        name="we are ourselves what is left of it",
        found=(entry(SHELL, marker="chd_a"), entry(US, parent_pid=SHELL, marker="chd_a")),
        verdict=closed(Closed.GONE),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_row_gets_its_verdict(case: Case) -> None:
    """Spec S-11; INV-19, RS24, RS25, F8."""
    pursued = {"chd_a": case.pursued}
    found = decide([case.row], table(*case.found), in_use=case.in_use, pursued=pursued)
    assert found == (case.verdict,)


def test_what_a_living_owner_has_is_not_reached_through_anothers_tree() -> None:
    """Spec S-11: others' processes are never touched, wherever they hang in the tree."""
    theirs = record(id="chd_b", parent=parent(90), pid=200, start_ticks=2000)
    orphan = record(parent=parent(91))
    found = decide(
        [orphan, theirs],
        table(
            entry(90),
            APP,
            entry(200, parent_pid=100),
            entry(201, parent_pid=200),
            entry(202, parent_pid=100, marker="chd_b"),
            entry(203, parent_pid=100),
        ),
    )
    assert found == (stop(100, 203), Keep(child_id="chd_b"))


@dataclass(frozen=True, kw_only=True)
class GroupCase:
    """A row where only pids and groups are known."""

    name: str
    verdict: Verdict
    row: ChildRecord = ROW
    running: frozenset[int] = frozenset()
    groups: frozenset[int] = frozenset()
    in_use: frozenset[str] = frozenset()


GROUP_CASES = (
    GroupCase(name="owner lives", running=frozenset({90}), verdict=Keep(child_id="chd_a")),
    GroupCase(name="all gone", verdict=closed(Closed.GONE)),
    GroupCase(
        name="its group has members",
        groups=frozenset({100}),
        verdict=Unconfirmed(child_id="chd_a", process_group=100),
    ),
    GroupCase(
        name="ours and in use",
        row=record(parent=parent(US)),
        running=frozenset({US}),
        in_use=frozenset({"chd_a"}),
        verdict=Keep(child_id="chd_a"),
    ),
    GroupCase(
        name="ours and ended",
        row=record(parent=parent(US)),
        running=frozenset({US}),
        verdict=closed(Closed.ENDED),
    ),
    GroupCase(
        name="never started",
        row=record(pid=None, start_ticks=None, process_group=None),
        verdict=closed(Closed.GONE),
    ),
)


@pytest.mark.parametrize("case", GROUP_CASES, ids=lambda case: case.name)
def test_without_a_table_nobody_is_signalled(case: GroupCase) -> None:
    """Spec S-11; decision 30: where it cannot be confirmed, the start fails."""
    assert decide_by_group(
        [case.row], our_pid=US, running=case.running, groups=case.groups, in_use=case.in_use
    ) == (case.verdict,)


# ------------------------------------------------------------------------------- laws

IDS = ("chd_a", "chd_b", "chd_c")
PIDS = st.integers(2, 12)


@st.composite
def tables(draw: st.DrawFn) -> ProcessTable:
    """Some processes, their parents anywhere (a pid may even be its own ancestor for a moment)."""
    pids = draw(st.sets(PIDS, min_size=1))
    entries = {
        pid: ProcessEntry(
            pid=pid,
            parent_pid=draw(st.integers(0, 12)),
            group=pid,
            start_ticks=draw(st.integers(1, 2)),
            state=draw(st.sampled_from("SRTZ")),
            is_own=draw(st.integers(0, 4)) > 0,
            marker=draw(st.sampled_from((None, None, *IDS))),
            command_digest=draw(st.sampled_from(("d1", "d2"))),
        )
        for pid in pids
    }
    return ProcessTable(boot_id=BOOT, our_pid=draw(st.sampled_from(sorted(pids))), entries=entries)


@st.composite
def rows(draw: st.DrawFn) -> list[ChildRecord]:
    """Rows whose owners and processes may or may not be in the table."""
    return [
        record(
            id=child_id,
            parent=ProcessIdentity(
                pid=draw(PIDS),
                start_ticks=draw(st.integers(1, 2)),
                boot_id=draw(st.sampled_from((BOOT, BOOT, BOOT, "boot-0"))),
            ),
            pid=draw(st.none() | PIDS),
            start_ticks=draw(st.integers(1, 2)),
            command_digest=draw(st.sampled_from(("d1", "d2"))),
        )
        for child_id in draw(st.lists(st.sampled_from(IDS), unique=True))
    ]


def lives(row: ChildRecord, now: ProcessTable) -> bool:
    """Whether the row's owner is there."""
    owner = now.entries.get(row.parent.pid)
    return (
        row.parent.boot_id == now.boot_id
        and owner is not None
        and owner.start_ticks == row.parent.start_ticks
        and owner.state != "Z"
    )


def ancestry(now: ProcessTable, pid: int) -> Iterator[ProcessEntry]:
    """The process and all above it."""
    seen: set[int] = set()
    while pid in now.entries and pid not in seen:
        seen.add(pid)
        yield now.entries[pid]
        pid = now.entries[pid].parent_pid


def is_its_process(row: ChildRecord, one: ProcessEntry) -> bool:
    """Whether a process is the registered one, or bears its marker: said a second time, plainly."""
    same = one.pid == row.pid and one.start_ticks == row.start_ticks
    return one.marker == row.id or (same and one.command_digest == row.command_digest)


@given(given_rows=rows(), now=tables(), in_use=st.sets(st.sampled_from(IDS)))
def test_only_what_is_provably_of_a_row_without_an_owner_is_ever_a_target(
    given_rows: list[ChildRecord], now: ProcessTable, in_use: set[str]
) -> None:
    """INV-19, spec S-11: no process that is not ours is ever signalled."""
    verdicts = decide(given_rows, now, in_use=in_use)
    assert [one.child_id for one in verdicts] == [row.id for row in given_rows]
    ours = {one.pid for one in ancestry(now, now.our_pid)}
    kept = [row for row, one in zip(given_rows, verdicts, strict=True) if isinstance(one, Keep)]
    for row, verdict in zip(given_rows, verdicts, strict=True):
        is_owned = lives(row, now) and (row.parent.pid != now.our_pid or row.id in in_use)
        holds_us = row.parent.boot_id == BOOT and any(
            (one.pid, one.start_ticks) == (row.pid, row.start_ticks) and is_its_process(row, one)
            for one in ancestry(now, now.our_pid)
        )
        assert isinstance(verdict, Keep) == (is_owned or holds_us)
        if not isinstance(verdict, Stop):
            continue
        assert row.parent.boot_id == now.boot_id
        assert verdict.targets
        for one in verdict.targets:
            found = now.entries[one.pid]
            line = list(ancestry(now, one.pid))
            assert one.start_ticks == found.start_ticks
            assert found.is_own
            assert found.state != "Z"
            assert one.is_deaf == (found.state == "T")
            assert one.pid not in ours
            assert one.pid > 1
            assert any(is_its_process(row, each) for each in line)
            assert not any(is_its_process(other, found) for other in kept)


@given(given_rows=rows(), now=tables(), in_use=st.sets(st.sampled_from(IDS)))
def test_when_all_targets_have_ended_every_row_without_an_owner_is_closed(
    given_rows: list[ChildRecord], now: ProcessTable, in_use: set[str]
) -> None:
    """Spec S-11: looking again and stopping comes to an end."""
    pursued: dict[str, Pursued] = {}
    for _ in range(len(now.entries) + 1):
        verdicts = decide(given_rows, now, in_use=in_use, pursued=pursued)
        stops = [one for one in verdicts if isinstance(one, Stop)]
        if not stops:
            break
        gone: set[int] = set()
        for one in stops:
            known = pursued.get(one.child_id, Pursued()).targets
            told = frozenset((each.pid, each.start_ticks) for each in one.targets)
            pursued[one.child_id] = Pursued(targets=known | told)
            first = (one.app_server,) if one.app_server is not None else one.others
            gone |= {each.pid for each in first}
        left = {
            pid: one if one.parent_pid not in gone else replace(one, parent_pid=1)
            for pid, one in now.entries.items()
            if pid not in gone
        }
        now = replace(now, entries=left)
    assert all(isinstance(one, Keep | Close) for one in verdicts)


@given(now=tables(), roots=st.sets(PIDS), spared=st.sets(PIDS))
def test_descendants_are_those_with_a_root_above_and_nothing_spared_between(
    now: ProcessTable, roots: set[int], spared: set[int]
) -> None:
    """Ours: also where two looks made a ring of the parents."""
    found = descendants(now, roots, spared=spared)
    assert not found & (roots | spared | {0, 1})
    for pid in found:
        assert any(one.parent_pid in roots - spared for one in ancestry(now, pid))
