"""Read what a session's working folder holds for the model, where no memory tool could read it.

`BOOTSTRAP.md` and `MEMORY.md`, whole. `AGENTS.md` is Codex's own to load. Knows nothing of when the
text is sent. Source: spec E-07, E-08, E-10.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import anyio.to_thread

from treadle.projection.prompt import TURN_INPUT_LIMIT

FILES: Final = ("BOOTSTRAP.md", "MEMORY.md")
"""In the order in which they are given (spec E-08)."""

MEMORY_TOOLS: Final = frozenset({"memory_search", "memory_get"})
"""With one of these the model can read for itself."""


async def workspace_reference(folder: str, tool_names: frozenset[str]) -> str:
    """Return the files' text, each under its name; empty where there is none or a tool reads them.

    Longer files than a turn can hold are read no further than that; the rest is cut with the turn's
    input, which says so.
    """
    if tool_names & MEMORY_TOOLS:
        return ""
    found = await anyio.to_thread.run_sync(_read_all, Path(folder))
    return "\n\n".join(f"[{name} of the workspace]\n{text}" for name, text in found)


def _read_all(folder: Path) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for name in FILES:
        try:
            with (folder / name).open(encoding="utf-8", errors="replace") as file:
                text = file.read(TURN_INPUT_LIMIT + 1).strip()
        except OSError:
            continue  # a missing or unreadable one is skipped
        if text:
            found.append((name, text))
    return found
