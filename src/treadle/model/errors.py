"""Every error that Treadle raises on purpose.

In one tree; it knows no live object, only ids and values.

    TreadleError
    ├── ConfigError                      the configuration cannot be used; lists every fault at once
    ├── UsageError                       a caller asked for something that cannot be
    │   ├── MessageTooLarge
    │   ├── InvalidCut                   a transcript is not cut within a turn
    │   └── NotFound                     an unknown session, agent, engine, model …
    ├── PluginError                      an entry point that cannot be loaded
    ├── WireError                        the app-server as a process and a peer
    │   ├── ProcessStartError            no binary, wrong architecture, wrong hash, died at start
    │   │   └── OrphanUnconfirmed        an earlier child may still run; nothing was started
    │   ├── ProcessExited                it went away while we needed it
    │   ├── RpcError                     it answered with an error
    │   ├── RpcTimeout                   it did not answer in time
    │   ├── LocalProtocolError           we were about to break the protocol
    │   ├── RemoteProtocolError          it broke the protocol
    │   ├── VersionUnsupported
    │   └── ThreadBusy                   another process writes this thread
    ├── StoreError
    │   ├── ClaimLost                    a newer run owns the session
    │   ├── RevisionConflict             a conditional write found another value
    │   ├── MigrationNeeded              the store is newer than this Treadle
    │   ├── StoreBusy
    │   ├── StoreFull                    no room on the disk; nothing was written
    │   ├── StoreDamaged
    │   ├── BackupInvalid                a backup is not what it was when it was made
    │   └── StateDirectoryRefused        link, foreign owner, open modes, held by another process
    ├── EngineError
    │   ├── EngineNotFound
    │   ├── EngineContractError          the engine's object or an answer of it breaks the contract
    │   ├── EngineTimeout
    │   ├── EngineQuarantined
    │   └── HostCapabilityMissing
    ├── TurnError
    │   ├── TurnRejected                 it never began
    │   ├── TurnFailed                   it began and ended badly
    │   ├── TurnInterrupted
    │   ├── ContextOverflow
    │   └── HarnessUnavailable           the chosen runtime cannot run this
    ├── SignInError                      not signed in, or signing in failed
    ├── CompactionError
    │   ├── CompactionRefused
    │   └── CompactionUnconfirmed
    ├── ToolError
    ├── InteractionError
    │   └── QuestionExpired
    ├── SessionBusy                      a session with a run is not changed as a whole
    ├── SessionExists
    ├── QueueFull
    ├── MessageConflict                  the sender's id names another message
    ├── Draining                         it is about to end and takes nothing more
    ├── GatewayError
    │   ├── GatewayUnreachable           the state directory is owned, and its owner does not answer
    │   ├── GatewayLost                  it went away amid a request; what that did is unknown
    │   └── OwnerRefused                 the owner cannot do this: it was started otherwise
    └── DeliveryError

One class per thing a caller can do differently. `code` is stable; `retryable` says whether the same
call may succeed later as it is; `next_step` is one imperative sentence for a person, or empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from treadle.model.json import JsonObject, JsonValue


class TreadleError(Exception):
    """Treadle could not do what was asked."""

    code: ClassVar[str] = "treadle.error"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str = "", *, next_step: str = "", **fields: JsonValue) -> None:
        """Keep the message, the next step for a person, and ids or values as plain fields."""
        super().__init__(message or (self.__class__.__doc__ or "").strip().partition("\n")[0])
        self.next_step = next_step
        self.fields: dict[str, JsonValue] = dict(fields)

    @property
    def message(self) -> str:
        """What was tried and what was found."""
        return str(self.args[0])

    def to_json(self) -> dict[str, JsonValue]:
        """Return the shape that `--json` prints under `error`."""
        return {
            "code": self.code,
            "message": self.message,
            "next_step": self.next_step,
            "retry": self.retryable,
            **({"fields": self.fields} if self.fields else {}),
        }


class ConfigError(TreadleError):
    """The configuration cannot be used."""

    code = "config.invalid"

    def __init__(
        self, message: str = "", *, faults: tuple[str, ...] = (), next_step: str = ""
    ) -> None:
        """Keep all faults; each is one line with its path, what was found and what is allowed."""
        super().__init__(message, next_step=next_step, faults=list(faults))
        self.faults = faults


class UsageError(TreadleError):
    """The call cannot mean anything."""

    code = "usage.invalid"


class MessageTooLarge(UsageError):
    """The message is longer than the app-server takes; it was not accepted."""

    code = "message_too_large"


class NotFound(UsageError):
    """Nothing of that name exists."""

    code = "not_found"


class InvalidCut(UsageError):
    """The transcript cannot be cut there: a turn would be parted; nothing was changed."""

    code = "session.invalid_cut"


class PluginError(TreadleError):
    """A plugin cannot be loaded."""

    code = "plugin.failed"


class WireError(TreadleError):
    """The app-server cannot be used."""

    code = "codex.unusable"


class ProcessStartError(WireError):
    """The app-server could not be started."""

    code = "codex.start_failed"


class OrphanUnconfirmed(ProcessStartError):
    """What is left of an earlier app-server could not be confirmed to be gone."""

    code = "codex.orphan_unconfirmed"
    retryable = True


class ProcessExited(WireError):
    """The app-server went away."""

    code = "codex.exited"
    retryable = True


class RpcError(WireError):
    """The app-server answered with an error."""

    code = "codex.rpc_error"

    def __init__(
        self,
        method: str,
        rpc_code: int,
        rpc_message: str,
        data: JsonValue = None,
        *,
        next_step: str = "",
    ) -> None:
        """Keep the peer's code, text and data as they came."""
        super().__init__(
            f"{method!r} was refused by the app-server: {rpc_message} ({rpc_code})",
            next_step=next_step,
            method=method,
            rpc_code=rpc_code,
        )
        self.method = method
        self.rpc_code = rpc_code
        self.rpc_message = rpc_message
        self.data = data


