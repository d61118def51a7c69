"""What Treadle costs beside a bare client of the same app-server (docs/benchmarks.md).

    python -m bench.overhead [--quick] [--json] [--sizes 200,2000,100000] [--engines legacy,window]

Each case runs in a process of its own: Treadle with its app-server, a bare client with another one
whose thread is filled alike, and the scripted model in a third process. Turns of both alternate.
Exit status: 0 if every mark is kept, 1 if one is missed. Knows nothing of correctness: tests do.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import anyio

from bench.transcript import HELD, message_count, write_transcript
from treadle.config.paths import find_paths

Found = dict[str, Any]
"""JSON that is printed."""

TO_MODEL_RATIO = 1.25
CPU_RATIO = 1.3
ROWS_PER_TURN = 500
RSS_MB = 120
"""The marks (issue 2, "Done when" 8)."""

ENGINES = ("legacy", "window")
SIZES = (200, 2_000, 100_000)
PAIRS = 25
QUICK_SIZES = (200, 2_000)
QUICK_PAIRS = 5

FORMAT = 1
"""Version of the JSON; it changes when a field is renamed or removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What was asked for on the command line."""

    engines: tuple[str, ...]
    sizes: tuple[int, ...]
    pairs: int
    quick: bool


def spread(values: Sequence[float]) -> Found:
    """Return the least, the median and the greatest, and how many there are."""
    return {
        "min": round(min(values), 3),
        "median": round(median(values), 3),
        "max": round(max(values), 3),
        "n": len(values),
    }


def run(wanted: Wanted, root: Path) -> Found:
    """Measure every case and return the report."""
    cases = []
    for size in wanted.sizes:
        filled, work = root / f"filled-{size}", root / "work"
        work.mkdir(exist_ok=True)
        tell(f"writing {size:,} entries")
        anyio.run(partial(write_transcript, database_in(filled), size, work))
        for engine in wanted.engines:
            tell(f"{engine}, {size:,} entries: {wanted.pairs} pairs")
            cases.append(measure(engine, size, wanted.pairs, filled, root))
        shutil.rmtree(filled)
    return {
        "format": FORMAT,
        "quick": wanted.quick,
        "commit": commit(),
        "machine": machine(),
        "cases": cases,
        "marks": [*case_marks(cases), *cpu_marks(cases)],
    }


def database_in(state: Path) -> Path:
    """Return where a state directory keeps its store."""
    return find_paths(os.environ, state=state).database


def measure(engine: str, size: int, pairs: int, filled: Path, root: Path) -> Found:
    """Run one case in a fresh process over a copy of the filled state."""
    place = root / f"{engine}-{size}"
    place.mkdir()
    shutil.copytree(filled, place / "state")
    (place / "state").chmod(0o700)
    asked = {"engine": engine, "messages": message_count(size), "pairs": pairs}
    done = subprocess.run(
        [sys.executable, "-m", "bench.overhead_case", str(place), str(root / "work")],
        input=json.dumps(asked),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "HOME": str(root), "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    shutil.rmtree(place)
    raw: Found = json.loads(done.stdout)
    treadle, bare = raw["treadle"], raw["bare"]
    ratios = [
        ours / theirs
        for ours, theirs in zip(treadle["to_model_ms"], bare["to_model_ms"], strict=True)
    ]
    return {
        "engine": engine,
        "entries": size,
        "messages": message_count(size),
        "held": min(size, HELD),
        "to_model_ratio": spread(ratios),
        "to_model_ms": {
            "treadle": spread(treadle["to_model_ms"]),
            "bare": spread(bare["to_model_ms"]),
        },
        "turn_ms": {"treadle": spread(treadle["turn_ms"]), "bare": spread(bare["turn_ms"])},
        "cpu_ms": {"treadle": spread(treadle["cpu_ms"]), "bare_client": spread(bare["cpu_ms"])},
        "request_items": {"treadle": treadle["items"], "bare": bare["items"]},
        "request_bytes": {"treadle": treadle["bytes"], "bare": bare["bytes"]},
        "decisions": raw["decisions"],
        "rows": {"total": spread(raw["rows"]), "by_query": raw["rows_by_query"]},
        "rss_mb": spread(raw["rss_mb"]),
        "rss_peak_mb": raw["rss_peak_mb"],
    }


def mark(name: str, case: str, value: float, limit: float) -> Found:
    """Return a mark and whether it is kept."""
    kept = value <= limit
    return {"mark": name, "case": case, "value": round(value, 3), "limit": limit, "kept": kept}


def case_marks(cases: Sequence[Found]) -> Iterator[Found]:
    """Yield the marks that each case has to keep by itself."""
    for case in cases:
        name = f"{case['engine']} {case['entries']}"
        yield mark("to_model_ratio", name, case["to_model_ratio"]["median"], TO_MODEL_RATIO)
        yield mark("rows_per_turn", name, case["rows"]["total"]["max"], ROWS_PER_TURN)
        yield mark("rss_mb", name, case["rss_mb"]["max"], RSS_MB)


def cpu_marks(cases: Sequence[Found]) -> Iterator[Found]:
    """Yield, for each engine, the CPU time at the most entries against that at the fewest."""
    for engine in dict.fromkeys(case["engine"] for case in cases):
        ours = sorted((c for c in cases if c["engine"] == engine), key=lambda c: int(c["entries"]))
        least, most = ours[0], ours[-1]
        if least is not most:
            ratio = most["cpu_ms"]["treadle"]["median"] / least["cpu_ms"]["treadle"]["median"]
            name = f"{engine} {most['entries']} / {least['entries']}"
            yield mark("cpu_ratio", name, ratio, CPU_RATIO)


def machine() -> Found:
    """Return what the numbers depend on."""
    return {
        "cpus": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "load": [round(one, 2) for one in os.getloadavg()],
    }


def commit() -> str | None:
    """Return the commit that is measured, `+` behind it where files differ; None without git."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty=+", "--abbrev=7", "--exclude=*"],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parent,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def text_from(report: Found) -> str:
    """Return the report for people."""
    lines = []
    for case in report["cases"]:
        lines += [
            f"{case['engine']}, {case['entries']:,} entries (thread holds {case['held']})",
            f"  to model, ratio   {_spread(case['to_model_ratio'])}",
            f"  to model, ms      {_spread(case['to_model_ms']['treadle'])}"
            f"   bare {_spread(case['to_model_ms']['bare'])}",
            f"  whole turn, ms    {_spread(case['turn_ms']['treadle'])}"
            f"   bare {_spread(case['turn_ms']['bare'])}",
            f"  own CPU, ms       {_spread(case['cpu_ms']['treadle'])}"
            f"   bare {_spread(case['cpu_ms']['bare_client'])}",
            f"  rows a turn       {_spread(case['rows']['total'])}",
            f"  own RSS, MB       {_spread(case['rss_mb'])}   peak {case['rss_peak_mb']}",
            f"  last request      {case['request_items']} items, {case['request_bytes']} bytes",
        ]
    for one in report["marks"]:
        verdict = "kept  " if one["kept"] else "MISSED"
        lines.append(f"{verdict} {one['mark']} {one['case']}: {one['value']} (<= {one['limit']})")
    return "\n".join(lines)


