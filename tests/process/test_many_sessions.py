"""Many sessions on one app-server: nobody hears another's words, and each keeps its order.

Issue 2, "Done when" 6; spec A-14, A-15.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from treadle.model.message import EntryKind, text_of
from treadle.model.turn import Outcome
from treadle.runtime.service import Runtime
from treadle.runtime.sessions import Session
from treadle.testing.model import Handler, Request, ScriptedModel
from treadle.testing.runtime import ScriptedRuntimes

pytestmark = [pytest.mark.anyio, pytest.mark.codex, pytest.mark.slow, pytest.mark.timeout(300)]

SESSIONS = 200
AT_ONCE = 20
WITHIN_S = 240

OWN_MB = 250
"""Most that this test's process, Treadle and model in it, may grow (some 100 MB were seen)."""

CODEX_MB = 900
"""Most that the app-server may hold with 200 threads (facts, section 13: 417 MB on idle cores)."""

_NONCE = re.compile(r"nonce-(\d{4})-(\w+)")


@dataclass
class Seen:
    """What the model saw, request by request."""

    open: int = 0
    most_open: int = 0
    full: anyio.Event = field(default_factory=anyio.Event)
    """Set once as many turns are at the model as may run at once."""

    def model_for(self, at_once: int) -> Handler:
        async def answer(request: Request) -> str:
            self.open += 1
            self.most_open = max(self.most_open, self.open)
            if self.open == at_once:
                self.full.set()
            await self.full.wait()  # hold the first ones until all places are taken
            self.open -= 1
            return f"heard {' '.join(nonces(request))}"

        return answer


def nonces(request: Request) -> list[str]:
    """Return the nonces that people said in the request's history, in order."""
    said = [str(item) for item in request.input if item.get("role") == "user"]
    return [match.group() for text in said for match in _NONCE.finditer(text)]


async def two_turns(session: Session, number: int) -> None:
    """Say two things without waiting in between; each answer must come from what was said here."""
    name = f"nonce-{number:04d}"
    first, second = session.run(f"Remember {name}-a."), session.run(f"And remember {name}-b.")
    ended = [await first.result(), await second.result()]

    assert [one.outcome for one in ended] == [Outcome.COMPLETED] * 2, ended
    assert [one.text for one in ended] == [f"heard {name}-a", f"heard {name}-a {name}-b"]
    said = [
        text_of(entry.message)
        for entry in await session.entries()
        if entry.kind is EntryKind.MESSAGE
    ]
    assert said == [
        f"Remember {name}-a.",
        f"heard {name}-a",
        f"And remember {name}-b.",
        f"heard {name}-a {name}-b",
    ]


async def test_two_hundred_sessions_share_an_app_server_without_cross_talk(
    scratch: Path, codex_binary: Path
) -> None:
    seen = Seen()
    async with ScriptedModel() as model:
        model.fallback = seen.model_for(AT_ONCE)
        runtimes = ScriptedRuntimes(scratch, codex_binary, model)
        async with runtimes(settings={("lanes", "main"): AT_ONCE}) as runtime:
            before_mb = memory_mb("self")
            await run_all(runtime)
            app_servers = codex_children()
            grown_mb = memory_mb("self") - before_mb
            codex_mb = sum(memory_mb(pid) for pid in app_servers)

        requests = len(model.requests)
        model.check()

    assert requests == SESSIONS * 2
    assert seen.most_open == AT_ONCE, "as many ran at once as may, and no more"
    assert len(app_servers) == 1
    assert grown_mb < OWN_MB
    assert codex_mb < CODEX_MB


async def run_all(runtime: Runtime) -> None:
    with anyio.fail_after(WITHIN_S):
        async with anyio.create_task_group() as group:
            for number in range(SESSIONS):
                group.start_soon(two_turns, runtime.session(f"many-{number:04d}"), number)
    assert runtime.running == ()


def codex_children() -> list[str]:
    """Return the process ids of the app-servers that this process started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text(encoding="utf-8", errors="replace")
            argv = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # it ended while we looked
        parent = stat.rpartition(")")[2].split()[1]
        if parent == str(Path("/proc/self").resolve().name) and b"app-server" in argv:
            found.append(folder.name)
    return found


def memory_mb(process: str) -> float:
    """Return the resident memory of a process."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    match = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
    assert match is not None
    return int(match[1]) / 1024
