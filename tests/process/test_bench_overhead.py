"""The overhead bench runs and prints what docs/benchmarks.md says; no number is judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TINY = ("--quick", "--json", "--sizes", "20", "--engines", "window", "--pairs", "2")

pytestmark = pytest.mark.codex


@pytest.mark.usefixtures("codex_binary")
def test_the_overhead_bench_reports_every_number_with_its_spread() -> None:
    """Issue 2, "Done when" 8: the shape of the report; the marks are looked at by hand."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.overhead", *TINY],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=90,
        check=False,
    )

    assert done.returncode in {0, 1}, done.stderr  # 1 where a loaded machine missed a mark
    report = json.loads(done.stdout)
    assert report.keys() == {"format", "quick", "commit", "machine", "cases", "marks"}
    (case,) = report["cases"]
    assert (case["engine"], case["entries"], case["held"]) == ("window", 20, 20)
    assert case["decisions"] == {"continue": 2}
    assert case["request_items"]["treadle"] == case["request_items"]["bare"]
    for found in spreads(case):
        assert found["min"] <= found["median"] <= found["max"]
    kept = {mark["mark"]: mark["value"] <= mark["limit"] for mark in report["marks"]}
    assert kept == {mark["mark"]: mark["kept"] for mark in report["marks"]}
    assert kept.keys() == {"to_model_ratio", "rows_per_turn", "rss_mb"}
    assert (done.returncode == 0) is all(kept.values())


def spreads(case: dict[str, Any]) -> list[dict[str, float]]:
    sides = [case[name] for name in ("to_model_ms", "turn_ms", "cpu_ms")]
    return [
        *(found for side in sides for found in side.values()),
        case["to_model_ratio"],
        case["rows"]["total"],
        case["rss_mb"],
    ]
