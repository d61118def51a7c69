"""A turn with very many messages does not hold up the loop."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.turn.rig import Rig
from treadle.contract.engine import (
    Assembled,
    AssembleParams,
    CompactParams,
    CompactResult,
    EngineInfo,
    IngestParams,
    IngestResult,
)
from treadle.harness.codex.prepare import MANY_MESSAGES
from treadle.model.message import Message, content_hash

pytestmark = pytest.mark.anyio

HASHED_IN: set[int] = set()


class Watched(Message):
    """A message that notes in which thread it is hashed, as every plan does."""

    @property
    def content_hash(self) -> str:
        """Return the hash."""
        HASHED_IN.add(threading.get_ident())
        return content_hash(self.role, self.content)


class Many:
    """An engine that wants so many messages, none of the transcript's."""

    info = EngineInfo(id="many", name="Many")

    def __init__(self, count: int) -> None:
        roles = ("user", "assistant")
        self.messages = [Watched(role=roles[at % 2], content=f"m{at}") for at in range(count)]

    def assemble(self, params: AssembleParams) -> Assembled:
        del params
        return Assembled(messages=self.messages, estimated_tokens=0)

    def ingest(self, params: IngestParams) -> IngestResult:
        del params
        return IngestResult(ingested=False)

    def compact(self, params: CompactParams) -> CompactResult:
        del params
        return CompactResult(ok=True, compacted=False)


@pytest.mark.parametrize(("count", "on_the_loop"), [(MANY_MESSAGES + 1, False), (2, True)])
async def test_many_messages_are_planned_in_a_thread(
    tmp_path: Path, count: int, on_the_loop: bool
) -> None:
    """Ours; decision 12: 100,000 messages took most of a second of every other session's time."""
    HASHED_IN.clear()
    rig = Rig(root=tmp_path)
    async with rig.opened(Many(count)) as runtime:
        turns = [await rig.say(runtime.session("a"), text) for text in ("one", "two")]
    assert [turn.decision for turn in turns] == ["seed", "rebase"]
    assert HASHED_IN
    loops = threading.get_ident()
    assert (loops in HASHED_IN) is on_the_loop


@pytest.mark.parametrize(
    ("compaction", "chars"),
    [
        ({}, 240_000),
        ({"reserveTokens": 40_000}, 160_000),
        ({"reserveTokens": 12_000}, 240_000),
        ({"reserveTokens": 12_000, "reserveTokensFloor": 5_000}, 272_000),
        ({"reserveTokensFloor": 5_000}, 300_000),
    ],
    ids=["neither", "reserve", "under the usual floor", "both", "floor"],
)
async def test_the_configured_reserve_decides_how_much_context_is_quoted(
    tmp_path: Path, compaction: dict[str, int], chars: int
) -> None:
    """Spec V-15, D-42 to D-44, over a window of 80,000 tokens: (window - reserve) times four."""
    rig = Rig(root=tmp_path)
    rig.keys["models", "providers", "openai", "models", "gpt-x", "contextWindow"] = 80_000
    for name, tokens in compaction.items():
        rig.keys["agents", "defaults", "compaction", name] = tokens
    engine = Many(0)
    engine.messages = [Watched(role="user", content=f"{at} " + "x" * 990) for at in range(400)]
    async with rig.opened(engine) as runtime:
        await rig.say(runtime.session("a"), "hello", projection="prompt")
    [sent] = rig.sent()
    block = sent.partition("<conversation_context>\n")[2].partition("\n</conversation_context>")[0]
    assert block.startswith("[truncated ")
    assert chars - 2 <= len(block) <= chars
