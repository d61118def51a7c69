"""`treadle run`: one message in, the answer out.

The answer goes to stdout, everything else to stderr. Knows nothing of how a run is carried out.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from treadle.cli import options
from treadle.cli.invocation import Invocation

if TYPE_CHECKING:
    from treadle.cli.running import Stop
    from treadle.cli.summary import Summary
    from treadle.gateway.face import Face, FaceSession
    from treadle.model.turn import RunFinished
    from treadle.runtime.handle import RunHandle


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What the command line said."""

    message: str
    session: str | None
    agent: str
    engine: str | None
    model: str | None
    effort: str | None
    cwd: str | None
    offline: bool
    native_tools: bool
    timeout_s: float | None
    shape: str
    """`text`, `json` or `jsonl`."""


@click.command()
@click.argument("text", metavar="[TEXT|-]", required=False)
@options.session_option
@options.agent_option
@options.engine_option
@options.model_option
@options.effort_option
@options.cwd_option
@options.offline_option
@click.option(
    "--no-native-tools",
    "no_native_tools",
    is_flag=True,
    help="Leave Codex's own tools off for this turn.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
@click.option("--jsonl", "as_lines", is_flag=True, help="Print every event as a JSON line.")
@click.option(
    "--file",
    "files",
    metavar="F",
    multiple=True,
    type=click.Path(),
    help="Text file to send along; may be repeated.",
)
@click.option(
    "--timeout",
    "timeout_s",
    metavar="S",
    type=click.FloatRange(min=0, min_open=True),
    help="Seconds after which the run is stopped.",
)
@click.pass_obj
def run(
    invocation: Invocation,
    text: str | None,
    session: str | None,
    agent: str,
    engine: str | None,
    model: str | None,
    effort: str | None,
    cwd: str | None,
    offline: bool,
    no_native_tools: bool,
    as_json: bool,
    as_lines: bool,
    files: Sequence[str],
    timeout_s: float | None,
) -> int:
    """Send one message and print the answer.

    What is piped in is appended to TEXT; '-' stands for it.
    """
    from treadle.cli.prompt import message_of, stdin_unless_terminal
    from treadle.cli.running import run_async

    if as_json and as_lines:
        raise click.UsageError("--json and --jsonl exclude each other.")
    stdin = stdin_unless_terminal(sys.stdin.buffer if sys.stdin is not None else None)
    message = message_of(text, [Path(file) for file in files], stdin, invocation.output.say)
    chosen = RunOptions(
        message=message,
        session=session,
        agent=agent,
        engine=engine,
        model=model,
        effort=effort,
        cwd=cwd,
        offline=offline,
        native_tools=not no_native_tools,
        timeout_s=timeout_s,
        shape="jsonl" if as_lines else "json" if as_json else "text",
    )
    _check_early(chosen)
    return run_async(lambda stop: _run(invocation, chosen, stop))


def _check_early(chosen: RunOptions) -> None:
    """Refuse what can't be sent before anything is opened. Raises: UsageError, MessageTooLarge."""
    from treadle.runtime.requests import RunRequest, checked_request

    checked_request(RunRequest(text=chosen.message, model=chosen.model))


async def _run(invocation: Invocation, chosen: RunOptions, stop: Stop) -> int:
    async with invocation.face(offline=chosen.offline, submits=True) as face:
        return await _watched(face, invocation, chosen, stop)


async def _watched(face: Face, invocation: Invocation, chosen: RunOptions, stop: Stop) -> int:
    import anyio

    from treadle.cli.summary import Summary
    from treadle.gateway.face import MessageOptions

    session = face.session(chosen.session, agent=chosen.agent, cwd=chosen.cwd)
    options = MessageOptions(
        engine=chosen.engine,
        model=chosen.model,
        effort=chosen.effort,
        native_tools=chosen.native_tools,
    )
    handle = await session.submit(chosen.message, options)
    ending = _Ending(handle)
    stop.gently(ending.take_signal)
    summary = Summary(session.key)
    async with anyio.create_task_group() as group:
        if chosen.timeout_s is not None:
            group.start_soon(ending.after, chosen.timeout_s)
        await _show_events(invocation, chosen.shape, handle, summary)
        group.cancel_scope.cancel()
    finished = await handle.result()
    if chosen.shape == "json":
        await _take_report(session, finished, summary)
    return _show_end(invocation, chosen, summary, finished, ending)


async def _take_report(session: FaceSession, finished: RunFinished, summary: Summary) -> None:
    """Add what was counted of this very run, if it got so far as to have a report."""
    if await session.record() is None:
        return
    report = await session.context()
    if report is not None and report.run_id == finished.run_id:
        summary.take_report(report.report)


class _Ending:
    """Why a run is asked to stop, if it is."""

    def __init__(self, handle: RunHandle) -> None:
        self._handle = handle
        self.signal: int | None = None
        self.timed_out = False

    def take_signal(self, number: int) -> bool:
        self.signal = number
        self._handle.interrupt("a person interrupted it")
        return True

    async def after(self, seconds: float) -> None:
        import anyio

        await anyio.sleep(seconds)
        self.timed_out = True
        self._handle.interrupt(f"its time of {seconds:g} s was over")


async def _show_events(
    invocation: Invocation, shape: str, handle: RunHandle, summary: Summary
) -> None:
    from treadle.cli.render import progress_lines
    from treadle.cli.summary import Envelopes
    from treadle.clock import SystemClock

    output, envelopes, clock = invocation.output, Envelopes(handle.session_key), SystemClock()
    async for event in handle:
        summary.add(event)
        if shape == "jsonl":
            output.json(envelopes.envelope(event, clock.now()))
        else:
            for line in progress_lines(event):
                output.mark(line.symbol, line.text)


def _show_end(
    invocation: Invocation,
    chosen: RunOptions,
    summary: Summary,
    finished: RunFinished,
    ending: _Ending,
) -> int:
    from treadle.cli.exit_codes import Exit, exit_of_run
    from treadle.cli.render import usage_text
    from treadle.model.turn import Outcome

    output = invocation.output
    stopped = finished.outcome is not Outcome.COMPLETED
    timed_out = ending.timed_out and stopped
    if chosen.shape == "json":
        output.json(summary.to_json(timed_out=timed_out))
    elif chosen.shape == "text":
        if finished.text:
            output.print(finished.text)
        if usage := usage_text(finished.usage):
            output.mark("·", usage)
        if stopped:
            _explain(invocation, chosen, summary, finished, ending)
    if timed_out:
        return Exit.TIME_LIMIT
    if stopped and ending.signal is not None:
        return 128 + ending.signal
    code = finished.error.get("code") if finished.error is not None else None
    return exit_of_run(finished.outcome.value, code if isinstance(code, str) else None)


def _explain(
    invocation: Invocation,
    chosen: RunOptions,
    summary: Summary,
    finished: RunFinished,
    ending: _Ending,
) -> None:
    """Say on stderr why there is no whole answer, and what was kept."""
    from dataclasses import replace

    from treadle.cli.failure import Failure, failure_from_json, show_failure

    if ending.timed_out or ending.signal is not None or finished.error is None:
        why = f"its time of {chosen.timeout_s:g} s was over" if ending.timed_out else "as asked"
        invocation.output.say(f"treadle: The run was stopped, {why}. {_kept(summary)}")
        return
    failure: Failure = failure_from_json(finished.error)
    show_failure(invocation.output, replace(failure, kept=_kept(summary)), as_json=False)


def _kept(summary: Summary) -> str:
    if summary.stored_entries:
        return f"What was said stands in session {summary.session_key}."
    return "Nothing was sent; the session is as it was."
