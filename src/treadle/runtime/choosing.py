"""What serves a session: which model, which harness, which context engine, and its surroundings.

Names no harness and no engine; settings, session and caller do. Knows nothing of runs. Source: spec
A-01…A-11, B-01.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import anyio.to_thread

from treadle.config.paths import Paths
from treadle.config.records import Provider
from treadle.config.settings import Settings
from treadle.config.state_dir import make_private_folder
from treadle.contract.engine import LEGACY, EngineContext
from treadle.contract.harness import AgentHarness, model_ref
from treadle.contract.store import SessionRecord
from treadle.engines.registry import EngineRegistry
from treadle.harness.selection import RuntimePolicy, Selection, select
from treadle.model.errors import UsageError
from treadle.model.json import JsonObject
from treadle.observe import emit

ENGINE_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
"""Ids of engines that can be names of folders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choosing:
    """Chooses by the caller's word, then the session's, then the agent's."""

    settings: Settings
    paths: Paths
    registry: EngineRegistry
    harnesses: Mapping[str, AgentHarness]
    default_model: str | None = None
    """Stands in where neither the run, the session, the agent nor the settings name a model."""

    engine_configs: Mapping[str, JsonObject] = field(default_factory=dict)

    def model(self, session: SessionRecord, asked: str | None = None) -> str | None:
        """Return the reference of the model; None leaves it to the app-server."""
        stored = session.settings.get("model")
        kept = stored if isinstance(stored, str) else None
        return asked or kept or self.settings.agent(session.agent_id).model or self.default_model

    def harness(self, model: str | None) -> Selection:
        """Select the harness for a model. Raises: HarnessUnavailable."""
        ref = model_ref(model)
        choice = self.settings.runtime(ref.provider, ref.model)
        named = {choice.scope: choice.id} if choice is not None else {}
        provider = self.settings.provider(ref.provider)
        selection = select(
            RuntimePolicy(
                model=named.get("model"), provider=named.get("provider"), agent=named.get("agents")
            ),
            ref,
            tuple(self.harnesses.values()),
            provider_config=_provider_config(provider) if provider is not None else None,
        )
        emit("harness.selected", harness=selection.harness_id, source=selection.source)
        return selection

    def engine_id(self, session: SessionRecord, asked: str | None = None) -> str:
        """Return the id of the engine in the session's slot."""
        stored = session.settings.get("engine")
        kept = stored if isinstance(stored, str) else None
        return asked or kept or self.settings.agent(session.agent_id).engine

    async def engine_context(self, engine_id: str, session: SessionRecord) -> EngineContext:
        """Return what the engine's factory is given; its data directory is made, private (B-01).

        The working folder is the session's, else the agent's, whose own one is made. Raises:
        UsageError if it is not there, StateDirectoryRefused or StoreFull where ours cannot be made.
        """
        paths = self.paths
        data_dir: Path | None = paths.engine_data(engine_id)
        if not self.registry.knows(engine_id) or ENGINE_ID.fullmatch(engine_id) is None:
            data_dir = None  # a mistyped id leaves no folder, and an odd one is no folder's name
        own = paths.agent_workspace(session.agent_id)
        workspace = self.settings.agent(session.agent_id).workspace
        folder = Path(session.cwd) if session.cwd is not None else workspace or own
        made = [data_dir] if data_dir is not None and engine_id != LEGACY else []
        if folder == own:
            made.append(own)
        await anyio.to_thread.run_sync(_ready_folders, folder, made)
        return EngineContext(
            config=self.engine_configs.get(engine_id, {}),
            agent_dir=str(paths.agent_dir(session.agent_id)),
            workspace_dir=str(folder),
            data_dir=str(data_dir) if data_dir is not None else None,
        )


def _ready_folders(folder: Path, made: Sequence[Path]) -> None:
    """Make our own folders, private; refuse a working folder that is not there.

    Raises: UsageError, StateDirectoryRefused, StoreFull.
    """
    for own in made:
        make_private_folder(own)
    if not folder.is_dir():
        raise UsageError(
            f"the working folder {str(folder)!r} is not there",
            next_step="Make it, or name another one with --cwd.",
        )


def _provider_config(provider: Provider) -> JsonObject:
    """Return what selection looks at (spec A-11); secrets stay where they are."""
    return {"baseUrl": provider.base_url, "headers": bool(provider.headers)}
