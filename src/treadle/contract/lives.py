"""What may happen to a whole session: begin anew, go back, go aside, end.

Knows nothing of SQL, of runs or of engines. Nothing here changes or removes an entry: another
generation refers to the entries that it keeps, in the branches where they lie, and the ones before
it stay as they were. So the transcript of one generation only ever grows, and every step back is a
generation of its own, with its origin (INV-5). Source: spec U.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from treadle.contract.store import Binding, SessionRecord
from treadle.model.errors import SessionBusy
from treadle.model.ids import EntryId, SessionKey

Place = EntryId | int
"""An entry: by its id, or by its depth on the active branch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turnover:
    """What became of a session."""

    before: SessionRecord
    after: SessionRecord | None
    """The session with its new generation; None once it is deleted."""

    given_up: Binding | None = None
    """The binding of the ended generation, which was removed with it; None if it had none."""

    left_behind: int = 0
    """Entries of the ended generation that the new one does not hold."""

    @property
    def changed(self) -> bool:
        """Whether anything happened: going back to the last entry changes nothing."""
        return self.before != self.after


class LifeStore(Protocol):
    """Sessions as wholes; each call is one transaction, and all or nothing.

    Each ends the generation's claim, so that a run that still holds it can write nothing more: no
    entry, and no binding (spec U-03, INV-4). Each but `branch` is refused while a message has no
    end yet. Cancel: it has happened whole, or not at all.
    """

    async def reset(self, key: SessionKey) -> Turnover:
        """Begin a new generation without entries. Raises: NotFound, SessionBusy."""

    async def rewind(self, key: SessionKey, to: Place) -> Turnover:
        """Begin a new generation whose last entry is that one.

        An entry's id may also name one that an earlier generation of the session ended with, or
        that an earlier rewind has left. Raises: NotFound, InvalidCut, SessionBusy.
        """

    async def branch(
        self, key: SessionKey, new_key: SessionKey, *, at: Place | None = None
    ) -> SessionRecord:
        """Begin another session with the entries up to that one, or with all, and return it.

        Owner, agent, folder, title and settings are those of the first, which is left as it is.
        Raises: NotFound, InvalidCut, SessionExists.
        """

    async def delete(self, key: SessionKey) -> Turnover:
        """End the session: its key is free, no list or search finds it.

        Its entries stay stored, for sessions that branched from it and until they are purged.
        Raises: NotFound, SessionBusy.
        """


def session_busy(key: SessionKey, count: int) -> SessionBusy:
    """Return the error for a session with messages that are not answered yet."""
    messages = "a message that is" if count == 1 else f"{count} messages that are"
    return SessionBusy(
        f"session {key!r} has {messages} not answered yet; nothing was changed",
        next_step="Wait for the answer, or interrupt the run, then try again.",
        session_key=key,
        unfinished=count,
    )
