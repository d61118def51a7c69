"""`treadle` as a program: its help, and what it says to input that cannot work.

Each ending has its documented exit code and says what to do; nothing is made or changed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from treadle.cli.main import COMMANDS
from treadle.config.state_dir import open_state_directory

HEAVY = ("msgspec", "anyio", "apsw", "asyncio", "starlette", "uvicorn", "rs_bpe", "json", "logging")
"""What the help must not pay for."""

COMPILED = Path.home() / ".cache" / "treadle-tests" / "compiled"

OURS = ("treadle", "treadle.cli", "treadle.cli.main", "treadle.cli.lazy", "treadle.__main__")


def child_environment(**more: str) -> dict[str, str]:
    """Return this environment; compiled modules are kept, or each child compiles all anew."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**environment, "PYTHONPYCACHEPREFIX": str(COMPILED), "PYTHONUTF8": "1", **more}


def treadle(
    *arguments: str, stdin: bytes = b"", **environment: str
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "treadle", *arguments],
        input=stdin,
        capture_output=True,
        check=False,
        env=child_environment(**environment),
        timeout=60,
    )
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


def refused(done: subprocess.CompletedProcess[str], exit_code: int, code: str) -> str:
    """Check the form of a refusal and return its text."""
    assert (done.returncode, done.stdout) == (exit_code, ""), done.stderr
    assert done.stderr.startswith("treadle: ")
    assert done.stderr.endswith(f"[{code}] exit {exit_code}\n")
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize("asked", ["--help", "-h"])
def test_the_top_help_is_there_without_click(asked: str) -> None:
    """Ours: `--help` within 100 ms of CPU; importing click would take half of it."""
    program = (
        "import sys\n"
        "from treadle.cli.start import main\n"
        f"sys.argv[1:] = [{asked!r}]\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    print('\\n'.join(sys.modules), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
        env={**child_environment(), "COLUMNS": "132"},
    )

    assert not set(done.stderr.split()) & {*HEAVY, "click", "typing", "treadle.cli.main"}
    assert done.stdout == treadle("--no-color", "--help").stdout, (
        "write it anew: treadle --no-color --help > src/treadle/cli/help.txt"
    )


def test_the_top_help_on_a_narrow_terminal_is_broken_into_lines() -> None:
    """Ours: the stored text is for 80 columns and more."""
    assert (
        treadle("--help", COLUMNS="60").stdout
        == treadle("--no-color", "--help", COLUMNS="60").stdout
    )
    assert treadle("--help", COLUMNS="60").stdout != treadle("--help").stdout


def test_help_imports_nothing_heavy() -> None:
    """Ours: also the long way to it imports click and nothing heavier."""
    program = (
        "import sys\n"
        "from treadle.cli.main import run_program\n"
        "code = run_program(['--help'])\n"
        "print('\\n'.join(sys.modules), file=sys.stderr)\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
        env=child_environment(),
    )
    modules = set(done.stderr.split())

    assert not modules & set(HEAVY)
    assert {name for name in modules if name.partition(".")[0] == "treadle"} <= set(OURS)
    assert all(command.name in done.stdout for command in COMMANDS)


@pytest.mark.parametrize("name", [command.name for command in COMMANDS])
def test_help_of_a_command_imports_no_room_below(name: str) -> None:
    """Ours."""
    program = (
        "import sys\n"
        "from treadle.cli.main import run_program\n"
        f"run_program([{name!r}, '--help'])\n"
        "print('\\n'.join(sys.modules), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
        env=child_environment(),
    )
    ours = {one for one in done.stderr.split() if one.startswith("treadle.")}

    assert {one.split(".")[1] for one in ours} == {"cli"}


def test_version_is_that_of_the_package() -> None:
    """Ours."""
    from importlib.metadata import version

    assert treadle("--version").stdout == f"treadle {version('treadle')}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("rnu",), "Did you mean 'run'?"),
        (("run", "--frobnicate"), "--frobnicate"),
        (("run", "--json", "--jsonl"), "exclude each other"),
        (("run", "--timeout", "0", "hi"), "timeout"),
        (("run", "--effort", "heroic", "hi"), "heroic"),
        (("login", "--device", "--chatgpt"), "exclude each other"),
        (("sessions", "shwo"), "shwo"),
    ],
)
def test_wrong_usage_is_refused_with_what_was_meant(arguments: tuple[str, ...], said: str) -> None:
    """Ours."""
    done = treadle(*arguments)
    assert done.returncode == 2
    assert said in done.stderr + done.stdout
    assert "usage.invalid" in done.stderr + done.stdout