def _spread(found: Found) -> str:
    return f"{found['min']:.2f} / {found['median']:.2f} / {found['max']:.2f} (n={found['n']})"


def tell(text: str) -> None:
    """Say on stderr what goes on."""
    print(text, file=sys.stderr, flush=True)


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.overhead", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--quick", action="store_true", help="small transcripts, few pairs")
    parser.add_argument("--sizes", help="entries, as 200,2000")
    parser.add_argument("--engines", default=",".join(ENGINES), help="as legacy,window")
    parser.add_argument("--pairs", type=int, help="timed pairs of turns in each case")
    return parser.parse_args(argv)


def wanted_from(given: argparse.Namespace) -> Wanted:
    """Fill in what was left open."""
    sizes = tuple(int(size) for size in given.sizes.split(",")) if given.sizes else None
    return Wanted(
        engines=tuple(given.engines.split(",")),
        sizes=sizes or (QUICK_SIZES if given.quick else SIZES),
        pairs=given.pairs or (QUICK_PAIRS if given.quick else PAIRS),
        quick=given.quick,
    )


@contextmanager
def scratch() -> Iterator[Path]:
    """Give a folder outside TMPDIR, where codex may put its helpers; removed at the end."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    if cache.resolve().is_relative_to(Path(tempfile.gettempdir()).resolve()):
        cache = Path.home() / ".cache"
    place = cache / "treadle-bench" / uuid.uuid4().hex[:12]
    place.mkdir(parents=True, mode=0o700)
    try:
        yield place
    finally:
        shutil.rmtree(place)


def main(argv: Sequence[str] | None = None) -> int:
    """Run and print; see the module."""
    given = arguments(argv)
    with scratch() as root:
        report = run(wanted_from(given), root)
    print(json.dumps(report, indent=2) if given.json else text_from(report))
    return 0 if all(one["kept"] for one in report["marks"]) else 1


if __name__ == "__main__":
    sys.exit(main())
