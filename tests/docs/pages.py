"""Read what a page of `docs/` shows: its code blocks, its tables, and what a program prints.

Knows nothing of what a page is about.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RUN_S = 120.0
"""Seconds after which a program of a page fails its test."""


def page(name: str) -> str:
    """Return a page of `docs/`."""
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    """Return the code blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def printed(text: str, program: str) -> str:
    """Return what a page says that a program of it prints."""
    behind = text.split(program, 1)[1]
    found = re.match(r"```\n\nprints\n\n```\n(.*?)```", behind, re.DOTALL)
    assert found is not None, "the block is not followed by what it prints"
    return found[1]


def rows(text: str, heading: str) -> list[list[str]]:
    """Return the cells of all tables under a heading, the heads left out."""
    section = re.split(rf"^#+ {re.escape(heading)}\n", text, maxsplit=1, flags=re.MULTILINE)[1]
    section = re.split(r"^#+ ", section, maxsplit=1, flags=re.MULTILINE)[0]
    found: list[list[str]] = []
    lines = section.splitlines()
    for at, line in enumerate(lines):
        is_head = at + 1 < len(lines) and lines[at + 1].startswith("|--")
        if line.startswith("|") and not line.startswith("|--") and not is_head:
            found.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return found


def run_program(
    folder: Path, files: Mapping[str, str], program: str
) -> subprocess.CompletedProcess[str]:
    """Run a program in a folder that is also its home, with these files beside it."""
    for name, text in {**files, "program.py": program}.items():
        (folder / name).write_text(text, encoding="utf-8")
    places = {f"XDG_{kind}_HOME": str(folder / kind.lower()) for kind in ("STATE", "CONFIG")}
    return subprocess.run(
        [sys.executable, "program.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, **places, "HOME": str(folder)},
        timeout=RUN_S,
        check=False,
    )
