"""A whole Treadle over the scripted model and the real Codex, in a folder that a test owns.

Knows nothing of pytest; `treadle.testing.plugin` makes a fixture of it.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio.to_thread

from treadle.clock import Clock, Ids
from treadle.compose import open_runtime
from treadle.contract.engine import EngineFactory
from treadle.contract.hook import HookRegistration
from treadle.contract.tool import DynamicTool
from treadle.model.json import JsonValue
from treadle.runtime.service import Runtime
from treadle.testing.model import ScriptedModel
from treadle.testing.provider import provider_config, write_config

PROVIDER: Final = "scripted"

MODEL: Final = "scripted-1"
"""A model that Codex does not know: it gets the classic tools."""


class ScriptedRuntimes:
    """Opens runtimes on one state directory, one at a time; the model outlives them.

    A second opening finds what the first one left: the way to test a restart.
    """

    def __init__(self, root: Path, binary: Path, model: ScriptedModel) -> None:
        """Use `root`, which must not lie under the folder for temporary files."""
        self._root = root
        self._binary = binary
        self._model = model

    @property
    def state_dir(self) -> Path:
        """The state directory of all its runtimes."""
        return self._root / "state"

    @property
    def work(self) -> Path:
        """A working folder for sessions; it exists once a runtime was opened."""
        return self._root / "work"

    @asynccontextmanager
    async def __call__(
        self,
        *,
        engine: str = "legacy",
        model: str = MODEL,
        engines: Mapping[str, EngineFactory] | None = None,
        tools: Sequence[DynamicTool] = (),
        hooks: Sequence[HookRegistration] = (),
        settings: Mapping[tuple[str, ...], JsonValue] | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
    ) -> AsyncIterator[Runtime]:
        """Open Treadle with this engine in its slot; the app-server ends with it.

        `engines`, `tools` and `hooks` are the test's own; `settings` go over all others, by their
        path in the configuration file.
        """
        await anyio.to_thread.run_sync(self._prepare)
        overrides: dict[tuple[str, ...], JsonValue] = {
            ("plugins", "slots", "contextEngine"): engine,
            ("plugins", "entries", "codex", "config", "appServer", "command"): str(self._binary),
            ("agents", "defaults", "model"): f"{PROVIDER}/{model}",
            ("models", "providers", PROVIDER, "baseUrl"): self._model.base_url,
            ("models", "providers", PROVIDER, "agentRuntime", "id"): "codex",
            **(settings or {}),
        }
        folders = {"HOME": str(self._root / "home"), "TMPDIR": str(self._root / "tmp")}
        async with open_runtime(
            state_dir=self.state_dir,
            environ={**os.environ, **folders},
            overrides=overrides,
            engines=engines,
            tools=tools,
            hooks=hooks,
            clock=clock,
            ids=ids,
        ) as runtime:
            yield runtime

    def _prepare(self) -> None:
        for name in ("work", "home", "tmp"):
            (self._root / name).mkdir(mode=0o700, exist_ok=True)
        self.state_dir.mkdir(mode=0o700, exist_ok=True)
        home = self.state_dir / "agents" / "main" / "codex"
        write_config(home, provider_config(self._model.base_url))
