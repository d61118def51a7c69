"""A Treadle of its own process that a test kills, stops and starts again, and a client of it.

The child is told on its standard input what to do and tells on its standard output what happens,
a JSON object a line each; it takes failpoints from its environment. The test keeps what the child
told, which is what a client knows, and reads the database after the child has ended. Run as a
program this module is the child. Knows nothing of what a test looks for.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.abc
import apsw

from tests.process.faults_rig import World, command
from treadle.compose import open_runtime
from treadle.contract.engine import Assembled, AssembleParams, EngineContext
from treadle.failpoints import TEST_RUN, VARIABLE
from treadle.model.errors import TreadleError
from treadle.model.json import JsonValue
from treadle.model.message import text_of
from treadle.model.turn import RunFinished, event_data
from treadle.runtime.service import Runtime
from treadle.testing.engine import RecordingEngine

COMPILED: Final = Path.home() / ".cache" / "treadle-tests" / "compiled"
"""Compiled modules of the children: without it each of them compiles everything anew."""

WITHIN_S: Final = 60.0
"""Seconds after which anything that does not happen fails its test."""

Told = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A message as the database holds it."""

    session: str
    id: str
    run: str
    state: str
    attempts: int


@dataclass(kw_only=True)
class Child:
    """A Treadle that runs."""

    process: anyio.abc.Process
    told: list[Told] = field(default_factory=list)
    """All that it said, in order."""

    _news: anyio.Event = field(default_factory=anyio.Event)

    @property
    def pid(self) -> int:
        """Its process."""
        return self.process.pid

    async def ask(self, do: str, **fields: Any) -> None:
        """Tell it to do something."""
        assert self.process.stdin is not None
        await self.process.stdin.send(json.dumps({"do": do, **fields}).encode() + b"\n")

    async def until(self, fits: Callable[[Told], bool]) -> Told:
        """Return the first thing it told, or tells, that fits."""
        seen = 0
        with anyio.fail_after(WITHIN_S):
            while True:
                for told in self.told[seen:]:
                    if fits(told):
                        return told
                seen = len(self.told)
                await self._news.wait()

    async def send(self, text: str, *, id: str, session: str = "s", **options: Any) -> Told:
        """Send a message; its acknowledgement or refusal."""
        before = len(self.told)
        await self.ask("send", text=text, id=id, session=session, options=options)

        def fits(told: Told) -> bool:
            return told["told"] in {"accepted", "refused"} and told["id"] == id

        await self.until(lambda told: fits(told) and told in self.told[before:])
        return next(told for told in self.told[before:] if fits(told))

    async def event(self, kind: str, id: str) -> Told:
        """Return the data of the first event of this type of a message's run."""
        found = await self.until(
            lambda told: (told["told"], told.get("id")) == ("event", id) and told["type"] == kind
        )
        data: Told = found["data"]
        return data

    async def end(self, id: str) -> Told:
        """Wait for the end of a message's run."""
        return await self.event("run.finished", id)

    def types(self, id: str) -> list[str]:
        """Return the types of all events of a message's run so far, texts that grow left out."""
        events = (told for told in self.told if (told["told"], told.get("id")) == ("event", id))
        return [event["type"] for event in events if event["type"] != "part.delta"]

    def kill(self) -> None:
        """End it with SIGKILL."""
        self.process.kill()

    def terminate(self) -> None:
        """Ask it to end with SIGTERM: it drains."""
        self.process.terminate()

    async def ended(self) -> int:
        """Wait for its end and return its exit status, negative for a signal."""
        with anyio.fail_after(WITHIN_S):
            return await self.process.wait()

    @property
    def codex(self) -> list[int]:
        """The processes that it has started and that still run."""
        path = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        tasks = path.parents[1].glob("*/children")
        return [int(pid) for task in tasks for pid in task.read_text(encoding="ascii").split()]

    def hear(self, line: bytes) -> None:
        """Take what it says; for the rig alone."""
        self.told.append(json.loads(line))
        news, self._news = self._news, anyio.Event()
        news.set()


