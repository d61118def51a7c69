"""The root of the settings and the questions that other rooms ask it; knows nothing of files."""

# ruff: noqa: RUF009 - `setting` returns a dataclass field, made anew for each record

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from treadle.config.codex import CodexConfig, HomeScope
from treadle.config.deadlines import Deadlines
from treadle.config.kinds import Flag
from treadle.config.reading import Secret, dotted, nearest
from treadle.config.records import (
    AgentEntry,
    Agents,
    Effort,
    Hooks,
    Lanes,
    LogSettings,
    Memory,
    Messages,
    Models,
    Plugins,
    Provider,
    RuntimeId,
    Store,
    Tools,
)
from treadle.config.tables import Table, setting
from treadle.model.errors import NotFound
from treadle.model.ids import AgentId

MAIN = AgentId("main")
"""The agent that always exists."""

DEFAULT_SOURCE = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned:
    """Something in the settings that works and still needs a word."""

    key: str
    """The dotted key, or the variable."""
    text: str
    where: str
    """As `config.toml:14` or `environment`."""

    def __str__(self) -> str:
        return f"{self.where}: {self.key}: {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """An agent with its defaults filled in."""

    agent_id: AgentId
    workspace: Path | None
    """None: `paths.agent_workspace(agent_id)`."""
    model: str | None
    engine: str
    home_scope: HomeScope
    effort: Effort | None
    timeout_s: float | None
    """None: no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeChoice:
    """What the settings say about a model's runtime, and on which level."""

    id: RuntimeId
    scope: Literal["model", "provider", "agents"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings, checked; with none given, every default."""

    agents: Agents = setting(Table(Agents), Agents(), "Agents.")
    models: Models = setting(Table(Models), Models(), "Models.")
    plugins: Plugins = setting(Table(Plugins), Plugins(), "Plugins.")
    memory: Memory = setting(Table(Memory), Memory(), "Memory.")
    messages: Messages = setting(Table(Messages), Messages(), "Messages.")
    tools: Tools = setting(Table(Tools), Tools(), "Tools.")
    hooks: Hooks = setting(Table(Hooks), Hooks(), "Hooks.")
    lanes: Lanes = setting(Table(Lanes), Lanes(), "Lanes.")
    deadlines: Deadlines = setting(Table(Deadlines), Deadlines(), "Deadlines.")
    store: Store = setting(Table(Store), Store(), "Store.")
    log: LogSettings = setting(Table(LogSettings), LogSettings(), "Log.")
    finalize_on_failure: bool = setting(
        Flag(), True,
        "Give the context engine the transcript also after a failed or aborted turn.",
    )  # fmt: skip

    old_default_runtime: RuntimeId | None = None
    """From the old whole-agent keys; counts only where no provider or model says one (A-05)."""
    config_file: Path | None = field(default=None, compare=False)
    """The file that was read; None when there is none."""
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Dotted key → where its value came from, for every key that was given."""
    warnings: tuple[Warned, ...] = field(default=(), compare=False)

    @property
    def codex(self) -> CodexConfig:
        """The codex plugin's settings."""
        return self.plugins.entries.codex.config

    @property
    def engine(self) -> str:
        """The id in the context-engine slot."""
        return self.plugins.slots.context_engine

    def agent(self, agent_id: str = MAIN) -> Agent:
        """Return an agent with its defaults filled in. Raises: NotFound."""
        entry = self.agents.entries.get(agent_id)
        if entry is None:
            if agent_id != MAIN:
                raise self._no_agent(agent_id)
            entry = AgentEntry()
        defaults = self.agents.defaults
        return Agent(
            agent_id=AgentId(agent_id),
            workspace=entry.workspace,
            model=entry.model or defaults.model,
            engine=entry.engine or self.engine,
            home_scope=entry.home_scope or self.codex.app_server.home_scope,
            effort=entry.effort,
            timeout_s=defaults.timeout_seconds or None,
        )

    def _no_agent(self, agent_id: str) -> NotFound:
        known = self.agent_ids()
        meant = nearest(agent_id, known)
        return NotFound(
            f"there is no agent {agent_id!r}; there are: {', '.join(known)}",
            next_step=f"Use --agent {meant}" if meant else f"Add [agents.entries.{agent_id}]",
            agent=agent_id,
        )

    def agent_ids(self) -> tuple[AgentId, ...]:
        """Return all agents, `main` first."""
        others = sorted(set(self.agents.entries) - {MAIN})
        return (MAIN, *(AgentId(one) for one in others))

    def provider(self, provider_id: str | None) -> Provider | None:
        """Return a provider's settings, None where there are none."""
        return self.models.providers.get(provider_id) if provider_id else None

    def runtime(self, provider_id: str | None, model: str | None) -> RuntimeChoice | None:
        """Return the runtime that the settings name: the model's, the provider's, the old default.

        None: nothing was said. Source: spec A-04, A-05.
        """
        provider = self.provider(provider_id)
        if provider is not None:
            entry = provider.models.get(model) if model else None
            if entry is not None and entry.agent_runtime.id is not None:
                return RuntimeChoice(id=entry.agent_runtime.id, scope="model")
            if provider.agent_runtime.id is not None:
                return RuntimeChoice(id=provider.agent_runtime.id, scope="provider")
        if self.old_default_runtime is not None:
            return RuntimeChoice(id=self.old_default_runtime, scope="agents")
        return None

    def source(self, key: tuple[str, ...]) -> str:
        """Return where a key's value came from: a file and line, a variable, a flag, `default`."""
        return self.sources.get(dotted(key), DEFAULT_SOURCE)

    def secrets(self) -> tuple[str, ...]:
        """Return the secret texts that stand in the settings themselves, to be redacted."""
        held: list[Secret] = [*self.codex.app_server.headers.values()]
        if self.codex.app_server.auth_token is not None:
            held.append(self.codex.app_server.auth_token)
        for provider in self.models.providers.values():
            held.extend(provider.headers.values())
        return tuple(secret.reveal() for secret in held)
