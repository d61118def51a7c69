"""A whole Treadle over a scripted app-server in memory, for tests of one turn's joints.

Everything above the connection is the product's own; what Codex says is what the test scripts.
Knows nothing of what a test looks for.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from treadle.clock import Clock
from treadle.compose import open_runtime
from treadle.contract.engine import ContextEngine
from treadle.contract.harness import ProjectionMode
from treadle.contract.hook import HookRegistration
from treadle.contract.tool import DynamicTool
from treadle.model.json import JsonObject, JsonValue
from treadle.model.turn import ContextAssembled, Notice, RunEvent, RunFinished
from treadle.runtime.service import Runtime
from treadle.runtime.sessions import Session
from treadle.testing.codex import ScriptedCodex, ScriptedLink, scripted_link
from treadle.wire.launch import LaunchKey

TURN_S = 20.0
"""Seconds after which a turn that does not end fails its test."""

ENGINE = "under-test"
"""Id under which a test's engine stands in the slot."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """A finished run."""

    events: tuple[RunEvent, ...]

    @property
    def finished(self) -> RunFinished:
        """The last event."""
        last = self.events[-1]
        assert isinstance(last, RunFinished)
        return last

    @property
    def decision(self) -> str:
        """How the engine's context reached the thread."""
        return next(one.decision for one in self.events if isinstance(one, ContextAssembled))

    @property
    def notices(self) -> list[str]:
        """Codes of what a person was told."""
        return [one.code for one in self.events if isinstance(one, Notice)]

    @property
    def error(self) -> JsonObject:
        """The error that ended it; empty where none did."""
        return self.finished.error or {}


@dataclass(kw_only=True)
class Rig:
    """One state directory over one scripted app-server."""

    root: Path
    codex: ScriptedCodex = field(default_factory=ScriptedCodex)
    keys: dict[tuple[str, ...], JsonValue] = field(default_factory=dict)
    """Settings beside the usual ones."""

    links: list[ScriptedLink] = field(default_factory=list)
    """Every connection that was opened, in order."""

    @property
    def state(self) -> Path:
        """The state directory."""
        return self.root / "state"

    @asynccontextmanager
    async def _link(self, key: LaunchKey) -> AsyncIterator[ScriptedLink]:
        del key
        async with scripted_link(self.codex) as link:
            self.links.append(link)
            yield link

    @asynccontextmanager
    async def opened(
        self,
        engine: ContextEngine | None = None,
        *,
        tools: Sequence[DynamicTool] = (),
        hooks: Sequence[HookRegistration] = (),
        clock: Clock | None = None,
    ) -> AsyncIterator[Runtime]:
        """Open Treadle with the engine in its slot; None is legacy."""
        overrides: dict[tuple[str, ...], JsonValue] = {
            ("plugins", "slots", "contextEngine"): ENGINE if engine is not None else "legacy",
            ("agents", "defaults", "model"): "codex/gpt-x",
            ("log", "level"): "debug",
            **self.keys,
        }
        async with open_runtime(
            state_dir=self.state,
            environ={"HOME": str(self.root), "TMPDIR": str(self.root / "tmp")},
            overrides=overrides,
            engines={ENGINE: lambda _: engine} if engine is not None else None,
            tools=tools,
            hooks=hooks,
            clock=clock,
            open_link=self._link,
        ) as runtime:
            yield runtime

    def answers(self, *texts: str, **body: Any) -> None:
        """Let the next turns answer so; `body` goes into each turn's notifications."""
        for text in texts:
            self.codex.once("turn/start", turn_steps({"text": text, **body}))

    async def say(
        self,
        session: Session,
        text: str,
        *,
        projection: ProjectionMode | None = None,
        native_tools: bool = True,
        persist_prompt: bool = True,
    ) -> Turn:
        """Run one message to its end, whatever that is."""
        with anyio.fail_after(TURN_S):
            run = session.run(
                text,
                projection=projection,
                native_tools=native_tools,
                persist_prompt=persist_prompt,
            )
            return Turn(events=tuple([event async for event in run]))

    def methods(self) -> list[str]:
        """Return the client's requests about threads and turns, in order."""
        names = [seen.method for seen in self.codex.seen]
        return [name for name in names if name.startswith(("thread/", "turn/"))]

    def sent(self) -> list[str]:
        """Return the input text of every turn, in order."""
        return [input_text(params) for params in self.codex.requests("turn/start")]

    def logged(self, *events: str) -> list[dict[str, Any]]:
        """Return the log's records of these events, in order; close Treadle first."""
        found: list[dict[str, Any]] = []
        for file in sorted((self.state / "logs").iterdir()):
            for line in file.read_text(encoding="utf-8").splitlines():
                record = json.loads(line)
                if record.get("event") in events:
                    found.append(record)
        return found


def turn_steps(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the steps of a `turn/start` that is taken and played to its end."""
    answer: dict[str, Any] = {"id": "$turn", "items": [], "status": "inProgress", "error": None}
    return [{"answer": {"turn": answer}}, {"turn": dict(body)}]


def item(which: str, **fields: Any) -> dict[str, Any]:
    """Return a notification of an item, to stand in a turn's `between`."""
    return {"method": f"item/{which}", "params": {"item": fields, f"{which}AtMs": 1}}


def input_text(params: JsonObject) -> str:
    """Return the text of a `turn/start`."""
    given: Any = params["input"]
    (only,) = given
    return str(only["text"])


def injected_texts(codex: ScriptedCodex, thread: str = "thread-1") -> list[tuple[str, str]]:
    """Return role and text of every message item that a thread was given, in order."""
    found: list[tuple[str, str]] = []
    for one in codex.injected(thread):
        assert isinstance(one, Mapping)
        parts: Any = one.get("content", ())
        found.append((str(one.get("role")), "".join(str(part.get("text", "")) for part in parts)))
    return found
