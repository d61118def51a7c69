"""What has to be put right in a store that was brought back from a backup.

What was under way when the backup was made may have gone on since, so nothing of it is done again:
its outcome is unknown (INV-9). Knows nothing of SQL or of files. Source: issue 4, item 4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from treadle.contract.store import Binding

Keep = Callable[[Binding], Binding | None]
"""Returns the binding as it holds in the restored place; None: its thread did not come back whole.

Pure; called in the store's writer.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What was put right."""

    kept_threads: int
    """Sessions that go on with their native thread."""

    given_up_threads: int
    """Sessions whose next turn gets a fresh thread with what the transcript holds."""

    unknown_messages: int
    """Messages that had no end; each is unknown now, with a notice."""

    unknown_deliveries: int
    """Replies that had not been sent for certain; they are not sent again."""


class RestoreStore(Protocol):
    """Puts a restored store right."""

    async def put_right(self, keep: Keep) -> Restored:
        """Do all of it in one transaction.

        Besides: nobody owns a session any more, and every event cursor that a client may hold is of
        an epoch that is over, also of one that came after the backup.
        """
