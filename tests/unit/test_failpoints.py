"""Places where a test makes Treadle fail (reliability section 3)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from treadle.failpoints import Action, Failpoints, failpoint, read_actions
from treadle.model.errors import StoreFull

PASS_S1 = "from treadle.failpoints import failpoint; failpoint('S1'); print('passed')"


def read(text: str) -> dict[str, Action]:
    return read_actions({"TREADLE_TEST_RUN": "1", "TREADLE_FAILPOINTS": text})


def no_kill() -> None:
    pytest.fail("nothing was to be killed")


def run_passing_s1(**environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PASS_S1],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_actions_are_read_by_name() -> None:
    assert read(" S6=kill; S1=error:StoreFull@3 ;S5=pause:/a/b=c;") == {
        "S6": Action(name="kill"),
        "S1": Action(name="error", argument="StoreFull", at=3),
        "S5": Action(name="pause", argument="/a/b=c"),
    }


def test_outside_of_a_test_nothing_happens_anywhere() -> None:
    assert read_actions({"TREADLE_FAILPOINTS": "S1=kill"}) == {}
    assert read_actions({"TREADLE_TEST_RUN": "1"}) == {}


@pytest.mark.parametrize(
    "text",
    ["S1", "S1=", "S1=nothing", "S1=kill:now", "S1=pause", "S1=error:NoSuchError", "S1=kill@x"],
)
def test_what_cannot_be_read_is_refused_rather_than_left_out(text: str) -> None:
    with pytest.raises(ValueError, match=r"S1|invalid literal"):
        read(text)


def test_an_error_is_raised_in_the_named_passage_alone() -> None:
    points = Failpoints(read("S1=error:StoreFull@2; S2=error:OSError"), kill=no_kill)
    points.reach("S1")
    with pytest.raises(StoreFull, match="failpoint S1"):
        points.reach("S1")
    points.reach("S1")
    for _ in range(2):
        with pytest.raises(OSError, match="failpoint S2"):
            points.reach("S2")
    points.reach("S3")


def test_a_pause_says_that_it_is_reached_and_lasts_until_its_file_is_there(tmp_path: Path) -> None:
    file = tmp_path / "go"
    points = Failpoints(read(f"S5=pause:{file}"), kill=no_kill)
    thread = threading.Thread(target=points.reach, args=("S5",), daemon=True)
    thread.start()
    while not (tmp_path / "go.reached").exists():
        assert thread.is_alive()
    thread.join(timeout=0.05)
    assert thread.is_alive()
    file.touch()
    thread.join(timeout=10)
    assert not thread.is_alive()


def test_a_killed_process_dies_at_its_place_and_another_one_passes_it() -> None:
    killed = run_passing_s1(TREADLE_TEST_RUN="1", TREADLE_FAILPOINTS="S1=kill")
    assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, "")
    passed = run_passing_s1(TREADLE_FAILPOINTS="S1=kill")
    assert (passed.returncode, passed.stdout) == (0, "passed\n")


def test_this_process_passes_every_place() -> None:
    failpoint("S1")
