"""`treadle engines`: which context engines there are, and whether they load."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from treadle.cli import options
from treadle.cli.invocation import Invocation

if TYPE_CHECKING:
    from treadle.cli.running import Stop
    from treadle.engines.resolution import EngineListing
    from treadle.model.json import JsonValue


@click.group()
def engines() -> None:
    """List the context engines."""


@engines.command("list")
@options.json_option
@click.pass_obj
def list_engines(invocation: Invocation, as_json: bool) -> int:
    """List the engines: which is chosen, whose they are, and which cannot be loaded."""
    from treadle.cli.running import run_async

    chosen = invocation.settings().engine

    async def job(stop: Stop) -> int:
        from treadle.cli.engine_check import checked_engines

        del stop
        listed, refused = await checked_engines(invocation.settings())
        if as_json:
            items: list[JsonValue] = [_json(one, chosen) for one in listed]
            faults: list[JsonValue] = [str(fault.reason) for fault in refused]
            invocation.output.json({"items": items, "refused": faults, "next": None})
            return 0
        invocation.output.table([
            ("ENGINE", "FROM", "STATE", ""),
            *(_row(one, chosen) for one in listed),
        ])
        for fault in refused:
            invocation.output.mark("!", f"{fault.engine_id}: {fault.reason}")
        return 0

    return run_async(job)


def _row(one: EngineListing, chosen: str) -> tuple[str, str, str, str]:
    note = "chosen" if one.engine_id == chosen else ""
    if one.fault is not None:
        note = f"{one.fault.operation}: {one.fault.reason}"
    return one.engine_id, one.owner, one.state, note


def _json(one: EngineListing, chosen: str) -> dict[str, JsonValue]:
    return {
        "id": one.engine_id,
        "owner": one.owner,
        "state": one.state,
        "chosen": one.engine_id == chosen,
        "failing_runs": one.failing_runs,
        "fault": None
        if one.fault is None
        else {"operation": one.fault.operation, "reason": one.fault.reason},
    }
