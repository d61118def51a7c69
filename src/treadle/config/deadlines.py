"""Every deadline of the house in one record, in seconds of the monotonic clock, with its reason.

Knows nothing of who waits. A deadline of 0 means none, and only `run_s` may have it.
"""

from __future__ import annotations

from dataclasses import dataclass

from treadle.config.kinds import Number
from treadle.config.tables import setting

_SECONDS = Number(least=0.05, most=86_400)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """How long we wait for whom."""

    run_s: float = 172_800
    """One attempt as a whole, 0 = no limit. Set by `agents.defaults.timeoutSeconds` (A-17)."""
    request_s: float = 60
    """One control call. Set by `appServer.requestTimeoutMs` (S-12, V-09)."""
    compaction_s: float = 180
    """One compaction. Set by `agents.defaults.compaction.timeoutSeconds` (J-10)."""

    engine_factory_s: float = setting(
        _SECONDS, 10.0, "A context engine's factory: it opens a file or a connection.",
        key="engineFactorySeconds",
    )  # fmt: skip
    engine_bootstrap_s: float = setting(
        _SECONDS, 120.0, "`bootstrap`: may read a long transcript once.",
        key="engineBootstrapSeconds",
    )  # fmt: skip
    engine_call_s: float = setting(
        _SECONDS, 30.0, "`assemble`, `ingest`, `afterTurn`: a person waits meanwhile.",
        key="engineCallSeconds",
    )  # fmt: skip
    engine_slow_s: float = setting(
        _SECONDS, 5.0, "After this an engine call is reported as slow, and goes on.",
        key="engineSlowSeconds",
    )  # fmt: skip
    engine_commit_s: float = setting(
        _SECONDS, 30.0, "`commitTurn`: then the turn stays in the outbox.",
        key="engineCommitSeconds",
    )  # fmt: skip
    engine_maintain_s: float = setting(
        _SECONDS, 600.0, "`maintain`: may call a model.", key="engineMaintainSeconds",
    )  # fmt: skip
    engine_dispose_s: float = setting(
        _SECONDS, 10.0, "`dispose`, when Treadle stops.", key="engineDisposeSeconds",
    )  # fmt: skip
    tool_call_s: float = setting(
        Number(least=0.05, most=600), 90.0, "A dynamic tool without a time of its own (K-16).",
        key="toolCallSeconds",
    )  # fmt: skip
    question_s: float = setting(
        _SECONDS, 120.0, "A question to a person; silence is never consent (M-11).",
        key="questionSeconds", in_effect=False,
    )  # fmt: skip
    child_start_s: float = setting(
        _SECONDS, 10.0, "To find and stop what earlier app-servers left, before a start (S-12).",
        key="childStartSeconds",
    )  # fmt: skip
    initialize_s: float = setting(
        _SECONDS, 30.0, "From spawn to the answer of `initialize`: 0.1-0.7 s on an idle machine.",
        key="initializeSeconds",
    )  # fmt: skip
    write_s: float = setting(
        _SECONDS, 10.0, "One frame into the app-server's pipe; a stopped process never reads it.",
        key="writeSeconds",
    )  # fmt: skip
    thread_busy_s: float = setting(
        _SECONDS, 10.0, "A thread that another process writes; then the run fails (F7).",
        key="threadBusySeconds",
    )  # fmt: skip
    interrupt_s: float = setting(
        _SECONDS, 30.0, "From `turn/interrupt` to the turn's end, then the connection goes (J-23).",
        key="interruptSeconds",
    )  # fmt: skip
    settlement_s: float = setting(
        _SECONDS, 120.0, "From the native end of a turn to its last stored entry (A-19).",
        key="settlementSeconds",
    )  # fmt: skip
    drain_s: float = setting(
        _SECONDS, 5.0, "After an abort, from the turn's end to its last stored entry (A-19).",
        key="drainSeconds",
    )  # fmt: skip
    store_s: float = setting(
        _SECONDS, 30.0, "One write to the store, the wait for the writer included.",
        key="storeSeconds", in_effect=False,
    )  # fmt: skip
    stop_eof_s: float = setting(
        _SECONDS, 2.0, "From the end of stdin to the app-server's exit: 0.06 s measured (F8).",
        key="stopEofSeconds",
    )  # fmt: skip
    stop_term_s: float = setting(
        _SECONDS, 2.0, "From SIGTERM to exit, then SIGKILL.", key="stopTermSeconds",
    )  # fmt: skip
    stop_kill_s: float = setting(
        _SECONDS, 5.0, "From SIGKILL to an observed exit (J-24).", key="stopKillSeconds",
    )  # fmt: skip
    shutdown_s: float = setting(
        _SECONDS, 20.0, "Running turns when Treadle is asked to stop.", key="shutdownSeconds",
    )  # fmt: skip
    cleanup_s: float = setting(
        _SECONDS, 2.0, "Clean-up that must run although its task was cancelled.",
        key="cleanupSeconds",
    )  # fmt: skip
    sign_in_s: float = setting(
        _SECONDS, 900.0, "A person signing in in a browser.", key="signInSeconds",
    )  # fmt: skip
