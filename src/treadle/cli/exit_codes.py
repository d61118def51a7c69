"""Which exit code a command ends with: one table, for errors by their code and for outcomes.

Knows error codes as words, not the classes, so that `--help` imports none; a test compares both.
`docs/cli.md` holds the same rows.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from enum import IntEnum
from typing import Final


class Exit(IntEnum):
    """Exit codes. Source: decision 23, design of the terminal."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NO_GATEWAY = 3
    CODEX = 4
    STATE = 5
    TIME_LIMIT = 6
    QUESTION = 7
    STORE = 74
    REFUSED = 78
    INTERRUPTED = 128 + signal.SIGINT
    PIPE_CLOSED = 128 + signal.SIGPIPE
    TERMINATED = 128 + signal.SIGTERM


MEANINGS: Final[Mapping[Exit, str]] = {
    Exit.DONE: "done",
    Exit.FAILED: "the run or the check failed; what there is of an answer was printed",
    Exit.USAGE: "wrong usage: arguments, a name that does not exist, or the configuration",
    Exit.NO_GATEWAY: "the gateway cannot be reached: none runs, or its process does not answer",
    Exit.CODEX: "Codex cannot be used: missing, wrong version or file, not signed in, gone",
    Exit.STATE: "refused by the state of things: busy, locked, changed meanwhile",
    Exit.TIME_LIMIT: "the time limit was reached and the run stopped",
    Exit.QUESTION: "a question ended it: denied, or nobody to ask",
    Exit.STORE: "the store is damaged, or the disk is full or faulty",
    Exit.REFUSED: "refused to start: state directory in use or not safe, or a newer store",
    Exit.INTERRUPTED: "interrupted (Ctrl-C); the run was stopped first",
    Exit.PIPE_CLOSED: "whoever read the output closed the pipe; silent",
    Exit.TERMINATED: "terminated (SIGTERM); the run was stopped first",
}
"""What each code means, as `docs/cli.md` says it."""

INTERNAL: Final = "internal.error"
"""Code of an error that nobody raised on purpose: a fault of Treadle's own."""

_EXITS: Final[Mapping[str, Exit]] = {
    "codex.orphan_unconfirmed": Exit.STATE,
    "backup.invalid": Exit.STORE,
    "codex.thread_busy": Exit.STATE,
    "codex_not_signed_in": Exit.CODEX,
    "compaction.refused": Exit.STATE,
    "config.invalid": Exit.USAGE,
    "draining": Exit.STATE,
    "engine.not_found": Exit.USAGE,
    "gateway.lost": Exit.NO_GATEWAY,
    "gateway.refused": Exit.STATE,
    "gateway.unreachable": Exit.NO_GATEWAY,
    "harness.unavailable": Exit.CODEX,
    "message_conflict": Exit.STATE,
    "message_too_large": Exit.USAGE,
    "not_found": Exit.USAGE,
    "question.error": Exit.QUESTION,
    "question.expired": Exit.QUESTION,
    "queue_full": Exit.STATE,
    "session.busy": Exit.STATE,
    "session.exists": Exit.STATE,
    "session.invalid_cut": Exit.USAGE,
    "state.refused": Exit.REFUSED,
    "storage_full": Exit.STORE,
    "store.busy": Exit.REFUSED,
    "store.claim_lost": Exit.STATE,
    "store.conflict": Exit.STATE,
    "store.damaged": Exit.STORE,
    "store.failed": Exit.STORE,
    "store.newer": Exit.REFUSED,
    "usage.invalid": Exit.USAGE,
}
_FAMILIES: Final[tuple[tuple[str, Exit], ...]] = (("codex.", Exit.CODEX),)
_OUTCOMES: Final[Mapping[str, Exit]] = {
    "completed": Exit.DONE,
    "timed_out": Exit.TIME_LIMIT,
    "client_lost": Exit.CODEX,
}


def exit_of_error(code: str) -> Exit:
    """Return the exit code for an error; one that the table does not name failed the run."""
    if code in _EXITS:
        return _EXITS[code]
    return next((found for head, found in _FAMILIES if code.startswith(head)), Exit.FAILED)


def exit_of_run(outcome: str, error_code: str | None) -> Exit:
    """Return the exit code for how a run ended; an error says more than the outcome."""
    outcome_exit = _OUTCOMES.get(outcome, Exit.FAILED)
    if outcome == "completed" or outcome == "timed_out" or error_code is None:
        return outcome_exit
    return exit_of_error(error_code)
