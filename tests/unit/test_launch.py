"""The child's environment, the command line, and which binary may be run."""

from __future__ import annotations

import os
import platform
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.model.errors import ConfigError, ProcessStartError, VersionUnsupported
from treadle.model.json import JsonValue
from treadle.wire.binary import check_version, inspect, locate, parse_version
from treadle.wire.environment import child_environment, refused_names
from treadle.wire.launch import codex_argv, launch_key, toml_value

CANARIES = {
    "TREADLE_TOKEN": "c1",
    "MY_API_KEY": "c2",
    "AWS_SECRET_ACCESS_KEY": "c3",
    "OPENAI_API_KEY": "c4",
    "DATABASE_URL": "c5",
    "LD_PRELOAD": "c6",
    "BASH_ENV": "c7",
    "PYTHONPATH": "c8",
    "GIT_SSH_COMMAND": "c9",
    "NODE_OPTIONS": "c10",
    "CODEX_HOME": "c11",
}


def test_only_named_variables_reach_the_child() -> None:
    """RS43, F4."""
    passed = {"PATH": "/bin", "LC_ALL": "C", "https_proxy": "http://p", "SSL_CERT_FILE": "/c"}
    found = child_environment({**passed, **CANARIES}, {"CODEX_HOME": "/h"})
    assert found == {
        **passed,
        "CODEX_HOME": "/h",
        "NO_PROXY": "127.0.0.1,localhost,::1",
        "no_proxy": "127.0.0.1,localhost,::1",
    }


def test_loopback_joins_the_proxy_exceptions_that_are_there() -> None:
    found = child_environment({"NO_PROXY": "a.example, localhost", "no_proxy": "b.example"}, {})
    assert found["NO_PROXY"] == found["no_proxy"] == "a.example,localhost,b.example,127.0.0.1,::1"


@pytest.mark.parametrize(
    "name",
    [
        *("LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONSTARTUP", "NODE_OPTIONS"),
        *("BASH_ENV", "GIT_SSH_COMMAND", "MY_TOKEN", "my_api_key", "X_SECRET", "A=B", "", "1A"),
    ],
)
def test_override_that_steers_programs_or_holds_a_secret_is_refused(name: str) -> None:
    """RS43: for the child and for MCP servers."""
    assert refused_names({name: "x", "FINE": "y"}) == (name,)
    with pytest.raises(ConfigError) as caught:
        child_environment({}, {name: "x"})
    assert repr(name) in caught.value.faults[0]


def test_model_key_is_the_one_secret_that_passes() -> None:
    assert child_environment({}, {}, model_keys={"MY_API_KEY": "k"})["MY_API_KEY"] == "k"
    with pytest.raises(ConfigError):
        child_environment({}, {}, model_keys={"LD_PRELOAD": "k"})


SCALARS = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text()
VALUES: st.SearchStrategy[JsonValue] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(VALUES)
def test_value_on_the_command_line_is_one_line_of_toml_and_reads_back(value: JsonValue) -> None:
    """Threat model: argv values are serialised as TOML by us."""
    text = toml_value(value)
    assert "\n" not in text
    assert "\r" not in text
    assert tomllib.loads(f"x = {text}")["x"] == value


@pytest.mark.parametrize("value", [None, [None], "\ud800"])
def test_value_that_toml_cannot_say_is_refused(value: JsonValue) -> None:
    with pytest.raises(ConfigError):
        toml_value(value)


@pytest.mark.parametrize("key", ["", "-c", "a b", "a=b", "a..b", 'a."b"', "a\nb"])
def test_odd_config_key_is_refused(key: str) -> None:
    with pytest.raises(ConfigError):
        launch_key(Path("/h"), {key: 1})


def test_argv_holds_the_settings_and_no_shell() -> None:
    argv = codex_argv(Path("/bin/codex"), launch_key(Path("/h"), {"model": 'a"; rm -rf ~'}))
    assert argv[0] == "/bin/codex"
    assert argv[-1] == "app-server"
    assert 'model="a\\"; rm -rf ~"' in argv
    assert "features.shell_snapshot=false" in argv
    assert 'shell_environment_policy.inherit="core"' in argv
    assert not any("trust" in part for part in argv)


def test_equal_settings_in_another_order_are_the_same_app_server() -> None:
    one = launch_key(Path("/h"), {"a": 1, "b": 2})
    assert one == launch_key(Path("/h"), {"b": 2, "a": 1})
    assert hash(one) != hash(launch_key(Path("/h"), {"a": 2, "b": 1}))


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("codex-cli 0.163.0\n", (0, 163, 0)),
        ("codex-cli 0.170.0-alpha.1", (0, 170, 0)),
        ("1.2.3", (1, 2, 3)),
    ],
)
def test_version_is_read(text: str, version: tuple[int, int, int]) -> None:
    assert parse_version(text)[0] == version


@pytest.mark.parametrize("text", ["", "codex", "codex 0.163"])
def test_missing_or_malformed_version_is_refused(text: str) -> None:
    """Spec F-26."""
    with pytest.raises(VersionUnsupported):
        parse_version(text)


def test_version_floor_and_ceiling() -> None:
    """Decision 9, RS55."""
    assert check_version((0, 149, 0), "0.149.0") is None
    assert check_version((0, 171, 0), "0.171.0") is None
    assert "newer" in str(check_version((0, 171, 1), "0.171.1"))
    with pytest.raises(VersionUnsupported, match=r"0\.149\.0"):
        check_version((0, 1, 0), "0.1.0")


def program(path: Path, content: bytes = b"#!/bin/sh\n", mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)
    return path


def open_folder(root: Path) -> Path:
    found = program(root / "open" / "codex")
    found.parent.chmod(0o777)
    return found


def foreign(root: Path) -> Path:
    number = 183 if platform.machine() == "x86_64" else 62
    head = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00" + number.to_bytes(2, "little")
    return program(root / "codex", head + bytes(44))


REFUSED: list[tuple[str, Callable[[Path], Path]]] = [
    ("does not exist", lambda root: root / "none"),
    ("no file", lambda root: root),
    ("may not be executed", lambda root: program(root / "codex", mode=0o644)),
    ("everybody may change it", lambda root: program(root / "codex", mode=0o757)),
    ("everybody may change its folder", open_folder),
    ("it is built for", foreign),
    ("inside the workspace", lambda root: program(root / "work" / "bin" / "codex")),
]


@pytest.mark.parametrize(("why", "make"), REFUSED, ids=[row[0] for row in REFUSED])
def test_binary_is_refused(scratch: Path, why: str, make: Callable[[Path], Path]) -> None:
    """RS55, supply chain."""
    if why == "may not be executed" and os.geteuid() == 0:
        assert not os.access(make(scratch), os.X_OK)  # root needs one x bit too
    with pytest.raises(ProcessStartError, match=why):
        inspect(make(scratch), scratch / "work")


def test_link_into_the_workspace_is_followed_and_refused(scratch: Path) -> None:
    """RS55."""
    link = scratch / "codex"
    link.symlink_to(program(scratch / "work" / "codex"))
    with pytest.raises(ProcessStartError, match="inside the workspace"):
        inspect(link, scratch / "work")
    real, _ = inspect(link, scratch / "elsewhere")
    assert real == (scratch / "work" / "codex").resolve()


def test_configured_path_must_be_absolute(scratch: Path) -> None:
    with pytest.raises(ProcessStartError, match="not absolute"):
        locate("bin/codex", {})
    assert locate(str(scratch / "x"), {}) == scratch / "x"
