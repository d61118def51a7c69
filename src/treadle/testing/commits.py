"""A log of committed turns for engines of tests: durable, and written once for a key.

Each commit is one line, appended whole and synced before it counts, so that it survives the death
of the process that wrote it and can be read by the test that killed it. Knows nothing of engines'
other calls.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from treadle.contract.engine import CommitTurnParams
from treadle.model.message import text_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One turn as it was committed; what a second commit under its key has to equal."""

    key: str
    session_id: str
    admission: str
    terminal: str
    entries: tuple[str | None, ...]
    texts: tuple[str, ...]


class OtherPayload(Exception):
    """A key came back with another turn than the one that was committed under it (INV-8)."""


class CommitLog:
    """The log in one file; every engine that is made on it sees what the others committed."""

    def __init__(self, path: Path) -> None:
        """Use this file, which need not exist."""
        self.path = path

    def add(self, params: CommitTurnParams) -> Literal["committed", "duplicate"]:
        """Take the turn, unless it was taken before. Raises: OtherPayload. Blocks: it syncs."""
        new = _commit_of(params)
        for known in self.commits():
            if known.key == new.key:
                if known != new:
                    raise OtherPayload(f"{new.key!r} was {known!r}, came again as {new!r}")
                return "duplicate"
        line = json.dumps(asdict(new)).encode() + b"\n"
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, line)
            os.fsync(file)
        finally:
            os.close(file)
        return "committed"

    def commits(self) -> tuple[Commit, ...]:
        """Return the commits in the order in which they were made."""
        if not self.path.exists():
            return ()
        lines = self.path.read_text(encoding="utf-8").splitlines()
        return tuple(_commit_from(json.loads(line)) for line in lines)

    @property
    def keys(self) -> list[str]:
        """The keys in the order in which they were committed."""
        return [one.key for one in self.commits()]


def _commit_of(params: CommitTurnParams) -> Commit:
    return Commit(
        key=params.advancement_key,
        session_id=params.session_id,
        admission=params.admission,
        terminal=params.terminal,
        entries=tuple(message.entry_id for message in params.messages),
        texts=tuple(text_of(message) for message in params.messages),
    )


def _commit_from(fields: dict[str, object]) -> Commit:
    lists = {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
    return Commit(**{**fields, **lists})  # type: ignore[arg-type] # as `asdict` wrote it
