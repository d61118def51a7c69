"""Changes in what becomes of whole sessions (spec U)."""

from __future__ import annotations

from typing import Final

from tests.breakages.breakage import Breakage

_LIVES: Final = "tests/contract/test_store_lives.py"
_TURNS: Final = "tests/turn/test_session_lives.py"
_RESTORE: Final = "tests/contract/test_store_restore.py"
_MANIFEST: Final = "tests/unit/test_backup_manifest.py"
_CHILDREN: Final = "tests/turn/test_subagents.py"

LIVES: Final = (
    Breakage(
        "rewind-and-keep-the-thread",
        "U-04",
        "store/branches.py",
        "clear_binding(connection, session.id, binding.thread_id, now)",
        "pass",
        (f"{_LIVES}::test_a_rewind_keeps_exactly_what_stands_up_to_the_entry",),
    ),
    Breakage(
        "cut-within-a-turn",
        "U-04",
        "store/places.py",
        "return same_run or same_turn or answers",
        "return False",
        (f"{_LIVES}::test_a_cut_within_a_turn_is_refused_and_keeps_the_binding",),
    ),
    Breakage(
        "write-to-a-generation-that-is-over",
        "U-03",
        "store/branches.py",
        'connection.run("fence_generation", session_id=session.id, now=now)',
        "pass",
        (f"{_LIVES}::test_a_generation_that_is_over_takes_no_binding_and_no_entry",),
    ),
    Breakage(
        "give-up-the-thread-before-the-row-is-gone",
        "U-05",
        "store/branches.py",
        'connection.run("drop_session", key=session.key)',
        "pass",
        (
            f"{_LIVES}::test_a_deletion_that_fails_keeps_the_binding",
            f"{_LIVES}::test_a_deleted_session_is_gone_from_lists_and_searches_and_its_key_is_free",
        ),
    ),
    Breakage(
        "tell-no-engine-that-a-generation-is-over",
        "U-02",
        "runtime/lives.py",
        "await self._engines.each(before, bound, job)",
        "del job",
        (f"{_TURNS}::test_an_engine_is_told_which_generation_is_over_and_which_one_follows",),
    ),
    Breakage(
        "leave-a-failed-child-prepared",
        "B-20",
        "runtime/subagents.py",
        "                await rollback()",
        "                pass",
        (
            f"{_CHILDREN}::test_a_spawn_that_fails_after_its_preparation_is_undone_once",
            f"{_CHILDREN}::test_a_spawn_that_is_cancelled_is_undone_once",
        ),
    ),
    Breakage(
        "keep-children-for-ever",
        "B-21",
        "runtime/service.py",
        "await self.subagents.sweep()",
        "pass",
        (f"{_CHILDREN}::test_a_child_that_outlived_its_time_is_swept_at_the_next_start",),
    ),
    Breakage(
        "answer-again-what-a-backup-caught-waiting",
        "INV-9",
        "store/restore.py",
        'connection.run("lose_messages", now=now, outcome=encoded(OUTCOME))',
        "pass",
        (f"{_RESTORE}::test_what_was_under_way_is_unknown_and_is_not_done_again",),
    ),
    Breakage(
        "follow-a-path-out-of-a-backup",
        "RS53",
        "backup/manifest.py",
        'or {"..", "."} & set(path.split("/"))',
        "",
        (f"{_MANIFEST}::test_no_path_leads_out_of_the_state_directory",),
    ),
)