@dataclass(frozen=True, slots=True, kw_only=True)
class KillRig:
    """One state directory on which Treadle is started, as often as a test likes."""

    world: World
    codex: Path
    engine: str = "legacy"

    @property
    def assembled(self) -> Path:
        """What the engine `journal` was given, a JSON line an assembly."""
        return self.world.root / "assembled.jsonl"

    def assemblies(self) -> list[tuple[str, list[str]]]:
        """Return the prompt and the texts of the messages of each assembly, in order."""
        if not self.assembled.exists():
            return []
        lines = self.assembled.read_text(encoding="utf-8").splitlines()
        return [(one["prompt"], one["texts"]) for one in map(json.loads, lines)]

    def started(
        self,
        *,
        failpoints: str = "",
        settings: Mapping[str, JsonValue] | None = None,
        resumes: bool = True,
    ) -> AbstractAsyncContextManager[Child]:
        """Start Treadle; at the end of the block it is gone.

        `settings` are those of `deadlines`; without `resumes` it opens as a short command does.
        """
        plan = _Plan(
            root=str(self.world.root),
            base_url=self.world.base_url,
            codex=str(self.codex),
            engine=self.engine,
            deadlines=dict(settings or {}),
            resumes=resumes,
        )
        return _started(plan, failpoints)

    def rows(self) -> list[Row]:
        """Return the inbox as it is stored, in order of acceptance."""
        found = self.query(
            "SELECT session_key, client_message_id, run_id, state, attempts FROM inbox ORDER BY seq"
        )
        return [
            Row(session=key.rsplit(":", 1)[-1], id=id, run=run, state=state, attempts=attempts)
            for key, id, run, state, attempts in found
        ]

    def states(self) -> dict[str, str]:
        """Return the state of each message by its sender's id."""
        return {row.id: row.state for row in self.rows()}

    def entries(self) -> list[tuple[str, str]]:
        """Return kind or role and text of all entries, in order of writing."""
        rows = self.query("SELECT kind, role, content FROM entries ORDER BY seq")
        return [
            (role if kind == "message" else kind, _text(json.loads(content)))
            for kind, role, content in rows
        ]

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Read the database; nothing else may be writing it."""
        path = self.world.state / "treadle.sqlite3"
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            return list(connection.execute(sql))
        finally:
            connection.close()


def _text(content: JsonValue) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list | tuple) else []
    return "".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))


@asynccontextmanager
async def _started(plan: _Plan, failpoints: str) -> AsyncIterator[Child]:
    environ = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
        "PYTHONPYCACHEPREFIX": str(COMPILED),
        "PYTHONPATH": str(Path(__file__).parents[2]),
        TEST_RUN: "1",
        VARIABLE: failpoints,
    }
    argv = [sys.executable, str(Path(__file__)), json.dumps(asdict(plan))]
    async with AsyncExitStack() as stack:
        group = await stack.enter_async_context(anyio.create_task_group())
        process = await anyio.open_process(argv, env=environ, stderr=None, stdin=subprocess.PIPE)
        child = Child(process=process)
        group.start_soon(_hear, child)
        try:
            yield child
        finally:
            if process.returncode is None:
                process.kill()
            group.cancel_scope.cancel()
            await stack.aclose()  # an error of the test's body is not our group's to wrap
            with anyio.CancelScope(shield=True):
                await process.aclose()


async def _hear(child: Child) -> None:
    assert child.process.stdout is not None
    rest = b""
    async for data in child.process.stdout:
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            child.hear(line)


# ------------------------------------------------------------------------------ the child itself


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    root: str
    base_url: str
    codex: str
    engine: str
    deadlines: dict[str, JsonValue]
    resumes: bool


class _Journal(RecordingEngine):
    """Gives the messages back as they came, and writes down what they were."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def assemble(self, params: AssembleParams) -> Assembled:
        texts = [text_of(message) for message in params.messages]
        line = json.dumps({"prompt": params.prompt, "texts": texts}) + "\n"
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line)
        return super().assemble(params)


def _tell(told: str, **fields: Any) -> None:
    os.write(1, json.dumps({"told": told, **fields}).encode() + b"\n")


async def _child(plan: _Plan) -> None:
    world = World(root=Path(plan.root), base_url=plan.base_url, more=command(Path(plan.codex)))
    journal = world.root / "assembled.jsonl"

    def engine(context: EngineContext) -> _Journal:
        del context
        return _Journal(journal)

    overrides: dict[tuple[str, ...], JsonValue] = {
        **world.overrides,
        ("plugins", "slots", "contextEngine"): plan.engine,
        **{("deadlines", name): value for name, value in plan.deadlines.items()},
    }
    async with (
        open_runtime(
            state_dir=world.state,
            overrides=overrides,
            engines={"journal": engine},
            resume=plan.resumes,
        ) as runtime,
        anyio.create_task_group() as group,
    ):
        group.start_soon(_drains, runtime, group.cancel_scope)
        _tell("open")
        async for line in _lines():
            order = json.loads(line)
            match order["do"]:
                case "send":
                    group.start_soon(_send, runtime, world, order)
                case "interrupt":
                    for handle in runtime.running:
                        handle.interrupt()
                case other:
                    raise ValueError(other)
        group.cancel_scope.cancel()


async def _lines() -> AsyncIterator[bytes]:
    os.set_blocking(0, False)
    rest = b""
    while True:
        await anyio.wait_readable(0)
        data = os.read(0, 65536)
        if not data:
            return
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line


async def _drains(runtime: Runtime, scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        async for _ in signals:
            _tell("draining")
            drained = await runtime.drain(within_s=runtime.settings.deadlines.shutdown_s)
            _tell("drained", all=drained)
            scope.cancel()
            return


async def _send(runtime: Runtime, world: World, order: Told) -> None:
    id = order["id"]
    try:
        session = runtime.session(order["session"], cwd=world.work)
        handle = await session.submit(order["text"], client_message_id=id, **order["options"])
    except TreadleError as error:
        _tell("refused", id=id, **error.to_json())
        return
    _tell("accepted", id=id, run=handle.run_id)
    async for event in handle:
        _tell("event", id=id, type=event.type, data=event_data(event))
        if isinstance(event, RunFinished):
            return


if __name__ == "__main__":
    anyio.run(_child, _Plan(**json.loads(sys.argv[1])))