class RpcTimeout(WireError):
    """The app-server did not answer in time; whether it did what was asked is unknown."""

    code = "codex.rpc_timeout"

    def __init__(self, method: str, timeout_s: float) -> None:
        """Keep the method and the deadline in seconds."""
        super().__init__(
            f"{method!r} was not answered by the app-server within {timeout_s:g} s",
            method=method,
            timeout_s=timeout_s,
        )
        self.method = method


class LocalProtocolError(WireError):
    """We were about to break the protocol."""

    code = "codex.local_protocol"


class RemoteProtocolError(WireError):
    """The app-server broke the protocol."""

    code = "codex.remote_protocol"


class VersionUnsupported(WireError):
    """The app-server is older than the oldest version that works."""

    code = "codex.version_unsupported"


class ThreadBusy(WireError):
    """Another process is writing this native thread."""

    code = "codex.thread_busy"
    retryable = True


class StoreError(TreadleError):
    """The store cannot be used."""

    code = "store.failed"


class ClaimLost(StoreError):
    """A newer run owns this session; nothing was written."""

    code = "store.claim_lost"


class RevisionConflict(StoreError):
    """The stored value is not the one this write expected; nothing was written."""

    code = "store.conflict"


class MigrationNeeded(StoreError):
    """The store was written by a newer Treadle; it was left untouched."""

    code = "store.newer"


class StoreBusy(StoreError):
    """The store is held by somebody else."""

    code = "store.busy"
    retryable = True


class StoreFull(StoreError):
    """There is no room on the disk; nothing was written."""

    code = "storage_full"
    retryable = True


class StoreDamaged(StoreError):
    """The store is damaged; it was left untouched."""

    code = "store.damaged"


class BackupInvalid(StoreError):
    """The backup is not whole, or not what it was when it was made."""

    code = "backup.invalid"


class StateDirectoryRefused(StoreError):
    """The state directory is not safe to use, or is in use."""

    code = "state.refused"


class EngineError(TreadleError):
    """The context engine failed."""

    code = "engine.failed"


