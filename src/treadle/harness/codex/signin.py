"""Refuse a turn for which nobody is signed in, before anything is sent.

Codex would try its own endpoint for a while and then say that it cannot be reached. Knows nothing
of how one signs in.
"""

from __future__ import annotations

from weakref import WeakSet

from treadle.harness.codex.peer import CodexPeer
from treadle.model.errors import RpcError, SignInError


class SignInCheck:
    """Asks each connection once; build one per service."""

    def __init__(self) -> None:
        """Know of no connection yet."""
        self._passed: WeakSet[CodexPeer] = WeakSet()

    async def require(self, peer: CodexPeer, agent_id: str) -> None:
        """Return if Codex's own provider can be used.

        Raises: SignInError, RpcTimeout, ProcessExited.

        A connection that passed is not asked again: whoever signs out meanwhile is told by the
        model's endpoint.
        """
        if peer in self._passed:
            return
        try:
            answer = await peer.request("account/read", {"refreshToken": False})
        except RpcError:
            return  # an app-server that cannot say is no reason to refuse a turn
        if answer.get("requiresOpenaiAuth") is True and answer.get("account") is None:
            raise SignInError(
                f"Codex is not signed in for the agent {agent_id!r}; nothing was sent",
                next_step="Run treadle login, or choose a provider of your own with --model.",
                agent=agent_id,
            )
        self._passed.add(peer)
