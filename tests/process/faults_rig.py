"""A world for tests that break the real codex, the model or Treadle itself, and look at the result.

Holds the folders of one Treadle, a scripted model and the settings that join them; a proxy program
that stands where codex is configured and kills at a named line; and a Treadle as a child process
that can be killed. Run as a program it is that child.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import anyio

from treadle.clock import RandomIds, SystemClock
from treadle.compose import open_runtime
from treadle.contract.engine import Assembled, AssembleParams, EngineContext, EngineFactory
from treadle.model.json import JsonValue
from treadle.model.message import Message, user_message
from treadle.model.turn import EntryCommitted, Notice, RunEvent, RunFinished
from treadle.runtime.service import Runtime
from treadle.runtime.sessions import Session
from treadle.testing.engine import RecordingEngine
from treadle.testing.model import Request, ScriptedModel

APP_SERVER: Final = ("plugins", "entries", "codex", "config", "appServer")
PROVIDER: Final = "scripted"
MODEL: Final = "scripted/scripted-1"

Overrides = Mapping[tuple[str, ...], JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The folders of one Treadle and the model that it talks to."""

    root: Path
    base_url: str
    more: Overrides = field(default_factory=dict)

    @property
    def state(self) -> Path:
        """The state directory."""
        return self.root / "state"

    @property
    def work(self) -> Path:
        """The sessions' working folder, made if need be."""
        folder = self.root / "work"
        folder.mkdir(exist_ok=True)
        return folder

    @property
    def overrides(self) -> dict[tuple[str, ...], JsonValue]:
        """Settings that make the scripted model the only one."""
        return {
            ("models", "providers", PROVIDER, "baseUrl"): self.base_url,
            ("models", "providers", PROVIDER, "agentRuntime", "id"): "codex",
            ("agents", "defaults", "model"): MODEL,
            ("plugins", "slots", "contextEngine"): "legacy",
            **self.more,
        }

    @asynccontextmanager
    async def runtime(
        self,
        *,
        engines: Mapping[str, EngineFactory] | None = None,
        more: Overrides | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> AsyncIterator[Runtime]:
        """Open Treadle in this world."""
        async with open_runtime(
            state_dir=self.state,
            overrides={**self.overrides, **(more or {})},
            engines=engines,
            environ=environ,
        ) as runtime:
            yield runtime

    def logged(self, event: str) -> list[dict[str, JsonValue]]:
        """Return the log's records of one event, in order."""
        records: list[dict[str, JsonValue]] = []
        for file in sorted((self.state / "logs").glob("*")):
            for line in file.read_text(encoding="utf-8").splitlines():
                record = json.loads(line)
                if record.get("event") == event:
                    records.append(record)
        return records


@dataclass(slots=True, kw_only=True)
class Ran:
    """A run that is over, with everything it told."""

    events: list[RunEvent]
    end: RunFinished

    @property
    def notices(self) -> list[str]:
        """Codes of its notices, but for Codex's own warnings (it does not know our model)."""
        codes = [event.code for event in self.events if isinstance(event, Notice)]
        return [code for code in codes if code != "codex.warning"]

    @property
    def error_code(self) -> str | None:
        """The code of the error that ended it."""
        return str(self.end.error["code"]) if self.end.error is not None else None

    @property
    def advice(self) -> str:
        """All that its error says to a person."""
        error = self.end.error or {}
        return f"{error.get('message')} {error.get('next_step')}"


async def say(session: Session, text: str, **options: str) -> Ran:
    """Run one message to its end."""
    with anyio.fail_after(60):
        handle = session.run(text, **options)  # type: ignore[arg-type]  # names of str options
        events = [event async for event in handle]
        return Ran(events=events, end=await handle.result())


def children() -> list[int]:
    """Return the processes that this test has started and that still run."""
    found: list[int] = []
    for task in Path(f"/proc/{os.getpid()}/task").iterdir():
        found += [int(part) for part in (task / "children").read_text(encoding="ascii").split()]
    return found


def user_texts(texts: Sequence[tuple[str, str]]) -> list[str]:
    """Return what the user said, of `transcript`."""
    return [text for role, text in texts if role == "user"]


async def transcript(session: Session) -> list[tuple[str, str]]:
    """Return role and text of the session's entries, in order."""
    found: list[tuple[str, str]] = []
    for entry in await session.entries():
        content = entry.message.content
        parts = content if isinstance(content, list | tuple) else [{"text": content}]
        text = "".join(str(part.get("text", "")) for part in parts if isinstance(part, Mapping))
        found.append((entry.message.role, text))
    return found


def texts_of(request: Request) -> list[str]:
    """Return the text of every message item of a model request, in order."""
    found: list[str] = []
    for item in request.fields["input"]:  # type: ignore[union-attr]  # a list in the API
        if isinstance(item, Mapping) and item.get("type") == "message":
            parts = item["content"]
            found += [str(part.get("text")) for part in parts if isinstance(part, Mapping)]  # type: ignore[union-attr]
    return found


def times_said(request: Request, mark: str) -> int:
    """Return how many texts of the request hold the mark."""
    return sum(mark in text for text in texts_of(request))


def program(path: Path, source: str) -> Path:
    """Write an executable Python program that needs nothing but the standard library."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.write_text(f"#!{sys.executable} -IS\n{source}", encoding="utf-8")
    path.chmod(stat.S_IRWXU)
    return path


# ------------------------------------------------------------------ a proxy in front of codex

_PROXY: Final = r'''
import fcntl, json, os, select, signal, sqlite3, subprocess, sys, threading
CODEX, PLAN, DATABASE = {codex!r}, {plan!r}, {database!r}
if "app-server" not in sys.argv:
    os.execv(CODEX, [CODEX, *sys.argv[1:]])
child = subprocess.Popen([CODEX, *sys.argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
treadle = os.getppid()
fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 4096)  # one page: it takes more only when all was read

def plan():
    """Take the plan, which is good for once."""
    try:
        with open(PLAN) as file:
            return json.load(file)
    except FileNotFoundError:
        return None

def strike(victims):
    os.unlink(PLAN)
    if "treadle" in victims:
        os.kill(treadle, signal.SIGKILL)
    if "codex" in victims:
        child.kill()
        child.wait()
    os._exit(9)

def wait_until_read():
    """Wait until Treadle has taken all that was written; no time is needed for it."""
    pipe = select.poll()
    pipe.register(1, select.POLLOUT)
    pipe.poll()

def strike_behind_the_answer(line, victims):
    """Strike once Treadle has read the answer and waits for the store, which is locked."""
    store = sqlite3.connect(DATABASE, isolation_level=None, timeout=10)
    store.execute("BEGIN IMMEDIATE")
    os.write(1, line)
    wait_until_read()
    strike(victims)

wanted = {{}}
seen = [0]

def up():
    for line in sys.stdin.buffer:
        told = json.loads(line)
        now = plan()
        if now and told.get("method") == now["method"]:
            seen[0] += 1
            if seen[0] >= now.get("number", 1):
                if now["at"] == "before":
                    strike(now["victims"])
                wanted[told["id"]] = now
        child.stdin.write(line)
        child.stdin.flush()
        if now and now["at"] == "sent" and told.get("id") in wanted:
            strike(now["victims"])
    child.stdin.close()

def down():
    for line in child.stdout:
        if wanted:
            told = json.loads(line)
            now = wanted.get(told.get("id")) if "method" not in told else None
            if now and now["at"] == "unanswered":
                strike(now["victims"])
            if now and now["at"] == "answered":
                strike_behind_the_answer(line, now["victims"])
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
    os._exit(child.wait())

threading.Thread(target=down, daemon=True).start()
up()
child.wait()
'''


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """A program that passes everything between Treadle and codex until its plan says otherwise."""

    path: Path
    plan: Path

    def strike(self, method: str, at: str, victims: Sequence[str], number: int = 1) -> None:
        """Kill at a call: `before` it reaches codex, `sent`, `unanswered` or `answered`."""
        told = {"method": method, "at": at, "victims": list(victims), "number": number}
        scratch = self.plan.with_suffix(".new")
        scratch.write_text(json.dumps(told), encoding="utf-8")
        scratch.rename(self.plan)

    @property
    def has_struck(self) -> bool:
        """Whether the plan was carried out."""
        return not self.plan.exists()


def proxy_for(world: World, codex: Path) -> Proxy:
    """Make the proxy of a world; configure it as the codex command."""
    plan = world.root / "plan.json"
    source = _PROXY.format(
        codex=str(codex), plan=str(plan), database=str(world.state / "treadle.sqlite3")
    )
    return Proxy(path=program(world.root / "bin" / "codex", source), plan=plan)


def command(path: Path) -> dict[tuple[str, ...], JsonValue]:
    """Return the setting that makes a program the codex of a world."""
    return {(*APP_SERVER, "command"): str(path)}


# ------------------------------------------------------------- an engine that changes its mind


@dataclass(kw_only=True)
class TurningEngine(RecordingEngine):
    """Gives the messages back as they came, and changes its mind where the test says so."""

    appended: tuple[str, ...] = ()
    """Texts of messages that the next assembly puts behind all others."""

    def assemble(self, params: AssembleParams) -> Assembled:
        """Do as a recording engine does, then append."""
        given = super().assemble(params)
        more: list[Message] = [user_message(text) for text in self.appended]
        return Assembled(
            messages=[*given.messages, *more],
            estimated_tokens=0,
            system_prompt_addition=given.system_prompt_addition,
        )

    def turn(self, change: str) -> None:
        """Change its mind."""
        match change:
            case "rebase":
                self.summary_of = 2
            case "supersede":
                self.addition = "ADDITION-B"
            case "extend":
                self.appended = ("APPENDED-1", "APPENDED-2")
            case other:
                raise ValueError(other)


def turning_engines(change: str | None = None) -> tuple[TurningEngine, dict[str, EngineFactory]]:
    """Make the engine, and the registry in which `turning` is it."""
    engine = TurningEngine(addition="ADDITION-A")
    if change is not None:
        engine.turn(change)

    def create(context: EngineContext) -> TurningEngine:
        del context
        return engine

    return engine, {"turning": create}


# --------------------------------------------------------------------- Treadle as a child


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildPlan:
    """What the child does: two turns, the engine changes its mind, a third turn."""

    root: str
    base_url: str
    codex: str
    change: str
    strike: Mapping[str, JsonValue] | None = None
    """Told to the proxy before the third turn."""

    strike_before_intent: Sequence[str] = ()
    """Whom to kill when the third turn's injection gets its id, before anything is stored."""


class _StrikingIds(RandomIds):
    """Ids that kill when an injection is named."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.victims: Sequence[str] = ()

    def new(self, prefix: str) -> str:
        """Return an id, if somebody is left to take it."""
        victims, self.victims = (self.victims, ()) if prefix == "inj" else ((), self.victims)
        if "codex" in victims:
            for pid in _children_of(os.getpid()):
                for grandchild in _children_of(pid):
                    os.kill(grandchild, signal.SIGKILL)
                os.kill(pid, signal.SIGKILL)
        if "treadle" in victims:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().new(prefix)


def _children_of(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(part) for part in text.split()]


async def run_child(plan: ChildPlan) -> tuple[int, list[str]]:
    """Run the child to its end; its exit status (−9 when it was killed) and what it told."""
    ended = await anyio.run_process(
        [sys.executable, str(Path(__file__)), json.dumps(_plain(plan))],
        check=False,
        stderr=None,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    return ended.returncode, ended.stdout.decode().split("\n")[:-1]


def _plain(plan: ChildPlan) -> dict[str, object]:
    return {name: getattr(plan, name) for name in plan.__dataclass_fields__}


async def _child(plan: ChildPlan) -> None:
    world = World(root=Path(plan.root), base_url=plan.base_url, more=command(Path(plan.codex)))
    engine, engines = turning_engines()
    ids = _StrikingIds()
    async with open_runtime(
        state_dir=world.state, overrides=world.overrides, engines=engines, ids=ids
    ) as runtime:
        session = runtime.session("s", cwd=world.work)
        for number in (1, 2):
            await say(session, f"PROMPT-{number}", engine="turning")
        engine.turn(plan.change)
        ids.victims = plan.strike_before_intent
        if plan.strike is not None:
            path = world.root / "plan.json"
            path.write_text(json.dumps(plan.strike), encoding="utf-8")
        async for event in session.run("PROMPT-3", engine="turning"):
            match event:
                case EntryCommitted():
                    _tell(f"entry {event.entry.message.role}")
                case Notice():
                    _tell(f"notice {event.code}")
                case RunFinished():
                    _tell(f"end {event.outcome.value} {event.text}")
                case _:
                    pass


def _tell(line: str) -> None:
    os.write(1, f"{line}\n".encode())


__all__ = [
    "MODEL",
    "PROVIDER",
    "ChildPlan",
    "Overrides",
    "Proxy",
    "Ran",
    "ScriptedModel",
    "TurningEngine",
    "World",
    "command",
    "program",
    "proxy_for",
    "run_child",
    "say",
    "texts_of",
    "times_said",
    "transcript",
    "turning_engines",
    "user_texts",
]

if __name__ == "__main__":
    anyio.run(_child, ChildPlan(**json.loads(sys.argv[1])))
