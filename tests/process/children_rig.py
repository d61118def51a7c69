"""Stand-ins for an app-server of an earlier Treadle, for its commands, and for strangers.

Each one says when it is ready, so that nothing waits for time. Knows nothing of what a test looks
for.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from treadle.clock import RandomIds, SystemClock
from treadle.contract.children import ProcessIdentity, StartedChild
from treadle.store.open import SqliteStore, open_store
from treadle.wire.children.table import start_ticks_of, started_child, this_process
from treadle.wire.launch import MARKER

IDLE: Final = "import os, signal\nos.write(1, b'ready\\n')\nwhile True: signal.pause()"
"""Does nothing until it is ended."""

DEAF: Final = f"import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n{IDLE}"
"""The same, and ignores SIGTERM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A process that this test has started."""

    popen: subprocess.Popen[bytes]
    found: StartedChild

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.popen.pid

    @property
    def ended_by(self) -> int | None:
        """The signal that ended it; None while it runs."""
        status = self.popen.poll()
        return None if status is None else -status


@contextmanager
def running(source: str = IDLE, *, marker: str | None = None) -> Iterator[Running]:
    """Start a program in a session of its own; it is ended at the end."""
    environment = {"PATH": os.environ["PATH"], **({MARKER: marker} if marker is not None else {})}
    argv = [sys.executable, "-IS", "-c", source]
    popen = subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, start_new_session=True)
    with popen:
        assert popen.stdout is not None
        assert popen.stdout.readline() == b"ready\n"
        try:
            yield Running(popen=popen, found=started_child(popen.pid, argv))
        finally:
            popen.kill()


def starting(children: int, *, clean: bool = False) -> str:
    """Return a program that starts so many idle ones, each in its own session, and says their pids.

    With `clean` they get an empty environment, as `env -i` gives.
    """
    environment = "{}" if clean else "None"
    return (
        "import os, signal, subprocess, sys\n"
        f"idle = [sys.executable, '-IS', '-c', {IDLE!r}]\n"
        f"many = [subprocess.Popen(idle, stdout=subprocess.PIPE, env={environment},"
        f" start_new_session=True) for _ in range({children})]\n"
        "for one in many: one.stdout.readline()\n"
        "os.write(1, b'ready\\n')\n"
        "os.write(1, ' '.join(str(one.pid) for one in many).encode() + b'\\n')\n"
        "while True: signal.pause()"
    )


def told(one: Running) -> list[int]:
    """Return the pids that such a program said."""
    assert one.popen.stdout is not None
    return [int(part) for part in one.popen.stdout.readline().split()]


def runs(pid: int) -> bool:
    """Whether there is such a process and it is not only waiting to be reaped."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


def gone_owner() -> ProcessIdentity:
    """Return an owner that has ended: nobody of that start has the pid."""
    us = this_process()
    return ProcessIdentity(pid=us.pid, start_ticks=us.start_ticks - 1, boot_id=us.boot_id)


def owner(pid: int) -> ProcessIdentity:
    """Return the identity of a process that runs."""
    ticks = start_ticks_of(pid)
    assert ticks is not None
    return ProcessIdentity(pid=pid, start_ticks=ticks, boot_id=this_process().boot_id)


async def register(
    store: SqliteStore,
    child_id: str,
    found: StartedChild | None,
    *,
    parent: ProcessIdentity | None = None,
) -> None:
    """Leave a row as a Treadle that is gone, or the one named, would have."""
    children = store.children
    await children.register(
        child_id, parent=parent or gone_owner(), command_digest="none", home="/h"
    )
    if found is not None:
        await children.started(child_id, found)


@asynccontextmanager
async def stored(path: Path) -> AsyncIterator[SqliteStore]:
    """Open a store of its own."""
    clock = SystemClock()
    async with open_store(path, clock=clock, ids=RandomIds(clock)) as store:
        yield store


def stop(pid: int) -> None:
    """Hold a process as SIGSTOP does, and see that it is held."""
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
