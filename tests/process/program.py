"""`treadle` as a program over the pinned codex, with a state directory of a test's own."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import anyio.to_thread

from treadle.testing.model import ScriptedModel

COMPILED = Path.home() / ".cache" / "treadle-tests" / "compiled"
"""Compiled modules of the children: without it each of them compiles everything anew."""


class Program:
    """`treadle` with a state directory of its own, on the pinned codex."""

    def __init__(self, scratch: Path, codex: Path) -> None:
        self.state = scratch / "state"
        self.config = scratch / "config.toml"
        self.config.touch()
        self.environment = {
            **{k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"},
            "PYTHONPYCACHEPREFIX": str(COMPILED),
            "PYTHONUTF8": "1",
            "HOME": str(scratch),
            "TREADLE_CODEX": str(codex),
        }

    def argv(self, *arguments: str) -> list[str]:
        places = ["--config", str(self.config), "--state-dir", str(self.state)]
        return [sys.executable, "-m", "treadle", *places, *arguments]

    async def run(
        self, *arguments: str, stdin: str = "", exit_code: int = 0
    ) -> subprocess.CompletedProcess[bytes]:
        with anyio.fail_after(90):
            done = await anyio.run_process(
                self.argv(*arguments), input=stdin.encode(), check=False, env=self.environment
            )
        assert done.returncode == exit_code, done.stderr.decode()
        return done

    async def answer(self, *arguments: str, stdin: str = "", exit_code: int = 0) -> str:
        done = await self.run(*arguments, stdin=stdin, exit_code=exit_code)
        return done.stdout.decode().rstrip("\n")

    def use(self, model: ScriptedModel) -> None:
        """Point the configuration at a scripted model."""
        self.config.write_text(
            '[agents.defaults]\nmodel = "scripted/scripted-1"\n'
            f'[models.providers.scripted]\nbaseUrl = "{model.base_url}"\n'
            '[models.providers.scripted.agentRuntime]\nid = "codex"\n',
            encoding="utf-8",
        )

    @contextmanager
    def begun(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """Start it; at the end of the block it is gone."""
        with subprocess.Popen(
            self.argv(*arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def begin_at(self, terminal: int, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.argv(*arguments),
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env={**self.environment, "TERM": "dumb"},
            start_new_session=True,
            preexec_fn=_take_terminal,
        )


async def ended(process: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    with anyio.fail_after(60):
        out, err = await anyio.to_thread.run_sync(process.communicate)
    return process.returncode, out.decode(), err.decode()


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
