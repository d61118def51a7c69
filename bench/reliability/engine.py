"""The context engine of a run under faults: leaves nothing out, and commits durably.

It is loaded by the gateway as any plugin is, and keeps a database of its own: a commit is one
insert by key, durable before it is answered (decision 16). A commit is told to the log server
before that, so none can be there without its line; whether it changed anything is read from the
database in the end. A file tells the engine in which sessions to misbehave. Knows nothing of what
is right.

Its settings (`plugins.entries.chaos.config`): `log`, the folder of the log server, `orders`, the
file of its orders: JSON, session key to `throws`, `hangs`, `lies` or `slow`.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread
import apsw

from bench.reliability.history import marks_in
from bench.reliability.logserver import LogLine
from treadle.contract.engine import (
    Assembled,
    AssembleParams,
    CommitTurnParams,
    CommitTurnResult,
    CompactParams,
    CompactResult,
    EngineContext,
    EngineInfo,
    IngestParams,
    IngestResult,
    SessionCall,
)
from treadle.contract.tool import DynamicTool, ToolCall
from treadle.model.message import Message, text_of

ENGINE: Final = "chaos"
TOOL: Final = "mark_effect"
SLOW_S: Final = 1.5
DATABASE: Final = "commits.sqlite3"

INFO: Final = EngineInfo(
    id=ENGINE,
    name="Engine under faults",
    version="1",
    current_turn_fence="before-current-turn-entry-v1",
    turn_advancement_idempotency="atomic-idempotent-v1",
)


class ChaosEngine:
    """See the module."""

    info = INFO

    def __init__(self, folder: Path, log: Path, orders: Path | None) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._orders = orders
        self._lock = threading.Lock()
        self._log = LogLine(log, "engine")
        self._database = apsw.Connection(str(folder / DATABASE))
        self._database.set_busy_timeout(10_000)
        self._database.pragma("journal_mode", "wal")
        self._database.pragma("synchronous", "full")
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS commits (key TEXT PRIMARY KEY, session TEXT,"
            " message TEXT, payload_hash TEXT) STRICT"
        )

    async def assemble(self, params: AssembleParams) -> Assembled:
        """Give the messages back as they came."""
        await self._obey(params)
        marks = marks_in(params.prompt or "")
        await self._tell("assemble", params, message=marks[-1][2:] if marks else "")
        return Assembled(messages=params.messages, estimated_tokens=0)

    def ingest(self, params: IngestParams) -> IngestResult:
        """Take nothing: turns come by `commit_turn`."""
        del params
        return IngestResult(ingested=False)

    def compact(self, params: CompactParams) -> CompactResult:
        """Compact nothing."""
        del params
        return CompactResult(ok=True, compacted=False, reason="this engine never compacts")

    async def commit_turn(self, params: CommitTurnParams) -> CommitTurnResult:
        """Insert the turn by its key; a key that is there already changes nothing."""
        await self._obey(params)
        asked = [
            mark[2:]
            for message in params.messages
            if message.role == "user"
            for mark in marks_in(text_of(message))
        ]
        fields = {
            "key": params.advancement_key,
            "message": asked[-1] if asked else "",
            "payload_hash": _hash_of(params.messages),
        }
        await self._tell("commit", params, **fields)
        session = str(params.session_key)
        new = await anyio.to_thread.run_sync(partial(self._insert, session=session, **fields))
        return CommitTurnResult(status="committed" if new else "duplicate")

    def tools(self) -> Sequence[DynamicTool]:
        """Offer a tool with a side effect."""
        return (
            DynamicTool(
                name=TOOL,
                description="Leave a mark in the log of the run.",
                input_schema={"type": "object", "properties": {"mark": {"type": "string"}}},
                call=self._mark,
            ),
        )

    def dispose(self) -> None:
        """Close the database."""
        self._database.close()
        self._log.close()

    def _mark(self, call: ToolCall) -> str:
        self._say("effect", text=str(call.arguments.get("mark")))
        return "marked"

    def _insert(self, **fields: str) -> bool:
        with self._lock:
            before = self._database.total_changes()
            self._database.execute(
                "INSERT OR IGNORE INTO commits VALUES (:key, :session, :message, :payload_hash)",
                fields,
            )
            return self._database.total_changes() > before

    async def _tell(self, what: str, params: SessionCall, **fields: object) -> None:
        session = str(params.session_key)
        await anyio.to_thread.run_sync(partial(self._say, what, session=session, **fields))

    def _say(self, what: str, **fields: object) -> None:
        with self._lock:
            self._log.tell(what, **fields)

    async def _obey(self, params: SessionCall) -> None:
        match self._order(str(params.session_key)):
            case "throws":
                raise RuntimeError("ordered to throw")
            case "hangs":
                await anyio.sleep_forever()
            case "slow":
                await anyio.sleep(SLOW_S)
            case _:
                pass

    def _order(self, session: str) -> str:
        if self._orders is None:
            return ""
        try:
            return str(json.loads(self._orders.read_bytes()).get(session, ""))
        except (OSError, ValueError):
            return ""


def _hash_of(messages: Sequence[Message]) -> str:
    digest = hashlib.sha256()
    for message in messages:
        digest.update(f"{message.role}\0{message.content_hash}\0".encode())
    return digest.hexdigest()[:16]


def create(context: EngineContext) -> ChaosEngine:
    """Make the engine; see the module for its settings."""
    config: dict[str, Any] = dict(context.config)
    folder = Path(config.get("folder") or context.data_dir or ".")
    orders = config.get("orders")
    return ChaosEngine(folder, Path(str(config["log"])), Path(str(orders)) if orders else None)
