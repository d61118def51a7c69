"""The table of all log events; `emit` refuses any other name. Knows nothing of who emits them.

A name is `noun.verb_past`. Its message is the text that the contract's T-01 gives for it, where it
gives one, and a short sentence otherwise. Values never stand in the message, only in fields.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum


class Level(IntEnum):
    """How loud an event is; the numbers are those of `logging`."""

    DEBUG = logging.DEBUG
    """A detail for whoever follows one turn."""
    INFO = logging.INFO
    """One line per state change that an operator counts."""
    WARNING = logging.WARNING
    """Degraded, but answered."""
    ERROR = logging.ERROR
    """Someone must look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One row of the table."""

    name: str
    level: Level
    message: str
    """The `message` of the log record: constant text. Source: decision 19, spec T-01."""


_DEBUG, _INFO, _WARNING, _ERROR = Level.DEBUG, Level.INFO, Level.WARNING, Level.ERROR

_ROWS: tuple[tuple[str, Level, str], ...] = (
    ("attempt.settled", _INFO, "attempt settled"),
    ("attempt.started", _DEBUG, "attempt started"),
    ("binding.cleared", _INFO, "thread binding cleared"),
    ("binding.conflicted", _WARNING, "thread binding was changed by somebody else"),
    ("binding.written", _INFO, "thread binding written"),
    ("claim.lost", _WARNING, "a newer run owns the session"),
    ("claim.released", _DEBUG, "session claim released"),
    ("claim.taken", _DEBUG, "session claim taken"),
    ("compaction.native_completed", _DEBUG,
     "codex native compaction completed alongside context-engine compaction"),
    ("compaction.native_observed", _INFO, "codex compacted its own history"),
    ("compaction.native_failed", _WARNING, "codex native compaction failed"),
    ("compaction.settled", _INFO, "compaction settled"),
    ("compaction.started", _INFO, "compaction started"),
    ("config.loaded", _INFO, "configuration loaded"),
    ("config.warned", _WARNING, "configuration needs attention"),
    ("delivery.failed", _WARNING, "delivery failed"),
    ("delivery.sent", _INFO, "reply delivered"),
    ("engine.assemble_applied", _DEBUG, "codex context engine assemble applied"),
    ("engine.assemble_failed", _WARNING, "context engine assemble failed; sent the bare prompt"),
    ("engine.bootstrap_completed", _DEBUG, "codex context engine bootstrap completed"),
    ("engine.bootstrap_failed", _WARNING, "codex context engine bootstrap failed"),
    ("engine.bootstrap_started", _DEBUG, "codex context engine bootstrap started"),
    ("engine.call_abandoned", _ERROR, "context engine call ignores its cancellation"),
    ("engine.call_slowed", _WARNING, "context engine call is slow"),
    ("engine.commit_completed", _DEBUG, "context engine committed the turn"),
    ("engine.commit_failed", _WARNING, "context engine did not commit the turn"),
    ("engine.contract_broken", _ERROR, "context engine broke its contract"),
    ("engine.disposed", _DEBUG, "context engine disposed"),
    ("engine.fell_back", _WARNING, "legacy serves in place of the context engine"),
    ("engine.finalize_completed", _DEBUG, "codex context engine finalize completed"),
    ("engine.finalize_failed", _WARNING, "codex context engine finalize failed"),
    ("engine.ingest_failed", _WARNING, "context engine ingest failed"),
    ("engine.maintenance_completed", _DEBUG, "context engine maintenance completed"),
    ("engine.maintenance_failed", _WARNING, "context engine maintenance failed"),
    ("engine.maintenance_skipped", _DEBUG, "codex context engine maintenance skipped"),
    ("engine.quarantined", _ERROR, "context engine quarantined"),
    ("engine.registered", _DEBUG, "context engine registered"),
    ("engine.resolved", _DEBUG, "context engine resolved"),
    ("engine.session_call_failed", _WARNING, "context engine failed at a call about a session"),
    ("engine.timed_out", _WARNING, "context engine did not answer in time"),
    ("gateway.client_dropped", _WARNING, "client of the gateway dropped"),
    ("gateway.drained", _INFO, "gateway drained"),
    ("gateway.request_crashed", _ERROR, "a request failed by a fault of Treadle's own"),
    ("gateway.started", _INFO, "gateway started"),
    ("gateway.stopped", _INFO, "gateway stopped"),
    ("harness.refused", _WARNING, "runtime refused the run"),
    ("harness.selected", _DEBUG, "runtime selected"),
    ("hook.failed", _WARNING, "hook failed"),
    ("hook.timed_out", _WARNING, "hook did not answer in time"),
    ("inbox.accepted", _INFO, "message accepted"),
    ("inbox.refused", _INFO, "message refused"),
    ("inbox.settled", _DEBUG, "message settled"),
    ("injection.confirmed", _DEBUG, "injection confirmed by the app-server"),
    ("injection.failed", _WARNING, "injection failed"),
    ("injection.intended", _DEBUG, "injection intended"),
    ("injection.settled", _INFO, "unconfirmed injection settled"),
    ("library.logged", _WARNING, "a library wrote to the log"),
    ("log.dropped", _WARNING, "log records were dropped because the log could not keep up"),
    ("loop.blocked", _ERROR, "a call blocks the event loop"),
    ("message.cut", _WARNING, "text was cut to fit the turn"),
    ("mirror.failed", _ERROR, "transcript could not be written"),
    ("mirror.written", _DEBUG, "transcript written"),
    ("offline.answered", _DEBUG, "offline model answered"),
    ("offline.refused", _WARNING, "offline model refused a request"),
    ("offline.started", _INFO, "offline model started"),
    ("offline.stopped", _INFO, "offline model stopped"),
    ("plugin.failed", _ERROR, "plugin could not be loaded"),
    ("plugin.loaded", _DEBUG, "plugin loaded"),
    ("projection.decided", _DEBUG, "projection decided"),
    ("projection.failed", _WARNING, "projection failed; sent the bare prompt"),
    ("projection.request_ignored", _WARNING,
     "context engine's wish for a thread_bootstrap projection was ill-formed"),
    ("projection.truncated", _INFO, "projected context was cut to its limit"),
    ("question.answered", _INFO, "question answered"),
    ("question.asked", _INFO, "question asked"),
    ("question.expired", _INFO, "question expired"),
    ("question.refused", _INFO, "question refused"),
    ("run.admitted", _DEBUG, "run admitted"),
    ("run.crashed", _ERROR, "a run ended by a fault of Treadle's own"),
    ("run.queued", _DEBUG, "run waits for its lane"),
    ("run.refused", _INFO, "run refused"),
    ("run.resumed", _INFO, "a message that an earlier process left without an end is taken up"),
    ("run.settled", _INFO, "run settled"),
    ("run.started", _INFO, "run started"),
    ("session.branched", _INFO, "session branched off"),
    ("session.created", _INFO, "session created"),
    ("session.deleted", _INFO, "session deleted"),
    ("session.reset", _INFO, "session reset"),
    ("session.rewound", _INFO, "session rewound"),
    ("signin.completed", _INFO, "signed in"),
    ("signin.failed", _WARNING, "signing in failed"),
    ("signin.removed", _INFO, "signed out"),
    ("state.opened", _DEBUG, "state directory opened"),
    ("state.refused", _ERROR, "state directory refused"),
    ("store.damaged", _ERROR, "store is damaged"),
    ("store.filled", _ERROR, "no room left for the store"),
    ("store.log_grown", _WARNING, "a reader keeps the store's log from being emptied"),
    ("store.log_shrunk", _INFO, "store's log was emptied again"),
    ("store.migrated", _INFO, "store migrated"),
    ("store.opened", _DEBUG, "store opened"),
    ("store.write_failed", _ERROR, "store could not be written"),
    ("stream.event_dropped", _ERROR, "an event could not be stored"),
    ("stream.flush_failed", _WARNING, "events could not be stored yet"),
    ("subagent.began", _INFO, "child session began"),
    ("subagent.ended", _INFO, "child session ended"),
    ("subagent.rolled_back", _WARNING, "child session did not begin"),
    ("task.leaked", _ERROR, "a task of foreign code does not end"),
    ("thread.archived", _DEBUG, "thread archived"),
    ("thread.cleanup_failed", _WARNING, "thread could not be released"),
    ("thread.deleted", _INFO, "superseded thread deleted"),
    ("thread.held", _INFO, "another process writes the thread; trying again"),
    ("thread.resumed", _INFO, "thread resumed"),
    ("thread.rotated", _INFO, "thread rotated"),
    ("thread.setup_measured", _DEBUG, "thread setup measured"),
    ("thread.setup_slowed", _WARNING, "thread setup was slow"),
    ("thread.started", _INFO, "thread started"),
    ("thread.unsubscribed", _DEBUG, "thread unsubscribed"),
    ("tool.called", _DEBUG, "dynamic tool called"),
    ("tool.failed", _WARNING, "dynamic tool failed"),
    ("tool.quarantined", _WARNING, "dynamic tool quarantined"),
    ("tool.settled", _DEBUG, "dynamic tool settled"),
    ("tool.timed_out", _WARNING, "dynamic tool did not answer in time"),
    ("transcript.rewritten", _INFO, "transcript rewritten"),
    ("turn.input_ignored", _DEBUG, "late input for a settled turn ignored"),
    ("turn.interrupted", _INFO, "turn interrupted"),
    ("turn.lost", _WARNING, "turn lost with its app-server"),
    ("turn.rejected", _WARNING, "turn rejected"),
    ("turn.retried", _INFO, "turn retried on a fresh thread"),
    ("turn.settled", _INFO, "turn settled"),
    ("turn.started", _INFO, "turn started"),
    ("turn.steered", _INFO, "turn steered"),
    ("wire.backed_off", _WARNING, "app-server restart waits"),
    ("wire.binary_verified", _DEBUG, "codex binary verified"),
    ("wire.child_closed", _DEBUG, "child process accounted for"),
    ("wire.child_registered", _DEBUG, "child process registered"),
    ("wire.exited", _WARNING, "app-server exited"),
    ("wire.frame_dropped", _WARNING, "frame from the app-server dropped"),
    ("wire.initialized", _INFO, "app-server ready"),
    ("wire.killed", _WARNING, "app-server killed"),
    ("wire.notified", _DEBUG, "notification received"),
    ("wire.orphan_found", _WARNING, "processes of ours found without an owner"),
    ("wire.orphan_signalled", _DEBUG, "process of ours without an owner signalled"),
    ("wire.orphan_stopped", _INFO, "processes of ours without an owner stopped"),
    ("wire.orphan_unconfirmed", _ERROR, "what is left of an earlier app-server is not known"),
    ("wire.request_failed", _DEBUG, "request refused by the app-server"),
    ("wire.request_sent", _DEBUG, "request sent"),
    ("wire.request_served", _DEBUG, "request of the app-server answered"),
    ("wire.request_timed_out", _WARNING, "app-server did not answer in time"),
    ("wire.retired", _WARNING, "app-server connection retired"),
    ("wire.spawned", _INFO, "app-server started"),
    ("wire.start_failed", _ERROR, "app-server could not be started"),
    ("wire.stderr_read", _DEBUG, "app-server wrote to its stderr"),
    ("wire.stopped", _INFO, "app-server stopped"),
    ("wire.unknown_received", _DEBUG, "unknown message from the app-server kept"),
    ("wire.warned", _WARNING, "app-server warned"),
)  # fmt: skip

EVENTS: Mapping[str, Event] = {
    name: Event(name=name, level=level, message=message) for name, level, message in _ROWS
}
"""Every event by name. `docs/events.md` holds the same rows."""
