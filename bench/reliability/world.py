"""The place of a run: its folders and settings, its gateway process, its decoys, what is left.

Knows nothing of faults or of what is right.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
from anyio.abc import Process

from bench.reliability.engine import DATABASE, ENGINE
from bench.reliability.history import Decoy, Left
from bench.reliability.logserver import LOG, LogLine
from treadle.config.paths import find_paths
from treadle.model.json import JsonValue
from treadle.testing.provider import provider_config, toml_from, write_config

REPOSITORY: Final = Path(__file__).resolve().parents[2]

PROVIDER: Final = "scripted"
MODEL: Final = "scripted-1"

SOCKET: Final = "owner.sock"
"""Where `treadle serve` listens, in its state directory."""

READY_S: Final = 30.0
"""Seconds within which a gateway has to serve after its start."""

STOP_S: Final = 60.0
"""Seconds within which it has to end once it is asked to."""

GONE_S: Final = 10.0
"""Seconds for processes to go once the gateway is gone."""

LOOK_S: Final = 0.1


class NotReady(Exception):
    """The gateway did not serve, or ended before it did; the message holds its last words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Where everything of a run lies. `root` has to be short: sockets are in it."""

    root: Path
    codex: Path

    @property
    def state(self) -> Path:
        """The state directory."""
        return self.root / "state"

    @property
    def work(self) -> Path:
        """Working folder of all sessions."""
        return self.root / "work"

    @property
    def log(self) -> Path:
        """The log server's folder."""
        return self.root / "log"

    @property
    def log_file(self) -> Path:
        """All that was written down."""
        return self.log / LOG

    @property
    def config(self) -> Path:
        """The configuration file."""
        return self.root / "config.toml"

    @property
    def orders(self) -> Path:
        """What the engine is ordered to do."""
        return self.root / "orders.json"

    @property
    def database(self) -> Path:
        """The store."""
        return find_paths({"HOME": str(self.root)}, state=self.state).database

    @property
    def engine_database(self) -> Path:
        """The engine's own records."""
        return self.state / "chaos-engine" / DATABASE

    @property
    def socket(self) -> Path:
        """The gateway's socket."""
        return self.state / SOCKET

    @property
    def codex_home(self) -> Path:
        """`CODEX_HOME` of the agent `main`."""
        return self.state / "agents" / "main" / "codex"

    def make(self) -> None:
        """Make the folders and the plugin, which is found as an installed one is."""
        for place in (self.state, self.work, self.log, self.root / "home", self.root / "tmp"):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
        plugin = self.root / "plugins" / "treadle_chaos_engine-1.dist-info"
        plugin.mkdir(parents=True, exist_ok=True)
        about = "Metadata-Version: 2.1\nName: treadle-chaos-engine\nVersion: 1\n"
        (plugin / "METADATA").write_text(about, encoding="utf-8")
        points = f"[treadle.context_engines]\n{ENGINE} = bench.reliability.engine:create\n"
        (plugin / "entry_points.txt").write_text(points, encoding="utf-8")
        self.order({})

    def configure(self, base_url: str) -> None:
        """Write the settings; the model has to be there by now."""
        settings: dict[str, JsonValue] = {
            "agents": {"defaults": {"model": f"{PROVIDER}/{MODEL}"}},
            "models": {
                "providers": {
                    PROVIDER: {"baseUrl": base_url, "agentRuntime": {"id": "codex"}},
                }
            },
            "plugins": {
                "slots": {"contextEngine": ENGINE},
                "entries": {
                    "codex": {"config": {"appServer": {"command": str(self.codex)}}},
                    ENGINE: {
                        "config": {
                            "log": str(self.log),
                            "orders": str(self.orders),
                            "folder": str(self.engine_database.parent),
                        }
                    },
                },
            },
        }
        self.config.write_text(toml_from(settings), encoding="utf-8")
        write_config(self.codex_home, provider_config(base_url))

    def order(self, orders: dict[str, str]) -> None:
        """Tell the engine how to behave, by session key, from its next call on."""
        new = self.orders.with_suffix(".new")
        new.write_text(json.dumps(orders), encoding="utf-8")
        new.rename(self.orders)

    def argv(self, *arguments: str, state: Path | None = None) -> list[str]:
        """Return the command line of a `treadle` of this world."""
        places = ["--config", str(self.config), "--state-dir", str(state or self.state)]
        return [sys.executable, "-m", "treadle", *places, *arguments]

    def environment(self) -> dict[str, str]:
        """Return what a `treadle` of this world sees."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("TREADLE_", "CODEX_", "OPENAI_", "XDG_", "PYTEST_", "COV_"))
        }
        path = [str(self.root / "plugins"), str(REPOSITORY), os.environ.get("PYTHONPATH", "")]
        return {
            **kept,
            "HOME": str(self.root / "home"),
            "TMPDIR": str(self.root / "tmp"),
            "PYTHONPATH": os.pathsep.join(part for part in path if part),
        }

    def left(self, *ours: int) -> list[Left]:
        """Return the processes that belong to this world, those given left out."""
        mark = os.fsencode(self.root)
        return [
            Left(pid=pid, command=command.replace(b"\0", b" ").decode("utf-8", "replace").strip())
            for pid, command, environment in _all_processes()
            if (mark in command or mark in environment) and pid not in {os.getpid(), *ours}
        ]


def _all_processes() -> Iterator[tuple[int, bytes, bytes]]:
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):  # it ended, or is not ours to read
                place = Path("/proc") / name
                command = (place / "cmdline").read_bytes()
                yield int(name), command, (place / "environ").read_bytes()


@dataclass(slots=True)
class Gateway:
    """The gateway process of a world, started as often as it has to be."""

    world: World
    log: LogLine
    """A line of its own, as `gateway`."""

    process: Process | None = None
    starts: int = 0
    ready: anyio.Event = field(default_factory=anyio.Event)

    @property
    def pid(self) -> int:
        """The process that runs now. Raises: AssertionError if none does."""
        assert self.process is not None, "no gateway was started"
        return self.process.pid

    async def start(self) -> None:
        """Start one, which nothing but its end keeps from becoming ready."""
        self.starts += 1
        self.ready = anyio.Event()
        errors = (self.world.root / "gateway.err").open("ab")
        with errors:
            self.process = await anyio.open_process(
                self.world.argv("serve", "--socket", "--json"),
                stdin=subprocess.DEVNULL,
                stderr=errors,
                env=self.world.environment(),
                cwd=self.world.work,
            )
        self.log.tell("watch", gateway=self.process.pid)

    async def become_ready(self) -> None:
        """Wait until it serves. Raises: NotReady."""
        assert self.process is not None, "no gateway was started"
        assert self.process.stdout is not None
        said = b""
        with anyio.move_on_after(READY_S), contextlib.suppress(anyio.EndOfStream):
            while b"\n" not in said:
                said += await self.process.stdout.receive()
            self.log.tell("ready", pid=self.process.pid)
            self.ready.set()
            return
        raise NotReady(f"{said.decode('utf-8', 'replace')}\n{self.last_words()}")

    def last_words(self) -> str:
        """Return the end of what gateways wrote on stderr."""
        with contextlib.suppress(FileNotFoundError):
            return (self.world.root / "gateway.err").read_text(encoding="utf-8")[-2000:]
        return ""

    def codex_pids(self) -> list[int]:
        """Return the app-servers that run under it now."""
        found: list[int] = []
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{self.pid}/task"):
                place = Path(f"/proc/{self.pid}/task/{task}/children")
                found += [int(part) for part in place.read_text(encoding="ascii").split()]
        return [pid for pid in found if _ends_with_app_server(pid)]

    async def kill(self) -> None:
        """End it without a word, and wait until it is gone."""
        assert self.process is not None, "no gateway was started"
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGKILL)
        await self._gone()

    async def stop(self) -> int:
        """Ask it to end and return its exit status; a dead one's at once. Raises: TimeoutError."""
        assert self.process is not None, "no gateway was started"
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGTERM)
        with anyio.fail_after(STOP_S):
            return await self._gone()

    async def _gone(self) -> int:
        assert self.process is not None
        status = await self.process.wait()
        await self.process.aclose()
        return status


