"""`treadle chat`: talk in a session, line by line, in the terminal's own scrollback.

Knows the slash commands; runs are the runtime's.
"""

from __future__ import annotations

import sys
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

import click

from treadle.cli import options
from treadle.cli.invocation import Invocation

if TYPE_CHECKING:
    from treadle.cli.running import Stop
    from treadle.gateway.face import Face, FaceSession, MessageOptions
    from treadle.model.turn import RunEvent, RunFinished
    from treadle.runtime.handle import RunHandle

COMMANDS: Final = {
    "/help": "show these commands",
    "/new": "begin a new generation: empty transcript, fresh thread; the old one stays stored",
    "/reset": "the same",
    "/rewind": "N: go back, entry N becomes the last one (treadle sessions show numbers them)",
    "/branch": "[N]: go on in a new session that begins with the entries up to N, or all",
    "/rename": "TITLE: give the session another title",
    "/status": "show the session, the engine and what runs",
    "/context": "show what the model was given in the last turn",
    "/quit": "leave; the session is kept (Ctrl-D does the same)",
}
LEAVE_WITHIN_S: Final = 2.0
"""Seconds within which a second Ctrl-C leaves."""


@click.command()
@options.session_option
@options.agent_option
@options.engine_option
@options.model_option
@options.effort_option
@options.cwd_option
@options.offline_option
@click.pass_obj
def chat(
    invocation: Invocation,
    session: str | None,
    agent: str,
    engine: str | None,
    model: str | None,
    effort: str | None,
    cwd: str | None,
    offline: bool,
) -> int:
    """Talk in a session, line by line.

    /help lists the commands; Ctrl-C interrupts the turn, twice leaves.
    """
    from treadle.cli.running import run_async

    async def job(stop: Stop) -> int:
        from treadle.gateway.face import MessageOptions

        async with invocation.face(offline=offline, submits=True) as face:
            held = face.session(session, agent=agent, cwd=cwd)
            choices = MessageOptions(engine=engine, model=model, effort=effort)
            return await Talk(invocation, face, held, stop, choices).go()

    return run_async(job)


