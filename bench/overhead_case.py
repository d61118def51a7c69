"""One case of `bench.overhead`, in a process of its own: times, CPU, rows and memory as JSON.

    python -m bench.overhead_case PLACE WORK   < {"engine": …, "messages": …, "pairs": …}

PLACE holds the filled state directory. Own CPU and memory are this process's, the bare client's
few objects included; the app-servers and the model are processes of their own.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import anyio
import apsw
from anyio.streams.buffered import BufferedByteReceiveStream
from codex_cli_bin import bundled_codex_path

from bench.transcript import HELD, SESSION, WINDOW_SIZE, items_from, message
from treadle.compose import open_runtime
from treadle.engines.window import note_on
from treadle.harness.codex import launch
from treadle.model.json import JsonValue
from treadle.model.turn import ContextAssembled, Outcome
from treadle.runtime.service import Runtime
from treadle.store.driver import load_queries
from treadle.testing.bare import BareCodex
from treadle.testing.provider import provider_config, write_config
from treadle.wire.launch import codex_argv, launch_key

MODEL = "scripted-1"
WARM_UPS = 4
COUNTED = 3
"""Turns in which rows are counted; their time does not count."""

TURN_S = 60.0


@dataclass(kw_only=True)
class Side:
    """What was measured on one side, a value for each timed turn."""

    to_model_ms: list[float] = field(default_factory=list)
    turn_ms: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)
    items: int = 0
    bytes: int = 0


class RowCount:
    """Counts rows that SQLite hands to this process, by the name of the query."""

    def __init__(self) -> None:
        self.connections: list[apsw.Connection] = []
        self.rows: Counter[str] = Counter()
        self._names = {text: name for name, text in load_queries().items()}
        self._running: dict[int, str] = {}
        apsw.connection_hooks.append(self.connections.append)

    def start(self) -> None:
        for connection in self.connections:
            with suppress(apsw.ConnectionClosedError):  # the one that looked at the file
                connection.exec_trace = self._began
                connection.row_trace = self._row

    def _began(self, cursor: apsw.Cursor, sql: str, _bindings: object) -> bool:
        self._running[id(cursor)] = self._names.get(sql.strip(), "other")
        return True

    def _row(self, cursor: apsw.Cursor, row: Any) -> Any:
        self.rows[self._running.get(id(cursor), "other")] += 1
        return row


class Model:
    """The scripted model's process, as its one reader sees it."""

    def __init__(self, stream: BufferedByteReceiveStream, base_url: str) -> None:
        self._stream = stream
        self.base_url = base_url

    async def seen(self) -> dict[str, float]:
        """Return the next request that arrived."""
        line = await self._stream.receive_until(b"\n", 1 << 20)
        found: dict[str, float] = json.loads(line)
        return found


@asynccontextmanager
async def open_model() -> AsyncIterator[Model]:
    command = [sys.executable, "-m", "bench.scripted_model"]
    async with await anyio.open_process(command, stderr=None) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        stream = BufferedByteReceiveStream(process.stdout)
        base_url = (await stream.receive_until(b"\n", 1 << 16)).decode()
        try:
            yield Model(stream, base_url)
        finally:
            await process.stdin.aclose()


class Treadle:
    """Runs turns through the product."""

    def __init__(self, runtime: Runtime, model: Model, work: Path) -> None:
        self._session = runtime.session(SESSION, cwd=work)
        self._model = model
        self.decisions: Counter[str] = Counter()

    async def turn(self, text: str, engine: str, side: Side) -> None:
        cpu, begun = time.process_time(), time.monotonic()
        run = self._session.run(text, engine=engine)
        with anyio.fail_after(TURN_S):
            finished = await run.result()
        took, cpu_s = time.monotonic() - begun, time.process_time() - cpu
        assert finished.outcome is Outcome.COMPLETED, finished
        note(side, await self._model.seen(), begun, took, cpu_s)
        async for event in run:
            if isinstance(event, ContextAssembled):
                self.decisions[event.decision] += 1


class Bare:
    """Runs turns through the bare client, which asks of Codex what Treadle asks."""

    def __init__(self, app: BareCodex, thread_id: str, model: Model, work: Path) -> None:
        self._app = app
        self._thread_id = thread_id
        self._model = model
        self._asked: dict[str, JsonValue] = {
            "cwd": str(work),
            "approvalPolicy": launch.APPROVAL_POLICY,
            "approvalsReviewer": launch.APPROVALS_REVIEWER,
            "sandboxPolicy": launch.SANDBOX_POLICY,
            "model": MODEL,
            "personality": launch.PERSONALITY,
        }

    async def turn(self, text: str, side: Side) -> None:
        self._app.events.clear()
        cpu, begun = time.process_time(), time.monotonic()
        turn = await self._app.turn(self._thread_id, text, within_s=TURN_S, **self._asked)
        took, cpu_s = time.monotonic() - begun, time.process_time() - cpu
        assert turn.status == "completed", turn
        note(side, await self._model.seen(), begun, took, cpu_s)


