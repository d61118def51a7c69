"""The configuration as a file and an environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from treadle.config import Settings, find_paths, load_settings, value_rows
from treadle.model.errors import ConfigError
from treadle.model.ids import AgentId

MAIN = AgentId("main")


class World:
    """A home folder, an environment and a configuration in it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environ: dict[str, str] = {"HOME": str(home), "TMPDIR": str(home / "tmp")}
        self.file = home / ".config" / "treadle" / "config.toml"

    def write(self, text: str | bytes) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_bytes(text.encode() if isinstance(text, str) else text)

    def load(self, overrides: Mapping[tuple[str, ...], Any] | None = None) -> Settings:
        return load_settings(find_paths(self.environ), self.environ, overrides)

    def faults(self) -> tuple[str, ...]:
        with pytest.raises(ConfigError) as refused:
            self.load()
        assert refused.value.next_step
        return refused.value.faults


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_no_file_means_every_default(world: World) -> None:
    settings = world.load()
    assert settings == Settings()
    assert settings.config_file is None
    assert settings.source(("log", "level")) == "default"


def test_five_errors_are_listed_at_once_with_their_lines(world: World) -> None:
    """Issue 2: config with five errors."""
    world.write(
        '[agents.defaults]\ntimeoutSeconds = "long"\nmodle = "x"\n\n'
        '[plugins.slots]\ncontextEngin = "legacy"\n'
        '[plugins.entries.codex.config.projection]\nmode = "histroy"\n[stroe]\n'
    )
    assert world.faults() == (
        'config.toml:2: agents.defaults.timeoutSeconds: found "long", '
        "allowed: number of seconds from 0 to 31,536,000",
        'config.toml:3: agents.defaults.modle: unknown key; did you mean "model"?',
        'config.toml:6: plugins.slots.contextEngin: unknown key; did you mean "contextEngine"?',
        'config.toml:8: plugins.entries.codex.config.projection.mode: found "histroy", '
        'allowed: auto | history | prompt; did you mean "history"?',
        'config.toml:9: stroe: unknown key; did you mean "store"?',
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a = [1,\nb", "is not TOML"),
        (b'a = "\xff"\n', "config.toml:1: is not UTF-8"),
        (b"x" * 1_000_001, "1000001 bytes"),
        (b"a = " + b"[" * 5000, "is not TOML"),
    ],
)
def test_a_file_that_is_no_configuration_is_refused(
    world: World, content: bytes, expected: str
) -> None:
    world.write(content)
    (fault,) = world.faults()
    assert expected in fault


def test_a_byte_order_mark_and_crlf_are_fine(world: World) -> None:
    world.write(b'\xef\xbb\xbf[log]\r\nlevel = "debug"\r\n')
    settings = world.load()
    assert settings.log.level == "debug"
    assert settings.source(("log", "level")) == "config.toml:2"


def test_a_folder_in_the_place_of_the_file_is_refused(world: World) -> None:
    world.file.mkdir(parents=True)
    assert "not a file" in world.faults()[0]


def test_a_named_file_must_exist_and_its_name_be_absolute(world: World) -> None:
    world.environ["TREADLE_CONFIG"] = str(world.home / "none.toml")
    assert "does not exist" in world.faults()[0]
    world.environ["TREADLE_CONFIG"] = "relative.toml"
    with pytest.raises(ConfigError, match="not an absolute path"):
        world.load()


def test_command_line_beats_environment_beats_file_beats_default(world: World) -> None:
    world.write('[agents.defaults]\nmodel = "file"\n')
    seen = [
        (world.load().agents.defaults.model, world.load().source(("agents", "defaults", "model")))
    ]
    world.environ["TREADLE_MODEL"] = "variable"
    settings = world.load()
    seen.append((settings.agents.defaults.model, settings.source(("agents", "defaults", "model"))))
    settings = world.load({("agents", "defaults", "model"): "flag"})
    seen.append((settings.agents.defaults.model, settings.source(("agents", "defaults", "model"))))
    assert seen == [
        ("file", "config.toml:2"),
        ("variable", "environment TREADLE_MODEL"),
        ("flag", "command line"),
    ]


def test_an_empty_variable_counts_as_not_set(world: World) -> None:
    world.environ.update(TREADLE_MODEL="", TREADLE_CONFIG="", TREADLE_STATE_DIR="")
    assert world.load() == Settings()


def test_a_bad_variable_is_a_fault_that_names_it(world: World) -> None:
    world.environ["TREADLE_MODEL"] = "--config=x"
    assert world.faults()[0].startswith("environment TREADLE_MODEL: agents.defaults.model: found")


