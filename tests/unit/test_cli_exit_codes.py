"""The one table of exit codes against every error that Treadle raises on purpose."""

from __future__ import annotations

import pytest

from treadle.cli.exit_codes import MEANINGS, Exit, exit_of_error, exit_of_run
from treadle.cli.failure import Failure, failure_from_error, leaf_of
from treadle.model.errors import (
    NotFound,
    StoreDamaged,
    TreadleError,
    VersionUnsupported,
)


def every_error(root: type[TreadleError] = TreadleError) -> list[type[TreadleError]]:
    return [root, *(deeper for one in root.__subclasses__() for deeper in every_error(one))]


EXPECTED = {
    "config.invalid": 2,
    "usage.invalid": 2,
    "message_too_large": 2,
    "not_found": 2,
    "engine.not_found": 2,
    "codex.unusable": 4,
    "codex.start_failed": 4,
    "codex.exited": 4,
    "codex.rpc_error": 4,
    "codex.rpc_timeout": 4,
    "codex.version_unsupported": 4,
    "codex_not_signed_in": 4,
    "harness.unavailable": 4,
    "codex.orphan_unconfirmed": 5,
    "codex.thread_busy": 5,
    "store.claim_lost": 5,
    "store.conflict": 5,
    "queue_full": 5,
    "message_conflict": 5,
    "draining": 5,
    "session.busy": 5,
    "session.exists": 5,
    "session.invalid_cut": 2,
    "question.expired": 7,
    "store.failed": 74,
    "store.damaged": 74,
    "storage_full": 74,
    "backup.invalid": 74,
    "store.newer": 78,
    "store.busy": 78,
    "state.refused": 78,
    "turn.failed": 1,
    "turn.rejected": 1,
    "turn.context_overflow": 1,
    "engine.failed": 1,
    "plugin.failed": 1,
    "never.heard_of": 1,
}


@pytest.mark.parametrize(("code", "number"), EXPECTED.items())
def test_error_ends_with_its_documented_exit_code(code: str, number: int) -> None:
    """Ours; decision 23."""
    assert exit_of_error(code) == number


def test_every_error_of_the_tree_has_a_meaning() -> None:
    """Ours: no error ends with a number that the documentation does not explain."""
    assert {exit_of_error(error.code) for error in every_error()} <= set(MEANINGS)


def test_meanings_cover_every_exit_code() -> None:
    """Ours."""
    assert set(MEANINGS) == set(Exit)


@pytest.mark.parametrize(
    ("outcome", "code", "number"),
    [
        ("completed", None, 0),
        ("completed", "turn.failed", 0),
        ("failed", "turn.failed", 1),
        ("failed", "codex_not_signed_in", 4),
        ("failed", "engine.not_found", 2),
        ("failed", None, 1),
        ("stopped", None, 1),
        ("timed_out", "codex.rpc_timeout", 6),
        ("client_lost", None, 4),
        ("client_lost", "codex.exited", 4),
    ],
)
def test_run_ends_with_the_exit_code_of_its_error_or_outcome(
    outcome: str, code: str | None, number: int
) -> None:
    """Ours."""
    assert exit_of_run(outcome, code) == number


def test_error_that_was_raised_on_purpose_is_shown_from_within_a_group() -> None:
    """Ours: task groups wrap what ends them."""
    known = NotFound("there is no session 'x'", next_step="List them")
    group = ExceptionGroup("g", [RuntimeError("noise"), ExceptionGroup("h", [known])])

    assert leaf_of(group) is known
    assert failure_from_error(group) == Failure(
        code="not_found", message="there is no session 'x'", next_step="List them"
    )


def test_error_that_nobody_raised_on_purpose_is_called_internal() -> None:
    """Ours."""
    failure = failure_from_error(KeyError("x"))
    assert (failure.code, failure.exit) == ("internal.error", Exit.FAILED)


def test_class_of_an_error_decides_nothing_but_its_code() -> None:
    """Ours: the table holds words, so that the help imports no error classes."""
    assert failure_from_error(StoreDamaged()).exit is Exit.STORE
    assert failure_from_error(VersionUnsupported()).exit is Exit.CODEX