def _ends_with_app_server(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").endswith(b"app-server")
    return False


class Decoys:
    """Processes that look like ours and are none: whoever signals them is wrong (INV-19)."""

    def __init__(self, world: World) -> None:
        """Start them: one by the name of our app-server, one with another's marker in its world."""
        name = f"{world.codex} -c check_for_update_on_startup=false app-server"
        environment = {**os.environ, "TREADLE_RUN": "run_of_somebody_else"}
        self._processes = [
            subprocess.Popen([name, "infinity"], executable=shutil.which("sleep")),
            subprocess.Popen(["sleep", "infinity"], env=environment),
        ]

    @property
    def pids(self) -> list[int]:
        """Their pids."""
        return [one.pid for one in self._processes]

    def end(self) -> list[Decoy]:
        """Say whether each was alive until now, and end them."""
        found = []
        for one in self._processes:
            alive = one.poll() is None
            found.append(Decoy(pid=one.pid, command=str(one.args), alive=alive))
            one.kill()
            one.wait()
        return found


async def wait_until_gone(world: World, *ours: int) -> list[Left]:
    """Wait a little for the world's processes to end, and return those that do not."""
    for _ in range(round(GONE_S / LOOK_S)):
        left = await anyio.to_thread.run_sync(world.left, *ours)
        if not left:
            break
        await anyio.sleep(LOOK_S)
    return left