class EngineNotFound(EngineError):
    """No context engine of that id is registered."""

    code = "engine.not_found"


class EngineContractError(EngineError):
    """The context engine broke its contract."""

    code = "engine.contract"


class EngineTimeout(EngineError):
    """The context engine did not answer in time."""

    code = "engine.timeout"


class EngineQuarantined(EngineError):
    """The context engine is quarantined."""

    code = "engine.quarantined"


class HostCapabilityMissing(EngineError):
    """The context engine needs something that this host cannot do."""

    code = "engine.capability_missing"


class TurnError(TreadleError):
    """The turn went wrong."""

    code = "turn.error"


class TurnRejected(TurnError):
    """The turn was refused and never began."""

    code = "turn.rejected"


class TurnFailed(TurnError):
    """The turn failed."""

    code = "turn.failed"


class TurnInterrupted(TurnError):
    """The turn was interrupted."""

    code = "turn.interrupted"


class ContextOverflow(TurnError):
    """The context does not fit the model's window."""

    code = "turn.context_overflow"


class HarnessUnavailable(TurnError):
    """The runtime that this run asks for is not available."""

    code = "harness.unavailable"


class SignInError(TreadleError):
    """Codex is not signed in, or signing in failed."""

    code = "codex_not_signed_in"


class CompactionError(TreadleError):
    """The compaction went wrong."""

    code = "compaction.error"


class CompactionRefused(CompactionError):
    """The compaction was refused."""

    code = "compaction.refused"


class CompactionUnconfirmed(CompactionError):
    """Whether the native thread was compacted is unknown."""

    code = "compaction.unconfirmed"


class ToolError(TreadleError):
    """The tool failed."""

    code = "tool.failed"


class InteractionError(TreadleError):
    """The question could not be settled."""

    code = "question.error"


class QuestionExpired(InteractionError):
    """Nobody answered in time, which is never consent."""

    code = "question.expired"


class SessionBusy(TreadleError):
    """The session has a run that is not over; nothing was changed."""

    code = "session.busy"
    retryable = True


class SessionExists(TreadleError):
    """There is a session of that key already; nothing was changed."""

    code = "session.exists"


class QueueFull(TreadleError):
    """Too many messages wait; this one was not accepted."""

    code = "queue_full"
    retryable = True


class MessageConflict(TreadleError):
    """The sender's id of a message names another one; this one was not accepted."""

    code = "message_conflict"


class DeliveryError(TreadleError):
    """The reply could not be delivered."""

    code = "delivery.failed"


class Draining(TreadleError):
    """Treadle is about to end and takes no more messages; this one was not accepted."""

    code = "draining"
    retryable = True


class GatewayError(TreadleError):
    """The process that owns the state directory cannot be used."""

    code = "gateway.failed"


class GatewayUnreachable(GatewayError):
    """The process that owns the state directory does not answer."""

    code = "gateway.unreachable"
    retryable = True


class GatewayLost(GatewayError):
    """The process that owns the state directory went away; what the request did is unknown."""

    code = "gateway.lost"
    retryable = True


class OwnerRefused(GatewayError):
    """The process that owns the state directory cannot do this."""

    code = "gateway.refused"


def error_from_json(error: JsonObject) -> TreadleError:
    """Return the error that another process of ours told of, as `to_json` wrote it.

    A code that this version does not know stays; only its class is unknown.
    """
    code = str(error.get("code") or TreadleError.code)
    fields = error.get("fields")
    kind = next((one for one in _kinds(TreadleError) if one.code == code), None)
    if kind is None:
        retryable = error.get("retry") is True
        kind = type("UnknownError", (TreadleError,), {"code": code, "retryable": retryable})
    made = kind.__new__(kind)
    TreadleError.__init__(
        made,
        str(error.get("message") or ""),
        next_step=str(error.get("next_step") or ""),
        **(fields if isinstance(fields, dict) else {}),
    )
    return made


def _kinds(kind: type[TreadleError]) -> Iterator[type[TreadleError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _kinds(below)
