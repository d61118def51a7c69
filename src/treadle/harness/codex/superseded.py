"""Put away the native threads that a session has left behind, and those of one turn.

Archived once the turn on the new thread has succeeded, deleted after
`projection.keepSupersededDays`. Only threads that this session itself made and gave up; best
effort, since nothing depends on it. Source: decision 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from treadle.contract.store import Binding
from treadle.harness.codex.peer import CodexPeer
from treadle.harness.codex.services import CodexServices
from treadle.model.errors import StoreError, WireError
from treadle.model.ids import ThreadId
from treadle.observe import emit

_DAY_S: Final = 86_400.0
_PATIENCE_S: Final = 5.0
"""Seconds for each call: a reply that is ready does not wait longer for tidying up."""

_DELETED_AT_ONCE: Final = 5
"""Threads deleted behind one turn; the others wait for the next change of thread."""


async def put_away(
    services: CodexServices, peer: CodexPeer, binding: Binding, previous: ThreadId
) -> None:
    """Archive `previous` and delete what was given up long ago; a failure is logged.

    Cancel: what is left waits.
    """
    await _ask(peer, "thread/archive", previous, "thread.archived")
    try:
        await _delete_old(services, peer, binding)
    except StoreError as error:  # the turn's answer stands whatever becomes of old threads
        emit("thread.cleanup_failed", thread_id=previous, cause=error)


async def archive(peer: CodexPeer, thread_ids: Sequence[ThreadId]) -> None:
    """Archive threads that nobody uses any more; a failure is logged."""
    for thread_id in thread_ids:
        await _ask(peer, "thread/archive", thread_id, "thread.archived")


async def let_go(services: CodexServices, peer: CodexPeer, transient: Binding) -> None:
    """Leave a thread that was made for one turn (spec D-39); a failure is logged.

    An app-server that keeps it in a file all the same is asked to archive it.
    """
    await services.threads.unsubscribe(peer, transient.thread_id)
    if transient.rollout_path is not None:
        await _ask(peer, "thread/archive", transient.thread_id, "thread.archived")


async def _delete_old(services: CodexServices, peer: CodexPeer, binding: Binding) -> None:
    keep_s = services.settings.codex.projection.keep_superseded_days * _DAY_S
    limit = services.clock.now() - keep_s
    left = await services.store.bindings.superseded(binding.session_id)
    old = [thread_id for thread_id, given_up_at in left if given_up_at <= limit]
    for thread_id in old[:_DELETED_AT_ONCE]:
        if await _ask(peer, "thread/delete", thread_id, "thread.deleted"):
            await services.store.bindings.forget_superseded(thread_id)


async def _ask(peer: CodexPeer, method: str, thread_id: ThreadId, event: str) -> bool:
    try:
        await peer.request(method, {"threadId": thread_id}, timeout_s=_PATIENCE_S)
    except WireError as error:
        emit("thread.cleanup_failed", thread_id=thread_id, cause=error)
        return False
    emit(event, thread_id=thread_id)
    return True
