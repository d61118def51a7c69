"""Names for the ids that travel through the house; none of them is a bare string.

This module knows nothing of how ids are made: random ids and clocks are injected.
"""

from __future__ import annotations

from typing import NewType

AgentId = NewType("AgentId", str)
"""An agent of the configuration (`agents.entries.<id>`); `main` always exists."""

SessionKey = NewType("SessionKey", str)
"""Our stable name of a conversation, `agent:<agent>:<name>`."""

SessionId = NewType("SessionId", str)
"""One generation of a session; a reset gives the same key a new one."""

ThreadId = NewType("ThreadId", str)
"""Codex's native conversation."""

TurnId = NewType("TurnId", str)
"""One turn of Codex on a thread."""

ItemId = NewType("ItemId", str)
"""What Codex calls an item within a turn, or a Responses item."""

EntryId = NewType("EntryId", str)
"""A row of the transcript."""

RunId = NewType("RunId", str)
"""An admitted request of ours; it may need several attempts."""

EngineId = NewType("EngineId", str)
"""The id under which a context engine is registered."""

StreamId = NewType("StreamId", str)
"""A stream of events: a session key, or `global`."""
