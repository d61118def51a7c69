"""Changes in what becomes of whole sessions (spec U)."""

from __future__ import annotations

from typing import Final

from tests.breakages.breakage import Breakage

_LIVES: Final = "tests/contract/test_store_lives.py"

LIVES: Final = (
    Breakage(
        "rewind-and-keep-the-thread",
        "U-04",
        "store/branches.py",
        "clear_binding(connection, session_id, binding.thread_id, now)",
        "pass",
        (f"{_LIVES}::test_a_rewind_keeps_exactly_what_stands_up_to_the_entry",),
    ),
    Breakage(
        "cut-within-a-turn",
        "U-04",
        "store/branches.py",
        "return same_run or same_turn or answers",
        "return False",
        (f"{_LIVES}::test_a_cut_within_a_turn_is_refused_and_keeps_the_binding",),
    ),
    Breakage(
        "write-to-a-generation-that-is-over",
        "U-03",
        "store/branches.py",
        'connection.run("fence_generation", session_id=session_id, now=now)',
        "pass",
        (f"{_LIVES}::test_a_generation_that_is_over_takes_no_binding_and_no_entry",),
    ),
    Breakage(
        "give-up-the-thread-before-the-row-is-gone",
        "U-05",
        "store/branches.py",
        'connection.run("drop_session", key=key)',
        "pass",
        (
            f"{_LIVES}::test_a_deletion_that_fails_keeps_the_binding",
            f"{_LIVES}::test_a_deleted_session_is_gone_from_lists_and_searches_and_its_key_is_free",
        ),
    ),
)
