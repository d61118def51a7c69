"""Threads that a session left behind are archived at once and deleted later, on the real binary."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from treadle import Assembled, AssembleParams, EngineInfo, Message, Outcome, open_runtime
from treadle.config import find_paths, load_settings
from treadle.testing.clock import ManualClock
from treadle.testing.model import ScriptedModel, reply

pytestmark = [pytest.mark.anyio, pytest.mark.codex]


class Forgetful:
    """Wants nothing of the past on every second turn.

    So that each such turn needs a fresh thread.
    """

    def __init__(self) -> None:
        self.info = EngineInfo(id="forgetful", name="Forgetful")

    def ingest(self, params: object) -> dict[str, bool]:
        del params
        return {"ingested": True}

    def compact(self, params: object) -> dict[str, bool]:
        del params
        return {"ok": True, "compacted": False}

    def assemble(self, params: AssembleParams) -> Assembled:
        keep = len(params.messages) % 4 != 0
        messages: Sequence[Message] = params.messages if keep else ()
        return Assembled(messages=messages, estimated_tokens=0)


async def test_a_replaced_thread_is_archived_and_deleted_when_its_time_is_over(
    scratch: Path, codex_binary: Path
) -> None:
    """Decision 8."""
    del codex_binary
    clock = ManualClock()
    async with ScriptedModel() as model:
        model.fallback = lambda _request: reply("ok")
        paths = find_paths(os.environ, state=scratch / "state", home=scratch)
        settings = load_settings(
            paths,
            os.environ,
            {
                ("models", "providers", "scripted"): {
                    "baseUrl": model.base_url,
                    "agentRuntime": {"id": "codex"},
                },
                ("agents", "defaults", "model"): "scripted/scripted-1",
                ("plugins", "slots", "contextEngine"): "forgetful",
            },
        )
        engines = {"forgetful": lambda _context: Forgetful()}
        async with open_runtime(
            settings=settings, paths=paths, engines=engines, clock=clock
        ) as runtime:
            session = runtime.session("s", cwd=scratch)
            for text in ("one", "two", "three"):
                assert (await session.run(text).result()).outcome is Outcome.COMPLETED
            record = await session.record()
            assert record is not None
            [(first, _)] = await runtime.store.bindings.superseded(record.id)
            clock.advance(8 * 86_400)
            for text in ("four", "five"):
                assert (await session.run(text).result()).outcome is Outcome.COMPLETED
            left = [thread for thread, _ in await runtime.store.bindings.superseded(record.id)]
            assert first not in left
            assert len(left) == 2
    files = [path.name for path in (scratch / "state").rglob("rollout-*.jsonl")]
    assert not any(first in name for name in files)
    archived = list((scratch / "state").rglob("archived_sessions/**/rollout-*.jsonl"))
    assert any(left[0] in path.name for path in archived)
