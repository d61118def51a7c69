"""The model of a run under faults: answers as each message asks it to, and logs every request.

A message says what its turn shall do: `«m:NONCE» do:command,tool,text`. Each step but the last is
one call; which comes next is read from the request itself, so that nothing is lost with a process.
`break_with` makes it misbehave towards everybody. Knows nothing of Treadle.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

from bench.reliability.engine import TOOL
from bench.reliability.history import marks_in
from bench.reliability.logserver import EFFECTS, LogLine
from treadle.protocol.responses import is_output, item_kind, item_role
from treadle.testing.model import ScriptedModel
from treadle.testing.recorded import Request
from treadle.testing.replies import (
    Answer,
    HttpError,
    Part,
    Pause,
    Reply,
    call,
    cut,
    reply,
    text,
)

Step = Literal["command", "sleep", "tool", "slow", "text"]
"""What a turn does: a command with an effect, one that takes long, a tool, an answer in pieces."""

Trouble = Literal["refuses", "cuts", "limits", "slow"]

STEPS: Final = re.compile(r"do:([a-z,]+)")
SLEEP_S: Final = 3
PIECE_S: Final = 0.15
SLOW_S: Final = 2.0


def message_text(nonce: str, steps: list[Step]) -> str:
    """Return the text of a message that makes the model do these steps."""
    return f"Message «m:{nonce}» do:{','.join(steps)}"


class ChaosModel:
    """Answers for a scripted model; the server is started by whoever owns it."""

    def __init__(self, server: ScriptedModel, log: LogLine, folder: Path) -> None:
        """`folder` is the log server's: the effects of commands go there."""
        self._server = server
        self._log = log
        self._effects = folder / EFFECTS
        self._trouble: Trouble | None = None
        server.fallback = self.answer

    def break_with(self, trouble: Trouble | None) -> None:
        """Misbehave so from now on; None ends it."""
        self._trouble = trouble

    def answer(self, request: Request) -> Answer:
        """Log the request and answer it."""
        marks = tuple(mark for part in request.texts() for mark in marks_in(part))
        asked = [mark[2:] for mark in marks if mark.startswith("m:")]
        message = asked[-1] if asked else ""
        self._log.tell(
            "asked",
            message=message,
            thread_id=request.thread_id,
            turn_id=_turn_id(request),
            process=process_at_port(request.port),
            marks=marks,
            trouble=self._trouble,
        )
        self._server.clear()
        return self._answer(request, message)

    def _answer(self, request: Request, message: str) -> Answer:
        match self._trouble:
            case "refuses":
                return HttpError(503, {"error": {"message": "ordered to refuse"}})
            case "limits":
                error = {"type": "rate_limit_exceeded", "message": "ordered to limit"}
                return HttpError(429, {"error": error})
            case "cuts":
                return cut(text("This will not be "))
            case "slow":
                parts: list[Part] = [Pause(seconds=SLOW_S)]
            case None:
                parts = []
        return _with(parts, self._step(request, message))

    def _step(self, request: Request, message: str) -> Reply:
        newest = request.texts("user")[-1:] or [""]
        match STEPS.search(newest[0]):
            case None:
                steps = ["text"]
            case found:
                steps = found.group(1).split(",")
        done = _outputs_after_the_last_message(request)
        step = steps[done] if done < len(steps) else "text"
        match step:
            case "command":
                command = f"echo e:{message} > {self._effects}; echo done"
                return reply(call("exec_command", {"cmd": command}))
            case "sleep":
                command = f"sleep {SLEEP_S}; echo e:{message}/late > {self._effects}"
                return reply(call("exec_command", {"cmd": command, "yield_time_ms": 30_000}))
            case "tool":
                return reply(call(TOOL, {"mark": f"e:{message}/tool"}))
            case "slow":
                pieces = [text(f"One moment, {message}.")]
                pause = Pause(seconds=PIECE_S)
                return reply(pause, *pieces, pause, text(f"«r:{message}» in pieces."))
            case _:
                return reply(text(f"«r:{message}» is ", "the answer."))


def _with(parts: list[Part], answer: Reply) -> Reply:
    return Reply(parts=(*parts, *answer.parts), ending=answer.ending, usage=answer.usage)


def _outputs_after_the_last_message(request: Request) -> int:
    count = 0
    for item in request.input:
        if item_kind(item) == "message" and item_role(item) == "user":
            count = 0
        elif is_output(item):
            count += 1
    return count


def _turn_id(request: Request) -> str:
    with contextlib.suppress(ValueError):
        return str(json.loads(request.headers.get("x-codex-turn-metadata", "{}")).get("turn_id"))
    return ""


def process_at_port(port: int) -> int:
    """Return the app-server whose loopback connection has this port; 0 if there is none now."""
    inode = _inode_of(port)
    if inode is None:
        return 0
    wanted = f"socket:[{inode}]"
    return next((pid for pid in _app_servers() if wanted in _links_of(pid)), 0)


def _inode_of(port: int) -> str | None:
    ending = f":{port:04X}"
    for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        fields = line.split()
        if fields[1].endswith(ending) and fields[9] != "0":
            return fields[9]
    return None


def _app_servers() -> Iterator[int]:
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                if Path(f"/proc/{name}/cmdline").read_bytes().rstrip(b"\0").endswith(b"app-server"):
                    yield int(name)


def _links_of(pid: int) -> Iterator[str]:
    with contextlib.suppress(OSError):  # it has just ended
        for link in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                yield os.readlink(f"/proc/{pid}/fd/{link}")
