"""Show what the model was given in one turn. Knows the report's names, not how it was made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypeGuard

from treadle.cli.output import Output
from treadle.cli.render import value_lines
from treadle.contract.store import ContextReport
from treadle.model.json import JsonObject, JsonValue


def report_json(report: ContextReport) -> dict[str, JsonValue]:
    """Return a report as `context show --json` prints it."""
    return {
        "turn": report.number,
        "run": report.run_id,
        "session": report.session_id,
        "created_at": report.created_at,
        "report": report.report,
    }


def show_report(output: Output, report: ContextReport) -> None:
    """Print a report for a person: why first, then what was new, then what else is known of it."""
    when = datetime.fromtimestamp(report.created_at).astimezone().isoformat(" ", "seconds")
    output.heading(f"turn {report.number} · {when} · run {report.run_id}")
    rest = dict(report.report)
    engine, decision = rest.pop("engine", "?"), rest.pop("decision", "?")
    output.ours(f"engine {engine} · decision {decision}")
    reason = rest.pop("reason", "")
    if reason:
        output.ours(f"why: {reason}")
    _show_injected(output, rest.pop("injected", None), str(decision))
    reported = rest.pop("reported", None)
    if isinstance(reported, Mapping):
        output.ours(f"tokens reported: {_reported(reported)}")
    for line in value_lines(rest):
        output.ours(line)


def _reported(reported: JsonObject) -> str:
    """Return the reported tokens; input is all of it, as everywhere a person reads it."""
    fresh, cached, out = (reported.get(name) for name in ("input", "cached", "output"))
    total = sum(part for part in (fresh, cached) if isinstance(part, int))
    of_cache = f" ({cached:,} cached)" if isinstance(cached, int) else ""
    return f"{total:,} in{of_cache} · {out:,} out" if isinstance(out, int) else f"{total:,} in"


def _show_injected(output: Output, injected: JsonValue, decision: str) -> None:
    """Print what went into the thread beside the prompt, a row a message."""
    rows = [row for row in injected if isinstance(row, Mapping)] if _is_list(injected) else []
    if not rows:
        output.ours("new beside the prompt: nothing; the thread holds the rest already")
        return
    counts = [count for row in rows if isinstance(count := row.get("tokens"), int)]
    where = "into a fresh thread" if decision in {"rebase", "seed"} else "into the thread"
    output.ours(f"put {where}: {len(rows)} messages, {sum(counts):,} tokens")
    output.table([("", "ROLE", "TOKENS", "ENTRY"), *map(_row, rows)])


def _is_list(value: JsonValue) -> TypeGuard[Sequence[JsonValue]]:
    return isinstance(value, list | tuple)


def _row(row: JsonObject) -> tuple[str, str, str, str]:
    tokens = row.get("tokens")
    entry = row.get("entry_id")
    return (
        " ",
        str(row.get("role") or ""),
        f"{tokens:,}" if isinstance(tokens, int) else "-",
        str(entry) if entry else "the engine's own, no entry",
    )
