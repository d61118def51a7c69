"""The log as files on disk: shape, privacy, redaction, rotation."""

from __future__ import annotations

import io
import json
import logging
import os
import stat
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest

from treadle.model.text import REDACTED, Redactor
from treadle.observe import Level, bind, bound, emit, masked_session_key, open_log
from treadle.observe.log import LOG_FILE, MAX_TEXT_CHARS, MAX_WAITING_RECORDS


def records(directory: Path) -> list[dict[str, Any]]:
    lines = (directory / LOG_FILE).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_a_record_has_event_message_level_time_ids_and_fields(tmp_path: Path) -> None:
    """Decision 19, spec T-02."""
    with open_log(tmp_path, level=Level.DEBUG), bind(run_id="r1", session_key="agent:main:me"):
        emit("engine.assemble_applied", estimatedTokens=12, hasSystemPromptAddition=False)
    (record,) = records(tmp_path)
    assert record.pop("time").endswith("+00:00")
    assert record == {
        "level": "debug",
        "event": "engine.assemble_applied",
        "message": "codex context engine assemble applied",
        "run_id": "r1",
        "session_key": masked_session_key("agent:main:me"),
        "estimatedTokens": 12,
        "hasSystemPromptAddition": False,
    }
    assert "agent:main:~" in record["session_key"]


def test_unknown_events_ids_and_reserved_fields_are_refused() -> None:
    with pytest.raises(ValueError, match="no event"):
        emit("turn.exploded")
    with pytest.raises(ValueError, match="cannot have"):
        emit("turn.started", level="x")
    with pytest.raises(ValueError, match="cannot bind"), bind(prompt="x"):
        pass


def test_bound_ids_nest_and_end_with_their_block() -> None:
    with bind(run_id="r", engine="a"):
        with bind(engine="b", turn_id="t"):
            assert bound() == {"run_id": "r", "engine": "b", "turn_id": "t"}
        assert bound() == {"run_id": "r", "engine": "a"}
    assert bound() == {}


@pytest.mark.anyio
async def test_concurrent_tasks_keep_their_own_ids(tmp_path: Path) -> None:
    async def run(run_id: str, ready: anyio.Event, other: anyio.Event) -> None:
        with bind(run_id=run_id):
            ready.set()
            await other.wait()
            emit("run.started", who=run_id)

    async def both() -> None:
        a, b = anyio.Event(), anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, "a", a, b)
            tasks.start_soon(run, "b", b, a)

    log = open_log(tmp_path)
    await anyio.to_thread.run_sync(log.__enter__)
    try:
        with anyio.fail_after(5):
            await both()
    finally:
        await anyio.to_thread.run_sync(log.__exit__, None, None, None)
    assert sorted((r["run_id"], r["who"]) for r in records(tmp_path)) == [("a", "a"), ("b", "b")]


def test_secrets_never_reach_the_file(tmp_path: Path) -> None:
    """INV-22: by field name, by shape, and what is known to be one."""
    with open_log(tmp_path, redactor=Redactor(["hush-hush-one", "hush-hush-two"])):
        emit(
            "wire.warned",
            cause=RuntimeError("failed with hush-hush-two"),
            api_key="short",
            text="hush-hush-one and sk-abcdefghijklmnopqrst",
            deep={"Authorization": ["x"]},
        )
        logging.getLogger("asyncio").error("library says %s", "hush-hush-one")
    raw = (tmp_path / LOG_FILE).read_text(encoding="utf-8")
    assert "hush" not in raw
    assert "sk-abc" not in raw
    first, second = records(tmp_path)
    assert first["api_key"] == REDACTED
    assert first["deep"] == {"Authorization": [REDACTED]}
    assert "RuntimeError" in first["error"]
    assert second["event"] == "library.logged"
    assert second["library"] == "asyncio"


