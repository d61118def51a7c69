"""Settings that point Codex at a model on loopback and keep it off every other network.

Knows nothing of processes. Source: facts on codex app-server 0.163, section 1.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from treadle.model.json import JsonObject, JsonValue

BARE_CONFIG: Final[Mapping[str, JsonValue]] = {
    "project_doc_max_bytes": 0,
    "include_environment_context": False,
    "include_permissions_instructions": False,
    "include_apps_instructions": False,
    "include_collaboration_mode_instructions": False,
    "skills.include_instructions": False,
    "skills.bundled.enabled": False,
    "web_search": "disabled",
    "features.goals": False,
    "features.image_generation": False,
    "features.multi_agent": False,
    "features.shell_snapshot": False,
    "features.shell_tool": False,
    "features.skill_search": False,
    "features.sleep_tool": False,
    "features.tool_suggest": False,
    "features.view_image": False,
    "tools.experimental_request_user_input.enabled": False,
}
"""`config` for `thread/start`, `resume` and `fork` that leaves only base and developer instructions
and the caller's own tools in the prompt (code-mode models keep `exec`). Codex does not store it
with the thread: pass it on every load. Never for user turns of the product (spec E-16)."""


def provider_config(
    base_url: str,
    *,
    model: str = "scripted-1",
    provider: str = "scripted",
    request_max_retries: int = 1,
    stream_max_retries: int = 1,
    stream_idle_timeout_ms: int = 20_000,
) -> dict[str, JsonValue]:
    """Return the settings as a nested dict, as `config.toml` or a thread's `config` takes them.

    With them the only traffic of Codex is `POST <base_url>/responses`, and a dead endpoint fails a
    turn instead of being waited for.
    """
    return {
        "model": model,
        "model_provider": provider,
        "check_for_update_on_startup": False,
        "analytics": {"enabled": False},
        "feedback": {"enabled": False},
        "otel": {"exporter": "none", "metrics_exporter": "none"},
        "model_providers": {
            provider: {
                "name": provider,
                "base_url": base_url,
                "wire_api": "responses",
                "supports_websockets": False,
                "requires_openai_auth": False,
                "request_max_retries": request_max_retries,
                "stream_max_retries": stream_max_retries,
                "stream_idle_timeout_ms": stream_idle_timeout_ms,
            }
        },
        "features": {
            "plugins": False,
            "apps": False,
            "remote_plugin": False,
            "unbounded_connection_retries": False,
        },
    }


def dotted(config: JsonObject) -> dict[str, JsonValue]:
    """Return a nested dict as dotted keys, as `-c key=value` and a thread's `config` take them."""
    return dict(_dotted(config, ()))


def toml_from(config: JsonObject) -> str:
    """Write a nested dict as TOML, one dotted key a line."""
    return "".join(f"{key} = {_toml(value)}\n" for key, value in _dotted(config, ()))


def write_config(home: Path, config: JsonObject) -> None:
    """Write `config.toml` into a private `CODEX_HOME`, which is made if need be."""
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    (home / "config.toml").write_text(toml_from(config), encoding="utf-8")


def _dotted(config: JsonObject, above: tuple[str, ...]) -> Iterator[tuple[str, JsonValue]]:
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from _dotted(value, (*above, key))
        else:
            yield ".".join((*above, key)), value


def _toml(value: JsonValue) -> str:
    if isinstance(value, str):
        return json.dumps(value).replace("\\/", "/")
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml(part) for part in value)}]"
    return json.dumps(value)
