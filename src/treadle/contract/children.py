"""Child processes of ours as they are kept: who started which, and how each was closed.

Knows nothing of processes. A row is durable before the child is spoken to, so that whoever opens
the state directory next can tell what of ours may still run, and takes nothing else for it.
Source: spec S-11; reliability INV-19, F8.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """A process as no other can be: a pid alone comes again."""

    pid: int
    start_ticks: int
    """When it started, in clock ticks since boot; 0 where the system does not tell."""

    boot_id: str
    """Which boot of the machine; empty where the system does not tell."""


class Closed(StrEnum):
    """Why a row needs no more attention."""

    ENDED = "ended"
    """Whoever started it ended it, and saw it end."""
    REBOOTED = "rebooted"
    """The machine was started anew since, so nothing of it can run."""
    GONE = "gone"
    """Its owner is gone, and so was it with all that it had started."""
    REPLACED = "replaced"
    """Its process id belongs to another process now, which was left alone."""
    STOPPED = "stopped"
    """Its owner is gone; it, or what it had started, still ran and was stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildRecord:
    """A child process of ours."""

    id: str
    """The marker: in its environment, and in that of every command it runs."""

    parent: ProcessIdentity
    """Who started it."""

    pid: int | None
    """None until it was started."""

    start_ticks: int | None
    process_group: int | None
    command_digest: str
    """SHA-256 over its command line, in hex digits."""

    home: str
    """The `CODEX_HOME` that it was started in."""

    registered_at: float
    """Unix seconds."""

    closed_at: float | None = None
    closed_because: Closed | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedChild:
    """What is known of a child once it runs."""

    pid: int
    start_ticks: int
    process_group: int
    command_digest: str


class ChildRegistry(Protocol):
    """The rows; every write is durable when it returns.

    Cancel: a write has happened whole or not at all.
    """

    async def register(
        self, child_id: str, *, parent: ProcessIdentity, command_digest: str, home: str
    ) -> None:
        """Store that a child is about to be started. Raises: StoreError."""

    async def started(self, child_id: str, child: StartedChild) -> None:
        """Store which process it is. Raises: NotFound, StoreError."""

    async def close(self, child_id: str, because: Closed) -> None:
        """Store that nothing of it runs any more; one that is closed keeps its reason."""

    async def open_children(self) -> tuple[ChildRecord, ...]:
        """Return the rows that are not closed, the oldest first."""

    async def closed_children(self, limit: int = 20) -> tuple[ChildRecord, ...]:
        """Return the rows that were closed last, the newest first."""
