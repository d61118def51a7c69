"""`treadle serve`: own the state directory and serve it until somebody stops it."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import click

from treadle.cli import options
from treadle.cli.invocation import Invocation

if TYPE_CHECKING:
    from treadle.cli.running import Stop
    from treadle.gateway.attach import Owned

COMMAND_S = 5.0
"""Seconds for a command that owns the state directory just now; a listing takes less than one."""

POLL_S = 0.1


@click.command()
@click.option("--socket", is_flag=True, help="Serve the unix socket of the state directory.")
@options.offline_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON line when it is ready.")
@click.pass_obj
def serve(invocation: Invocation, socket: bool, offline: bool, as_json: bool) -> int:
    """Own the state directory and serve it to other commands until it is stopped.

    SIGTERM, Ctrl-C and `treadle stop` let running turns end; a second signal ends it at once.
    """
    from treadle.cli.running import run_async

    if not socket:
        raise click.UsageError("This version serves the unix socket alone: treadle serve --socket.")

    async def job(stop: Stop) -> int:
        async with AsyncExitStack() as stack:
            owned = await _opened(stack, invocation, offline)

            def gently(number: int) -> bool:
                del number
                owned.gateway.ask_to_stop()
                return True

            stop.gently(gently)
            _say_ready(invocation, owned, as_json=as_json)
            await owned.gateway.stop_asked()
            if owned.gateway.fault is not None:
                raise owned.gateway.fault
            await owned.gateway.drain(owned.runtime.settings.deadlines.shutdown_s)
        return 0

    return run_async(job)


async def _opened(stack: AsyncExitStack, invocation: Invocation, offline: bool) -> Owned:
    """Open as the owner; a short command that owns the state directory just now is waited for."""
    import anyio

    from treadle.compose import open_owned
    from treadle.model.errors import StateDirectoryRefused

    until = anyio.current_time() + COMMAND_S
    while True:
        try:
            return await stack.enter_async_context(
                open_owned(
                    paths=invocation.paths(),
                    environ=invocation.environ,
                    role="serve",
                    offline=offline,
                    stderr_level=invocation.stderr_level(),
                )
            )
        except StateDirectoryRefused as error:
            if error.fields.get("owner_role") != "command" or anyio.current_time() > until:
                raise
        await anyio.sleep(POLL_S)


def _say_ready(invocation: Invocation, owned: Owned, *, as_json: bool) -> None:
    about = owned.gateway.about()
    if as_json:
        invocation.output.json({"ready": True, **about})
        return
    model = " with the offline model" if about["offline"] else ""
    invocation.output.ours(
        f"Treadle {about['version']} serves {about['state_dir']}{model} (process {about['pid']})."
    )
    invocation.output.ours("Other commands use it now. Stop it: treadle stop")
