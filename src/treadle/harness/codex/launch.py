"""What each native thread is told: providers, features, sandbox and approvals.

Knows nothing of turns. Nothing here is persisted by Codex: `config` goes with every start and
resume (decisions 1, 2).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from treadle.config.records import Provider
from treadle.contract.harness import ModelRef
from treadle.model.json import JsonObject, JsonValue

APPROVAL_POLICY: Final = "on-request"
APPROVALS_REVIEWER: Final = "user"
SANDBOX_POLICY: Final[JsonObject] = {"type": "readOnly"}
"""Until approvals exist, turns read and ask; every question is refused (decision 27)."""

PERSONALITY: Final = "none"
"""Source: spec F-01."""

SERVICE_NAME: Final = "OpenClaw"
"""A literal of the contract (spec F-02)."""

OPENAI: Final = "openai"
"""The provider that is Codex's own; an address set for it takes the place of the official one."""

OPENAI_ELSEWHERE: Final = "openai-elsewhere"
"""What Codex is told of `openai` at another address: its own login, but over plain HTTP alone.

With `openai_base_url` Codex tries WebSockets first and gives them up after some six seconds
(0.163).
"""

NATIVE_PROVIDERS: Final = frozenset({None, "codex", OPENAI})
"""References that name no provider of ours: Codex uses its own login (spec F-08)."""

NO_NATIVE_TOOLS: Final[JsonObject] = {
    "features.shell_tool": False,
    "features.view_image": False,
    "features.multi_agent": False,
    "features.goals": False,
    "features.sleep_tool": False,
    "features.tool_suggest": False,
    "features.skill_search": False,
    "features.image_generation": False,
    "tools.experimental_request_user_input.enabled": False,
    "web_search": "disabled",
}
"""What takes Codex's own tools off a thread (spec D-39).

`apply_patch` of catalog models goes only with the empty `environments` of `turn/start` (0.163). A
model that writes scripts keeps `exec` and `wait`, which then reach dynamic tools alone, and tools
for agents, none of which starts from an ephemeral thread.
"""

_KEY_TIMEOUT_MS: Final = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderLaunch:
    """A model provider that Codex does not know by itself."""

    id: str
    base_url: str
    key_file: str | None = None
    """Read by a command when a request is made.

    The key is in no argument, environment or file of ours.
    """

    key_variable: str | None = None
    headers: JsonObject = field(default_factory=dict)
    request_max_retries: int = 4
    stream_max_retries: int = 5

    def to_config(self) -> JsonObject:
        """Return the table that Codex takes under `model_providers.<id>`."""
        table: dict[str, JsonValue] = {
            "name": self.id,
            "base_url": self.base_url,
            "wire_api": "responses",
            "supports_websockets": False,
            "requires_openai_auth": self.id == OPENAI,
            "request_max_retries": self.request_max_retries,
            "stream_max_retries": self.stream_max_retries,
        }
        if self.key_file is not None:
            table["auth"] = {
                "command": "/bin/cat",
                "args": [self.key_file],
                "timeout_ms": _KEY_TIMEOUT_MS,
            }
        elif self.key_variable is not None:
            table["env_key"] = self.key_variable
        if self.headers:
            table["http_headers"] = dict(self.headers)
        return table


def provider_launch(provider_id: str, provider: Provider) -> ProviderLaunch | None:
    """Return how a configured provider is told to Codex; None if it names no address of its own."""
    if provider.base_url is None:
        return None
    return ProviderLaunch(
        id=provider_id,
        base_url=provider.base_url,
        key_file=str(provider.api_key_file) if provider.api_key_file else None,
        key_variable=provider.api_key_env,
        headers={name: secret.reveal() for name, secret in provider.headers.items()},
    )


def thread_config(
    provider: ProviderLaunch | None,
    *,
    window: int | None = None,
    lightweight: bool = False,
    native_tools: bool = True,
) -> JsonObject:
    """Return the `config` of a thread, the same on start, resume and fork.

    Base and model instructions, project docs, skills and native compaction stay Codex's own (spec
    E-10, E-16, J-39). `window` is the model's context window in tokens where somebody configured
    it; Codex compacts by it, and takes it only where it lowers what Codex knows (facts section 2).
    """
    config: dict[str, JsonValue] = {
        # A login shell per thread dominates the start of many threads (facts, section 13).
        "features.shell_snapshot": False,
        # Else a dead endpoint hangs a turn for ever (facts, section 11).
        "features.unbounded_connection_retries": False,
        # Commands see nothing of the app-server's environment beyond the core (F4, RS43). One key
        # and not the table, which would take the marker of the process from them (F8).
        "shell_environment_policy.inherit": "core",
    }
    if provider is not None:
        config["model_providers"] = {wire_id(provider): provider.to_config()}
    if window is not None:
        config["model_context_window"] = window
    if lightweight:
        config["project_doc_max_bytes"] = 0
    if not native_tools:
        config |= NO_NATIVE_TOOLS
    return config


def wire_id(provider: ProviderLaunch) -> str:
    """Return the id under which Codex knows a provider of ours; it keeps `openai` for itself."""
    return OPENAI_ELSEWHERE if provider.id == OPENAI else provider.id


def codex_provider(model: ModelRef) -> str | None:
    """Return the `modelProvider` to send; None where Codex's own login serves (spec F-08)."""
    return None if model.provider in NATIVE_PROVIDERS else model.provider