@pytest.mark.parametrize(
    ("arguments", "stdin", "code"),
    [
        (("run",), b"", "usage.invalid"),
        (("run", "-"), b" \n\t", "usage.invalid"),
        (("run", ""), b"", "usage.invalid"),
        (("run",), b"x" * 2_000_000, "message_too_large"),
        (("run", "hello"), b"\xf0\x9f\x98\x80" * 1_100_000, "message_too_large"),
        (("run", "--model", "--config=x", "hello"), b"", "usage.invalid"),
        (("run", "--file", "/nowhere/at/all", "hello"), b"", "usage.invalid"),
    ],
)
def test_message_that_cannot_be_sent_is_refused_before_anything_is_opened(
    tmp_path: Path, arguments: tuple[str, ...], stdin: bytes, code: str
) -> None:
    """RS12, RS41, decision 25."""
    state = tmp_path / "state"
    refused(treadle("--state-dir", str(state), *arguments, stdin=stdin), 2, code)
    assert not state.exists()


@pytest.fixture
def state(scratch: Path) -> Path:
    """Name a state directory that may hold a Codex home."""
    return scratch / "state"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("sessions", "show", "nope"), "not_found", "agent:main:nope"),
        (("sessions", "export", "nope"), "not_found", "agent:main:nope"),
        (("sessions", "search", "--session", "nope", "word"), "not_found", "agent:main:nope"),
        (("sessions", "list", "--agent", "mian"), "not_found", "--agent main"),
        (("context", "show", "nope"), "not_found", "agent:main:nope"),
        (("sessions", "show", "a b"), "usage.invalid", "session key"),
        (("run", "--agent", "nobody", "hello"), "not_found", "nobody"),
        (("run", "--cwd", "/nowhere/at/all", "hello"), "usage.invalid", "/nowhere/at/all"),
        (("run", "--engine", "windwo", "hello"), "engine.not_found", "window"),
        (("config", "show", "plugins.slots.contextEngin"), "not_found", "contextEngine"),
        (("login", "--api-key-stdin"), "usage.invalid", "no key"),
    ],
)
def test_unknown_name_is_refused_with_a_next_step(
    state: Path, arguments: tuple[str, ...], code: str, said: str
) -> None:
    """Ours."""
    assert said in refused(treadle("--state-dir", str(state), *arguments), 2, code)


def test_error_is_an_object_on_stdout_with_json(state: Path) -> None:
    """Ours: the shape that scripts read."""
    done = treadle("--state-dir", str(state), "sessions", "show", "nope", "--json")
    error = json.loads(done.stdout)["error"]

    assert (done.returncode, done.stderr) == (2, "")
    assert set(error) == {"code", "message", "next_step", "retry"}
    assert error["code"] == "not_found"


def test_key_is_never_repeated_in_a_refusal(state: Path) -> None:
    """Ours: keys never in argv, environment, config or log."""
    secret = b"sk-very-secret-0123456789 and more words"
    done = treadle("--state-dir", str(state), "login", "--api-key-stdin", stdin=secret)
    assert "very-secret" not in refused(done, 2, "usage.invalid")


FIVE = """
[agents.defaults]
modle = "x"
timeoutSeconds = "soon"
[plugins.slots]
contextEngine = 7
[models.providers.local]
apiKey = "sk-abcdefghijklmnop"
[log]
level = "loud"
"""


