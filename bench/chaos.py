"""Treadle under faults: kills, stops, a broken model, a full disk, a locked or damaged store.

    python -m bench.chaos [--seconds N] [--seed S] [--kills N] [--json] [--keep DIR]
    python -m bench.chaos --check HISTORY

The real `treadle serve` over the real codex and a scripted model, six sessions at a time. Clients,
model, engine and processes are logged by themselves; afterwards a checker reads all of it and the
database (docs/proof). First it proves itself on planted faults. Exit status: 0 if every promise was
kept, 1 if one was broken, 2 if the run could not be brought to an end.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import anyio

from bench.overhead import commit, scratch, tell
from bench.reliability.check import check
from bench.reliability.found import Violation
from bench.reliability.history import History, history_from_json, history_to_json
from bench.reliability.planted import prove
from bench.reliability.run import (
    Broken,
    NotReady,
    Verdict,
    Wanted,
    run_under_faults,
    summary_of,
)
from bench.reliability.shrink import minimal, told

SHOWN = 3
"""Violations that are shown with their least history; of the others one line each."""


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, help="make no fault after this many seconds")
    parser.add_argument("--seed", type=int, default=1, help="what is done, and when")
    parser.add_argument("--kills", type=int, help="how many kills to make  [default: 1,000]")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep log and history there")
    parser.add_argument(
        "--no-disk", action="store_true", help="mount nothing: a full disk is a limit on files"
    )
    parser.add_argument("--check", type=Path, metavar="FILE", help="judge a history that was kept")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Prove the checker, do the run, judge it; see the module."""
    given = arguments(argv)
    tell(f"the checker found all {prove()} planted faults")
    if given.check is not None:
        history = history_from_json(given.check.read_bytes())
        violations = check(history)
        report(history, violations)
        return 1 if violations else 0
    wanted = Wanted(
        seed=given.seed,
        kills=given.kills or (1_000 if given.seconds is None else 10**9),
        seconds=given.seconds,
        small_disk=not given.no_disk,
    )
    signal.signal(signal.SIGTERM, _interrupt)  # so that whatever was started is ended
    folder = given.keep or Path(f"chaos-{wanted.seed}")
    verdict: Verdict | None = None
    with scratch() as root:
        try:
            verdict = anyio.run(partial(run_under_faults, wanted, root, binary(), tell))
        except* (Broken, NotReady) as broken:
            tell(f"seed {wanted.seed}: the run broke off: {broken.exceptions[0]}")
        if verdict is None or verdict.violations or given.keep:
            keep(root, folder, verdict)
    if verdict is None:
        return 2
    summary = summary_of(verdict, wanted, commit())
    print(json.dumps(summary, indent=2) if given.json else text_from(summary))
    report(verdict.history, verdict.violations)
    return 1 if verdict.violations or verdict.exit_status else 0


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt(f"signal {number}")


def keep(root: Path, folder: Path, verdict: Verdict | None) -> None:
    """Copy what a run left for those who look for the cause."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("log", "logs", "gateway.err", "config.toml"):
        source = root / name
        if source.is_dir():
            ignore = shutil.ignore_patterns("*.sock", "effects")
            shutil.copytree(source, folder / source.name, ignore=ignore, dirs_exist_ok=True)
        elif source.is_file():
            shutil.copy(source, folder / source.name)
    if verdict is not None:
        (folder / "history.json").write_bytes(history_to_json(verdict.history))
    tell(f"kept in {folder}")


def report(history: History, violations: list[Violation]) -> None:
    """Tell of every broken promise; of the first ones with the least that shows them."""
    seen: set[str] = set()
    for violation in violations:
        tell(f"seed {history.seed}: {violation}")
        if violation.what not in seen and len(seen) < SHOWN:
            tell(told(minimal(history, violation)))
        seen.add(violation.what)


def text_from(summary: dict[str, object]) -> str:
    """Return the summary for people."""
    return "\n".join(f"{name.replace('_', ' '):<18} {value}" for name, value in summary.items())


def binary() -> Path:
    """Return the pinned codex."""
    from codex_cli_bin import bundled_codex_path  # optional extra

    return Path(bundled_codex_path())


if __name__ == "__main__":
    sys.exit(main())
