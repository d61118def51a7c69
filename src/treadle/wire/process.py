"""Run a child on three pipes and end it for certain; the only module with asyncio and subprocesses.

Knows no protocol: bytes go in and come out. The child leads its own session, has umask 077 and
exactly the environment it is given. Its stderr is always drained (an unread one stops the
app-server after 64 KB), into a bounded ring.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import signal
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from anyio import CancelScope, Event, create_task_group, fail_after, move_on_after

from treadle.model.errors import ProcessExited, ProcessStartError
from treadle.model.text import printable, redact, truncate
from treadle.observe import emit

UMASK: Final = 0o077
"""Files that Codex makes are for its user alone (F11)."""

READ_BYTES: Final = 256 * 1024
"""Most bytes of one read."""

STDERR_LINES: Final = 200
"""Lines of stderr that are kept."""

STDERR_LINE_CHARS: Final = 2_000
"""Characters kept of one line of stderr."""

_ANSI: Final = re.compile(rb"\x1b\[[0-9;]*[A-Za-z]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spawn:
    """What is started."""

    argv: Sequence[str]
    """Argument list; the first is the program's absolute path."""

    environment: Mapping[str, str]
    """All that the child sees."""

    cwd: Path | None = None
    """Its working folder; None means `/`, since a project's folder must not be inherited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopGrace:
    """How long each step of an end may take, in seconds."""

    eof_s: float = 3.0
    """After stdin was closed; Codex needs 0.1 s (F8)."""
    term_s: float = 2.0
    """After SIGTERM."""
    kill_s: float = 5.0
    """After SIGKILL; only the kernel can be late then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How a child ended."""

    code: int | None
    """Exit status, negative for a signal; None if the end was not observed in time."""

    by: str
    """What ended it: `itself`, `eof`, `term`, `kill`."""


class Link(Protocol):
    """A byte pipe to an app-server: a child, or a scripted one in memory."""

    @property
    def pid(self) -> int | None:
        """Process id, if there is a process."""

    async def read(self) -> bytes:
        """Return the next bytes; empty at the end of the stream."""

    async def write(self, data: bytes) -> None:
        """Write all bytes and wait until the peer took most. Raises: ProcessExited."""

    async def drain_stderr(self) -> None:
        """Read stderr until its end."""

    async def wait(self) -> Exit:
        """Wait for the end."""

    async def stop(self, grace: StopGrace) -> Exit:
        """End it, step by step, and observe the end."""

    def stderr_tail(self, lines: int = 20) -> str:
        """Return the last lines of stderr, redacted."""


class _Exits(SubprocessStreamProtocol):
    """Tells of the exit when it happens: asyncio waits until nobody holds the pipes any more."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=READ_BYTES, loop=loop)
        self.has_exited = Event()

    def process_exited(self) -> None:
        """See `asyncio.SubprocessProtocol`."""
        super().process_exited()
        self.has_exited.set()


class Child:
    """One running child; made by `open_child`."""

    def __init__(
        self,
        process: Process,
        transport: asyncio.SubprocessTransport,
        has_exited: Event,
        hide: Callable[[str], str],
        before_stop: Callable[[], Awaitable[None]] | None,
    ) -> None:
        self._process = process
        self._transport = transport
        self._has_exited = has_exited
        self._hide = hide
        self._before_stop = before_stop
        self._ring: deque[str] = deque(maxlen=STDERR_LINES)
        self._ended_by = "itself"
        self.stderr_bytes = 0
        """Bytes of stderr seen so far."""

    @property
    def pid(self) -> int | None:
        """Process id; also the id of its process group and session."""
        return self._process.pid

    async def read(self) -> bytes:
        """Return the next bytes of stdout; empty at its end."""
        assert self._process.stdout is not None
        try:
            return await self._process.stdout.read(READ_BYTES)
        except ConnectionError:
            return b""

    async def write(self, data: bytes) -> None:
        """Write to stdin; waits while the pipe is full. Raises: ProcessExited.

        Cancel: the bytes are written later, or never if the child ends first.
        """
        stdin = self._process.stdin
        assert stdin is not None
        if stdin.is_closing():
            raise ProcessExited("The app-server's stdin is closed.")
        try:
            stdin.write(data)
            await stdin.drain()
        except (ConnectionError, RuntimeError) as error:
            raise ProcessExited(f"The app-server's stdin broke: {error}") from error

    async def drain_stderr(self) -> None:
        """Read stderr to its end; a line without end is cut at the kept length."""
        stream = self._process.stderr
        assert stream is not None
        pending = b""
        while chunk := await stream.read(READ_BYTES):
            self.stderr_bytes += len(chunk)
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                self._keep(line)
            if len(pending) > 4 * STDERR_LINE_CHARS:
                self._keep(pending)
                pending = b""
        if pending:
            self._keep(pending)

    def stderr_tail(self, lines: int = 20) -> str:
        """Return the last lines of stderr, redacted and printable."""
        return "\n".join(list(self._ring)[-lines:])

    async def wait(self) -> Exit:
        """Wait for the child's end."""
        await self._has_exited.wait()
        return Exit(code=self._process.returncode, by=self._ended_by)

    async def stop(self, grace: StopGrace) -> Exit:
        """Close stdin, then SIGTERM, then SIGKILL to the whole group; each step is bounded.

        Cancel: shielded by the caller (`open_child`); a child that ended is a no-op.
        """
        assert self._process.stdin is not None
        if self._process.returncode is None:
            if self._before_stop is not None:
                await self._before_stop()
            self._process.stdin.close()
            ended = await self._wait_at_most(grace.eof_s, "eof")
            if not ended:
                with suppress(ProcessLookupError):  # it ended just now
                    self._process.terminate()
                ended = await self._wait_at_most(grace.term_s, "term")
            if not ended:
                self._kill_group()
                await self._wait_at_most(grace.kill_s, "kill")
                emit("wire.killed", pid=self.pid)
        self._transport.close()
        return Exit(code=self._process.returncode, by=self._ended_by)

    async def _wait_at_most(self, seconds: float, by: str) -> bool:
        with move_on_after(seconds):
            await self._has_exited.wait()
        if self._process.returncode is None:
            return False
        self._ended_by = by
        return True

    def _kill_group(self) -> None:
        """Kill the child and its group; it is not reaped yet, so the id is still ours."""
        with suppress(ProcessLookupError):  # it ended just now
            os.killpg(self._process.pid, signal.SIGKILL)

    def _keep(self, line: bytes) -> None:
        text = _ANSI.sub(b"", line).decode("utf-8", "replace").rstrip()
        if text:
            self._ring.append(truncate(printable(self._hide(text)), STDERR_LINE_CHARS))


