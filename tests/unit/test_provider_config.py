"""The settings that keep Codex on loopback."""

from __future__ import annotations

import tomllib
from pathlib import Path

from treadle.testing.provider import dotted, provider_config, toml_from, write_config


def test_toml_and_dict_say_the_same(tmp_path: Path) -> None:
    config = provider_config('http://127.0.0.1:1/a"b/v1', model="m")
    assert tomllib.loads(toml_from(config)) == config
    write_config(tmp_path / "home", {**config, "tags": ["a", 1, True]})
    written = tomllib.loads((tmp_path / "home" / "config.toml").read_text(encoding="utf-8"))
    assert written == {**config, "tags": ["a", 1, True]}


def test_dotted_keys_name_every_leaf() -> None:
    keys = dotted(provider_config("http://127.0.0.1:1/v1", provider="p"))
    assert keys["model_providers.p.base_url"] == "http://127.0.0.1:1/v1"
    assert keys["features.unbounded_connection_retries"] is False
    assert keys["model_provider"] == "p"
