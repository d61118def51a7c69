"""`treadle demo`: the main job on this machine, with no key and no network."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from treadle.cli.invocation import Invocation

if TYPE_CHECKING:
    from treadle.cli.running import Stop


@click.command()
@click.pass_obj
def demo(invocation: Invocation) -> int:
    """Run the main job on this machine: no key, no network.

    A short conversation with the real Codex and the built-in offline model, over a restart and a
    rebase; exit 0 only if every answer holds.
    """
    from treadle.cli.running import run_async

    async def job(stop: Stop) -> int:
        from treadle.cli.demo import Demonstration

        del stop
        return await Demonstration(invocation).show()

    return run_async(job)
