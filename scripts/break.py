"""Make each change of `tests/breakages` in a copy of the project and see that its tests notice.

The changes and what they stand for are the table's; this knows how to copy, run and count. A change
is noticed when pytest collects each of its tests and that test fails. Before, the same tests run on
an unchanged copy: one that fails there shows nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.breakages.all import BREAKAGES  # noqa: E402 - the project's folder has to be known first
from tests.breakages.breakage import Breakage, DoesNotFit, break_in  # noqa: E402

CACHE = Path.home() / ".cache" / "treadle-breakages"
"""Where the copies are made; each run removes its own."""

AT_ONCE = 2
"""Copies, and so tests that run at the same time: more only wait for each other on two cores."""

TEST_S = 60
"""Seconds for one test: a change may make it wait for what never comes."""

PYTEST_S = 240
"""Seconds for one pytest, which is then ended with its children."""

NOTICED = 1
"""What pytest exits with when tests ran and some failed; other codes mean that none was run."""

FAILED = re.compile(r"^(?:FAILED|ERROR) ([^\s\[]+::[^\s\[]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Ran:
    """How a pytest ended."""

    code: int
    output: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one change; no fault means that every test noticed it."""

    breakage: Breakage
    fault: str | None = None


def main() -> int:
    """Check the changes that were asked for. Exit code: 0, 1 if one goes unnoticed, 2 for usage."""
    parser = argparse.ArgumentParser(description="Break the source in a copy; tests must notice.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these changes")
    parser.add_argument("--list", action="store_true", help="show the changes and run nothing")
    given = parser.parse_args()
    known = {one.name: one for one in BREAKAGES}
    if unknown := [name for name in given.names if name not in known]:
        parser.error(f"no change is called {', '.join(unknown)}; --list shows them")
    chosen = [known[name] for name in given.names] or list(BREAKAGES)
    if given.list:
        for one in chosen:
            print(f"{one.case:<11} {one.name:<50} {one.file}")
        return 0
    return _check(chosen)


def _check(chosen: Sequence[Breakage]) -> int:
    began = time.monotonic()
    with _copies() as copies:
        red = _red_unchanged(copies, chosen)
        passed = 0
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for verdict in pool.map(partial(_judged, copies, red), chosen):
                one = verdict.breakage
                passed += verdict.fault is None
                word = "ok  " if verdict.fault is None else "FAIL"
                print(f"{word} {one.case:<11} {one.name}", flush=True)
                if verdict.fault is not None:
                    print(f"     {verdict.fault}", flush=True)
    print(f"{passed} passed, {len(chosen) - passed} failed in {time.monotonic() - began:.0f} s")
    return 0 if passed == len(chosen) else 1


@contextlib.contextmanager
def _copies() -> Iterator[queue.Queue[Path]]:
    """Give copies of the project to take and to put back; bytecode comes along, with its times."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        copies: queue.Queue[Path] = queue.Queue()
        first = Path(folder) / "0"
        shutil.copytree(ROOT, first, ignore=shutil.ignore_patterns(".*", "*.pyc.*"))
        copies.put(first)
        for number in range(1, AT_ONCE):
            copies.put(shutil.copytree(first, Path(folder) / str(number)))
        yield copies


def _red_unchanged(copies: queue.Queue[Path], chosen: Iterable[Breakage]) -> frozenset[str]:
    """Return the tests that fail on an unchanged copy, and so can show nothing."""
    nodes = sorted({node for one in chosen for node in one.tests})
    parts = [nodes[number::AT_ONCE] for number in range(AT_ONCE)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        ran = list(pool.map(partial(_run_on_some_copy, copies), [part for part in parts if part]))
    for one in ran:
        if one.code not in {0, NOTICED}:
            raise SystemExit(f"the tests cannot be run:\n{one.output[-4000:]}")
    return frozenset(node for one in ran for node in FAILED.findall(one.output))


def _run_on_some_copy(copies: queue.Queue[Path], nodes: Sequence[str]) -> Ran:
    copy = copies.get()
    try:
        return _pytest(copy, nodes)
    finally:
        copies.put(copy)


def _judged(copies: queue.Queue[Path], red: frozenset[str], one: Breakage) -> Verdict:
    if dead := [node for node in one.tests if node in red]:
        return Verdict(one, f"fails without the change too: {dead[0]}")
    copy = copies.get()
    package = copy / "src" / "treadle"
    kept = package / f"{one.file}.kept"
    try:
        shutil.copy2(package / one.file, kept)
        break_in(package, one)
        return Verdict(one, _fault(copy, one))
    except (DoesNotFit, OSError) as error:
        return Verdict(one, str(error))
    finally:
        kept.replace(package / one.file)  # with its time, so that its bytecode serves again
        copies.put(copy)


def _fault(copy: Path, one: Breakage) -> str | None:
    for node in one.tests:
        ran = _pytest(copy, ["-x", node])
        if ran.code == 0:
            return f"nothing noticed it: {node}"
        if ran.code != NOTICED:
            last = ran.output.strip().splitlines()[-1:] or ["no output"]
            return f"{node} could not be run (exit code {ran.code}): {last[0]}"
    return None


def _pytest(copy: Path, arguments: Sequence[str]) -> Ran:
    """Run pytest in the copy."""
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-rfE", "--tb=no", "--no-header"),
        *("-p", "no:cacheprovider", "-o", f"timeout={TEST_S}"),
        *arguments,
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    with subprocess.Popen(
        command,
        cwd=copy,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=PYTEST_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return Ran(-signal.SIGKILL, f"it took more than {PYTEST_S} s")
    return Ran(process.returncode, output)


if __name__ == "__main__":
    sys.exit(main())
