"""Signing in with an API key: one turn goes out with it, and it stays in the home's auth file."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from tests.process.faults_rig import Overrides, World, say
from treadle.model.turn import Outcome
from treadle.testing.model import Answer, HttpError, Request, ScriptedModel, gate, reply, text

pytestmark = [pytest.mark.anyio, pytest.mark.codex]

KEY = "sk-test-4f9d27c1b8e6a3d05c7f"


def files_with(root: Path, mark: bytes) -> list[str]:
    """Return the files under a folder that hold the mark anywhere, by their path in it."""
    found = (path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    return sorted(str(path.relative_to(root)) for path in found if mark in path.read_bytes())


def processes_with(mark: bytes) -> list[str]:
    """Return the `/proc` files of children of ours whose arguments or environment hold the mark."""
    found: list[str] = []
    for task in Path(f"/proc/{os.getpid()}/task").iterdir():
        for pid in (task / "children").read_text(encoding="ascii").split():
            for name in ("cmdline", "environ"):
                file = Path(f"/proc/{pid}/{name}")
                if mark in file.read_bytes():
                    found.append(str(file))
    return found


async def test_a_key_serves_a_turn_and_stands_nowhere_but_in_the_auth_file(
    codex_binary: Path, scratch: Path
) -> None:
    """Issue 2 done-when 7 and item 10; INV-22: not in config, log, database, argv, environment."""
    held = gate()

    def answer(request: Request) -> Answer:
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return HttpError(401, {"error": {"message": "no key"}})
        return reply(text("signed"), held)

    async with ScriptedModel() as model:
        model.fallback = answer
        world = World(root=scratch, base_url=model.base_url)
        more: Overrides = {
            ("models", "providers", "openai", "baseUrl"): model.base_url,
            ("models", "providers", "openai", "agentRuntime", "id"): "codex",
            ("agents", "defaults", "model"): "openai/gpt-5.5",
        }
        async with world.runtime(more=more) as runtime:
            assert not (await runtime.accounts.whoami()).is_signed_in
            account = await runtime.accounts.login_api_key("main", KEY)
            assert (account.kind, account.needs_sign_in) == ("apiKey", True)
            session = runtime.session("s", cwd=world.work)
            handle = session.run("hello")
            with anyio.fail_after(40):
                await held.reached.wait()
                assert not processes_with(KEY.encode())
                held.event.set()
                end = await handle.result()
            assert (end.outcome, end.text) == (Outcome.COMPLETED, "signed")
            assert len(model.requests) == 1
            [auth] = files_with(world.state, KEY.encode())
            assert auth.endswith("/auth.json")
            assert (world.state / auth).stat().st_mode & 0o077 == 0
            assert not (await runtime.accounts.logout()).is_signed_in
            assert not files_with(world.state, KEY.encode())
            refused = await say(session, "again")
            assert refused.end.outcome is Outcome.FAILED
            assert refused.error_code == "codex_not_signed_in"
            assert "treadle login" in refused.advice
        assert not files_with(scratch, KEY.encode())
