"""Make the stored state directory of this version, which every later version must open.

Run as `python -m tests.migration.make_fixture` once an issue ends, and commit what it writes. The
conversation is fixed; ids and times are not. Codex's own home is left out: a thread that is gone is
a case of its own, and its files are large.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import anyio

from treadle import Outcome, open_runtime
from treadle.config import find_paths

HERE = Path(__file__).resolve().parent
SAID = (
    "The kiln fires at 1,240 degrees.",
    "Use the tool memory_search with query kiln",
    "窯の温度は千二百四十度です。",
)
DATABASE = "treadle.sqlite3"


async def talk(place: Path) -> Path:
    """Run the conversation offline below `place` and return the database."""
    paths = find_paths(os.environ, state=place / "state", home=place)
    async with open_runtime(paths=paths, offline=True) as runtime:
        session = runtime.session("pottery", cwd=place)
        for text in SAID:
            finished = await session.run(text, engine="window").result()
            assert finished.outcome is Outcome.COMPLETED, finished
    return paths.database


def make(target: Path) -> None:
    """Keep the database alone. Its paths name a folder that exists on every machine."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="treadle-") as scratch:
        database = anyio.run(talk, Path(scratch))
        target.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(database, target / DATABASE)


if __name__ == "__main__":
    where = HERE / version("treadle")
    make(where)
    sys.stdout.write(f"{where}\n")