def test_texts_are_bounded_and_printable(tmp_path: Path) -> None:
    """Spec T-03, RS51."""
    with open_log(tmp_path):
        emit("wire.warned", text="\x1b]52;c;\x07" + "x" * 100_000)
    (record,) = records(tmp_path)
    assert len(record["text"]) <= MAX_TEXT_CHARS
    assert record["text"].startswith(r"\x1b]52")


def test_directory_and_files_are_private_whatever_the_umask(tmp_path: Path) -> None:
    """INV-23, RS48: also after rotation."""
    before = os.umask(0)
    try:
        with open_log(tmp_path / "logs", max_bytes=2000, keep_count=2):
            for number in range(200):
                emit("run.started", number=number)
    finally:
        os.umask(before)
    files = sorted(path.name for path in (tmp_path / "logs").iterdir())
    assert files == [LOG_FILE, f"{LOG_FILE}.1", f"{LOG_FILE}.2"]
    assert stat.S_IMODE((tmp_path / "logs").stat().st_mode) == 0o700
    assert {stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "logs").iterdir()} == {0o600}


def test_a_log_file_that_is_a_link_is_refused(tmp_path: Path) -> None:
    """RS48."""
    (tmp_path / "elsewhere").write_text("mine", encoding="utf-8")
    logs = tmp_path / "logs"
    logs.mkdir(mode=0o700)
    (logs / LOG_FILE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic link"), open_log(logs):
        pass
    assert (tmp_path / "elsewhere").read_text(encoding="utf-8") == "mine"


def test_after_the_block_nothing_is_written_and_loggers_are_as_before(tmp_path: Path) -> None:
    before = [(n, logging.getLogger(n).level) for n in ("treadle", "asyncio")]
    with open_log(tmp_path):
        emit("run.started")
    emit("run.settled")
    assert [r["event"] for r in records(tmp_path)] == ["run.started"]
    assert [(n, logging.getLogger(n).level) for n in ("treadle", "asyncio")] == before


def test_a_full_disk_loses_records_and_counts_them(tmp_path: Path) -> None:
    """INV-25: neither an exception in the caller nor noise on stderr."""
    with open_log(tmp_path) as log:
        (descriptor,) = [
            int(link.name)
            for link in Path("/proc/self/fd").iterdir()
            if link.is_symlink() and os.readlink(link) == str(tmp_path / LOG_FILE)
        ]
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, descriptor)
        os.close(full)
        emit("run.started")
    assert log.failed_count >= 1
    assert (tmp_path / LOG_FILE).read_bytes() == b""


def test_a_log_that_cannot_keep_up_drops_records_and_says_how_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """INV-25, style 13: a bound, and a policy when full."""
    stuck, released = threading.Event(), threading.Event()

    class Stuck(io.StringIO):
        def write(self, text: str) -> int:
            stuck.set()
            released.wait(30)
            return len(text)

    monkeypatch.setattr("sys.stderr", Stuck())
    with open_log(tmp_path, stderr_level=Level.WARNING):
        emit("wire.warned")
        assert stuck.wait(10)
        for number in range(MAX_WAITING_RECORDS + 7):
            emit("run.started", number=number)
        released.set()
    found = records(tmp_path)
    assert [r["dropped_count"] for r in found if r["event"] == "log.dropped"] == [7]
    numbers = [r["number"] for r in found if r["event"] == "run.started"]
    assert numbers == list(range(MAX_WAITING_RECORDS))


def test_a_log_file_that_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / LOG_FILE)
    with pytest.raises(OSError, match="No such device"), open_log(tmp_path):
        pass
    reader = os.open(tmp_path / LOG_FILE, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(OSError, match="not a regular file"), open_log(tmp_path):
            pass
    finally:
        os.close(reader)


def test_people_read_one_line_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    with open_log(None, stderr_level=Level.WARNING):
        emit("run.started")
        emit("wire.warned", text="careful", token="s3cr3t-s3cr3t")
    captured = capsys.readouterr()
    assert captured.err == f"warning: app-server warned text=careful token={REDACTED}\n"
    assert captured.out == ""
