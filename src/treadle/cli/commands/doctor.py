"""`treadle doctor`: what works, what does not, and what to do about it. Changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from treadle.cli import options
from treadle.cli.invocation import Invocation

if TYPE_CHECKING:
    from treadle.cli.checks import Finding
    from treadle.cli.running import Stop


@click.command()
@options.json_option
@click.pass_obj
def doctor(invocation: Invocation, as_json: bool) -> int:
    """Check this installation; changes nothing."""
    from treadle.cli.checks import State
    from treadle.cli.exit_codes import Exit
    from treadle.cli.running import run_async

    findings: list[Finding] = []

    async def job(stop: Stop) -> int:
        del stop
        findings.extend(await _findings(invocation))
        failed = any(one.state is State.FAIL for one in findings)
        return Exit.FAILED if failed else Exit.DONE

    code = run_async(job)
    if as_json:
        healthy = code == 0
        invocation.output.json({"ok": healthy, "items": [one.to_json() for one in findings]})
    else:
        _print(invocation, findings)
    return code


async def _findings(invocation: Invocation) -> list[Finding]:
    from treadle.cli import checks
    from treadle.config.settings import Settings
    from treadle.model.errors import ConfigError

    paths = invocation.paths()
    try:
        settings = invocation.settings()
    except ConfigError as error:
        settings = Settings()
        findings = checks.config_faults(error)
    else:
        findings = checks.config_findings(settings, paths)
    findings += await checks.codex_findings(settings, invocation.environ)
    findings += checks.state_findings(paths)
    findings += await checks.store_findings(paths)
    findings += checks.home_findings(settings, paths, invocation.environ)
    findings += await checks.engine_findings(settings)
    return findings


def _print(invocation: Invocation, findings: list[Finding]) -> None:
    from treadle.cli.checks import State

    symbols = {State.OK: "✓", State.WARN: "!", State.FAIL: "✗"}
    for one in findings:
        invocation.output.mark(symbols[one.state], f"{one.matter}: {one.text}", to_out=True)
        if one.next_step:
            invocation.output.ours(f"    Next: {one.next_step}")
    failed = sum(one.state is State.FAIL for one in findings)
    warned = sum(one.state is State.WARN for one in findings)
    invocation.output.ours(f"{failed} failed, {warned} to look at, {len(findings)} checked")
