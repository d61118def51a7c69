"""A whole Treadle over a scripted model, for tests that drive the real Codex.

Settings, state and the person's home lie under the test's `scratch`; the model outlives a restart
of Treadle and of codex. Knows nothing of what a test looks for.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from treadle.compose import open_runtime
from treadle.contract.engine import EngineFactory
from treadle.contract.harness import ProjectionMode
from treadle.contract.hook import HookRegistration
from treadle.contract.tool import DynamicTool, ToolCall
from treadle.model.json import JsonObject, JsonValue
from treadle.model.message import Entry, EntryKind
from treadle.model.turn import ContextAssembled, Notice, Outcome, RunEvent, RunFinished
from treadle.protocol.responses import without_id
from treadle.runtime.service import Runtime
from treadle.runtime.sessions import Session
from treadle.testing.model import Answer, ScriptedModel
from treadle.testing.recorded import Request
from treadle.testing.replies import Item, call, custom_call

PLAIN = "scripted/scripted-1"
"""A model that Codex does not know: classic tools."""

CODE_MODE = "scripted/gpt-6.1-sol"
"""A model of the bundled catalog that writes scripts for `exec`."""

CALLS: dict[str, tuple[Item, ...]] = {
    PLAIN: (
        call("note", {"n": 1, "token": "sk-not-redacted-in-raw"}),
        call("exec_command", {"cmd": "echo exec-worked; printf 'a\\tb\\n'"}),
    ),
    CODE_MODE: (
        call("note", {"n": 1}),
        call("exec_command", {"cmd": "echo exec-worked"}),
        custom_call("exec", "text(await tools.note({n: 2}));\ntext('script worked');"),
    ),
}
"""Each kind of call that a turn of the model can make, each to be followed by an answer."""

TURN_S = 60.0
"""Seconds after which a turn that does not end fails its test."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """A finished run and what the model was asked in it."""

    events: tuple[RunEvent, ...]
    requests: tuple[Request, ...]

    @property
    def finished(self) -> RunFinished:
        """The last event."""
        last = self.events[-1]
        assert isinstance(last, RunFinished)
        return last

    @property
    def text(self) -> str:
        """The answer."""
        return self.finished.text

    @property
    def decision(self) -> str:
        """How the engine's context reached the thread."""
        return next(one.decision for one in self.events if isinstance(one, ContextAssembled))

    @property
    def notices(self) -> list[str]:
        """Codes of what a person was told."""
        return [one.code for one in self.events if isinstance(one, Notice)]

    @property
    def input(self) -> list[JsonObject]:
        """Input of the turn's first model request."""
        return self.requests[0].input

    @property
    def thread_id(self) -> str:
        """The native thread of the turn."""
        (thread_id,) = {request.thread_id for request in self.requests}
        return thread_id


@dataclass(kw_only=True)
class Rig:
    """One state directory over one model; `opened` starts Treadle on it, as often as you like."""

    scratch: Path
    binary: Path
    model: ScriptedModel
    keys: dict[tuple[str, ...], JsonValue] = field(default_factory=dict)
    """Settings beside those of the model."""

    @property
    def state(self) -> Path:
        """The state directory."""
        return self.scratch / "state"

    @property
    def work(self) -> Path:
        """Working folder of the sessions."""
        return self.scratch / "work"

    @property
    def home(self) -> Path:
        """The person's home folder."""
        return self.scratch / "home"

    @property
    def codex_home(self) -> Path:
        """`CODEX_HOME` of the agent `main`."""
        return self.state / "agents" / "main" / "codex"

    @asynccontextmanager
    async def opened(
        self,
        *,
        engine: str = "legacy",
        model: str = PLAIN,
        engines: Mapping[str, EngineFactory] | None = None,
        tools: Sequence[DynamicTool] = (),
        hooks: Sequence[HookRegistration] = (),
    ) -> AsyncIterator[Runtime]:
        """Open Treadle with the engine in its slot; the app-server ends with it."""
        overrides: dict[tuple[str, ...], JsonValue] = {
            ("plugins", "slots", "contextEngine"): engine,
            ("plugins", "entries", "codex", "config", "appServer", "command"): str(self.binary),
            ("agents", "defaults", "model"): model,
            ("models", "providers", "scripted", "baseUrl"): self.model.base_url,
            ("models", "providers", "scripted", "agentRuntime", "id"): "codex",
            **self.keys,
        }
        self.work.mkdir(exist_ok=True)
        self.home.mkdir(exist_ok=True)
        async with open_runtime(
            state_dir=self.state,
            environ={**os.environ, "HOME": str(self.home)},
            overrides=overrides,
            engines=engines,
            tools=tools,
            hooks=hooks,
        ) as runtime:
            yield runtime

    def session(self, runtime: Runtime, key: str = "t") -> Session:
        """Return a session in the working folder."""
        return runtime.session(key, cwd=self.work)

    async def turn(
        self,
        session: Session,
        text: str,
        *answers: Answer | str,
        projection: ProjectionMode | None = None,
        native_tools: bool = True,
        persist_prompt: bool = True,
    ) -> Turn:
        """Say something that the model answers with these, and expect it to end well."""
        self.model.enqueue(*answers)
        asked = len(self.model.requests)
        with anyio.fail_after(TURN_S):
            run = session.run(
                text,
                projection=projection,
                native_tools=native_tools,
                persist_prompt=persist_prompt,
            )
            events = tuple([event async for event in run])
        turn = Turn(events=events, requests=tuple(self.model.requests[asked:]))
        assert turn.finished.outcome is Outcome.COMPLETED, turn.finished
        self.model.check()
        assert self.model.pending == 0, "the model was asked less often than was scripted"
        return turn


@asynccontextmanager
async def rig_over_model(scratch: Path, binary: Path) -> AsyncIterator[Rig]:
    """Start the model and give the rig over it."""
    async with ScriptedModel() as model:
        yield Rig(scratch=scratch, binary=binary, model=model)


def echo_tool() -> DynamicTool:
    """Return a dynamic tool that says which note it was asked for."""

    def note(call: ToolCall) -> str:
        return f"note {call.arguments.get('n')}: remember the milk"

    return DynamicTool(
        name="note",
        description="Read a note.",
        input_schema={"type": "object", "properties": {"n": {"type": "integer"}}},
        call=note,
        replay_safe=True,
    )


async def all_entries(session: Session) -> list[Entry]:
    """Return every message of the transcript in order."""
    found: list[Entry] = []
    after = -1
    while page := await session.entries(after_depth=after):
        found += page
        after = page[-1].depth
    return [entry for entry in found if entry.kind is EntryKind.MESSAGE]


def assert_grows(requests: Sequence[Request]) -> None:
    """Assert that each input starts with the whole input of the one before, ids included."""
    for at, (earlier, later) in enumerate(itertools.pairwise(requests)):
        assert later.input[: len(earlier.input)] == earlier.input, f"request {at + 1} broke it"


def bare(items: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the items without their ids."""
    return [without_id(item) for item in items]
