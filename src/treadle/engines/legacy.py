"""The engine that leaves everything to Codex: it takes nothing, adds nothing, compacts nothing.

Knows nothing of where a session is kept. While it is selected the lifecycle makes no engine calls
at all (spec A-20), so its methods serve callers outside a turn. Source: spec B-04.
"""

from __future__ import annotations

from typing import Final

from treadle.contract.engine import (
    LEGACY,
    AfterTurnParams,
    Assembled,
    AssembleParams,
    CompactParams,
    CompactResult,
    EngineContext,
    EngineInfo,
    IngestParams,
    IngestResult,
)

INFO: Final = EngineInfo(id=LEGACY, name="Legacy (Codex keeps the context)", version="1")


class LegacyEngine:
    """Passes everything through."""

    @property
    def info(self) -> EngineInfo:
        """Who this is."""
        return INFO

    async def ingest(self, params: IngestParams) -> IngestResult:
        """Take nothing: the transcript is the record."""
        return IngestResult(ingested=False)

    async def assemble(self, params: AssembleParams) -> Assembled:
        """Give the messages back unread; the token count is therefore not known and 0."""
        return Assembled(messages=params.messages, estimated_tokens=0)

    async def after_turn(self, params: AfterTurnParams) -> None:
        """Do nothing."""

    async def compact(self, params: CompactParams) -> CompactResult:
        """Decline: Codex compacts its own history (spec J-04)."""
        return CompactResult(
            ok=True, compacted=False, reason="legacy leaves compaction to Codex (native only)"
        )


def create(context: EngineContext) -> LegacyEngine:
    """Make the engine; it has no configuration."""
    return LegacyEngine()
