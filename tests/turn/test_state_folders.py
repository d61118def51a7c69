"""What a run makes in the state directory."""

from __future__ import annotations

import stat
from pathlib import Path

import anyio
import pytest

from tests.turn.rig import TURN_S, Rig
from treadle.testing.engine import RecordingEngine
from treadle.wire.pool import prepare_home

pytestmark = pytest.mark.anyio


def open_folders(root: Path) -> list[str]:
    """Return the folders that others may enter."""
    folders = [path for path in root.rglob("*") if path.is_dir()]
    return [
        str(one.relative_to(root)) for one in folders if stat.S_IMODE(one.stat().st_mode) & 0o77
    ]


async def test_every_folder_that_a_run_makes_is_private(tmp_path: Path) -> None:
    """INV-23; also those above the one that is needed."""
    rig = Rig(root=tmp_path)
    async with rig.opened(RecordingEngine()) as runtime:
        assert (await rig.say(runtime.session("a"), "hello")).finished.outcome == "completed"
        await prepare_home(rig.state / "agents" / "other" / "codex")
    assert (rig.state / "engines").is_dir()
    assert open_folders(rig.state) == []


async def test_a_mistyped_engine_leaves_no_folder(tmp_path: Path) -> None:
    """Ours; spec B-41."""
    rig = Rig(root=tmp_path)
    async with rig.opened() as runtime:
        with anyio.fail_after(TURN_S):
            finished = await runtime.session("a").run("hello", engine="windo").result()
    assert (finished.error or {})["code"] == "engine.not_found"
    assert not (rig.state / "engines").exists()


async def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """Ours: it was "Treadle itself failed: FileExistsError"."""
    rig = Rig(root=tmp_path)
    async with rig.opened(RecordingEngine()) as runtime:
        await anyio.Path(rig.state / "engines").write_text("in the way", encoding="utf-8")
        turn = await rig.say(runtime.session("a"), "hello")
    assert turn.error["code"] == "state.refused"
    assert "engines" in str(turn.error["message"])
