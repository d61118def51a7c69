"""`docs/serve.md` against the requests and events that there are, and its example as it stands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from treadle.gateway import cursor, frames, machine, requests, server
from treadle.gateway.connection import HELLO_S, SEND_S

PAGE = (Path(__file__).parents[2] / "docs" / "serve.md").read_text(encoding="utf-8")
SECTION = PAGE.split("\n### Requests\n", 1)[1].split("\n### ", 1)[0]
ROWS = {
    cells[0].strip("` *"): cells[1]
    for line in SECTION.splitlines()
    if line.startswith("| `") and (cells := [cell.strip() for cell in line.split("|")[1:-1]])
}
REQUESTS = {one.__struct_config__.tag: one for one in get_args(requests.AnyRequest)}


def test_every_request_stands_in_the_table_and_no_other() -> None:
    """Ours."""
    assert sorted(ROWS) == sorted(REQUESTS)


@pytest.mark.parametrize("tag", sorted(REQUESTS))
def test_the_table_names_the_fields_of_a_request(tag: str) -> None:
    """Ours: a field that is not named is refused, so each has to be."""
    told = set(re.findall(r"[a-z_]+", " ".join(re.findall(r"`([^`]+)`", ROWS[tag]))))
    fields = {one.name for one in msgspec.structs.fields(REQUESTS[tag])} - {"id"}
    inner = {"id", "epoch", "after"} if tag == "subscribe" else set()
    assert told == fields | inner


def test_limits_and_events_are_those_of_the_code() -> None:
    """Ours."""
    assert frames.HELLO_BYTES == 4 * 1024
    assert frames.REQUEST_BYTES == 2**20
    assert frames.ANSWER_BYTES == 64 * 2**20
    assert (HELLO_S, SEND_S) == (5.0, 10.0)
    assert f"{server.MAX_CLIENTS} at a time" in PAGE
    assert machine.MAX_BAD_FRAMES == 16
    for kind in (cursor.OPENED, cursor.SNAPSHOT, cursor.LIVE, cursor.LAGGED):
        assert f"`{kind}`" in PAGE


@pytest.mark.codex
def test_the_example_runs_as_it_stands(scratch: Path, codex_binary: Path) -> None:
    """Ours: a client of one's own needs no package of ours."""
    found = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    environment = {
        **os.environ,
        "TREADLE_STATE_DIR": str(scratch / "state"),
        "TREADLE_CODEX": str(codex_binary),
        "HOME": str(scratch),
    }
    with subprocess.Popen(
        [sys.executable, "-m", "treadle", "serve", "--socket", "--offline", "--json"],
        stdout=subprocess.PIPE,
        env=environment,
    ) as serving:
        assert serving.stdout is not None
        assert serving.stdout.readline().startswith(b'{"ready":true')
        done = subprocess.run(
            [sys.executable, "-c", found[1]],
            capture_output=True,
            text=True,
            env=environment,
            timeout=90,
            check=False,
        )
        serving.terminate()
        assert serving.wait(60) == 0
    assert (done.returncode, done.stdout) == (0, "good morning\n"), done.stderr
