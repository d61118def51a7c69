"""pytest fixtures for tests of Treadle's plugins: see docs/testing.md.

pytest imports this module at every start where Treadle is installed, so it imports nothing of
Treadle's until a fixture is used. Knows nothing of what is tested.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from treadle.testing.clock import CountedIds, ManualClock
    from treadle.testing.model import ScriptedModel
    from treadle.testing.runtime import ScriptedRuntimes


@pytest.fixture(scope="session")
def treadle_codex() -> Path:
    """Name the `codex` binary of `treadle[codex]`; skip the test where it is not installed."""
    try:
        from codex_cli_bin import bundled_codex_path  # the extra `codex`

        return Path(bundled_codex_path())
    except (ImportError, FileNotFoundError) as error:
        pytest.skip(f"the codex binary is not installed (pip install 'treadle[codex]'): {error}")


@pytest.fixture
async def treadle_model(anyio_backend: object) -> AsyncIterator[ScriptedModel]:
    """Start a scripted model; the test must be an anyio test (`@pytest.mark.anyio`)."""
    del anyio_backend
    from treadle.testing.model import ScriptedModel  # see the module

    async with ScriptedModel() as model:
        yield model


@pytest.fixture
def treadle_clock() -> ManualClock:
    """Make a clock that stands still until the test moves it."""
    from treadle.testing.clock import ManualClock  # see the module

    return ManualClock()


@pytest.fixture
def treadle_ids() -> CountedIds:
    """Make ids that count up, the same in every run."""
    from treadle.testing.clock import CountedIds  # see the module

    return CountedIds()


@pytest.fixture
def treadle_scratch() -> Iterator[Path]:
    """Make a private folder in the person's cache, removed afterwards.

    It lies outside TMPDIR since Codex puts no helper programs there.
    """
    place = Path.home() / ".cache" / "treadle-tests" / uuid.uuid4().hex[:12]
    place.mkdir(parents=True, mode=0o700)
    try:
        yield place
    finally:
        _remove(place)


@pytest.fixture
def treadle_runtime(
    treadle_scratch: Path, treadle_codex: Path, treadle_model: ScriptedModel
) -> ScriptedRuntimes:
    """Make a factory of runtimes over the scripted model; see `ScriptedRuntimes`."""
    from treadle.testing.runtime import ScriptedRuntimes  # see the module

    return ScriptedRuntimes(treadle_scratch, treadle_codex, treadle_model)


def _remove(place: Path) -> None:
    """Remove a folder, also what a test made read-only in it."""
    for folder, _, _ in os.walk(place):
        Path(folder).chmod(0o700)
    shutil.rmtree(place)
