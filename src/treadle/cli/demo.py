"""The demonstration: a short conversation with real Codex turns; what it shows is checked.

Everything is said by the run itself: answers come from the offline model, which answers only from
what is in its context; decisions come from the context reports. Knows nothing of how turns are run.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from shlex import quote
from typing import TYPE_CHECKING, Final

from treadle.cli.context_view import show_report
from treadle.cli.exit_codes import Exit
from treadle.cli.failure import CommandFailed, failure_from_json
from treadle.cli.invocation import Invocation
from treadle.cli.output import Output
from treadle.cli.render import progress_lines
from treadle.config.paths import Paths
from treadle.contract.store import SearchQuery
from treadle.contract.tool import DynamicTool, ToolCall
from treadle.model.ids import ThreadId
from treadle.model.json import JsonValue
from treadle.model.turn import ContextAssembled, Notice, Outcome, RunEvent, TurnStarted
from treadle.offline.server import MODEL as OFFLINE_MODEL

if TYPE_CHECKING:
    from treadle.runtime.service import Runtime

SESSION: Final = "demo"
ENGINE: Final = "window"
WINDOW_SIZE: Final = 6
"""Messages that the engine keeps at a cut: so few that a short conversation shows one cut, and so
many that it shows only one."""

TEMPERATURE: Final = "1,240"
TOOL: Final = "to_fahrenheit"
TOOL_ANSWER: Final = "2,264"
FACTS: Final = f"The kiln fires at {TEMPERATURE} degrees. The glaze recipe lies in drawer nine."
ASK_KILN: Final = "At how many degrees does the kiln fire?"
ASK_TOOL: Final = f"Use the tool {TOOL} with celsius=1240."
ASK_DROPPED: Final = "In which drawer is the glaze recipe?"
FILL: Final = (
    "The clay comes from Westerwald.",
    "The market opens on Saturday.",
    "Twelve bowls are ordered.",
    "The apprentice is called Mira.",
    "The wheel was oiled in May.",
    "The shelf by the door is full.",
)
"""Said one after another until the engine makes its cut."""

QUIET_VARIABLES: Final = ("TREADLE_CONFIG", "TREADLE_MODEL", "TREADLE_ENGINE", "TREADLE_STATE_DIR")
"""Settings of the person's own that the demonstration does without."""


def demo_paths(paths: Paths) -> Paths:
    """Return a state directory of the demonstration's own beside the person's; no configuration."""
    state = paths.state.with_name(f"{paths.state.name}-demo")
    return replace(paths, state=state, config_file=state / "none.toml", config_is_named=False)


def fahrenheit(call: ToolCall) -> str:
    """Answer the demonstration's tool: degrees Celsius as Fahrenheit."""
    celsius = call.arguments.get("celsius")
    if isinstance(celsius, bool) or not isinstance(celsius, int | float):
        raise TypeError(f"celsius is {celsius!r}, not a number")
    return f"{celsius:,g} degrees Celsius are {celsius * 9 / 5 + 32:,.0f} degrees Fahrenheit"


@dataclass(slots=True, kw_only=True)
class Turn:
    """What came of one message."""

    text: str = ""
    """The answer."""
    contexts: list[ContextAssembled] = field(default_factory=list)
    threads: set[ThreadId] = field(default_factory=set)

    def take(self, event: RunEvent) -> None:
        """Keep what the checks need."""
        if isinstance(event, ContextAssembled):
            self.contexts.append(event)
        elif isinstance(event, TurnStarted):
            self.threads.add(event.thread_id)

    @property
    def is_rebase(self) -> bool:
        """Whether the engine's decision needed a fresh thread."""
        return any(context.decision == "rebase" for context in self.contexts)


