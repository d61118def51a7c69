"""`treadle stop`: ask the server to end, and wait until it has."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from treadle.cli import options
from treadle.cli.invocation import Invocation

if TYPE_CHECKING:
    from treadle.cli.running import Stop
    from treadle.model.json import JsonObject, JsonValue

POLL_S = 0.05


@click.command()
@click.option(
    "--timeout",
    "timeout_s",
    metavar="S",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    help="Seconds to wait for its end.",
)
@options.json_option
@click.pass_obj
def stop(invocation: Invocation, timeout_s: float, as_json: bool) -> int:
    """Stop the server: running turns end, waiting messages stay; nothing to stop is no error."""
    from treadle.cli.running import run_async

    async def job(signals: Stop) -> int:
        from treadle.cli.exit_codes import Exit
        from treadle.gateway.client import open_client
        from treadle.gateway.requests import Stop as AskToStop
        from treadle.model.errors import GatewayUnreachable

        del signals
        state = invocation.paths().state
        try:
            async with open_client(state) as client:
                told = await client.ask(AskToStop())
        except GatewayUnreachable:
            return _say(invocation, {"stopped": False, "pid": None}, "Nothing runs.", as_json)
        pid = told.get("pid")
        running = told.get("running")
        if running and not as_json:
            invocation.output.say(f"Waiting for running turns ({running}).")
        if not await _ended(state, pid, timeout_s):
            text = f"Process {pid} still runs after {timeout_s:g} s."
            _say(invocation, {"stopped": False, "pid": pid}, text, as_json)
            return Exit.TIME_LIMIT
        return _say(invocation, {"stopped": True, "pid": pid}, f"Process {pid} ended.", as_json)

    return run_async(job)


async def _ended(state: Path, pid: JsonValue, within_s: float) -> bool:
    """Wait for the end of a process that is not ours, which sets no event."""
    import anyio

    until = anyio.current_time() + within_s
    while True:
        if not _is_alive(state, pid):
            return True
        if anyio.current_time() > until:
            return False
        await anyio.sleep(POLL_S)


def _is_alive(state: Path, pid: JsonValue) -> bool:
    from treadle.config.state_dir import living_owner

    owner = living_owner(state)
    return owner is not None and owner["pid"] == str(pid)


def _say(invocation: Invocation, found: JsonObject, text: str, as_json: bool) -> int:
    if as_json:
        invocation.output.json(found)
    else:
        invocation.output.ours(text)
    return 0