class Talk:
    """One conversation at a terminal."""

    def __init__(
        self,
        invocation: Invocation,
        face: Face,
        session: FaceSession,
        stop: Stop,
        choices: MessageOptions,
    ) -> None:
        from treadle.cli.typed import TypedLines

        self._invocation = invocation
        self._output = invocation.output
        self._face = face
        self._session = session
        self._stop = stop
        self._lines = TypedLines(sys.stdin.fileno())
        self._choices = choices
        self._running: RunHandle | None = None
        self._told: set[str] = set()
        self._asked_at: float | None = None

    async def go(self) -> int:
        """Talk until the person leaves."""
        self._stop.gently(self._interrupted)
        await self._greet()
        while (line := await self._prompted()) is not None:
            text = line.strip()
            if not text:
                continue
            if text.startswith("/") and not text.startswith("//"):
                if not await self._command(text):
                    break
                continue
            await self._say(line[line.index("/") + 1 :] if text.startswith("//") else line)
        self._farewell()
        return 0

    def _farewell(self) -> None:
        self._output.say(f"Session kept. Go on with: treadle chat --session {self._session.key}")

    async def _greet(self) -> None:
        record = await self._session.record()
        count = record.entry_count if record is not None else 0
        self._output.say_ours(
            f"Treadle · session {self._session.key} ({count:,} entries)"
            f" · engine {await self._engine()} · /help for commands"
        )

    async def _engine(self) -> str:
        return self._choices.engine or await self._face.engine_of(self._session.name.agent_id)

    async def _prompted(self) -> str | None:
        if sys.stdin.isatty():
            self._output.err.write("› " if self._output.unicode else "> ")
            self._output.err.flush()
        return await self._lines.next()

    def _interrupted(self, number: int) -> bool:
        """Interrupt the turn; without one, or the second time, leave."""
        import signal
        import time

        now = time.monotonic()
        again = self._asked_at is not None and now - self._asked_at < LEAVE_WITHIN_S
        self._asked_at = now
        if number != signal.SIGINT or again:
            self._farewell()
            return False
        if self._running is not None:
            self._running.interrupt("a person interrupted it")
            self._output.say("\n(interrupting; Ctrl-C again leaves)")
        else:
            self._lines.forget()
            self._output.say("\n(Ctrl-C again, /quit or Ctrl-D leaves)")
        self._stop.gently(self._interrupted)
        return True

    async def _say(self, text: str) -> None:
        from treadle.cli.failure import failure_from_error, show_failure
        from treadle.model.errors import TreadleError

        try:
            handle = await self._session.submit(text, self._choices)
        except TreadleError as error:
            show_failure(self._output, failure_from_error(error), as_json=False)
            return
        self._running = handle
        self._asked_at = None  # a Ctrl-C for an earlier turn is no first half of leaving
        try:
            shown = Shown(self._invocation, self._told)
            async for event in handle:
                shown.take(event)
            shown.end(await handle.result())
        finally:
            self._running = None

    async def _command(self, text: str) -> bool:
        """Carry a slash command out; False to leave."""
        name = text.split(maxsplit=1)[0]
        match name:
            case "/quit":
                return False
            case "/help":
                for command, about in COMMANDS.items():
                    self._output.say(f"  {command:<10}{about}")
                self._output.say("  //text    send /text to the model")
            case "/new" | "/reset" | "/rewind" | "/branch" | "/rename":
                await self._change(name, text[len(name) :].strip())
            case "/status":
                await self._status()
            case "/context":
                await self._context()
            case _:
                near = get_close_matches(name, COMMANDS, n=1)
                hint = f" Did you mean {near[0]}?" if near else " /help lists them."
                self._output.say(f"There is no command {name}; nothing was sent.{hint}")
        return True

    async def _change(self, name: str, argument: str) -> None:
        """Do something with the session as a whole; a refusal is shown and changes nothing."""
        from treadle.cli.failure import failure_from_error, show_failure
        from treadle.model.errors import TreadleError

        if await self._session.record() is None:
            self._output.say("This session is new; there is nothing in it yet.")
            return
        try:
            said = await self._changed(name, argument)
        except TreadleError as error:
            show_failure(self._output, failure_from_error(error), as_json=False)
        else:
            self._output.say(said)

    async def _changed(self, name: str, argument: str) -> str:
        from treadle.cli.commands.session_lives import (
            branched_line,
            place,
            reset_line,
            rewound_line,
        )
        from treadle.model.errors import UsageError

        if name in {"/new", "/reset"}:
            return reset_line(await self._session.reset())
        if name == "/rename":
            return f"The session is titled {(await self._session.rename(argument)).title!r}."
        if name == "/rewind":
            if not argument:
                raise UsageError("/rewind needs the number of an entry", next_step="Try /rewind 3.")
            return rewound_line(await self._session.rewind(place(argument)))
        self._session = await self._session.branch(at=place(argument) if argument else None)
        record = await self._session.record()
        assert record is not None, "it was made a moment ago"
        return branched_line(record)

    async def _status(self) -> None:
        from treadle.cli.render import value_lines

        record = await self._session.record()
        self._output.say(f"session  {self._session.key}")
        self._output.say(f"entries  {record.entry_count if record else 0:,}")
        self._output.say(f"engine   {await self._engine()}")
        self._output.say(f"model    {self._choices.model or 'the default'}")
        for line in value_lines(await self._face.health()):
            self._output.say(line)

    async def _context(self) -> None:
        from treadle.cli.context_view import show_report

        if await self._session.record() is None:
            self._output.say("No turn was run yet.")
            return
        report = await self._session.context()
        if report is None:
            self._output.say("No turn was run yet.")
            return
        show_report(self._output, report)


class Shown:
    """Shows one run as it goes: text as it comes, one line for everything else."""

    def __init__(self, invocation: Invocation, told: set[str]) -> None:
        """`told` holds the notices that were shown; each is shown once in a conversation."""
        self._output = invocation.output
        self._told = told
        self._part: str | None = None
        self._said = False

    def take(self, event: RunEvent) -> None:
        """Show an event."""
        from treadle.cli.render import progress_lines
        from treadle.model.turn import Notice, PartDelta

        if isinstance(event, Notice):
            if event.text in self._told:
                return
            self._told.add(event.text)
        if isinstance(event, PartDelta) and event.kind == "text":
            if self._part is not None and self._part != event.part:
                self._output.stream("\n")
            self._part, self._said = event.part, True
            self._output.stream(event.text)
            return
        for line in progress_lines(event):
            self._close_part()
            self._output.mark(line.symbol, line.text)

    def _close_part(self) -> None:
        if self._part is not None:
            self._output.stream("\n")
            self._part = None

    def end(self, finished: RunFinished) -> None:
        """Show how it ended."""
        from treadle.cli.failure import failure_from_json, show_failure
        from treadle.cli.render import usage_text
        from treadle.model.turn import Outcome

        self._close_part()
        if finished.text and not self._said:
            self._output.print(finished.text)
        if usage := usage_text(finished.usage):
            self._output.mark("·", usage)
        if finished.error is not None:
            show_failure(self._output, failure_from_json(finished.error), as_json=False)
        elif finished.outcome is not Outcome.COMPLETED:
            self._output.say(f"The run ended as {finished.outcome.value}.")
