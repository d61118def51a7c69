"""Treadle drives the real `codex app-server` under a pluggable context engine.

The face: what a program that embeds Treadle needs. Names are loaded when they are first used, so
importing the package costs nothing.

    async with treadle.open_runtime(offline=True) as runtime:
        run = runtime.session("demo").run("Good morning.")
        async for event in run:
            ...
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # the name is enough for type checkers; importing `typing` costs 5 ms
if TYPE_CHECKING:
    from treadle.compose import open_runtime
    from treadle.contract.engine import (
        AfterTurnParams,
        Assembled,
        AssembleParams,
        BootstrapParams,
        BootstrapResult,
        CompactParams,
        CompactResult,
        ContextEngine,
        ContextProjection,
        EngineContext,
        EngineFactory,
        EngineInfo,
        IngestBatchParams,
        IngestBatchResult,
        IngestParams,
        IngestResult,
        MaintainParams,
        MaintainResult,
        RuntimeContext,
    )
    from treadle.contract.harness import CompactionResult
    from treadle.contract.hook import HookRegistration, PromptBuild, PromptBuildResult
    from treadle.contract.store import SearchHit, SearchQuery
    from treadle.contract.tool import DynamicTool, ToolCall, ToolImage, ToolResult, ToolText
    from treadle.model.errors import TreadleError
    from treadle.model.message import (
        Entry,
        EntryKind,
        Message,
        assistant_message,
        text_of,
        user_message,
    )
    from treadle.model.turn import (
        CompactionFinished,
        CompactionStarted,
        ContextAssembled,
        ContextReported,
        EntryCommitted,
        MessageAccepted,
        MessageCancelled,
        MessageFailed,
        MessageSent,
        MessageUnconfirmed,
        Notice,
        Outcome,
        PartDelta,
        PartValue,
        QuestionOpened,
        QuestionResolved,
        RunEvent,
        RunFinished,
        RunStarted,
        ThreadChanged,
        TurnStarted,
        Usage,
        event_data,
    )
    from treadle.runtime.handle import RunHandle
    from treadle.runtime.service import Runtime
    from treadle.runtime.sessions import Session

__all__ = [
    "AfterTurnParams",
    "AssembleParams",
    "Assembled",
    "BootstrapParams",
    "BootstrapResult",
    "CompactParams",
    "CompactResult",
    "CompactionFinished",
    "CompactionResult",
    "CompactionStarted",
    "ContextAssembled",
    "ContextEngine",
    "ContextProjection",
    "ContextReported",
    "DynamicTool",
    "EngineContext",
    "EngineFactory",
    "EngineInfo",
    "Entry",
    "EntryCommitted",
    "EntryKind",
    "HookRegistration",
    "IngestBatchParams",
    "IngestBatchResult",
    "IngestParams",
    "IngestResult",
    "MaintainParams",
    "MaintainResult",
    "Message",
    "MessageAccepted",
    "MessageCancelled",
    "MessageFailed",
    "MessageSent",
    "MessageUnconfirmed",
    "Notice",
    "Outcome",
    "PartDelta",
    "PartValue",
    "PromptBuild",
    "PromptBuildResult",
    "QuestionOpened",
    "QuestionResolved",
    "RunEvent",
    "RunFinished",
    "RunHandle",
    "RunStarted",
    "Runtime",
    "RuntimeContext",
    "SearchHit",
    "SearchQuery",
    "Session",
    "ThreadChanged",
    "ToolCall",
    "ToolImage",
    "ToolResult",
    "ToolText",
    "TreadleError",
    "TurnStarted",
    "Usage",
    "assistant_message",
    "event_data",
    "open_runtime",
    "text_of",
    "user_message",
]

_ROOMS = (
    ("treadle.compose", ("open_runtime",)),
    (
        "treadle.contract.engine",
        (
            "AfterTurnParams",
            "AssembleParams",
            "Assembled",
            "BootstrapParams",
            "BootstrapResult",
            "CompactParams",
            "CompactResult",
            "ContextEngine",
            "ContextProjection",
            "EngineContext",
            "EngineFactory",
            "EngineInfo",
            "IngestBatchParams",
            "IngestBatchResult",
            "IngestParams",
            "IngestResult",
            "MaintainParams",
            "MaintainResult",
            "RuntimeContext",
        ),
    ),
    ("treadle.contract.harness", ("CompactionResult",)),
    ("treadle.contract.hook", ("HookRegistration", "PromptBuild", "PromptBuildResult")),
    ("treadle.contract.store", ("SearchHit", "SearchQuery")),
    (
        "treadle.contract.tool",
        ("DynamicTool", "ToolCall", "ToolImage", "ToolResult", "ToolText"),
    ),
    ("treadle.model.errors", ("TreadleError",)),
    (
        "treadle.model.message",
        ("Entry", "EntryKind", "Message", "assistant_message", "text_of", "user_message"),
    ),
    (
        "treadle.model.turn",
        (
            "CompactionFinished",
            "CompactionStarted",
            "ContextAssembled",
            "ContextReported",
            "EntryCommitted",
            "MessageAccepted",
            "MessageCancelled",
            "MessageFailed",
            "MessageSent",
            "MessageUnconfirmed",
            "Notice",
            "Outcome",
            "PartDelta",
            "PartValue",
            "QuestionOpened",
            "QuestionResolved",
            "RunEvent",
            "RunFinished",
            "RunStarted",
            "ThreadChanged",
            "TurnStarted",
            "Usage",
            "event_data",
        ),
    ),
    ("treadle.runtime.handle", ("RunHandle",)),
    ("treadle.runtime.service", ("Runtime",)),
    ("treadle.runtime.sessions", ("Session",)),
)

_HOMES = {name: room for room, names in _ROOMS for name in names}


def __getattr__(name: str) -> object:
    """Load a name of the face from its room."""
    room = _HOMES.get(name)
    if room is None:
        raise AttributeError(f"module 'treadle' has no attribute {name!r}")
    return getattr(import_module(room), name)


def __dir__() -> list[str]:
    """Name what there is."""
    return sorted({*globals(), *__all__})
