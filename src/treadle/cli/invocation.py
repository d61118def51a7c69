"""What every command is given: the global options, the output, and the places.

Knows nothing of any command.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from treadle.cli.output import Output

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from treadle.config.paths import Paths
    from treadle.config.settings import Settings
    from treadle.contract.tool import DynamicTool
    from treadle.gateway.attach import Owned
    from treadle.gateway.face import Face
    from treadle.model.json import JsonValue
    from treadle.observe.events import Level
    from treadle.runtime.service import Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """One call of the program."""

    output: Output
    config: str | None = None
    """What `--config` said."""
    state: str | None = None
    """What `--state-dir` said."""
    verbosity: int = 0
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def paths(self) -> Paths:
        """Return the places. Raises: ConfigError."""
        from treadle.config.paths import find_paths

        return find_paths(
            self.environ,
            config=Path(self.config).absolute() if self.config else None,
            state=Path(self.state).absolute() if self.state else None,
        )

    def settings(self, overrides: Mapping[tuple[str, ...], JsonValue] | None = None) -> Settings:
        """Read the settings. Raises: ConfigError with every fault."""
        from treadle.config.load import load_settings

        return load_settings(self.paths(), self.environ, overrides)

    def stderr_level(self) -> Level | None:
        """Return which log events also go to stderr: none, with `-v` info, with `-vv` all."""
        from treadle.observe.events import Level

        if self.verbosity == 0:
            return None
        return Level.INFO if self.verbosity == 1 else Level.DEBUG

    def face(
        self, *, offline: bool = False, submits: bool = False
    ) -> AbstractAsyncContextManager[Face]:
        """Return sessions and runs, here or in the process that owns them, to be opened.

        `submits` says that messages will be sent: an owner that is about to end takes none.
        """
        from treadle.clock import RandomIds, SystemClock
        from treadle.gateway.attach import Wish
        from treadle.gateway.face import open_face

        paths = self.paths()
        wish = Wish(
            offline=offline,
            config_file=paths.config_file if paths.config_is_named else None,
            submits=submits,
        )

        def own() -> AbstractAsyncContextManager[Owned]:
            from treadle.compose import open_owned

            return open_owned(
                paths=paths,
                environ=self.environ,
                accepts=submits,
                offline=offline,
                stderr_level=self.stderr_level(),
            )

        return open_face(paths.state, wish, own, ids=RandomIds(SystemClock()), tell=self.output.say)

    def runtime(
        self,
        *,
        offline: bool = False,
        overrides: Mapping[tuple[str, ...], JsonValue] | None = None,
        tools: Sequence[DynamicTool] = (),
    ) -> AbstractAsyncContextManager[Runtime]:
        """Return the runtime, to be opened."""
        from treadle.compose import open_runtime

        return open_runtime(
            paths=self.paths(),
            environ=self.environ,
            overrides=overrides,
            offline=offline,
            tools=tools,
            stderr_level=self.stderr_level(),
            resume=False,
        )
