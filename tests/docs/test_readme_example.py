"""The README's library example, run as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.codex
def test_the_example_of_the_readme_runs_and_answers(scratch: Path, codex_binary: Path) -> None:
    """Issue 1 of 6, item 8: the library face, shown by an example that runs in a test."""
    del codex_binary
    found = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert found is not None
    program = scratch / "example.py"
    program.write_text(found[1], encoding="utf-8")
    state = {"XDG_STATE_HOME": str(scratch / "state"), "XDG_CONFIG_HOME": str(scratch / "config")}
    done = subprocess.run(
        [sys.executable, str(program)],
        capture_output=True,
        text=True,
        env={**os.environ, **state, "HOME": str(scratch)},
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    expected = re.search(r"prints\n\n```\n(.*?)```", README, re.DOTALL)
    assert expected is not None
    assert done.stdout == expected[1]