@asynccontextmanager
async def open_child(
    spawn: Spawn,
    *,
    hide: Callable[[str], str] = redact,
    grace: StopGrace | None = None,
    before_stop: Callable[[], Awaitable[None]] | None = None,
) -> AsyncIterator[Child]:
    """Start a child and, at the end, stop it and observe its exit.

    The caller runs `drain_stderr`. `before_stop` runs while the child and what it started still
    stand in one tree; it is bounded and raises nothing. Raises: ProcessStartError. Cancel: the
    child is stopped.
    """
    child = await _start(spawn, hide, before_stop)
    emit("wire.spawned", pid=child.pid)
    try:
        yield child
    finally:
        with CancelScope(shield=True):  # bounded by the grace
            ended = await child.stop(grace or StopGrace())
        emit("wire.stopped", pid=child.pid, code=ended.code, by=ended.by)


async def run_once(
    spawn: Spawn, *, timeout_s: float, hide: Callable[[str], str] = redact
) -> tuple[Exit, str, str]:
    """Run a program to its end; return how it ended, its stdout and its stderr, both cut.

    Raises: ProcessStartError if it cannot be started or does not end within `timeout_s`.
    """
    output = bytearray()
    grace = StopGrace(eof_s=0.0, term_s=0.5, kill_s=2.0)
    async with open_child(spawn, hide=hide, grace=grace) as child:
        try:
            with fail_after(timeout_s):
                async with create_task_group() as group:
                    group.start_soon(child.drain_stderr)
                    while chunk := await child.read():
                        output += chunk[: STDERR_LINE_CHARS - len(output)]
                ended = await child.wait()
        except TimeoutError as error:
            raise ProcessStartError(
                f"{' '.join(spawn.argv[:2])!r} did not end within {timeout_s:g} s"
            ) from error
    return ended, output.decode("utf-8", "replace"), child.stderr_tail()


async def _start(
    spawn: Spawn,
    hide: Callable[[str], str],
    before_stop: Callable[[], Awaitable[None]] | None,
) -> Child:
    loop = asyncio.get_running_loop()
    try:
        transport, protocol = await loop.subprocess_exec(
            lambda: _Exits(loop),
            *spawn.argv,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=dict(spawn.environment),
            cwd=str(spawn.cwd or "/"),
            umask=UMASK,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        emit("wire.start_failed", program=spawn.argv[0], reason=str(error))
        raise start_error(spawn.argv[0], error) from error
    process = Process(transport, protocol, loop)
    return Child(process, transport, protocol.has_exited, hide, before_stop)


def start_error(program: str, error: Exception) -> ProcessStartError:
    """Return what a failed start means, and what to do."""
    number = error.errno if isinstance(error, OSError) else None
    match number:
        case errno.ENOEXEC:
            found = "it is no program for this machine (wrong architecture or no program at all)"
            step = "Install the codex of this machine's architecture."
        case errno.ENOENT:
            found = "it, or the loader or interpreter that it names, does not exist"
            step = "Install codex: pip install 'treadle[codex]'."
        case errno.EACCES | errno.EPERM:
            found = "it may not be executed"
            step = f"Make it executable: chmod u+x {program}"
        case errno.EMFILE | errno.ENFILE | errno.EAGAIN | errno.ENOMEM:
            found = f"the machine has no room for another process ({error})"
            step = "Close other programs or raise the limits, then try again."
        case _:
            found = str(error)
            step = "See treadle doctor."
    return ProcessStartError(f"{program!r} could not be started: {found}", next_step=step)
