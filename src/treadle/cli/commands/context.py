"""`treadle context`: what the model was given. Changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from treadle.cli import options
from treadle.cli.invocation import Invocation

if TYPE_CHECKING:
    from treadle.cli.running import Stop


@click.group()
def context() -> None:
    """Show what the model was given, what stayed the same, what changed, and why."""


@context.command("show")
@click.argument("session", metavar="SESSION")
@options.agent_option
@click.option("--turn", type=click.IntRange(1), metavar="N", help="Turn, from 1.  [default: last]")
@options.json_option
@click.pass_obj
def show_context(
    invocation: Invocation, session: str, agent: str, turn: int | None, as_json: bool
) -> int:
    """Show what the model was given in one turn of a session."""
    from treadle.cli.running import run_async

    async def job(stop: Stop) -> int:
        from treadle.cli.context_view import report_json, show_report
        from treadle.model.errors import NotFound

        del stop
        async with invocation.face() as face:
            held = face.session(session, agent=agent)
            report = await held.context(turn)
            if report is None:
                which = f"turn {turn}" if turn is not None else "turn that was run"
                raise NotFound(
                    f"session {held.key!r} has no {which}",
                    next_step="Leave --turn out for the last one",
                    session=held.key,
                )
            if as_json:
                invocation.output.json(report_json(report))
            else:
                show_report(invocation.output, report)
        return 0

    return run_async(job)
