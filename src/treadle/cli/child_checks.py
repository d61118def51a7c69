"""What `doctor` says of child processes: what is registered, and what earlier starts closed.

Looks at the machine's processes and signals none; knows nothing of how findings are shown.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import anyio.to_thread

from treadle.contract.children import ChildRecord, ChildRegistry, Closed
from treadle.wire.children.policy import Keep, Stop, Verdict, decide
from treadle.wire.children.table import read_table

SHOWN: Final = 5
"""Closed children that are shown, the newest first."""

_BECAUSE: Final = {
    Closed.REBOOTED: "the machine had been started anew",
    Closed.GONE: "its owner was gone, and so was it",
    Closed.REPLACED: "its process id belonged to another process, which was left alone",
    Closed.STOPPED: "its owner was gone; what still ran was stopped",
}


async def registered(children: ChildRegistry) -> tuple[list[str], list[str]]:
    """Return what is to be said of children: what is as it should be, and what runs unowned."""
    records = await children.open_children()
    verdicts = await _verdicts(records)
    fine = [_line(one, verdict) for one, verdict in verdicts if not isinstance(verdict, Stop)]
    if not records:
        fine.append("no app-server is registered")
    unowned = [_line(one, verdict) for one, verdict in verdicts if isinstance(verdict, Stop)]
    for one in await children.closed_children(limit=200):
        because = _BECAUSE.get(one.closed_because) if one.closed_because is not None else None
        if because is not None and len(fine) <= SHOWN + len(records):
            fine.append(f"{_name(one)} was closed at {_when(one.closed_at or 0.0)}: {because}")
    return fine, unowned


async def _verdicts(
    records: Sequence[ChildRecord],
) -> list[tuple[ChildRecord, Verdict | None]]:
    """Return what the next start would do with each row; None where the system does not tell."""
    if not records or sys.platform != "linux":
        return [(one, None) for one in records]
    pids = [one.pid for one in records if one.pid is not None]
    table = await anyio.to_thread.run_sync(read_table, pids)
    return list(zip(records, decide(records, table), strict=True))


def _line(record: ChildRecord, verdict: Verdict | None) -> str:
    name = _name(record)
    match verdict:
        case Keep():
            return f"{name} runs for process {record.parent.pid}"
        case Stop(targets=targets):
            pids = ", ".join(str(one.pid) for one in targets)
            return f"{name} has no owner any more and still runs: process {pids}"
        case None:
            return f"{name} is registered by process {record.parent.pid}"
        case _:
            return f"{name} is gone; the next start closes its row"


def _name(record: ChildRecord) -> str:
    pid = "never started" if record.pid is None else f"process {record.pid}"
    return f"app-server {record.id} ({pid}, {_when(record.registered_at)})"


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M")
