"""The check that stands before every write: does this run still own the session?

Knows nothing of what is written.
"""

from __future__ import annotations

from treadle.contract.store import Claim
from treadle.model.errors import ClaimLost, NotFound
from treadle.model.ids import SessionId
from treadle.store.driver import Connection


def check_claim(connection: Connection, claim: Claim, session_id: SessionId | None = None) -> None:
    """Pass if the claim is the one in force, and for this session where one is named.

    Must run in the transaction of the write. Raises: ClaimLost.
    """
    row = connection.one("claim_of", session_id=claim.session_id)
    if row != (claim.lease_epoch, claim.run_id) or session_id not in {None, claim.session_id}:
        raise ClaimLost(
            f"run {claim.run_id!r} no longer owns session {session_id or claim.session_id!r}; "
            "nothing was written",
            session_id=claim.session_id,
            run_id=claim.run_id,
            lease_epoch=claim.lease_epoch,
        )


def check_generation(connection: Connection, session_id: SessionId) -> None:
    """Pass if there is such a generation. Raises: NotFound."""
    if connection.one("generation_exists", session_id=session_id) is None:
        raise no_generation(session_id)


def no_generation(session_id: SessionId) -> NotFound:
    """Return the error for a generation that is not known."""
    return NotFound(f"there is no session generation {session_id!r}", session_id=session_id)


def check_current(connection: Connection, session_id: SessionId) -> None:
    """Pass if it is the current generation of a session that is not deleted (spec U-03).

    Raises: NotFound, ClaimLost.
    """
    row = connection.one("generation_is_current", session_id=session_id)
    if row is None:
        raise no_generation(session_id)
    if not row[0]:
        raise ClaimLost(
            f"session generation {session_id!r} is over; nothing can be written to it any more",
            session_id=session_id,
        )
