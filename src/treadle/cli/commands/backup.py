"""`treadle backup` and `treadle restore`: put the state directory aside, and bring it back.

Knows nothing of what is in it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from treadle.cli import options
from treadle.cli.invocation import Invocation

if TYPE_CHECKING:
    from treadle.backup.restoring import RestoreReport
    from treadle.cli.running import Stop
    from treadle.model.json import JsonValue


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path())
@options.json_option
@click.pass_obj
def backup(invocation: Invocation, directory: str, as_json: bool) -> int:
    """Put sessions, engines' data and Codex's threads into DIR, also while they are in use."""
    from importlib.metadata import version

    from treadle.backup.making import back_up
    from treadle.clock import RandomIds, SystemClock

    target, clock = Path(directory).absolute(), SystemClock()
    manifest = back_up(
        invocation.paths(), target, clock=clock, ids=RandomIds(clock), treadle=version("treadle")
    )
    changing = sum(not file.stable for file in manifest.files)
    if as_json:
        invocation.output.json({
            "directory": str(target),
            "files": len(manifest.files),
            "size_bytes": manifest.size_bytes,
            "schema": manifest.schema,
            "changing": changing,
            "left_out": list(manifest.left_out),
        })
        return 0
    invocation.output.say(
        f"{len(manifest.files):,} files, {manifest.size_bytes / 1e6:,.1f} MB in {target}"
    )
    if changing:
        invocation.output.say(f"{changing:,} of them changed meanwhile; restore knows what to do.")
    if manifest.left_out:
        invocation.output.say(f"Left out, since no plain files: {', '.join(manifest.left_out)}")
    invocation.output.say("It holds what was said, and no key and no sign-in. Keep it private.")
    return 0


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path())
@click.option(
    "--move-aside",
    is_flag=True,
    help="Where the state directory is not empty, keep what is in it beside it.",
)
@options.json_option
@click.pass_obj
def restore(invocation: Invocation, directory: str, move_aside: bool, as_json: bool) -> int:
    """Bring a backup back as the state directory, verified and in one step."""
    from treadle.backup.restoring import restore as bring_back
    from treadle.cli.running import run_async
    from treadle.clock import RandomIds, SystemClock

    source = Path(directory).absolute()
    reports: list[RestoreReport] = []

    async def job(stop: Stop) -> int:
        del stop
        clock = SystemClock()
        reports.append(
            await bring_back(
                source,
                invocation.paths(),
                clock=clock,
                ids=RandomIds(clock),
                move_aside=move_aside,
            )
        )
        return 0

    code = run_async(job)
    for report in reports:
        if as_json:
            invocation.output.json(_report_json(report))
        else:
            for line in _report_lines(report):
                invocation.output.say(line)
    return code


def _report_json(report: RestoreReport) -> dict[str, JsonValue]:
    restored = report.restored
    return {
        "files": len(report.manifest.files),
        "made_at": report.manifest.made_at,
        "made_by": report.manifest.treadle,
        "kept_threads": restored.kept_threads,
        "given_up_threads": restored.given_up_threads,
        "unknown_messages": restored.unknown_messages,
        "unknown_deliveries": restored.unknown_deliveries,
        "aside": str(report.aside) if report.aside is not None else None,
    }


def _report_lines(report: RestoreReport) -> list[str]:
    restored = report.restored
    lines = [
        f"{len(report.manifest.files):,} files are back.",
        f"Sessions that go on with Codex's thread: {restored.kept_threads:,};"
        f" that get a fresh one with what was said: {restored.given_up_threads:,}.",
    ]
    if restored.unknown_messages:
        lines.append(
            f"Messages that were under way: {restored.unknown_messages:,}; whether they were"
            " answered since is unknown, and none is sent again."
        )
    if restored.unknown_deliveries:
        lines.append(
            f"Replies that were under way: {restored.unknown_deliveries:,}; none is sent again."
        )
    if report.aside is not None:
        lines.append(f"What was there lies in {report.aside}")
    lines.append("Sign in again where Codex needs it: treadle login.")
    return lines
