"""`docs/how-it-works.md` and `docs/security.md`, and the links of all pages. Ours."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, page, rows
from treadle.config import find_paths, load_settings
from treadle.config.state_dir import LOCK_FILE
from treadle.gateway.place import SOCKET_FILE
from treadle.harness.codex import launch
from treadle.model.ids import AgentId
from treadle.observe.log import LOG_FILE
from treadle.private import DIRECTORY_MODE, FILE_MODE
from treadle.projection.history import (
    MAX_SUCCESSIVE_REBASES,
    WINDOW_SHARE,
    Continue,
    Extend,
    PromptCarrier,
    Reason,
    Rebase,
    Seed,
)
from treadle.runtime.requests import MAX_PROMPT_CHARS

HOW = page("how-it-works.md")
PAGES = [*sorted((ROOT / "docs").glob("*.md")), *sorted(ROOT.glob("*.md"))]


def test_places_of_the_state_directory_are_those_of_the_code(tmp_path: Path) -> None:
    """Ours; INV-23."""
    paths = find_paths({"HOME": str(tmp_path), "TREADLE_STATE_DIR": str(tmp_path / "state")})
    agent = AgentId("<agent>")
    expected = {
        paths.database,
        paths.state / LOCK_FILE,
        paths.state / SOCKET_FILE,
        paths.logs / LOG_FILE,
        paths.agent_dir(agent) / "codex",
        paths.agent_workspace(agent),
        paths.state / "engines" / "<engine>",
    }
    cells = [row[0] for row in rows(HOW, "Where things are")]
    found = {paths.state / re.findall(r"`([^`]+)`", cell)[0].rstrip("/") for cell in cells}
    assert found == expected
    assert f"mode {DIRECTORY_MODE:04o} and Treadle's files {FILE_MODE:04o}" in HOW


def test_decisions_are_those_of_the_code() -> None:
    """Spec D-51; decision 5."""
    kinds = [Continue, Extend, Rebase, Seed, PromptCarrier]
    names = [kind.__name__.removesuffix("Carrier").lower() for kind in kinds]
    assert [row[0] for row in rows(HOW, "How context reaches the model")] == names
    engines = rows(page("engines.md"), "How your messages reach the model")
    assert [row[0].strip("`") for row in engines] == names


def test_numbers_are_those_of_the_code(tmp_path: Path) -> None:
    """Decisions 4, 5, 8 and 25; spec D-54."""
    settings = load_settings(find_paths({"HOME": str(tmp_path)}), {}, None)
    assert f"**{WINDOW_SHARE * 100:g} % of the model's window**" in HOW
    assert MAX_SUCCESSIVE_REBASES == 3
    assert "After three rebases in successive turns" in HOW
    assert settings.codex.projection.keep_superseded_days == 7
    assert "deleted after seven days" in HOW
    assert f"{MAX_PROMPT_CHARS:,} characters" in HOW
    assert Reason.NEEDS_SMALLER_CONTEXT.value in HOW


def test_what_security_says_of_turns_is_what_is_sent() -> None:
    """Decision 27."""
    text = page("security.md")
    assert f"`{launch.APPROVAL_POLICY}`" in text
    assert launch.SANDBOX_POLICY == {"type": "readOnly"}
    assert "read-only sandbox" in text


@pytest.mark.parametrize("path", PAGES, ids=[path.name for path in PAGES])
def test_links_lead_somewhere(path: Path) -> None:
    """Ours."""
    links = re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8"))
    missing = [one for one in links if "://" not in one and not (path.parent / one).exists()]
    assert missing == []
