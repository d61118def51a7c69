"""What becomes of a registered child, given what runs on the machine; pure.

Knows no file and no signal. A row is kept, closed, or has processes that must be stopped first:

| the row's owner | what is found | verdict |
|---|---|---|
| of another boot | – | close: nothing of it can run |
| lives, or we are it and use the child | – | keep: never touched |
| gone | the child, and we run below it | keep: it cannot be stopped from here |
| gone, or we are it and gave it up | the child, or marked processes | stop them and all below |
| the same | its pid with another identity, nothing marked | close: nobody is signalled |
| the same | nothing | close |

Without a table of processes (macOS) only process groups can be asked after, and nothing is ever
signalled (`decide_by_group`).

Never a target: ourselves, our own ancestors, the first process, whatever belongs to a kept row.
Source: spec S-11; reliability INV-19, F8, RS24, RS25.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from treadle.contract.children import ChildRecord, Closed, ProcessIdentity

ENDED_STATES: Final = frozenset("ZX")
"""States of a process that ended and waits to be reaped: it runs nothing more."""

STOPPED_STATES: Final = frozenset("Tt")
"""States of a process that is held by SIGSTOP or a debugger, and so deaf to SIGTERM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEntry:
    """One process of the table."""

    pid: int
    parent_pid: int
    group: int
    start_ticks: int
    state: str
    """One letter, as in `/proc/<pid>/stat`."""

    is_own: bool = True
    """Whether it runs as our own user; others are never touched."""

    marker: str | None = None
    """Value of the marker in its environment; None if it has none, or none that we may read."""

    command_digest: str = ""

    @property
    def has_ended(self) -> bool:
        """Whether it is only waiting to be reaped."""
        return self.state in ENDED_STATES


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessTable:
    """What ran at one moment."""

    boot_id: str
    our_pid: int
    entries: Mapping[int, ProcessEntry]
    """By pid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A process to be stopped; whoever signals looks once more whether it is still this one."""

    pid: int
    start_ticks: int
    is_deaf: bool = False
    """Stopped by SIGSTOP: only SIGKILL ends it, and it must not be continued (F9)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """Leave the row and all of its processes alone."""

    child_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    """Nothing of it runs; the row needs no more attention."""

    child_id: str
    because: Closed


@dataclass(frozen=True, slots=True, kw_only=True)
class Unconfirmed:
    """Something runs that may be of the row, and nobody can tell."""

    child_id: str
    process_group: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Processes of the row run without an owner."""

    child_id: str
    app_server: Target | None
    """The registered process itself. It is stopped first, and ends most of the others itself."""

    others: tuple[Target, ...]
    """Its descendants and all that bear its marker, by pid."""

    @property
    def targets(self) -> tuple[Target, ...]:
        """All of them, the app-server first."""
        return (*((self.app_server,) if self.app_server is not None else ()), *self.others)


Verdict = Keep | Close | Stop | Unconfirmed


@dataclass(frozen=True, slots=True, kw_only=True)
class Pursued:
    """What was found of a child so far; it is followed although its parent may be gone by now."""

    targets: frozenset[tuple[int, int]] = field(default_factory=frozenset)
    """Pid and start ticks."""


def decide(
    records: Sequence[ChildRecord],
    table: ProcessTable,
    *,
    in_use: Collection[str] = (),
    pursued: Mapping[str, Pursued] | None = None,
) -> tuple[Verdict, ...]:
    """Return one verdict for each row, in their order; never `Unconfirmed`.

    `in_use` are children of ours that are not given up. `pursued` are processes seen earlier as
    descendants of a child: they are still its own when their parent has ended.
    """
    ours = _protected(table)
    kept = {
        one.id
        for one in records
        if is_owned(one, table, in_use=in_use) or _holds_us(one, table, ours)
    }
    spared = ours | _belonging(table, [one for one in records if one.id in kept])
    return tuple(
        Keep(child_id=one.id)
        if one.id in kept
        else _verdict(one, table, spared, (pursued or {}).get(one.id, Pursued()))
        for one in records
    )


def decide_by_group(
    records: Sequence[ChildRecord],
    *,
    our_pid: int,
    running: Collection[int],
    groups: Collection[int],
    in_use: Collection[str] = (),
) -> tuple[Verdict, ...]:
    """Return one verdict for each row where only pids and groups are known, never `Stop`.

    `running` are those of the parents' pids that are taken, `groups` those of the rows' process
    groups that have members. A taken pid may be another process: it then counts as the owner.
    """
    return tuple(
        _verdict_by_group(
            one,
            is_owned=one.id in in_use or (one.parent.pid != our_pid and one.parent.pid in running),
            is_owner=one.parent.pid == our_pid,
            groups=groups,
        )
        for one in records
    )


