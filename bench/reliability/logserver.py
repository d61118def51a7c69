"""The one log of a run: a process of its own that numbers what the others tell it.

    python -m bench.reliability.logserver FOLDER

It makes FOLDER/log.sock, FOLDER/effects (a pipe) and FOLDER/log.jsonl, prints `ready`, and ends
with its stdin. Whoever connects sends JSON lines and gets one back for each, with the number `at`
and the time `t` it was given; it is written by then. Lines that come through the pipe are effects
of commands, which may do nothing else. On the line `{"what": "watch", "gateway": PID}` the process
and every app-server under it are looked after: their beginnings and ends are logged without being
asked of anybody.

An end is noted before any line that was sent after it: before it takes a line, it looks whether
somebody it watches is gone. Knows nothing of what lines mean.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import selectors
import socket
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

POLL_S: Final = 0.01
"""How often a gateway is looked at for new children."""

SOCKET: Final = "log.sock"
EFFECTS: Final = "effects"
LOG: Final = "log.jsonl"
_LINE_BYTES: Final = 65_536

Line = dict[str, Any]


@dataclass(slots=True)
class _Watched:
    kind: str
    pid: int
    end: int
    """A handle that becomes readable at its end."""


@dataclass(slots=True)
class _Peer:
    line: socket.socket
    rest: bytearray = field(default_factory=bytearray)


class LogServer:
    """The server; `serve` returns once its stdin has ended."""

    def __init__(self, folder: Path) -> None:
        self._log: BinaryIO = (folder / LOG).open("ab", buffering=0)
        self._at = 0
        self._watched: dict[int, _Watched] = {}
        self._effects = bytearray()
        os.mkfifo(folder / EFFECTS, 0o600)
        # Open for both, so that neither we nor a command ever waits for the other end.
        self._pipe = os.open(folder / EFFECTS, os.O_RDWR | os.O_NONBLOCK)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / SOCKET))
        self._listener.listen(64)
        self._events = selectors.DefaultSelector()
        self._events.register(self._listener, selectors.EVENT_READ)
        self._events.register(self._pipe, selectors.EVENT_READ)
        self._events.register(0, selectors.EVENT_READ)

    def serve(self) -> None:
        """Take lines until stdin ends; then note who has ended by now."""
        print("ready", flush=True)
        while True:
            gateways = any(one.kind == "gateway" for one in self._watched.values())
            for key, _ in self._events.select(POLL_S if gateways else None):
                if key.fd == 0 and not os.read(0, 1024):
                    self._look_for_ends()
                    self._read_effects()
                    return
                self._handle(key)
            self._look_for_children()

    def _handle(self, key: selectors.SelectorKey) -> None:
        if key.fileobj is self._listener:
            line, _ = self._listener.accept()
            self._events.register(line, selectors.EVENT_READ, _Peer(line))
        elif key.fd == self._pipe:
            self._read_effects()
        elif isinstance(key.data, _Peer):
            self._read(key.data)
        else:
            self._look_for_ends()

    def _read(self, peer: _Peer) -> None:
        try:
            data = peer.line.recv(_LINE_BYTES)
        except ConnectionError:
            data = b""
        if not data:
            self._events.unregister(peer.line)
            peer.line.close()
            return
        peer.rest += data
        while (end := peer.rest.find(b"\n")) >= 0:
            line = json.loads(peer.rest[:end])
            del peer.rest[: end + 1]
            self._look_for_ends()
            answer = self._take(line)
            with contextlib.suppress(ConnectionError):  # it was killed while it told us
                peer.line.sendall(json.dumps(answer).encode() + b"\n")

    def _take(self, line: Line) -> Line:
        if line.get("what") == "watch":
            self._watch("gateway", line["gateway"])
        return self._write(line)

    def _write(self, line: Line) -> Line:
        self._at += 1
        stamp = {"at": self._at, "t": time.monotonic()}
        self._log.write(json.dumps({**stamp, **line}).encode() + b"\n")
        return stamp

    def _read_effects(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._effects += os.read(self._pipe, _LINE_BYTES)
        while (end := self._effects.find(b"\n")) >= 0:
            text = self._effects[:end].decode("utf-8", "replace")
            del self._effects[: end + 1]
            self._write({"who": "command", "what": "effect", "text": text})

    # processes

    def _watch(self, kind: str, pid: int, gateway: int = 0) -> None:
        try:
            end = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        self._watched[pid] = _Watched(kind, pid, end)
        self._events.register(end, selectors.EVENT_READ)
        self._write({"who": kind, "what": "started", "pid": pid, "gateway": gateway})

    def _look_for_ends(self) -> None:
        for one in list(self._watched.values()):
            if select.select([one.end], [], [], 0)[0]:
                self._events.unregister(one.end)
                os.close(one.end)
                del self._watched[one.pid]
                self._write({"who": one.kind, "what": "ended", "pid": one.pid})

    def _look_for_children(self) -> None:
        for gateway in [one.pid for one in self._watched.values() if one.kind == "gateway"]:
            for pid in _children_of(gateway):
                if pid not in self._watched and _is_app_server(pid):
                    self._look_for_ends()
                    self._watch("codex", pid, gateway)


def _children_of(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):  # it has just ended
        for task in os.listdir(f"/proc/{pid}/task"):
            text = Path(f"/proc/{pid}/task/{task}/children").read_text(encoding="ascii")
            found += [int(part) for part in text.split()]
    return found


def _is_app_server(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").endswith(b"app-server")
    return False


class LogLine:
    """A connection to the log server, for one thread; `tell` waits for the number."""

    def __init__(self, folder: Path, who: str) -> None:
        self._who = who
        self._line = socket.socket(socket.AF_UNIX)
        self._line.connect(str(folder / SOCKET))
        self._answers = self._line.makefile("rb")

    def tell(self, what: str, **fields: object) -> tuple[int, float]:
        """Write a line and return its number and time. Raises: OSError if the server is gone."""
        line = {"who": self._who, "what": what, **fields}
        self._line.sendall(json.dumps(line).encode() + b"\n")
        answer = self._answers.readline()
        if not answer:
            raise ConnectionError("the log server is gone")
        stamp = json.loads(answer)
        return int(stamp["at"]), float(stamp["t"])

    def close(self) -> None:
        """Hang up."""
        self._answers.close()
        self._line.close()


if __name__ == "__main__":
    LogServer(Path(sys.argv[1])).serve()