@pytest.mark.parametrize("arguments", [("run", "hello"), ("config", "show"), ("sessions", "list")])
def test_configuration_with_five_faults_is_refused_with_all_of_them(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    """Ours: every error at once, with path and what was meant."""
    config, state = tmp_path / "config.toml", tmp_path / "state"
    config.write_text(FIVE, encoding="utf-8")

    text = refused(
        treadle("--config", str(config), "--state-dir", str(state), *arguments),
        2,
        "config.invalid",
    )

    assert "5 faults" in text
    for said in ("modle", "timeoutSeconds", "contextEngine", "apiKey", "log.level"):
        assert said in text
    assert "sk-abcdefghijklmnop" not in text
    assert not state.exists()


def test_configuration_that_is_named_and_missing_is_refused(tmp_path: Path) -> None:
    """Ours."""
    done = treadle("--config", str(tmp_path / "none.toml"), "config", "show")
    assert "does not exist" in refused(done, 2, "config.invalid")


def test_path_of_a_broken_configuration_can_still_be_asked_for(tmp_path: Path) -> None:
    """Ours: whoever has to repair it needs its place."""
    config = tmp_path / "config.toml"
    config.write_text("[", encoding="utf-8")
    assert treadle("--config", str(config), "config", "path").stdout == f"{config}\n"


@contextmanager
def as_link(state: Path) -> Iterator[str]:
    (state.parent / "real").mkdir(mode=0o700, parents=True)
    state.symlink_to(state.parent / "real")
    yield "symbolic link"


@contextmanager
def open_to_others(state: Path) -> Iterator[str]:
    state.mkdir(parents=True)
    state.chmod(0o777)
    yield "chmod 700"


@contextmanager
def held(state: Path) -> Iterator[str]:
    with open_state_directory(state):
        yield f"process {os.getpid()}"


@contextmanager
def a_file(state: Path) -> Iterator[str]:
    state.write_text("", encoding="utf-8")
    yield "not a directory"


@pytest.mark.parametrize("make", [as_link, open_to_others, held, a_file])
@pytest.mark.parametrize("arguments", [("run", "--offline", "hello"), ("sessions", "list")])
def test_state_directory_that_is_not_safe_or_in_use_is_refused(
    state: Path, make: object, arguments: tuple[str, ...]
) -> None:
    """RS48, RS26, INV-4: exit 78, and the owner's process is named."""
    assert callable(make)
    with make(state) as said:
        text = refused(treadle("--state-dir", str(state), *arguments), 78, "state.refused")
    assert said in text


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_state_directory_that_is_read_only_is_refused(state: Path) -> None:
    """Ours."""
    state.mkdir(mode=0o500)
    done = treadle("--state-dir", str(state), "sessions", "list")
    assert "chmod 700" in refused(done, 78, "state.refused")


def test_store_that_is_damaged_is_refused_and_left_as_it_is(state: Path) -> None:
    """RS27: the path is named, the file unchanged."""
    state.mkdir(mode=0o700)
    database = state / "treadle.sqlite3"
    database.write_bytes(b"this is no database" * 1000)
    database.chmod(0o600)

    done = treadle("--state-dir", str(state), "sessions", "list")

    assert str(database) in refused(done, 74, "store.damaged")
    assert database.read_bytes() == b"this is no database" * 1000


@pytest.mark.parametrize("arguments", [("models",), ("whoami",)])
def test_codex_that_is_not_there_is_named(state: Path, arguments: tuple[str, ...]) -> None:
    """Ours: no codex binary."""
    done = treadle("--state-dir", str(state), *arguments, TREADLE_CODEX="/nowhere/codex")
    assert "/nowhere/codex" in refused(done, 4, "codex.start_failed")


def codex_that_prints(scratch: Path, text: str) -> str:
    fake = scratch / "bin" / "codex"
    fake.parent.mkdir(mode=0o700)
    fake.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    fake.chmod(0o700)
    return str(fake)


def test_codex_that_is_too_old_is_refused(scratch: Path, state: Path) -> None:
    """RS55: version 0.1; no app-server is started."""
    fake = codex_that_prints(scratch, "echo codex-cli 0.1.0")
    done = treadle("--state-dir", str(state), "models", TREADLE_CODEX=fake)
    assert "0.1.0" in refused(done, 4, "codex.version_unsupported")


def test_codex_that_dies_at_start_fails_the_run_and_says_so(scratch: Path, state: Path) -> None:
    """Ours: codex dies at start."""
    fake = codex_that_prints(
        scratch, 'case "$1" in --version) echo codex-cli 0.163.0;; *) exit 3;; esac'
    )
    done = treadle(
        "--state-dir", str(state), "run", "--offline", "--json", "hello", TREADLE_CODEX=fake
    )
    summary = json.loads(done.stdout)

    assert done.returncode == 4
    assert summary["error"]["code"] == "codex.start_failed"
    assert summary["text"] == ""


@pytest.mark.parametrize("broken", ["[", "[log]\nlevel = 'loud'\n"])
def test_doctor_finds_what_is_wrong_and_changes_nothing(
    scratch: Path, state: Path, broken: str
) -> None:
    """RS27: a command that only looks never writes; every fault has its line."""
    state.mkdir(mode=0o700)
    home = state / "agents" / "main" / "codex"
    home.mkdir(mode=0o700, parents=True)
    (home / "config.toml").write_text(
        '[projects."/somewhere"]\ntrust_level = "trusted"\n', encoding="utf-8"
    )
    config = scratch / "config.toml"
    config.write_text(broken, encoding="utf-8")
    before = picture(scratch)

    done = treadle(
        "--config", str(config), "--state-dir", str(state), "doctor", "--json",
        TREADLE_CODEX="/nowhere/codex",
    )  # fmt: skip
    report = json.loads(done.stdout)

    assert done.returncode == 1
    assert report["ok"] is False
    states = {(one["matter"], one["state"]) for one in report["items"]}
    assert ("configuration", "fail") in states
    assert ("codex home of main", "warn") in states
    assert ("engines", "ok") in states
    assert picture(scratch) == before


def picture(folder: Path) -> dict[str, tuple[int, int]]:
    """Return every file below with its size and its time of change."""
    return {
        str(path): (path.lstat().st_size, path.lstat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.name != "tmp"
    }


def test_output_into_a_closed_pipe_ends_silently() -> None:
    """Ours: `treadle … | head`."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "treadle", "config", "show"],
            stdout=writing,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            check=False,
            timeout=60,
            env=child_environment(),
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_output_without_utf_8_is_plain(state: Path) -> None:
    """Ours: symbols become words, nothing fails."""
    done = treadle(
        "--state-dir", str(state), "engines", "list",
        PYTHONUTF8="0", PYTHONIOENCODING="ascii", LC_ALL="C",
    )  # fmt: skip
    assert done.returncode == 0
    assert done.stdout.isascii()
    assert "legacy" in done.stdout
