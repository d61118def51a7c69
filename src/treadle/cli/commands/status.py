"""`treadle status`: who owns the state directory, and how it goes. Writes and opens nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from treadle.cli import options
from treadle.cli.invocation import Invocation

if TYPE_CHECKING:
    from treadle.cli.running import Stop
    from treadle.model.json import JsonObject


@click.command()
@options.json_option
@click.pass_obj
def status(invocation: Invocation, as_json: bool) -> int:
    """Say what runs on the state directory; exit 3 if nothing does. Changes nothing."""
    from treadle.cli.running import run_async

    async def job(stop: Stop) -> int:
        from treadle.cli.exit_codes import Exit
        from treadle.gateway.client import open_client
        from treadle.gateway.requests import GetStatus
        from treadle.model.errors import GatewayUnreachable

        del stop
        try:
            async with open_client(invocation.paths().state) as client:
                found = await client.ask(GetStatus())
        except GatewayUnreachable:
            _say_absent(invocation, as_json=as_json)
            return Exit.NO_GATEWAY
        if as_json:
            invocation.output.json({"running": True, **found})
        else:
            _show(invocation, found)
        return Exit.DONE

    return run_async(job)


def _say_absent(invocation: Invocation, *, as_json: bool) -> None:
    from treadle.config.state_dir import living_owner

    state = invocation.paths().state
    owner = living_owner(state)
    pid = None if owner is None else int(owner["pid"])
    if as_json:
        invocation.output.json({"running": False, "state_dir": str(state), "pid": pid})
    elif pid is None:
        invocation.output.ours(f"Nothing runs on {state}.")
        invocation.output.ours("Commands open it themselves, or: treadle serve --socket")
    else:
        invocation.output.ours(f"Process {pid} owns {state} and does not listen.")


def _show(invocation: Invocation, found: JsonObject) -> None:
    from treadle.cli.render import value_lines

    output = invocation.output
    kind = "a server" if found.get("role") == "serve" else "a command of its own"
    model = ", offline model" if found.get("offline") else ""
    output.ours(f"Process {found.get('pid')} owns {found.get('state_dir')}: {kind}{model}")
    output.ours(f"  version  {found.get('version')}, up {_duration(found.get('up_s'))}")
    if found.get("accepting") is not True:
        output.ours("  it is about to end and takes no more messages")
    runs = found.get("runs")
    for run in runs if isinstance(runs, list) else ():
        if isinstance(run, Mapping):
            output.ours(f"  runs     {run.get('run')} in {run.get('session_key')}")
    output.ours(f"  clients  {found.get('clients')}")
    for line in value_lines(found.get("health"), indent=1):
        output.ours(line)


def _duration(seconds: object) -> str:
    total = int(seconds) if isinstance(seconds, int | float) else 0
    hours, rest = divmod(total, 3600)
    minutes, left = divmod(rest, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {left} s"