def note(side: Side, seen: dict[str, float], begun: float, took: float, cpu_s: float) -> None:
    side.to_model_ms.append((seen["at"] - begun) * 1000)
    side.turn_ms.append(took * 1000)
    side.cpu_ms.append(cpu_s * 1000)
    side.items, side.bytes = int(seen["items"]), int(seen["bytes"])


@asynccontextmanager
async def open_treadle(place: Path, work: Path, model: Model) -> AsyncIterator[Treadle]:
    async with treadle_over(place, model) as runtime:
        yield Treadle(runtime, model, work)


@asynccontextmanager
async def treadle_over(place: Path, model: Model) -> AsyncIterator[Runtime]:
    """Open Treadle with the state directory of a place over the scripted model."""
    state = place / "state"
    home = state / "agents" / "main" / "codex"
    write_config(home, provider_config(model.base_url))
    overrides: dict[tuple[str, ...], JsonValue] = {
        ("agents", "defaults", "model"): f"scripted/{MODEL}",
        ("models", "providers", "scripted", "baseUrl"): model.base_url,
        ("models", "providers", "scripted", "agentRuntime", "id"): "codex",
        ("plugins", "entries", "codex", "config", "appServer", "command"): binary(),
        ("plugins", "entries", "window", "config", "size"): WINDOW_SIZE,
    }
    async with open_runtime(state_dir=state, overrides=overrides) as runtime:
        yield runtime


@asynccontextmanager
async def open_bare(place: Path, work: Path, model: Model, messages: int) -> AsyncIterator[Bare]:
    """Fill a thread as Treadle's is: the note about the rest, then the newest messages."""
    home = place / "bare-home"
    write_config(home, provider_config(model.base_url))
    held = [message(number) for number in range(max(0, messages - HELD), messages)]
    if messages > HELD:
        held.insert(0, note_on(messages - HELD))
    flags = codex_argv(Path(binary()), launch_key(home, {}))[1:-1]
    provider = launch.ProviderLaunch(id="scripted", base_url=model.base_url)
    async with BareCodex(binary(), home, cwd=work, args=flags) as app:
        await app.initialize()
        started = await app.request(
            "thread/start",
            {
                "cwd": str(work),
                "model": MODEL,
                "modelProvider": "scripted",
                "approvalPolicy": launch.APPROVAL_POLICY,
                "config": launch.thread_config(provider),
            },
        )
        thread_id = started["thread"]["id"]
        items: Any = items_from(held)
        await app.request("thread/inject_items", {"threadId": thread_id, "items": items})
        yield Bare(app, thread_id, model, work)


def binary() -> str:
    return str(bundled_codex_path())


def rss_mb(name: str) -> float:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"no {name} in /proc/self/status")


async def measure(place: Path, work: Path, asked: dict[str, Any]) -> dict[str, Any]:
    rows = RowCount()
    engine, warm, memory = str(asked["engine"]), Side(), []
    ours, theirs = Side(), Side()
    async with (
        open_model() as model,
        open_treadle(place, work, model) as treadle,
        open_bare(place, work, model, int(asked["messages"])) as bare,
    ):
        # `window` fills the thread in both cases; `legacy` then goes on with it as it is.
        await treadle.turn("Warm-up: fill the thread.", "window", warm)
        await bare.turn("Warm-up: fill the thread.", warm)
        for number in range(WARM_UPS):
            await treadle.turn(f"Warm-up {number}.", engine, warm)
            await bare.turn(f"Warm-up {number}.", warm)
        treadle.decisions.clear()
        for number in range(int(asked["pairs"])):
            text = f"Timed turn {number}: what was said last?"
            if number % 2:
                await bare.turn(text, theirs)
                await treadle.turn(text, engine, ours)
            else:
                await treadle.turn(text, engine, ours)
                await bare.turn(text, theirs)
            memory.append(rss_mb("VmRSS"))
        decisions = dict(treadle.decisions)
        counted, by_query = await count_rows(rows, treadle, engine)
    assert ours.items == theirs.items, "the threads are not filled alike"
    return {
        "treadle": vars(ours),
        "bare": vars(theirs),
        "decisions": decisions,
        "rows": counted,
        "rows_by_query": by_query,
        "rss_mb": memory,
        "rss_peak_mb": round(rss_mb("VmHWM"), 1),
    }


async def count_rows(
    rows: RowCount, treadle: Treadle, engine: str
) -> tuple[list[int], dict[str, float]]:
    rows.start()
    turns: list[Counter[str]] = []
    for number in range(COUNTED):
        rows.rows.clear()
        await treadle.turn(f"Counted turn {number}.", engine, Side())
        turns.append(Counter(rows.rows))
    names = sorted(set().union(*turns))
    return (
        [sum(turn.values()) for turn in turns],
        {name: median(turn[name] for turn in turns) for name in names},
    )


def main() -> None:
    place, work = map(Path, sys.argv[1:])
    asked = json.load(sys.stdin)
    os.environ.pop("TREADLE_STATE_DIR", None)
    print(json.dumps(anyio.run(measure, place, work, asked)))


if __name__ == "__main__":
    main()
