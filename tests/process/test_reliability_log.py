"""The one log of a run under faults: numbers in the order of things, whoever was killed when."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.reliability.history import (
    EngineCall,
    Fault,
    History,
    Process,
    Told,
    history_from_json,
    history_to_json,
)
from bench.reliability.logserver import EFFECTS, LOG, LogLine
from bench.reliability.reading import NEVER, Line, history_from, read_log, read_store
from treadle.clock import RandomIds, SystemClock
from treadle.model.ids import AgentId, RunId, SessionKey
from treadle.model.message import NewEntry, user_message
from treadle.store.open import open_store

ROOT = Path(__file__).parents[2]


@contextmanager
def server(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a log server; at the end of the block it has ended by itself."""
    with subprocess.Popen(
        [sys.executable, "-m", "bench.reliability.logserver", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            yield process
        finally:
            process.stdin.close()
            process.wait(10)


def test_lines_of_all_are_numbered_in_one_order_and_written_when_answered(scratch: Path) -> None:
    """Ours: reliability section 3: one global counter, not wall time."""
    with server(scratch):
        one, other = LogLine(scratch, "client"), LogLine(scratch, "engine")
        numbers = [line.tell("said", n=n)[0] for n in range(3) for line in (one, other)]
        written = read_log(scratch / LOG)
        one.close()
        other.close()

    assert numbers == [1, 2, 3, 4, 5, 6]
    assert [(line["at"], line["who"], line["n"]) for line in written] == [
        (1, "client", 0),
        (2, "engine", 0),
        (3, "client", 1),
        (4, "engine", 1),
        (5, "client", 2),
        (6, "engine", 2),
    ]
    assert [line["t"] for line in written] == sorted(line["t"] for line in written)


def test_commands_leave_effects_through_the_pipe(scratch: Path) -> None:
    """Ours: a command of a turn may write nothing else; two of them never mix."""
    with server(scratch):
        script = f"echo e:one > {scratch / EFFECTS}; echo e:two > {scratch / EFFECTS}"
        subprocess.run(["/bin/sh", "-c", script], check=True)
        line = LogLine(scratch, "client")
        while len([one for one in read_log(scratch / LOG) if one["what"] == "effect"]) < 2:
            line.tell("waiting")
        line.close()

    texts = [one["text"] for one in read_log(scratch / LOG) if one["what"] == "effect"]
    assert texts == ["e:one", "e:two"]


def test_an_end_is_noted_before_whatever_is_said_after_it(scratch: Path) -> None:
    """Ours: INV-10 and INV-19 are judged by which came first."""
    with server(scratch), subprocess.Popen(["sleep", "60"]) as child:
        line = LogLine(scratch, "runner")
        line.tell("watch", gateway=child.pid)
        child.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        line.tell("after")
        line.close()

    said = [(one["who"], one["what"]) for one in read_log(scratch / LOG)]
    assert said == [
        ("gateway", "started"),
        ("runner", "watch"),
        ("gateway", "ended"),
        ("runner", "after"),
    ]


LINES: list[Line] = [
    {"who": "gateway", "what": "started", "pid": 7, "gateway": 0},
    {"who": "gateway", "what": "ready", "pid": 7},
    {"who": "codex", "what": "started", "pid": 8, "gateway": 7},
    {"who": "client", "what": "told", "session": "a", "run_id": "r", "state": "answered"},
    {"who": "engine", "what": "assemble", "session": "a", "message": "a1"},
    {"who": "engine", "what": "commit", "session": "a", "message": "a1", "key": "k",
     "payload_hash": "h"},
    {"who": "engine", "what": "commit", "session": "a", "message": "a1", "key": "k",
     "payload_hash": "h"},
    {"who": "command", "what": "effect", "text": "e:a1"},
    {"who": "engine", "what": "effect", "text": "e:a1/tool"},
    {"who": "nemesis", "what": "began", "number": 1, "kind": "kill_gateway", "process": 7},
    {"who": "gateway", "what": "ended", "pid": 7},
    {"who": "nemesis", "what": "began", "number": 2, "kind": "locked", "session": ""},
    {"who": "gateway", "what": "started", "pid": 7, "gateway": 0},
    {"who": "nemesis", "what": "ended", "number": 2, "kind": "locked"},
]  # fmt: skip


def stamped() -> list[Line]:
    return [{"at": at, "t": at / 10, **line} for at, line in enumerate(LINES, 1)]


def test_what_was_logged_becomes_a_history(tmp_path: Path) -> None:
    """Ours: ends belong to the life before them; a commit's effect is its first call's."""
    history = history_from(stamped(), History().database, frozenset({"k"}), seed=3)

    assert history.told == (Told(at=4, t=0.4, session="a", run_id="r", state="answered"),)
    assert history.processes == (
        Process(
            kind="gateway", pid=7, started_at=1, ready_at=2, ready_t=0.2, ended_at=11, ended_t=1.1
        ),
        Process(kind="codex", pid=8, started_at=3, ended_at=NEVER, gateway=7),
        Process(kind="gateway", pid=7, started_at=13, ended_at=NEVER),
    )
    assert [(call.call, call.effect) for call in history.engine] == [
        ("assemble", False),
        ("commit", True),
        ("commit", False),
    ]
    assert history.effects == ("a1", "a1/tool")
    assert history.faults == (
        Fault(kind="kill_gateway", at=10, t=1.0, until_at=10, until_t=1.0, process=7),
        Fault(kind="locked", at=12, t=1.2, until_at=14, until_t=1.4),
    )
    assert (history.seed, history.ended_at, history.ended_t) == (3, 14, 1.4)
    assert history_from_json(history_to_json(history)) == history


def test_a_commit_without_a_call_is_an_error_of_the_rig() -> None:
    """Ours."""
    calls: list[EngineCall] = []
    with pytest.raises(ValueError, match="nobody called for"):
        calls.extend(
            history_from(stamped(), History().database, frozenset({"k", "x"}), seed=1).engine
        )
    assert not calls


@pytest.mark.anyio
async def test_the_store_is_read_as_it_stands(tmp_path: Path) -> None:
    """Ours: plain SQL over the tables, branches and their forks included."""
    place = tmp_path / "s.sqlite3"
    clock = SystemClock()
    async with open_store(place, clock=clock, ids=RandomIds(clock)) as store:
        key = SessionKey("agent:main:a")
        session = await store.sessions.open(key, agent_id=AgentId("main"), owner="local")
        claim = await store.transcript.claim(session.id, RunId("run"))
        entries = [
            NewEntry(key=f"{n}", message=user_message(f"«m:a-{n}»"), run_id=RunId("run"))
            for n in range(3)
        ]
        stored = await store.transcript.append(claim, entries)

    found = read_store(place)

    assert found.faults == ()
    assert [(row.session, row.depth, row.id, row.marks, row.run_id) for row in found.entries] == [
        (key, n, entry.id, (f"m:a-{n}",), "run") for n, entry in enumerate(stored)
    ]
