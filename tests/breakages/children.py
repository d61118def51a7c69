"""Changes in what becomes of processes of ours (spec S-11; RS24, RS25; INV-19)."""

from __future__ import annotations

from typing import Final

from tests.breakages.breakage import Breakage

_POLICY: Final = "tests/unit/test_children_policy.py"
_ORPHANS: Final = "tests/process/test_orphans.py"

CHILDREN: Final = (
    Breakage(
        "take-a-pid-for-an-identity",
        "RS25",
        "wire/children/policy.py",
        "if entry is None or entry.start_ticks != record.start_ticks:",
        "if entry is None:",
        (f"{_POLICY}::test_a_row_gets_its_verdict",),
    ),
    Breakage(
        "believe-an-old-table-when-signalling",
        "RS25",
        "wire/children/stopping.py",
        "if start_ticks_of(target.pid) == target.start_ticks:",
        "if True:",
        (
            f"{_ORPHANS}"
            "::test_a_pid_that_changes_hands_between_the_look_and_the_signal_is_not_signalled",
        ),
    ),
    Breakage(
        "touch-what-a-living-owner-has",
        "S-11",
        "wire/children/policy.py",
        "return parent.pid != table.our_pid or record.id in in_use",
        "return record.id in in_use",
        (f"{_ORPHANS}::test_children_of_an_owner_that_lives_are_never_touched",),
    ),
    Breakage(
        "leave-commands-of-a-dead-app-server-alone",
        "S-11",
        "wire/children/policy.py",
        "marked = {pid for pid, entry in own.items() if entry.marker == record.id}",
        "marked: set[int] = set()",
        (f"{_ORPHANS}::test_commands_of_a_dead_app_server_are_found_by_their_marker",),
    ),
    Breakage(
        "speak-before-the-child-is-registered",
        "S-11",
        "wire/children/registered.py",
        "await self._registry.started(child_id, found)",
        "assert found",
        (f"{_ORPHANS}::test_an_app_server_is_registered_before_it_is_spoken_to",),
    ),
    Breakage(
        "take-the-marker-from-commands",
        "S-11",
        "harness/codex/launch.py",
        '"shell_environment_policy.inherit": "core",',
        '"shell_environment_policy": {"inherit": "core"},',
        (
            "tests/process/test_orphans_codex.py"
            "::test_every_command_bears_the_marker_and_the_model_is_told_nothing_of_it",
        ),
    ),
    Breakage(
        "take-a-busy-thread-for-a-lost-one",
        "INV-20",
        "protocol/faults.py",
        "if _classify(code, message, data) is Fault.THREAD_BUSY:",
        "if False:",
        (
            "tests/turn/test_thread_rotation.py"
            "::test_a_thread_that_stays_taken_fails_the_run_and_never_costs_the_binding",
        ),
    ),
)