def test_old_variables_work_with_a_warning_and_lose_against_new_ones(world: World) -> None:
    """Spec V-18, V-30."""
    world.environ.update(
        OPENCLAW_CODEX_APP_SERVER_BIN="/old/codex",
        OPENCLAW_CODEX_APP_SERVER_ARGS='app-server --listen "stdio://"',
        OPENCLAW_CODEX_APP_SERVER_MODE="guardian",
        OPENCLAW_CODEX_APP_SERVER_APPROVAL_POLICY="never",
        OPENCLAW_CODEX_APP_SERVER_SANDBOX="read-only",
        OPENCLAW_CODEX_APP_SERVER_GUARDIAN="1",
    )
    server = (settings := world.load()).codex.app_server
    assert (server.command, server.args) == ("/old/codex", ("app-server", "--listen", "stdio://"))
    assert (server.mode, server.approval_policy, server.sandbox) == (
        "guardian",
        "never",
        "read-only",
    )
    old = [warned.key for warned in settings.warnings if warned.where == "environment"]
    assert len(old) == 6
    world.environ["TREADLE_CODEX"] = "/new/codex"
    assert world.load().codex.app_server.command == "/new/codex"


def test_a_mistyped_variable_is_named(world: World) -> None:
    world.environ["TREADLE_STATEDIR"] = "/x"
    (warned,) = world.load().warnings
    assert "did you mean TREADLE_STATE_DIR?" in str(warned)


def test_relative_paths_start_at_the_file(world: World) -> None:
    world.write('[models.providers.p]\nbaseUrl = "http://h/v1/"\napiKeyFile = "p.key"\n')
    provider = world.load().models.providers["p"]
    assert provider.api_key_file == world.file.parent / "p.key"
    assert provider.base_url == "http://h/v1"


def test_a_provider_has_one_place_for_its_key_and_an_address(world: World) -> None:
    world.write('[models.providers.p]\napiKeyFile = "k"\napiKeyEnv = "K"\n')
    assert [fault.partition(": ")[2] for fault in world.faults()] == [
        "models.providers.p.apiKeyEnv: apiKeyFile is set too; allowed: one of them",
        "models.providers.p: has a key and no baseUrl; allowed: a provider with its address",
    ]


def test_deadlines_set_elsewhere_stand_in_the_one_record(world: World) -> None:
    """Spec A-17, J-10, V-09."""
    world.write(
        "[agents.defaults]\ntimeoutSeconds = 60\ncompaction.timeoutSeconds = 5\n"
        "[plugins.entries.codex.config.appServer]\nrequestTimeoutMs = 1500\n"
        "[deadlines]\nengineCallSeconds = 2\n"
    )
    deadlines = world.load().deadlines
    assert (deadlines.run_s, deadlines.compaction_s, deadlines.request_s) == (60, 5, 1.5)
    assert deadlines.engine_call_s == 2


def test_every_value_is_shown_with_its_source_and_no_secret(world: World) -> None:
    """INV-22; `config show --source`."""
    world.write('[models.providers.p]\nbaseUrl = "http://h"\nheaders = {X-Key = "hush-hush"}\n')
    rows = {row.key: row for row in value_rows(world.load())}
    assert rows["models.providers.p.headers.X-Key"].value == "set"
    assert rows["models.providers.p.headers.X-Key"].source == "config.toml:3"
    assert rows["models.providers.p.baseUrl"].source == "config.toml:2"
    assert rows["plugins.slots.contextEngine"].value == "legacy"
    assert rows["plugins.slots.contextEngine"].source == "default"
    assert "hush" not in repr(rows)


def test_places_follow_xdg_and_ignore_its_relative_paths(world: World) -> None:
    world.environ.update(XDG_CONFIG_HOME="/c", XDG_STATE_HOME="relative")
    paths = find_paths(world.environ)
    assert paths.config_file == Path("/c/treadle/config.toml")
    assert paths.state == world.home / ".local" / "state" / "treadle"
    assert paths.logs == paths.state / "logs"
    assert paths.agent_workspace(MAIN) == paths.state / "agents" / "main" / "workspace"
    world.environ["TREADLE_STATE_DIR"] = "/s"
    assert find_paths(world.environ).state == Path("/s")
    assert find_paths(world.environ, state=Path("/t")).state == Path("/t")


def test_without_home_the_user_database_says_where_home_is() -> None:
    assert find_paths({}).home == Path(os.path.expanduser("~"))


def test_a_codex_home_is_the_agents_own_or_the_persons(world: World) -> None:
    """Spec V-06."""
    paths = find_paths(world.environ)
    own = paths.codex_home(MAIN, "agent", world.environ)
    assert own == paths.state / "agents" / "main" / "codex"
    assert paths.codex_home(MAIN, "user", world.environ) == world.home / ".codex"
    named = {**world.environ, "CODEX_HOME": "/elsewhere"}
    assert paths.codex_home(MAIN, "user", named) == Path("/elsewhere")


def test_a_codex_home_under_the_temporary_folder_is_refused_also_through_a_link(
    world: World,
) -> None:
    """Facts, codex app-server section 1."""
    temporary = world.home / "tmp"
    temporary.mkdir()
    (world.home / "link").symlink_to(temporary)
    for state in (temporary / "state", world.home / "link" / "state"):
        paths = find_paths(world.environ, state=state)
        with pytest.raises(ConfigError, match="temporary files") as refused:
            paths.codex_home(MAIN, "agent", world.environ)
        assert "TREADLE_STATE_DIR" in refused.value.next_step