def _verdict_by_group(
    record: ChildRecord, *, is_owned: bool, is_owner: bool, groups: Collection[int]
) -> Verdict:
    if is_owned:
        return Keep(child_id=record.id)
    if record.process_group is not None and record.process_group in groups:
        return Unconfirmed(child_id=record.id, process_group=record.process_group)
    return Close(child_id=record.id, because=Closed.ENDED if is_owner else Closed.GONE)


def is_owned(record: ChildRecord, table: ProcessTable, *, in_use: Collection[str]) -> bool:
    """Whether somebody who lives answers for the child: its parent, or we while it is in use."""
    parent = record.parent
    if parent.boot_id != table.boot_id or not _runs(parent, table):
        return False
    return parent.pid != table.our_pid or record.id in in_use


def descendants(
    table: ProcessTable, roots: Iterable[int], *, spared: Collection[int] = ()
) -> frozenset[int]:
    """Return the pids below the roots, without the roots; nothing that is spared is walked."""
    below: dict[int, list[int]] = {}
    for entry in table.entries.values():
        below.setdefault(entry.parent_pid, []).append(entry.pid)
    found: set[int] = set()
    waiting = [root for root in roots if root not in spared]
    while waiting:
        for pid in below.get(waiting.pop(), ()):
            if pid not in found and pid not in spared and pid > 1:
                found.add(pid)
                waiting.append(pid)
    return frozenset(found - set(roots))


def _verdict(
    record: ChildRecord, table: ProcessTable, spared: frozenset[int], pursued: Pursued
) -> Close | Stop:
    if record.parent.boot_id != table.boot_id:
        return Close(child_id=record.id, because=Closed.REBOOTED)
    own = {
        pid: entry
        for pid, entry in table.entries.items()
        if entry.is_own and not entry.has_ended and pid > 1 and pid not in spared
    }
    app_server = _app_server(record, own)
    marked = {pid for pid, entry in own.items() if entry.marker == record.id}
    followed = {pid for pid, entry in own.items() if (pid, entry.start_ticks) in pursued.targets}
    roots = marked | followed | ({app_server.pid} if app_server is not None else set())
    others = roots | descendants(table, roots, spared=spared)
    targets = tuple(
        _target(own[pid])
        for pid in sorted(others)
        if pid in own and (app_server is None or pid != app_server.pid)
    )
    if app_server is None and not targets:
        return Close(child_id=record.id, because=_why_nothing_runs(record, table, pursued))
    first = _target(app_server) if app_server is not None else None
    return Stop(child_id=record.id, app_server=first, others=targets)


def _app_server(record: ChildRecord, own: Mapping[int, ProcessEntry]) -> ProcessEntry | None:
    """Find the registered process: same pid and start, and the command or the marker as proof.

    A wrapper that became codex by `exec` has another command line and still bears the marker.
    """
    entry = own.get(record.pid) if record.pid is not None else None
    if entry is None or entry.start_ticks != record.start_ticks:
        return None
    is_ours = entry.command_digest == record.command_digest or entry.marker == record.id
    return entry if is_ours else None


def _holds_us(record: ChildRecord, table: ProcessTable, ours: frozenset[int]) -> bool:
    """Whether we were started from within the child: it cannot be stopped from here."""
    above = {pid: table.entries[pid] for pid in ours if pid in table.entries}
    return record.parent.boot_id == table.boot_id and _app_server(record, above) is not None


def _why_nothing_runs(record: ChildRecord, table: ProcessTable, pursued: Pursued) -> Closed:
    if _runs(record.parent, table):
        return Closed.ENDED  # it is ours, or it would be kept
    if pursued.targets:
        return Closed.STOPPED
    entry = table.entries.get(record.pid) if record.pid is not None else None
    if entry is None or (entry.start_ticks == record.start_ticks and entry.has_ended):
        return Closed.GONE
    return Closed.REPLACED


def _runs(process: ProcessIdentity, table: ProcessTable) -> bool:
    entry = table.entries.get(process.pid)
    return entry is not None and entry.start_ticks == process.start_ticks and not entry.has_ended


def _protected(table: ProcessTable) -> frozenset[int]:
    """Ourselves and whoever started us, up to the first process."""
    found: set[int] = set()
    pid = table.our_pid
    while pid > 0 and pid not in found:
        found.add(pid)
        entry = table.entries.get(pid)
        pid = entry.parent_pid if entry is not None else 0
    return frozenset(found)


def _belonging(table: ProcessTable, kept: Sequence[ChildRecord]) -> frozenset[int]:
    """What kept rows own: their processes, what bears their marker, and all below."""
    markers = {one.id for one in kept}
    pids = {one.pid: one.start_ticks for one in kept if one.pid is not None}
    roots = {
        pid
        for pid, entry in table.entries.items()
        if entry.marker in markers or pids.get(pid) == entry.start_ticks
    }
    return frozenset(roots | descendants(table, roots))


def _target(entry: ProcessEntry) -> Target:
    return Target(
        pid=entry.pid, start_ticks=entry.start_ticks, is_deaf=entry.state in STOPPED_STATES
    )