class Demonstration:
    """One showing."""

    def __init__(self, invocation: Invocation) -> None:
        self._output: Output = invocation.output
        self._paths = demo_paths(invocation.paths())
        self._invocation = replace(
            invocation, environ=_without(invocation.environ, QUIET_VARIABLES)
        )
        self._calls: list[ToolCall] = []
        self._claims: list[tuple[bool, str]] = []
        self._rebases = 0
        self._threads: set[ThreadId] = set()

    async def show(self) -> int:
        """Show everything; the exit code says whether what was claimed held."""
        self._introduce()
        async with self._runtime() as runtime:
            await self._begin(runtime)
        self._output.heading("\nTreadle and Codex are stopped and started again")
        async with self._runtime() as runtime:
            await self._go_on(runtime)
        return self._conclude()

    def _introduce(self) -> None:
        self._output.heading("Treadle: real Codex turns under a context engine")
        self._output.ours(
            "The model is Treadle's offline model on this machine: no key, no network. It answers\n"
            "only from what is in its context, so each answer shows what reached it.\n"
            f"The engine is '{ENGINE}': the newest messages behind one note about the rest.\n"
            f"Kept in {self._paths.state}"
        )

    def _runtime(self) -> AbstractAsyncContextManager[Runtime]:
        from treadle.compose import open_runtime

        return open_runtime(
            paths=self._paths,
            environ=self._invocation.environ,
            overrides=_overrides(),
            offline=True,
            tools=(self._tool(),),
            stderr_level=self._invocation.stderr_level(),
        )

    def _tool(self) -> DynamicTool:
        def call(made: ToolCall) -> str:
            self._calls.append(made)
            return fahrenheit(made)

        return DynamicTool(
            name=TOOL,
            description="Convert degrees Celsius to degrees Fahrenheit.",
            input_schema={
                "type": "object",
                "properties": {"celsius": {"type": "number"}},
                "required": ["celsius"],
            },
            call=call,
            replay_safe=True,
        )

    async def _begin(self, runtime: Runtime) -> None:
        session = runtime.session(SESSION)
        if await session.record() is not None:
            await session.reset()
        self._output.heading("\nA fact is said, and a tool of ours is called")
        await self._turn(runtime, FACTS)
        answered = await self._turn(runtime, ASK_TOOL)
        self._threads = answered.threads
        self._claim(
            len(self._calls) == 1 and TOOL_ANSWER in answered.text,
            f"Codex called the tool {TOOL} once, and the model read its result",
        )

    async def _go_on(self, runtime: Runtime) -> None:
        answered = await self._turn(runtime, ASK_KILN)
        self._claim(
            TEMPERATURE in answered.text and answered.threads == self._threads,
            "the conversation went on after the restart, on the same thread",
        )
        self._output.heading("\nThe conversation grows until the engine cuts it")
        cut = await self._until_rebase(runtime)
        self._claim(
            cut is not None,
            "the engine changed its mind about the past: a fresh thread was given its messages",
        )
        self._output.heading("\nWhat the model was given in that turn (treadle context show)")
        report = await runtime.session(SESSION).context()
        if report is not None:
            show_report(self._output, report)
        self._output.heading("\nWhat was left out is out of the model's sight, and not lost")
        await self._compare(runtime, cut)

    async def _until_rebase(self, runtime: Runtime) -> str | None:
        """Say things until a rebase; return what was said in that turn."""
        for text in FILL:
            if (await self._turn(runtime, text)).is_rebase:
                return text
        return None

    async def _compare(self, runtime: Runtime, newest: str | None) -> None:
        dropped = await self._turn(runtime, ASK_DROPPED)
        self._claim(
            "nine" not in dropped.text,
            "the model does not know what the engine left out: its decision is the context",
        )
        hits = await runtime.search(
            SearchQuery(text="drawer nine", session_key=runtime.session(SESSION).key)
        )
        self._claim(bool(hits), "the transcript still has it: a search finds it")
        if newest is not None:
            subject = newest.split()[1]
            kept = await self._turn(runtime, f"What do you know about the {subject}?")
            self._claim(subject in kept.text, "what the engine kept is answered from the context")
        self._claim(self._rebases == 1, "it was the only rebase; all other turns only added")

    async def _turn(self, runtime: Runtime, text: str) -> Turn:
        self._output.ours(f"› {text}")
        handle = runtime.session(SESSION).run(text)
        turn = Turn()
        async for event in handle:
            turn.take(event)
            for line in () if _is_about_offline_model(event) else progress_lines(event):
                self._output.mark(line.symbol, line.text, to_out=True)
        finished = await handle.result()
        if finished.outcome is not Outcome.COMPLETED:
            raise CommandFailed(failure_from_json(finished.error or {}))
        for answer in finished.text.splitlines():
            self._output.print(f"  {answer}")
        turn.text = finished.text
        self._rebases += turn.is_rebase
        return turn

    def _claim(self, holds: bool, text: str) -> None:
        self._claims.append((holds, text))

    def _conclude(self) -> int:
        self._output.heading("\nWhat this showed")
        for holds, text in self._claims:
            self._output.mark("✓" if holds else "✗", text, to_out=True)
        command = f"treadle --state-dir {quote(str(self._paths.state))}"
        self._output.ours(
            f"\nLook at it again: {command} sessions show {SESSION}\n"
            "Go on with your own: treadle chat --offline, or treadle login and treadle chat"
        )
        return Exit.DONE if all(holds for holds, _ in self._claims) else Exit.FAILED


def _is_about_offline_model(event: RunEvent) -> bool:
    """Whether Codex says that it has no metadata of the offline model, which is as it should be."""
    return isinstance(event, Notice) and OFFLINE_MODEL in event.text


def _overrides() -> Mapping[tuple[str, ...], JsonValue]:
    return {
        ("plugins", "slots", "contextEngine"): ENGINE,
        ("plugins", "entries", ENGINE, "config", "size"): WINDOW_SIZE,
    }


def _without(environ: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name not in names}
