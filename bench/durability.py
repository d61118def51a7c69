"""What a turn pays for being durable: commits that wait for the disk, and their time.

    python -m bench.durability [--json] [--turns 40] [--engine legacy]

One Treadle over the real codex and the scripted model runs plain turns. Between the turns the same
disk is asked for single syncs of a file beside the store, so that both are judged by the same
disk at the same time. Exit status: 0 if every mark is kept, 1 if one is missed.

The *durable part* of a turn is the time from BEGIN to the end of COMMIT of all its transactions
that wait for the disk (`synchronous=FULL`), added up. Its mark is read as: median of the durable
part of a turn <= 6 x median sync of the same run + 3 ms. Knows nothing of correctness: tests do.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

import anyio
import anyio.to_thread
import apsw

from bench.overhead import Found, commit, machine, mark, scratch, spread, tell
from bench.overhead_case import Model, open_model, treadle_over
from treadle.model.turn import Outcome
from treadle.runtime.sessions import Session

FULL_COMMITS: Final = 6
"""Most commits of a plain turn that may wait for the disk (issue 4, "Done when" 4)."""

SYNCS: Final = 6
EXTRA_MS: Final = 3.0

TURNS: Final = 40
WARM_UPS: Final = 4
SYNCS_EACH: Final = 5
"""Single syncs behind each turn."""

SYNC_BYTES: Final = 8192
"""What each of them writes first: two pages, as a small commit does."""

TURN_S: Final = 60.0
FORMAT: Final = 1
"""Version of the JSON; it changes when a field is renamed or removed."""

_TRACED: Final = apsw.SQLITE_TRACE_STMT | apsw.SQLITE_TRACE_PROFILE


@dataclass(frozen=True, slots=True)
class Committed:
    """A transaction that wrote something."""

    durable: bool
    seconds: float


@dataclass(slots=True)
class _Transaction:
    begun: float
    changes: int


@dataclass(slots=True)
class CommitWatch:
    """Notes every transaction that changes something, of all connections of this process.

    Told by SQLite's own trace, in the thread that writes.
    """

    committed: list[Committed] = field(default_factory=list)
    _open: dict[int, _Transaction] = field(default_factory=dict)
    _durable: dict[int, bool] = field(default_factory=dict)

    def watch(self, connection: apsw.Connection) -> None:
        """Begin with a connection that was just opened."""
        connection.trace_v2(_TRACED, partial(self._traced, id(connection)), id=self)

    def _traced(self, connection: int, event: dict[str, Any]) -> None:
        if event.get("trigger"):
            return
        sql = str(event["sql"]).strip().lower()
        ended = event["code"] == apsw.SQLITE_TRACE_PROFILE
        if sql.startswith('pragma "synchronous"') and "(" in sql:
            self._durable[connection] = "full" in sql or "extra" in sql
        elif sql.startswith("begin immediate") and not ended:
            self._open[connection] = _Transaction(time.perf_counter(), event["total_changes"])
        elif sql.startswith("commit") and ended:
            self._end(connection, event["total_changes"])

    def _end(self, connection: int, changes: int) -> None:
        begun = self._open.pop(connection, None)
        if begun is not None and changes > begun.changes:
            took = time.perf_counter() - begun.begun
            self.committed.append(Committed(self._durable.get(connection, True), took))

    def take(self) -> list[Committed]:
        """Return what was committed since the last time."""
        found, self.committed = self.committed, []
        return found


@dataclass(slots=True)
class Measured:
    """Values of each timed turn, and of the single syncs."""

    full: list[int] = field(default_factory=list)
    all_commits: list[int] = field(default_factory=list)
    durable_ms: list[float] = field(default_factory=list)
    turn_ms: list[float] = field(default_factory=list)
    sync_ms: list[float] = field(default_factory=list)


async def measure(place: Path, engine: str, turns: int) -> Measured:
    """Run the turns and the syncs between them."""
    watch, found = CommitWatch(), Measured()
    apsw.connection_hooks.append(watch.watch)
    work, state = place / "work", place / "state"
    work.mkdir()
    state.mkdir(mode=0o700)
    try:
        async with open_model() as model, treadle_over(place, model) as runtime:
            session = runtime.session("durable", cwd=work)
            for number in range(WARM_UPS):
                await turn(session, model, f"Warm-up {number}.", engine)
            for number in range(turns):
                await settled(watch)
                watch.take()
                begun = time.perf_counter()
                await turn(session, model, f"Turn {number}: what was said last?", engine)
                found.turn_ms.append((time.perf_counter() - begun) * 1000)
                await settled(watch)
                note(found, watch.take())
                syncs = await anyio.to_thread.run_sync(sync_ms, state / "sync.probe")
                found.sync_ms += syncs
    finally:
        apsw.connection_hooks.remove(watch.watch)
    return found


async def turn(session: Session, model: Model, text: str, engine: str) -> None:
    """Run one plain turn."""
    with anyio.fail_after(TURN_S):
        finished = await session.run(text, engine=engine).result()
    assert finished.outcome is Outcome.COMPLETED, finished
    await model.seen()


async def settled(watch: CommitWatch) -> None:
    """Wait until nothing is committed any more: what a turn leaves to be done is its own."""
    count = -1
    while count != len(watch.committed):
        count = len(watch.committed)
        await anyio.sleep(0.05)


def note(found: Measured, committed: Sequence[Committed]) -> None:
    """Add what one turn committed."""
    durable = [one.seconds for one in committed if one.durable]
    found.full.append(len(durable))
    found.all_commits.append(len(committed))
    found.durable_ms.append(sum(durable) * 1000)


def sync_ms(path: Path) -> list[float]:
    """Return how long single syncs take now, each behind a small write."""
    took = []
    with path.open("ab") as file:
        for _ in range(SYNCS_EACH):
            file.write(os.urandom(SYNC_BYTES))
            file.flush()
            begun = time.perf_counter()
            os.fdatasync(file.fileno())
            took.append((time.perf_counter() - begun) * 1000)
    return took


def report_from(found: Measured, engine: str) -> Found:
    """Return what is printed, and whether the marks were kept."""
    shares = [part / whole for part, whole in zip(found.durable_ms, found.turn_ms, strict=True)]
    limit = SYNCS * median(found.sync_ms) + EXTRA_MS
    return {
        "format": FORMAT,
        "commit": commit(),
        "machine": machine(),
        "engine": engine,
        "full_commits": spread(found.full),
        "commits": spread(found.all_commits),
        "durable_ms": spread(found.durable_ms),
        "turn_ms": spread(found.turn_ms),
        "durable_share": spread(shares),
        "sync_ms": spread(found.sync_ms),
        "marks": [
            mark("full_commits", engine, max(found.full), FULL_COMMITS),
            mark("durable_ms", engine, median(found.durable_ms), round(limit, 3)),
        ],
    }


def text_from(report: Found) -> str:
    """Return the report for people."""
    lines = [
        f"{report['engine']}, {report['full_commits']['n']} plain turns (least / median / most)",
        f"  commits that wait for the disk  {_spread(report['full_commits'])}",
        f"  all commits                     {_spread(report['commits'])}",
        f"  their durable part, ms          {_spread(report['durable_ms'])}",
        f"  whole turn, ms                  {_spread(report['turn_ms'])}",
        f"  share of the turn               {_spread(report['durable_share'])}",
        f"  one sync, ms                    {_spread(report['sync_ms'])}",
    ]
    for one in report["marks"]:
        verdict = "kept  " if one["kept"] else "MISSED"
        lines.append(f"{verdict} {one['mark']}: {one['value']} (<= {one['limit']})")
    return "\n".join(lines)


def _spread(found: Found) -> str:
    return f"{found['min']:.2f} / {found['median']:.2f} / {found['max']:.2f}"


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.durability", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--turns", type=int, default=TURNS, help="timed turns")
    parser.add_argument("--engine", default="legacy", help="legacy or window")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run and print; see the module."""
    given = arguments(argv)
    os.environ.pop("TREADLE_STATE_DIR", None)
    with scratch() as root:
        tell(f"{given.engine}: {given.turns} turns")
        found = anyio.run(measure, root, given.engine, given.turns)
    report = report_from(found, given.engine)
    print(json.dumps(report, indent=2) if given.json else text_from(report))
    return 0 if all(one["kept"] for one in report["marks"]) else 1


if __name__ == "__main__":
    sys.exit(main())
