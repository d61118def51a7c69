"""Stand-ins for an app-server of an earlier Treadle, for its commands, and for strangers.

Each one says when it is ready, so that nothing waits for time. Knows nothing of what a test looks
for.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio

from tests.process.faults_rig import World, program, say
from treadle.clock import RandomIds, SystemClock
from treadle.contract.children import ProcessIdentity, StartedChild
from treadle.model.json import JsonValue
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


# ------------------------------------------------------------ the real codex and its commands


_UNSANDBOXED: Final = r"""
import json, os, sys
CODEX, WATCHED, SEEN = {codex!r}, {watched!r}, {seen!r}
if "app-server" in sys.argv:
    def runs(pid):
        try:
            with open(f"/proc/{{pid}}/stat") as file:
                return file.read().rpartition(")")[2].split()[0] not in "ZX"
        except OSError:
            return False
    with open(WATCHED) as file:
        watched = [int(pid) for pid in file.read().split()]
    with open(SEEN, "w") as file:
        json.dump([pid for pid in watched if runs(pid)], file)
    reading, writing = os.pipe()
    if os.fork() == 0:
        for number in (1, 2, reading):
            os.close(number)
        for line in sys.stdin.buffer:
            told = json.loads(line)
            if told.get("method") == "turn/start":
                told["params"]["sandboxPolicy"] = {{"type": "dangerFullAccess"}}
                line = json.dumps(told).encode() + b"\n"
            os.write(writing, line)
        os._exit(0)
    os.dup2(reading, 0)
    os.close(reading)
    os.close(writing)
os.execv(CODEX, [CODEX, *sys.argv[1:]])
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsandboxed:
    """Stands where codex is configured and becomes codex, whose commands run without a sandbox.

    In a sandbox they end with it, whatever Treadle does. At its start it notes which of the watched
    processes still run.
    """

    path: Path
    _watched: Path
    _seen: Path

    def watch(self, *pids: int) -> None:
        """Let the next start note which of these run."""
        self._watched.write_text(" ".join(map(str, pids)), encoding="utf-8")

    @property
    def seen_at_start(self) -> list[int]:
        """Those that ran at the last start."""
        found: list[int] = json.loads(self._seen.read_text(encoding="utf-8"))
        return found


def unsandboxed(folder: Path, codex: Path) -> Unsandboxed:
    """Make the program; it watches nobody yet."""
    watched, seen = folder / "watched", folder / "seen"
    source = _UNSANDBOXED.format(codex=str(codex), watched=str(watched), seen=str(seen))
    made = Unsandboxed(path=program(folder / "bin" / "codex", source), _watched=watched, _seen=seen)
    made.watch()
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipe:
    """A named pipe through which a command of the model says something."""

    path: Path

    async def read(self) -> str:
        """Wait until somebody has said something."""
        return (await anyio.Path(self.path).read_text(encoding="utf-8")).strip()


def pipe(folder: Path) -> Pipe:
    """Make a named pipe."""
    path = folder / "pipe"
    os.mkfifo(path)
    return Pipe(path=path)


def child_of(pid: int) -> int:
    """Return the one child of a process."""
    (found,) = [
        int(part)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for part in (task / "children").read_text(encoding="ascii").split()
    ]
    return found


def state_of(pid: int) -> str:
    """Return the letter that says what a process is at."""
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return stat.rpartition(")")[2].split()[0]


@asynccontextmanager
async def treadle_saying(world: World, text: str) -> AsyncIterator[int]:
    """Start a Treadle of its own that says something in session `s`; give its pid, kill it at last.

    It leads no session, and nothing that it started is stopped with it.
    """
    plan = json.dumps([str(world.root), world.base_url, dict_of(world), text])
    process = await anyio.open_process(
        [sys.executable, "-m", "tests.process.children_rig", plan],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=None,
        cwd=Path(__file__).parents[2],
    )
    try:
        yield process.pid
    finally:
        with anyio.CancelScope(shield=True):
            process.kill()
            await process.wait()


def dict_of(world: World) -> list[tuple[tuple[str, ...], JsonValue]]:
    """Return the world's further settings as JSON can say them."""
    return list(world.more.items())


async def _say(
    root: str, base_url: str, more: list[tuple[list[str], JsonValue]], text: str
) -> None:
    settings = {tuple(path): value for path, value in more}
    world = World(root=Path(root), base_url=base_url, more=settings)
    async with world.runtime() as runtime:
        await say(runtime.session("s", cwd=world.work), text)


def stop(pid: int) -> None:
    """Hold a process as SIGSTOP does, and see that it is held."""
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)


if __name__ == "__main__":
    anyio.run(_say, *json.loads(sys.argv[1]))
