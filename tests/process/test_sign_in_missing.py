"""A turn for which nobody is signed in, on the real binary: refused at once, nothing sent."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from treadle import Outcome, open_runtime
from treadle.config import find_paths

pytestmark = [pytest.mark.anyio, pytest.mark.codex]


async def test_a_turn_without_a_sign_in_is_refused_and_names_the_command(
    scratch: Path, codex_binary: Path
) -> None:
    """Issue 1 of 6, item 10: "not signed in" errors name `treadle login`."""
    del codex_binary
    paths = find_paths(os.environ, state=scratch / "state", home=scratch)
    async with open_runtime(paths=paths) as runtime:
        with anyio.fail_after(60):
            finished = await runtime.session("s", cwd=scratch).run("hello").result()
        assert finished.outcome is Outcome.FAILED
        assert finished.error is not None
        assert finished.error["code"] == "codex_not_signed_in"
        assert "treadle login" in str(finished.error["next_step"])
        record = await runtime.session("s").record()
        assert record is not None
        assert await runtime.store.bindings.get(record.id) is None


async def test_the_offline_model_needs_no_sign_in_and_says_nothing_of_its_metadata(
    scratch: Path, codex_binary: Path
) -> None:
    """Decision 24: a demo is not to warn of what it is."""
    del codex_binary
    paths = find_paths(os.environ, state=scratch / "state", home=scratch)
    async with open_runtime(paths=paths, offline=True) as runtime:
        run = runtime.session("s", cwd=scratch).run("hello")
        notices = [event for event in [one async for one in run] if event.type == "notice"]
        assert (await run.result()).outcome is Outcome.COMPLETED
    assert notices == []
