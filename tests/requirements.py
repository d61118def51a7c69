"""Which tests stand for which id of the contract, and which ids are not (or not wholly) served yet.

`contract_ids.txt` lists the ids: cases `A-01` to `W-09` of the contract, `RS01` to `RS55` of the
reliability and security cases. `REQUIREMENTS` is written by `scripts/requirements` from the tests'
docstrings. `OUT_OF_SCOPE` is kept by hand; an id of which a later part brings the rest stands in
both. `tests/unit/test_requirements.py` holds the two against the list and against the tests.
"""

from __future__ import annotations

# begin: written by scripts/requirements.py
REQUIREMENTS: dict[str, list[str]] = {
    "A-01": [
        "tests/process/test_switching.py::test_the_engines_context_reaches_the_request_of_every_kind_of_model",
        "tests/unit/test_engine_registry.py::test_each_run_gets_an_engine_of_its_own_made_from_its_context",
    ],
    "A-02": [
        "tests/turn/test_public_reports.py::test_every_turn_is_handed_over_once_with_its_answer",
        "tests/turn/test_turn_outcomes.py::test_the_result_says_what_a_turn_did",
    ],
    "A-03": [
        "tests/unit/test_selection.py::test_selection",
        "tests/unit/test_selection.py::test_what_nobody_claims_is_refused_where_the_built_in_runtime_cannot_run_it",
    ],
    "A-04": [
        "tests/unit/test_config_records.py::test_a_whole_agent_runtime_is_the_last_resort",
        "tests/unit/test_selection.py::test_selection",
        "tests/unit/test_selection.py::test_the_highest_priority_claims_and_ties_go_to_the_first",
    ],
    "A-05": [
        "tests/unit/test_config_records.py::test_a_whole_agent_runtime_is_the_last_resort",
        "tests/unit/test_selection.py::test_old_settings_are_named_in_warnings",
        "tests/unit/test_selection.py::test_selection",
    ],
    "A-06": [
        "tests/turn/test_thread_rotation.py::test_a_codex_model_reference_names_the_model_and_no_provider",
        "tests/unit/test_config_records.py::test_an_old_key_means_its_new_one_and_warns",
        "tests/unit/test_selection.py::test_selection",
        "tests/unit/test_selection.py::test_the_codex_prefix_is_taken_off_the_model",
    ],
    "A-07": [
        "tests/unit/test_selection.py::test_a_named_runtime_that_does_not_support_the_route_fails_the_run",
        "tests/unit/test_selection.py::test_a_refusal_stands_where_nobody_can_take_over",
        "tests/unit/test_selection.py::test_an_answer_is_a_priority_or_a_reason",
        "tests/unit/test_selection.py::test_the_built_in_runtime_takes_over_only_exactly_what_was_asked",
        "tests/unit/test_selection.py::test_what_cannot_run_fails_early_with_a_next_step",
    ],
    "A-10": [
        "tests/unit/test_selection.py::test_a_refusal_stands_where_nobody_can_take_over",
        "tests/unit/test_selection.py::test_an_answer_is_a_priority_or_a_reason",
        "tests/unit/test_selection.py::test_selection",
        "tests/unit/test_selection.py::test_the_built_in_runtime_takes_over_only_exactly_what_was_asked",
        "tests/unit/test_selection.py::test_what_nobody_claims_is_refused_where_the_built_in_runtime_cannot_run_it",
    ],
    "A-11": [
        "tests/unit/test_selection.py::test_official_routes",
        "tests/unit/test_selection.py::test_selection",
    ],
    "A-13": [
        "tests/unit/test_selection.py::test_selection",
    ],
    "A-14": [
        "tests/process/test_serve.py::test_runs_of_one_session_from_two_terminals_take_turns",
        "tests/turn/test_answer_stands.py::test_a_run_that_waits_for_its_session_is_stopped_at_once",
        "tests/turn/test_lanes.py::test_a_run_that_gives_up_waiting_leaves_its_place",
        "tests/turn/test_lanes.py::test_runs_of_one_session_take_turns_in_the_order_of_asking",
        "tests/turn/test_lanes.py::test_the_cap_holds_over_all_sessions",
        "tests/turn/test_run_attempt_context_engine.py::test_runs_of_one_session_go_one_after_another_and_sessions_side_by_side",
        "tests/turn/test_run_attempt_context_engine.py::test_two_sessions_run_at_the_same_time",
        "tests/turn/test_session_lives.py::test_a_message_that_comes_meanwhile_is_said_in_the_new_generation",
    ],
    "A-15": [
        "tests/turn/test_lanes.py::test_the_cap_holds_over_all_sessions",
        "tests/turn/test_lanes.py::test_the_usual_cap_follows_the_processors",
        "tests/unit/test_config_records.py::test_lanes_are_at_least_eight_and_four_per_processor",
    ],
    "A-16": [
        "tests/contract/test_store.py::test_a_newer_claim_makes_the_older_one_useless",
        "tests/turn/test_run_attempt_context_engine.py::test_runs_of_one_session_go_one_after_another_and_sessions_side_by_side",
    ],
    "A-17": [
        "tests/docs/test_engines_page.py::test_the_deadlines_are_the_defaults",
        "tests/process/test_config_load.py::test_deadlines_set_elsewhere_stand_in_the_one_record",
        "tests/process/test_turn_faults.py::test_a_turn_over_its_time_budget_ends_as_timed_out_and_the_next_one_works",
        "tests/turn/test_turn_mirror.py::test_an_answer_that_was_there_when_the_time_ran_out_is_given",
        "tests/turn/test_turn_outcomes.py::test_partial_output_stays_and_a_time_limit_is_no_success",
        "tests/unit/test_config_records.py::test_a_value_is_read_as_what_it_means",
        "tests/unit/test_config_records.py::test_without_any_setting_everything_has_the_contracts_default",
    ],
    "A-18": [
        "tests/process/test_turn_faults.py::test_a_silent_model_is_waited_for_and_an_interrupt_ends_the_turn",
        "tests/unit/test_projection_items.py::test_an_end_of_an_unknown_kind_is_a_failure_that_says_so",
        "tests/unit/test_turn_machine.py::test_each_row_of_the_turn_table_holds",
    ],
    "A-19": [
        "tests/process/test_settlement.py::test_a_whole_answer_outlives_its_settlement_and_is_written_by_the_next_run",
        "tests/process/test_settlement.py::test_after_an_abort_settlement_has_a_short_time_of_its_own",
        "tests/unit/test_turn_machine.py::test_each_row_of_the_turn_table_holds",
    ],
    "A-20": [
        "tests/process/test_carriers.py::test_an_engine_that_is_switched_off_and_on_goes_on_with_the_thread",
        "tests/process/test_prefix.py::test_fifty_turns_over_two_restarts_keep_every_item_and_say_everything_once",
        "tests/process/test_switching.py::test_an_engine_switched_on_and_off_keeps_the_thread",
        "tests/process/test_three_projections.py::test_an_engine_is_asked_in_order_and_its_context_precedes_the_request",
        "tests/process/test_three_projections.py::test_without_an_engine_nothing_changes_whatever_the_projection",
        "tests/unit/test_codex_planning.py::test_without_an_engine_a_thread_is_continued_unread",
        "tests/unit/test_engine_registry.py::test_nothing_selected_is_legacy_without_a_word",
        "tests/unit/test_lifecycle.py::test_legacy_is_never_called",
        "tests/unit/test_tools.py::test_tools_of_an_inactive_engine_are_not_offered",
    ],
    "A-21": [
        "tests/unit/test_lifecycle.py::test_legacy_is_never_called",
    ],
    "A-22": [
        "tests/turn/test_turn_outcomes.py::test_a_turn_without_visible_text_is_classified_and_silence_is_never_shown",
    ],
    "A-23": [
        "tests/turn/test_turn_outcomes.py::test_a_turn_without_visible_text_is_classified_and_silence_is_never_shown",
    ],
    "A-24": [
        "tests/turn/test_turn_outcomes.py::test_the_result_says_what_a_turn_did",
    ],
    "A-25": [
        "tests/process/test_workspace.py::test_base_instructions_are_codexs_own_and_a_lightweight_turn_reads_no_folder_rules",
    ],
    "A-26": [
        "tests/unit/test_boundaries.py::test_the_lifecycle_is_neutral_and_both_halves_of_a_turn_use_it",
        "tests/unit/test_ownership.py::test_the_lifecycle_belongs_to_no_harness",
    ],
    "A-27": [
        "tests/turn/test_run_attempt_context_engine.py::test_an_engine_gets_a_reader_of_the_transcript_and_nothing_to_write_it_with",
        "tests/unit/test_ownership.py::test_the_harness_changes_no_file_of_codex",
    ],
    "A-29": [
        "tests/turn/test_run_attempt_context_engine.py::test_threads_are_changed_by_documented_calls_alone",
        "tests/unit/test_boundaries.py::test_a_harness_changes_no_file",
        "tests/unit/test_ownership.py::test_the_harness_changes_no_file_of_codex",
    ],
    "A-30": [
        "tests/unit/test_architecture.py::test_harnesses_do_not_know_each_other",
        "tests/unit/test_boundaries.py::test_the_lifecycle_is_neutral_and_both_halves_of_a_turn_use_it",
    ],
    "B-01": [
        "tests/docs/test_engines_page.py::test_the_example_engine_decides_what_the_model_sees",
        "tests/docs/test_engines_page.py::test_the_packaging_names_the_group_that_is_read",
        "tests/unit/test_engine_registry.py::test_each_run_gets_an_engine_of_its_own_made_from_its_context",
        "tests/unit/test_engine_registry.py::test_nothing_selected_is_legacy_without_a_word",
    ],
    "B-02": [
        "tests/unit/test_engine_registry.py::test_a_registration_that_clashes_is_refused",
    ],
    "B-03": [
        "tests/contract/test_engine_commits.py::test_an_engine_is_known_by_the_id_it_is_registered_under",
        "tests/contract/test_engines.py::test_every_missing_part_of_an_engine_is_listed_at_once",
        "tests/contract/test_engines.py::test_every_shipped_engine_serves_a_whole_turn",
        "tests/unit/test_engine_registry.py::test_a_bad_factory_is_quarantined_and_legacy_serves",
    ],
    "B-04": [
        "tests/unit/test_legacy_answers.py::test_legacy_passes_through_takes_nothing_and_leaves_compaction_to_codex",
    ],
    "B-05": [
        "tests/unit/test_engine_registry.py::test_a_disabled_owner_keeps_the_slot_and_runs_legacy_quietly",
    ],
    "B-06": [
        "tests/unit/test_engine_registry.py::test_an_engine_for_discovery_only_is_replaced_without_quarantine",
    ],
    "B-07": [
        "tests/contract/test_engines.py::test_an_engine_lacking_optional_methods_answers_none",
        "tests/contract/test_engines.py::test_every_shipped_engine_serves_a_whole_turn",
        "tests/docs/test_engines_page.py::test_every_method_of_the_contract_stands_on_the_page",
    ],
    "B-08": [
        "tests/process/test_lifecycle_order.py::test_a_turn_asks_everyone_in_the_fixed_order",
        "tests/turn/test_run_attempt_context_engine.py::test_an_engine_is_asked_in_order_with_what_each_call_is_due",
        "tests/turn/test_session_lives.py::test_after_a_rewind_the_engine_bootstraps_the_new_generation_with_what_is_kept",
        "tests/unit/test_lifecycle.py::test_calls_come_in_the_fixed_order_with_what_each_is_due",
    ],
    "B-09": [
        "tests/unit/test_lifecycle.py::test_bootstrap_maintenance_runs_without_a_bootstrap_method",
        "tests/unit/test_lifecycle.py::test_calls_come_in_the_fixed_order_with_what_each_is_due",
    ],
    "B-10": [
        "tests/docs/test_engines_page.py::test_the_example_engine_decides_what_the_model_sees",
        "tests/process/test_three_projections.py::test_an_engine_is_asked_in_order_and_its_context_precedes_the_request",
        "tests/turn/test_run_attempt_context_engine.py::test_an_engine_is_asked_in_order_with_what_each_call_is_due",
        "tests/unit/test_lifecycle.py::test_calls_come_in_the_fixed_order_with_what_each_is_due",
    ],
    "B-11": [
        "tests/contract/test_engines.py::test_every_shipped_engine_serves_a_whole_turn",
        "tests/contract/test_engines.py::test_mappings_in_either_spelling_become_records",
        "tests/docs/test_engines_page.py::test_fields_of_every_answer_are_those_of_the_code",
    ],
    "B-12": [
        "tests/contract/test_engines.py::test_a_bad_assembly_is_refused_with_engine_and_type",
        "tests/turn/test_public_reports.py::test_an_assembly_without_messages_falls_back_in_the_same_turn",
        "tests/turn/test_turn_log.py::test_content_that_is_nested_too_deep_costs_the_context_and_never_the_reply",
    ],
    "B-13": [
        "tests/contract/test_store.py::test_changing_a_message_that_was_read_changes_nothing",
        "tests/contract/test_store.py::test_depth_counts_all_entries_and_position_only_what_engines_see",
        "tests/turn/test_run_attempt_context_engine.py::test_an_engine_gets_a_reader_of_the_transcript_and_nothing_to_write_it_with",
        "tests/unit/test_lifecycle.py::test_host_only_messages_are_neither_shown_nor_counted",
        "tests/unit/test_lifecycle.py::test_what_an_engine_does_to_a_message_stays_with_it",
    ],
    "B-14": [
        "tests/process/test_three_projections.py::test_an_engine_is_asked_in_order_and_its_context_precedes_the_request",
        "tests/turn/test_run_attempt_context_engine.py::test_an_engine_is_asked_in_order_with_what_each_call_is_due",
        "tests/turn/test_turn_hooks.py::test_a_message_that_a_hook_rewrote_is_what_the_engine_gets",
        "tests/unit/test_lifecycle.py::test_calls_come_in_the_fixed_order_with_what_each_is_due",
    ],
    "B-15": [
        "tests/docs/test_engines_page.py::test_fields_of_every_answer_are_those_of_the_code",
        "tests/turn/test_run_attempt_context_engine.py::test_an_engine_of_the_documents_alone_is_served_on_every_turn",
    ],
    "B-16": [
        "tests/contract/test_engines.py::test_mappings_in_either_spelling_become_records",
        "tests/docs/test_engines_page.py::test_fields_of_every_answer_are_those_of_the_code",
        "tests/unit/test_lifecycle.py::test_calls_come_in_the_fixed_order_with_what_each_is_due",
    ],
    "B-17": [
        "tests/contract/test_engines.py::test_the_rewriter_is_withheld_before_a_turn",
        "tests/docs/test_engines_page.py::test_fields_of_every_answer_are_those_of_the_code",
        "tests/turn/test_run_attempt_context_engine.py::test_an_engine_gets_a_reader_of_the_transcript_and_nothing_to_write_it_with",
    ],
    "B-18": [
        "tests/contract/test_engines.py::test_every_shipped_engine_serves_a_whole_turn",
        "tests/docs/test_engines_page.py::test_fields_of_every_answer_are_those_of_the_code",
    ],
    "B-19": [
        "tests/contract/test_engine_commits.py::test_the_recording_engine_commits_a_key_once",
        "tests/contract/test_store_outbox.py::test_an_accepted_turn_is_ready_with_all_that_a_commit_sends",
        "tests/unit/test_legacy_answers.py::test_a_committed_turn_is_named_by_its_key_and_its_two_ends",
    ],
    "B-20": [
        "tests/contract/test_store_subagents.py::test_a_child_that_did_not_begin_leaves_nothing",
        "tests/contract/test_store_subagents.py::test_a_fork_holds_what_its_parent_does",
        "tests/contract/test_store_subagents.py::test_an_isolated_child_begins_empty_in_its_parents_surroundings",
        "tests/turn/test_subagents.py::test_a_child_is_prepared_by_its_parents_engine_and_takes_its_first_message",
        "tests/turn/test_subagents.py::test_a_spawn_that_fails_after_its_preparation_is_undone_once",
        "tests/turn/test_subagents.py::test_a_spawn_that_is_cancelled_is_undone_once",
        "tests/turn/test_subagents.py::test_an_engine_that_prepares_nothing_needs_no_way_back",
        "tests/turn/test_subagents.py::test_an_engine_that_was_not_waited_for_is_told_that_the_child_is_over",
        "tests/turn/test_subagents.py::test_only_a_lightweight_isolated_child_is_prepared_by_no_engine",
    ],
    "B-21": [
        "tests/contract/test_store_subagents.py::test_a_child_ends_once",
        "tests/contract/test_store_subagents.py::test_deleting_a_child_or_its_parent_ends_it",
        "tests/contract/test_store_subagents.py::test_what_outlived_its_time_or_never_began_is_swept",
        "tests/turn/test_subagents.py::test_a_child_that_outlived_its_time_is_swept_at_the_next_start",
        "tests/turn/test_subagents.py::test_a_child_whose_spawn_was_cut_off_is_swept",
        "tests/turn/test_subagents.py::test_a_deleted_child_and_those_of_a_deleted_parent_are_over",
        "tests/turn/test_subagents.py::test_an_engine_is_told_once_that_a_child_is_over",
        "tests/turn/test_subagents.py::test_an_engine_that_was_not_waited_for_is_told_that_the_child_is_over",
    ],
    "B-22": [
        "tests/contract/test_engine_commits.py::test_declarations_may_come_in_a_plain_object",
        "tests/contract/test_engines.py::test_an_info_may_be_a_plain_object",
        "tests/docs/test_engines_page.py::test_fields_of_what_an_engine_says_of_itself_are_those_of_the_code",
    ],
    "B-23": [
        "tests/contract/test_engines.py::test_host_fields_are_filtered_as_declared",
        "tests/docs/test_engines_page.py::test_host_fields_that_can_be_filtered_are_those_of_the_code",
    ],
    "B-24": [
        "tests/contract/test_engines.py::test_host_fields_are_filtered_as_declared",
    ],
    "B-25": [
        "tests/turn/test_subagents.py::test_an_engine_may_need_what_this_host_lacks_for_children",
        "tests/unit/test_engine_registry.py::test_a_missing_capability_fails_the_operation_and_nothing_else",
    ],
    "B-26": [
        "tests/turn/test_run_attempt_context_engine.py::test_what_codex_offers_to_engines_is_what_is_built",
    ],
    "B-27": [
        "tests/turn/test_subagents.py::test_an_engine_may_need_what_this_host_lacks_for_children",
        "tests/unit/test_engine_registry.py::test_a_missing_capability_fails_the_operation_and_nothing_else",
    ],
    "B-28": [
        "tests/docs/test_engines_page.py::test_fields_of_every_call_are_those_of_the_code",
        "tests/unit/test_lifecycle.py::test_unknown_settings_are_null_and_never_absent",
    ],
    "B-29": [
        "tests/docs/test_engines_page.py::test_fields_of_every_call_are_those_of_the_code",
        "tests/unit/test_lifecycle.py::test_the_mode_follows_from_the_reasons",
    ],
    "B-30": [
        "tests/docs/test_engines_page.py::test_fields_of_every_call_are_those_of_the_code",
        "tests/unit/test_lifecycle.py::test_unknown_settings_are_null_and_never_absent",
    ],
    "B-31": [
        "tests/docs/test_engines_page.py::test_fields_of_every_call_are_those_of_the_code",
        "tests/unit/test_lifecycle.py::test_reasons_are_classified_by_the_first_match",
    ],
    "B-32": [
        "tests/docs/test_engines_page.py::test_fields_of_every_call_are_those_of_the_code",
        "tests/turn/test_run_attempt_context_engine.py::test_an_engine_is_asked_in_order_with_what_each_call_is_due",
    ],
    "B-33": [
        "tests/docs/test_engines_page.py::test_fields_of_every_call_are_those_of_the_code",
        "tests/unit/test_lifecycle.py::test_unreported_usage_is_absent_and_never_zero",
    ],
    "B-34": [
        "tests/contract/test_engine_commits.py::test_declarations_may_come_in_a_plain_object",
        "tests/contract/test_engine_commits.py::test_durable_commits_need_both_declarations_and_the_method",
    ],
    "B-35": [
        "tests/contract/test_store_outbox.py::test_a_crossed_fence_is_a_fault",
        "tests/contract/test_store_outbox.py::test_a_rewritten_or_missing_entry_is_a_fault",
        "tests/contract/test_store_outbox.py::test_the_fence_stands_before_the_admitted_entry",
    ],
    "B-36": [
        "tests/contract/test_store_outbox.py::test_a_bad_turn_leaves_no_row",
        "tests/unit/test_outbox_table.py::test_each_row_of_the_table_holds",
    ],
    "B-37": [
        "tests/contract/test_engine_commits.py::test_a_commit_has_a_deadline_of_its_own",
        "tests/contract/test_engine_commits.py::test_an_invalid_status_is_a_failed_commit",
        "tests/contract/test_store_outbox.py::test_a_failed_turn_waits_on_until_its_last_attempt",
        "tests/contract/test_store_outbox.py::test_a_key_that_was_accepted_is_not_admitted_again",
        "tests/contract/test_store_outbox.py::test_an_accepted_turn_is_ready_with_all_that_a_commit_sends",
        "tests/contract/test_store_outbox.py::test_an_answered_turn_waits_no_more",
        "tests/contract/test_store_outbox.py::test_turns_wait_in_the_order_of_their_acceptance",
        "tests/unit/test_outbox_table.py::test_each_row_of_the_table_holds",
    ],
    "B-38": [
        "tests/contract/test_store_outbox.py::test_a_turn_whose_entries_are_gone_is_never_sent",
        "tests/contract/test_store_outbox.py::test_an_accepted_turn_is_ready_with_all_that_a_commit_sends",
        "tests/contract/test_store_outbox.py::test_too_much_for_one_commit_is_blocked_and_said",
        "tests/contract/test_store_outbox.py::test_what_nobody_goes_on_with_is_dropped_when_the_next_turn_begins",
        "tests/unit/test_outbox_table.py::test_each_row_of_the_table_holds",
        "tests/unit/test_outbox_table.py::test_the_bounds_are_those_of_the_contract",
    ],
    "B-40": [
        "tests/turn/test_public_reports.py::test_an_engine_that_always_fails_costs_no_reply_and_is_told_once_a_turn",
        "tests/unit/test_engine_registry.py::test_a_bad_factory_is_quarantined_and_legacy_serves",
    ],
    "B-41": [
        "tests/process/test_turn_faults.py::test_an_engine_whose_factory_raises_is_replaced_by_legacy_with_a_notice",
        "tests/turn/test_state_folders.py::test_a_mistyped_engine_leaves_no_folder",
        "tests/turn/test_subagents.py::test_a_child_that_cannot_be_prepared_does_not_begin",
        "tests/unit/test_engine_registry.py::test_a_bad_factory_is_quarantined_and_legacy_serves",
    ],
    "B-42": [
        "tests/unit/test_legacy_answers.py::test_what_legacy_lacks_has_an_answer_that_says_that_nothing_was_done",
    ],
    "B-43": [
        "tests/contract/test_engines.py::test_a_stopped_run_is_no_failure_of_the_engine",
    ],
    "B-44": [
        "tests/unit/test_engine_registry.py::test_registering_anew_lifts_a_quarantine",
    ],
    "B-45": [
        "tests/process/test_three_projections.py::test_ten_turns_under_a_failing_engine_lose_no_reply",
        "tests/process/test_turn_faults.py::test_an_engine_that_breaks_in_assemble_costs_its_context_not_the_reply",
        "tests/turn/test_run_attempt_context_engine.py::test_no_failure_of_an_engine_costs_a_reply_and_the_same_engine_is_asked_again",
        "tests/turn/test_turn_log.py::test_content_that_is_nested_too_deep_costs_the_context_and_never_the_reply",
    ],
    "B-46": [
        "tests/unit/test_engine_registry.py::test_each_run_gets_an_engine_of_its_own_made_from_its_context",
    ],
    "B-47": [
        "tests/process/test_lifecycle_order.py::test_a_failing_assemble_gives_the_bare_prompt_on_the_same_thread",
        "tests/process/test_three_projections.py::test_ten_turns_under_a_failing_engine_lose_no_reply",
        "tests/turn/test_run_attempt_context_engine.py::test_no_failure_of_an_engine_costs_a_reply_and_the_same_engine_is_asked_again",
        "tests/unit/test_engine_registry.py::test_a_bad_factory_is_quarantined_and_legacy_serves",
        "tests/unit/test_engine_registry.py::test_registering_anew_lifts_a_quarantine",
        "tests/unit/test_engine_registry.py::test_three_failing_runs_in_a_row_quarantine_from_the_next_run_on",
        "tests/unit/test_lifecycle.py::test_a_failure_is_one_warning_and_the_turn_goes_on",
    ],
    "B-48": [
        "tests/contract/test_engine_commits.py::test_engines_of_the_documents_do_not_commit",
        "tests/contract/test_store_outbox.py::test_an_engine_without_commits_is_settled_by_what_came_of_handing_over",
        "tests/contract/test_store_outbox.py::test_what_a_dead_process_left_half_handed_over_is_settled",
        "tests/process/test_three_projections.py::test_an_engine_of_the_documents_alone_is_given_each_message_once",
        "tests/turn/test_run_attempt_context_engine.py::test_an_engine_of_the_documents_alone_is_served_on_every_turn",
        "tests/unit/test_outbox_table.py::test_each_row_of_the_table_holds",
    ],
    "C-01": [
        "tests/process/test_lifecycle_order.py::test_a_turn_asks_everyone_in_the_fixed_order",
        "tests/process/test_lifecycle_order.py::test_an_engine_without_after_turn_is_given_the_turns_own_messages",
        "tests/process/test_prefix.py::test_fifty_turns_over_two_restarts_keep_every_item_and_say_everything_once",
        "tests/unit/test_lifecycle.py::test_calls_come_in_the_fixed_order_with_what_each_is_due",
    ],
    "C-02": [
        "tests/process/test_lifecycle_order.py::test_a_turn_asks_everyone_in_the_fixed_order",
        "tests/process/test_switching.py::test_the_engines_context_reaches_the_request_of_every_kind_of_model",
    ],
    "C-03": [
        "tests/process/test_lifecycle_order.py::test_a_turn_asks_everyone_in_the_fixed_order",
    ],
    "C-04": [
        "tests/process/test_lifecycle_order.py::test_a_turn_asks_everyone_in_the_fixed_order",
        "tests/turn/test_history_reread.py::test_what_bootstrap_adds_is_assembled_and_counted",
        "tests/turn/test_session_lives.py::test_after_a_rewind_the_engine_bootstraps_the_new_generation_with_what_is_kept",
    ],
    "C-05": [
        "tests/turn/test_run_attempt_context_engine.py::test_an_engine_is_asked_in_order_with_what_each_call_is_due",
        "tests/unit/test_lifecycle.py::test_a_blank_session_key_becomes_the_session_id",
    ],
    "C-06": [
        "tests/turn/test_run_attempt_context_engine.py::test_an_engine_gets_a_reader_of_the_transcript_and_nothing_to_write_it_with",
    ],
    "C-07": [
        "tests/process/test_lifecycle_order.py::test_a_turn_asks_everyone_in_the_fixed_order",
    ],
    "C-08": [
        "tests/unit/test_lifecycle.py::test_bootstrap_is_skipped_on_a_first_run_and_assembly_is_not",
    ],
    "C-09": [
        "tests/turn/test_run_attempt_context_engine.py::test_threads_are_changed_by_documented_calls_alone",
        "tests/unit/test_boundaries.py::test_a_harness_changes_no_file",
        "tests/unit/test_ownership.py::test_the_harness_changes_no_file_of_codex",
    ],
    "C-10": [
        "tests/turn/test_run_attempt_context_engine.py::test_history_comes_from_the_mirror_whoever_spoke_and_whatever_codex_kept",
    ],
    "C-11": [
        "tests/turn/test_turn_hooks.py::test_prompt_hooks_see_the_projected_prompt_and_the_planned_items",
        "tests/turn/test_turn_hooks.py::test_what_prompt_hooks_change_reaches_codex_and_leaves_the_engines_addition",
        "tests/turn/test_workspace_files.py::test_the_files_stand_in_front_of_the_quoted_context",
    ],
    "C-12": [
        "tests/process/test_lifecycle_order.py::test_a_turn_asks_everyone_in_the_fixed_order",
        "tests/turn/test_turn_mirror.py::test_a_persons_message_is_told_once_however_often_the_turn_is_sent",
    ],
    "C-13": [
        "tests/process/test_compact_native.py::test_the_marker_goes_first_and_the_next_turn_projects_again",
        "tests/turn/test_turn_hooks.py::test_a_failing_compaction_hook_stops_neither_the_turn_nor_the_other_hooks",
        "tests/turn/test_turn_hooks.py::test_a_native_compaction_is_told_to_hooks_and_watchers_and_the_turn_goes_on",
        "tests/turn/test_turn_hooks.py::test_the_end_of_an_attempt_is_told_with_its_real_duration",
    ],
    "C-14": [
        "tests/turn/test_turn_hooks.py::test_a_native_compaction_is_told_to_hooks_and_watchers_and_the_turn_goes_on",
        "tests/turn/test_turn_outcomes.py::test_a_compaction_that_fails_in_a_turn_sends_nothing_again",
        "tests/turn/test_turn_outcomes.py::test_overflow_of_a_first_turn_fails_without_a_compaction_or_a_second_prompt",
    ],
    "C-15": [
        "tests/turn/test_transient_turn.py::test_a_refused_transient_turn_leaves_the_binding_as_it_was",
        "tests/turn/test_turn_outcomes.py::test_a_refused_turn_is_finalized_and_its_subscription_released",
        "tests/turn/test_turn_outcomes.py::test_an_error_of_ours_behind_the_resume_releases_the_subscription",
    ],
    "C-16": [
        "tests/process/test_lifecycle_order.py::test_a_turn_asks_everyone_in_the_fixed_order",
        "tests/turn/test_turn_hooks.py::test_prompt_hooks_see_the_projected_prompt_and_the_planned_items",
    ],
    "D-01": [
        "tests/unit/test_codex_planning.py::test_prompt_mode_quotes_and_injects_nothing",
        "tests/unit/test_projection_prompt.py::test_result_keeps_the_given_list_and_counts_the_original_history",
    ],
    "D-02": [
        "tests/process/test_carriers.py::test_prompt_mode_sends_the_documents_text_byte_for_byte",
        "tests/unit/test_offline_answer.py::test_a_quoted_context_is_context_and_not_the_request",
        "tests/unit/test_projection_prompt.py::test_block_has_the_documents_exact_bytes",
    ],
    "D-03": [
        "tests/unit/test_projection_plan.py::test_base_sections_follow_the_documented_order",
    ],
    "D-04": [
        "tests/process/test_carriers.py::test_prompt_mode_sends_the_documents_text_byte_for_byte",
        "tests/unit/test_offline_answer.py::test_a_quoted_context_is_context_and_not_the_request",
        "tests/unit/test_projection_prompt.py::test_block_has_the_documents_exact_bytes",
    ],
    "D-05": [
        "tests/unit/test_projection_prompt.py::test_block_has_the_documents_exact_bytes",
    ],
    "D-06": [
        "tests/process/test_carriers.py::test_prompt_mode_sends_the_documents_text_byte_for_byte",
        "tests/turn/test_workspace_files.py::test_with_memory_tools_the_files_are_left_to_them",
        "tests/unit/test_context_engine_projection.py::test_an_empty_history_is_the_bare_prompt",
        "tests/unit/test_projection_prompt.py::test_without_context_the_prompt_stands_alone",
    ],
    "D-07": [
        "tests/turn/test_run_attempt_context_engine.py::test_the_addition_stands_in_the_instructions_and_the_context_before_the_request",
        "tests/unit/test_context_engine_projection.py::test_the_addition_stands_in_the_instructions_alone_and_last",
        "tests/unit/test_projection_prompt.py::test_blank_addition_is_absent",
        "tests/unit/test_projection_prompt.py::test_result_keeps_the_given_list_and_counts_the_original_history",
    ],
    "D-08": [
        "tests/unit/test_projection_prompt.py::test_result_keeps_the_given_list_and_counts_the_original_history",
    ],
    "D-09": [
        "tests/unit/test_context_engine_projection.py::test_roles_keep_their_order_and_their_names",
        "tests/unit/test_projection_hostile.py::test_a_hostile_history_keeps_size_order_and_secrets",
        "tests/unit/test_projection_prompt.py::test_block_has_the_documents_exact_bytes",
    ],
    "D-10": [
        "tests/unit/test_projection_items_for.py::test_what_says_nothing_is_left_out",
        "tests/unit/test_projection_prompt.py::test_without_context_the_prompt_stands_alone",
    ],
    "D-11": [
        "tests/turn/test_turn_log.py::test_the_lengths_of_quoted_context_are_logged",
        "tests/unit/test_projection_prompt.py::test_result_keeps_the_given_list_and_counts_the_original_history",
    ],
    "D-12": [
        "tests/contract/test_store.py::test_entries_come_back_whole",
        "tests/unit/test_codex_planning.py::test_the_trailing_prompt_is_left_out_of_what_is_compared",
        "tests/unit/test_context_engine_projection.py::test_a_repeated_prompt_stands_once_in_either_carrier",
        "tests/unit/test_projection_items_for.py::test_lone_surrogates_do_not_reach_an_item",
        "tests/unit/test_projection_prompt.py::test_only_a_last_user_message_that_repeats_the_prompt_is_left_out",
        "tests/unit/test_public_reports.py::test_a_decorated_earlier_message_is_neither_doubled_nor_dropped",
        "tests/unit/test_public_reports.py::test_the_prompt_itself_at_the_end_of_history_is_not_doubled",
    ],
    "D-13": [
        "tests/unit/test_projection_prompt.py::test_only_a_last_user_message_that_repeats_the_prompt_is_left_out",
    ],
    "D-14": [
        "tests/unit/test_projection_items_for.py::test_odd_parts_become_placeholders",
        "tests/unit/test_projection_prompt.py::test_bodies",
    ],
    "D-15": [
        "tests/unit/test_projection_prompt.py::test_bodies",
    ],
    "D-16": [
        "tests/unit/test_projection_items_for.py::test_odd_parts_become_placeholders",
        "tests/unit/test_projection_prompt.py::test_a_quoted_image_stays_while_its_message_does",
        "tests/unit/test_projection_prompt.py::test_bodies",
    ],
    "D-17": [
        "tests/unit/test_projection_prompt.py::test_tool_call_shows_metadata_and_shape_and_no_value",
    ],
    "D-18": [
        "tests/unit/test_projection_prompt.py::test_tool_result_is_redacted_with_sorted_keys",
    ],
    "D-19": [
        "tests/unit/test_projection_items_for.py::test_shapes_carry_no_values",
        "tests/unit/test_projection_prompt.py::test_tool_call_shows_metadata_and_shape_and_no_value",
    ],
    "D-20": [
        "tests/unit/test_projection_prompt.py::test_cycles_are_named",
        "tests/unit/test_projection_prompt.py::test_tool_call_shows_metadata_and_shape_and_no_value",
        "tests/unit/test_projection_prompt.py::test_tool_input_goes_before_arguments",
    ],
    "D-21": [
        "tests/unit/test_projection_prompt.py::test_cycles_are_named",
        "tests/unit/test_projection_prompt.py::test_tool_result_is_redacted_with_sorted_keys",
        "tests/unit/test_text.py::test_a_value_that_contains_itself_or_is_too_deep_is_cut",
        "tests/unit/test_text.py::test_values_are_redacted_by_field_name_and_by_shape",
    ],
    "D-22": [
        "tests/unit/test_projection_hostile.py::test_a_thousand_random_histories_give_the_same_bytes_in_every_process",
        "tests/unit/test_projection_items_for.py::test_rendered_pairs_are_redacted",
        "tests/unit/test_projection_prompt.py::test_bytes_do_not_depend_on_the_process",
        "tests/unit/test_projection_prompt.py::test_tool_call_shows_metadata_and_shape_and_no_value",
        "tests/unit/test_projection_prompt.py::test_tool_result_is_redacted_with_sorted_keys",
    ],
    "D-23": [
        "tests/unit/test_projection_hostile.py::test_a_hostile_history_keeps_size_order_and_secrets",
        "tests/unit/test_projection_items_for.py::test_a_call_without_its_result_becomes_text",
        "tests/unit/test_projection_prompt.py::test_tool_call_shows_metadata_and_shape_and_no_value",
        "tests/unit/test_projection_prompt.py::test_tool_result_is_redacted_with_sorted_keys",
        "tests/unit/test_text.py::test_a_token_is_redacted_wherever_it_stands",
    ],
    "D-24": [
        "tests/unit/test_projection_prompt.py::test_a_secret_in_a_text_message_is_left_alone",
    ],
    "D-25": [
        "tests/unit/test_projection_hostile.py::test_a_hostile_history_keeps_size_order_and_secrets",
        "tests/unit/test_projection_prompt.py::test_a_cut_never_lays_the_request_heading_bare",
        "tests/unit/test_projection_prompt.py::test_a_line_that_is_the_request_heading_is_shifted",
        "tests/unit/test_projection_prompt.py::test_look_alikes_of_the_tags_are_neutralised",
        "tests/unit/test_projection_prompt.py::test_only_one_pair_of_delimiters_is_left",
        "tests/unit/test_projection_prompt.py::test_text_without_delimiters_keeps_its_bytes",
    ],
    "D-26": [
        "tests/unit/test_projection_prompt.py::test_summaries_alone_are_quoted_apart_from_the_request",
    ],
    "D-27": [
        "tests/migration/test_older_state.py::test_a_session_of_an_older_store_goes_on_with_its_context",
        "tests/process/test_carriers.py::test_an_engine_that_is_switched_off_and_on_goes_on_with_the_thread",
        "tests/process/test_rebase.py::test_a_thread_that_cannot_go_on_is_replaced_and_nothing_is_lost",
        "tests/process/test_transient_thread.py::test_a_session_that_begins_so_gets_its_own_thread_with_the_next_turn",
        "tests/process/test_transient_thread.py::test_a_turn_without_native_tools_leaves_the_sessions_thread_and_is_told_to_it",
        "tests/unit/test_codex_planning.py::test_a_forced_fresh_thread_without_an_engines_answer_carries_the_mirror",
        "tests/unit/test_codex_planning.py::test_a_fresh_thread_without_an_engine_carries_the_mirrored_history",
        "tests/unit/test_codex_planning.py::test_what_was_said_elsewhere_is_injected_and_held",
        "tests/unit/test_codex_planning.py::test_what_was_said_elsewhere_is_quoted_where_nothing_can_be_injected",
        "tests/unit/test_projection_plan.py::test_plans",
    ],
    "D-28": [
        "tests/process/test_switching.py::test_an_image_that_the_engine_shows_reaches_the_model_in_each_mode",
        "tests/unit/test_projection_items_for.py::test_images_stay_images_where_they_are_data",
        "tests/unit/test_projection_prompt.py::test_a_quoted_image_stays_while_its_message_does",
    ],
    "D-29": [
        "tests/unit/test_context_engine_projection.py::test_the_same_inputs_give_the_same_bytes",
        "tests/unit/test_projection_hostile.py::test_a_thousand_random_histories_give_the_same_bytes_in_every_process",
        "tests/unit/test_projection_prompt.py::test_bytes_do_not_depend_on_the_process",
    ],
    "D-30": [
        "tests/process/test_bootstrap.py::test_the_context_comes_once_an_epoch_and_then_only_the_prompt",
        "tests/turn/test_public_reports.py::test_the_same_epoch_is_projected_once",
        "tests/turn/test_turn_log.py::test_a_wish_without_an_epoch_is_a_warning_and_projects_per_turn",
        "tests/unit/test_projection_plan.py::test_a_blank_epoch_falls_back_with_a_warning",
    ],
    "D-31": [
        "tests/process/test_bootstrap.py::test_the_context_comes_once_an_epoch_and_then_only_the_prompt",
        "tests/process/test_transient_thread.py::test_an_epochs_thread_is_told_of_it_and_not_given_its_context_again",
        "tests/turn/test_public_reports.py::test_the_same_epoch_is_projected_once",
        "tests/turn/test_turn_log.py::test_each_decision_of_a_bootstrap_turn_is_logged_once",
        "tests/unit/test_context_view.py::test_details_of_an_epoch_are_told_in_words",
        "tests/unit/test_projection_plan.py::test_bootstrap_reasons",
        "tests/unit/test_projection_plan.py::test_plans",
    ],
    "D-32": [
        "tests/process/test_bootstrap.py::test_the_context_comes_once_an_epoch_and_then_only_the_prompt",
        "tests/process/test_transient_thread.py::test_an_epochs_thread_is_told_of_it_and_not_given_its_context_again",
        "tests/turn/test_public_reports.py::test_the_same_epoch_is_projected_once",
        "tests/unit/test_projection_plan.py::test_bootstrap_reasons",
    ],
    "D-33": [
        "tests/process/test_bootstrap.py::test_the_context_comes_once_an_epoch_and_then_only_the_prompt",
        "tests/turn/test_public_reports.py::test_the_same_epoch_is_projected_once",
        "tests/unit/test_context_view.py::test_details_of_an_epoch_are_told_in_words",
        "tests/unit/test_projection_plan.py::test_plans",
    ],
    "D-34": [
        "tests/process/test_bootstrap.py::test_the_context_comes_once_an_epoch_and_then_only_the_prompt",
        "tests/turn/test_thread_rotation.py::test_the_binding_says_what_the_thread_was_given",
        "tests/unit/test_projection_plan.py::test_engine_record_has_the_documented_shape",
        "tests/unit/test_projection_plan.py::test_policy_fingerprint_covers_what_makes_a_context",
    ],
    "D-35": [
        "tests/process/test_bootstrap.py::test_the_context_comes_once_an_epoch_and_then_only_the_prompt",
        "tests/unit/test_projection_plan.py::test_policy_fingerprint_covers_what_makes_a_context",
    ],
    "D-36": [
        "tests/process/test_bootstrap.py::test_the_context_comes_once_an_epoch_and_then_only_the_prompt",
        "tests/unit/test_context_view.py::test_details_of_an_epoch_are_told_in_words",
        "tests/unit/test_projection_plan.py::test_a_blank_epoch_falls_back_with_a_warning",
        "tests/unit/test_projection_plan.py::test_plans",
    ],
    "D-37": [
        "tests/process/test_bootstrap.py::test_the_context_comes_once_an_epoch_and_then_only_the_prompt",
        "tests/process/test_switching.py::test_an_engine_switched_on_and_off_keeps_the_thread",
        "tests/turn/test_public_reports.py::test_a_thread_made_without_the_engine_is_kept_unless_it_asks_for_its_own",
        "tests/unit/test_codex_planning.py::test_a_fresh_thread_without_an_engine_has_no_engine_record",
        "tests/unit/test_codex_planning.py::test_what_a_thread_was_given_stays_known_while_no_engine_answers",
        "tests/unit/test_projection_plan.py::test_plans",
    ],
    "D-38": [
        "tests/process/test_cli_codex.py::test_a_turn_without_native_tools_and_a_compaction_by_command",
        "tests/process/test_compact_native.py::test_a_client_that_dies_in_the_middle_leaves_it_unconfirmed",
        "tests/process/test_compact_native.py::test_the_marker_goes_first_and_the_next_turn_projects_again",
        "tests/process/test_compact_native.py::test_what_cannot_be_compacted_is_refused_and_nothing_is_changed",
        "tests/turn/test_compact_native.py::test_a_refused_start_restores_the_binding",
        "tests/turn/test_compact_native.py::test_an_end_that_never_comes_retires_the_connection",
        "tests/turn/test_compact_native.py::test_only_a_whole_turn_with_a_whole_item_is_a_compaction",
        "tests/turn/test_gateway.py::test_a_compaction_holds_up_nothing_else_of_its_client",
    ],
    "D-39": [
        "tests/process/test_cli_codex.py::test_a_turn_without_native_tools_and_a_compaction_by_command",
        "tests/process/test_transient_thread.py::test_a_session_that_begins_so_gets_its_own_thread_with_the_next_turn",
        "tests/process/test_transient_thread.py::test_a_turn_without_native_tools_leaves_the_sessions_thread_and_is_told_to_it",
        "tests/process/test_transient_thread.py::test_an_epochs_thread_is_told_of_it_and_not_given_its_context_again",
        "tests/process/test_transient_thread.py::test_no_native_tool_is_offered_or_runs_in_such_a_turn",
        "tests/turn/test_transient_turn.py::test_a_refused_injection_sends_the_context_as_text",
        "tests/turn/test_transient_turn.py::test_a_refused_transient_turn_leaves_the_binding_as_it_was",
        "tests/turn/test_transient_turn.py::test_a_transient_turn_that_is_lost_is_never_sent_again",
        "tests/turn/test_transient_turn.py::test_an_app_server_that_keeps_such_a_thread_is_asked_to_archive_it",
        "tests/turn/test_transient_turn.py::test_codex_is_asked_for_a_thread_in_memory_and_left_it_afterwards",
        "tests/turn/test_transient_turn.py::test_stopped_in_mid_turn_what_was_said_is_told_to_the_sessions_thread",
        "tests/unit/test_codex_planning.py::test_a_transient_thread_is_filled_by_the_window_that_the_session_knows",
        "tests/unit/test_codex_planning.py::test_what_was_said_elsewhere_is_injected_and_held",
        "tests/unit/test_codex_planning.py::test_what_was_said_elsewhere_is_quoted_where_nothing_can_be_injected",
        "tests/unit/test_projection_plan.py::test_plans",
    ],
    "D-40": [
        "tests/process/test_bootstrap.py::test_a_thread_near_its_window_is_left_before_codex_compacts_the_projection",
        "tests/unit/test_codex_planning.py::test_a_nearly_full_thread_is_left_where_its_context_was_projected_as_a_whole",
        "tests/unit/test_context_view.py::test_a_detail_that_is_no_code_is_told_as_it_is",
    ],
    "D-41": [
        "tests/process/test_bootstrap.py::test_a_second_overflow_fails_the_turn_and_gives_its_thread_up",
        "tests/process/test_bootstrap.py::test_a_turn_that_does_not_fit_is_sent_once_more_on_a_fresh_thread",
        "tests/turn/test_public_reports.py::test_an_overflow_never_makes_the_host_compact",
        "tests/turn/test_turn_mirror.py::test_a_persons_message_is_told_once_however_often_the_turn_is_sent",
        "tests/unit/test_turn_machine.py::test_a_second_overflow_fails",
        "tests/unit/test_turn_machine.py::test_each_row_of_the_turn_table_holds",
    ],
    "D-42": [
        "tests/turn/test_long_contexts.py::test_the_configured_reserve_decides_how_much_context_is_quoted",
        "tests/unit/test_projection_hostile.py::test_ten_megabytes_are_cut_to_the_limit_and_say_so",
        "tests/unit/test_projection_prompt.py::test_limits_follow_the_budget",
        "tests/unit/test_public_reports.py::test_a_projection_is_never_larger_than_the_window_it_goes_into",
    ],
    "D-43": [
        "tests/turn/test_long_contexts.py::test_the_configured_reserve_decides_how_much_context_is_quoted",
        "tests/unit/test_projection_prompt.py::test_limits_follow_the_budget",
    ],
    "D-44": [
        "tests/turn/test_long_contexts.py::test_the_configured_reserve_decides_how_much_context_is_quoted",
        "tests/unit/test_projection_prompt.py::test_reserve_comes_from_the_two_settings",
    ],
    "D-45": [
        "tests/unit/test_projection_hostile.py::test_ten_megabytes_are_cut_to_the_limit_and_say_so",
        "tests/unit/test_projection_prompt.py::test_a_long_part_keeps_its_head_and_says_what_went",
        "tests/unit/test_projection_prompt.py::test_limits_follow_the_budget",
    ],
    "D-46": [
        "tests/unit/test_projection_hostile.py::test_a_hostile_history_keeps_size_order_and_secrets",
        "tests/unit/test_projection_hostile.py::test_ten_megabytes_are_cut_to_the_limit_and_say_so",
        "tests/unit/test_projection_prompt.py::test_a_cut_never_lays_the_request_heading_bare",
        "tests/unit/test_projection_prompt.py::test_a_limit_smaller_than_the_marker_cuts_the_marker",
        "tests/unit/test_projection_prompt.py::test_a_second_cut_counts_both",
        "tests/unit/test_projection_prompt.py::test_older_text_is_dropped_to_the_limit",
        "tests/unit/test_projection_prompt.py::test_rendered_context_never_exceeds_its_limit",
    ],
    "D-47": [
        "tests/turn/test_workspace_files.py::test_a_file_that_is_longer_than_a_turn_is_cut_visibly_and_the_request_stays",
        "tests/unit/test_projection_hostile.py::test_ten_megabytes_are_cut_to_the_limit_and_say_so",
        "tests/unit/test_projection_prompt.py::test_a_second_cut_counts_both",
        "tests/unit/test_projection_prompt.py::test_context_shrinks_before_anything_else",
        "tests/unit/test_projection_prompt.py::test_hook_text_goes_before_the_request_does",
        "tests/unit/test_projection_prompt.py::test_turn_input_never_exceeds_its_limit",
        "tests/unit/test_projection_prompt.py::test_with_an_empty_request_the_tail_of_the_hook_text_survives",
        "tests/unit/test_public_reports.py::test_a_projection_is_never_larger_than_the_window_it_goes_into",
    ],
    "D-48": [
        "tests/turn/test_workspace_files.py::test_the_files_stand_in_front_of_the_quoted_context",
        "tests/turn/test_workspace_files.py::test_without_memory_tools_a_thread_gets_the_files_once_and_whole",
        "tests/unit/test_projection_prompt.py::test_what_came_with_the_message_stands_before_the_block",
    ],
    "D-49": [
        "tests/unit/test_codex_planning.py::test_an_app_server_without_injection_gets_everything_as_text",
    ],
    "D-50": [
        "tests/process/test_carriers.py::test_prompt_mode_sends_the_documents_text_byte_for_byte",
    ],
    "D-51": [
        "tests/docs/test_other_pages.py::test_decisions_are_those_of_the_code",
        "tests/process/test_carriers.py::test_changing_the_carrier_on_a_live_session_loses_nothing",
        "tests/process/test_orphans_codex.py::test_every_command_bears_the_marker_and_the_model_is_told_nothing_of_it",
        "tests/process/test_rebase.py::test_a_window_rebases_at_its_cuts_and_only_grows_between_them",
        "tests/process/test_rebase.py::test_replacing_the_first_half_costs_one_thread_and_loses_nothing",
        "tests/process/test_switching.py::test_a_long_session_changed_in_every_way_and_back_loses_no_reply",
        "tests/process/test_unwritten_prompt.py::test_what_the_thread_got_is_known_and_the_engine_is_handed_the_answer_alone",
        "tests/turn/test_thread_fields.py::test_a_refused_injection_holds_nothing_and_the_turn_goes_on",
        "tests/turn/test_thread_fields.py::test_an_injection_that_was_never_answered_is_known_and_not_held",
        "tests/unit/test_codex_planning.py::test_a_missing_tail_is_injected_and_held",
        "tests/unit/test_codex_planning.py::test_an_engine_that_wants_what_the_thread_holds_injects_nothing",
        "tests/unit/test_codex_planning.py::test_prompt_mode_quotes_and_injects_nothing",
        "tests/unit/test_codex_planning.py::test_the_trailing_prompt_is_left_out_of_what_is_compared",
        "tests/unit/test_context_view.py::test_every_decision_and_reason_is_shown_in_words_and_as_a_code",
        "tests/unit/test_projection_items_for.py::test_texts_become_messages_of_their_role",
        "tests/unit/test_projection_plan.py::test_plan_laws",
        "tests/unit/test_projection_snapshot.py::test_a_prompt_behind_a_block_keeps_no_raw_item",
    ],
    "D-52": [
        "tests/contract/test_engines.py::test_every_shipped_engine_answers_the_same_for_the_same_transcript",
        "tests/process/test_rebase.py::test_a_window_rebases_at_its_cuts_and_only_grows_between_them",
        "tests/process/test_rebase.py::test_replacing_the_first_half_costs_one_thread_and_loses_nothing",
        "tests/unit/test_projection_hostile.py::test_a_thousand_random_histories_give_the_same_bytes_in_every_process",
        "tests/unit/test_projection_hostile.py::test_items_of_a_hostile_history_are_paired_clean_and_in_order",
        "tests/unit/test_projection_items_for.py::test_items_always_pair",
        "tests/unit/test_projection_items_for.py::test_items_do_not_depend_on_the_process",
        "tests/unit/test_projection_items_for.py::test_repeated_messages_get_ids_of_their_own",
        "tests/unit/test_projection_items_for.py::test_text_round_a_call_keeps_its_place",
        "tests/unit/test_projection_plan.py::test_ids_of_instructions_depend_on_text_and_sequence",
        "tests/unit/test_projection_plan.py::test_plan_laws",
    ],
    "D-53": [
        "tests/process/test_bootstrap.py::test_the_context_comes_once_an_epoch_and_then_only_the_prompt",
        "tests/process/test_rebase.py::test_long_outputs_images_and_failed_calls_come_back_as_they_were",
        "tests/process/test_rebase.py::test_replacing_the_first_half_costs_one_thread_and_loses_nothing",
        "tests/unit/test_projection_hostile.py::test_items_of_a_hostile_history_are_paired_clean_and_in_order",
        "tests/unit/test_projection_items_for.py::test_a_call_without_its_result_becomes_text",
        "tests/unit/test_projection_items_for.py::test_a_changed_call_makes_a_function_pair",
        "tests/unit/test_projection_items_for.py::test_a_changed_result_answers_the_raw_call_in_its_own_type",
        "tests/unit/test_projection_items_for.py::test_a_result_before_its_call_is_no_pair",
        "tests/unit/test_projection_items_for.py::test_a_result_without_its_call_becomes_labelled_text",
        "tests/unit/test_projection_items_for.py::test_arguments_are_always_an_object",
        "tests/unit/test_projection_items_for.py::test_items_always_pair",
        "tests/unit/test_projection_items_for.py::test_outputs_of_any_shape_become_text",
        "tests/unit/test_projection_items_for.py::test_rendered_pairs_are_redacted",
        "tests/unit/test_projection_items_for.py::test_shapes_carry_no_values",
        "tests/unit/test_projection_items_for.py::test_thread_bootstrap_never_sends_raw_items",
        "tests/unit/test_projection_items_for.py::test_tool_search_without_its_own_output_is_rendered",
        "tests/unit/test_projection_items_for.py::test_unchanged_messages_go_back_as_their_raw_items",
    ],
    "D-54": [
        "tests/docs/test_other_pages.py::test_numbers_are_those_of_the_code",
        "tests/process/test_rebase.py::test_a_window_rebases_at_its_cuts_and_only_grows_between_them",
        "tests/process/test_rebase.py::test_another_memory_in_front_of_each_turn_costs_at_most_four_threads",
        "tests/process/test_rebase.py::test_replacing_the_first_half_costs_one_thread_and_loses_nothing",
        "tests/process/test_switching.py::test_a_long_session_changed_in_every_way_and_back_loses_no_reply",
        "tests/process/test_unwritten_prompt.py::test_a_hook_that_keeps_a_prompt_out_leaves_the_same_truth",
        "tests/unit/test_codex_planning.py::test_a_replaced_past_is_a_fresh_thread_with_exactly_what_is_wanted",
        "tests/unit/test_codex_planning.py::test_after_three_rebases_in_a_row_only_what_is_new_is_quoted",
        "tests/unit/test_projection_plan.py::test_changing_memory_costs_four_threads_at_most",
        "tests/unit/test_projection_plan.py::test_plan_laws",
        "tests/unit/test_projection_plan.py::test_plans",
        "tests/unit/test_projection_plan.py::test_what_is_not_held_and_what_is_cover_the_wanted",
    ],
    "D-55": [
        "tests/process/test_compact_native.py::test_without_a_marker_the_compacted_thread_goes_on",
        "tests/process/test_instructions.py::test_after_a_native_compaction_the_current_instructions_are_given_again",
        "tests/process/test_instructions_after_compaction.py::test_without_an_addition_nothing_is_said_after_native_compaction",
        "tests/process/test_native_compaction.py::test_an_owning_engine_answers_a_compaction_by_one_rebase_if_what_it_wants_fits",
        "tests/process/test_native_compaction.py::test_legacy_compacts_at_most_once_more_than_the_bare_client",
        "tests/process/test_switching.py::test_codex_compacts_between_two_catalogued_models_and_the_thread_stays",
        "tests/unit/test_codex_planning.py::test_a_compaction_of_a_projected_thread_is_answered_once_by_an_engine_that_owns_it",
        "tests/unit/test_projection_plan.py::test_plans",
    ],
    "D-56": [
        "tests/unit/test_codex_planning.py::test_a_pinned_thread_is_not_left_however_full_it_is",
        "tests/unit/test_projection_plan.py::test_plans",
    ],
    "D-57": [
        "tests/process/test_instructions.py::test_an_engine_that_fails_leaves_the_instructions_as_they_are",
        "tests/process/test_lifecycle_order.py::test_a_failing_assemble_gives_the_bare_prompt_on_the_same_thread",
        "tests/unit/test_codex_planning.py::test_an_assemble_that_failed_changes_nothing",
        "tests/unit/test_codex_planning.py::test_what_a_thread_was_given_stays_known_while_no_engine_answers",
        "tests/unit/test_projection_plan.py::test_plans",
    ],
    "D-58": [
        "tests/process/test_injection_kills.py::test_a_kill_round_an_injection_loses_and_doubles_nothing",
        "tests/turn/test_thread_fields.py::test_a_refused_injection_holds_nothing_and_the_turn_goes_on",
        "tests/turn/test_thread_fields.py::test_an_injection_that_was_never_answered_is_known_and_not_held",
        "tests/turn/test_transient_turn.py::test_a_refused_injection_sends_the_context_as_text",
        "tests/turn/test_turn_log.py::test_a_failing_projection_sends_the_original_prompt_and_keeps_what_is_known",
        "tests/unit/test_projection_plan.py::test_plans",
    ],
    "E-01": [
        "tests/unit/test_projection_plan.py::test_base_sections_follow_the_documented_order",
    ],
    "E-02": [
        "tests/process/test_instructions.py::test_each_change_comes_once_supersedes_and_stays_until_the_rebase",
        "tests/process/test_switching.py::test_the_engines_context_reaches_the_request_of_every_kind_of_model",
        "tests/process/test_three_projections.py::test_an_engine_is_asked_in_order_and_its_context_precedes_the_request",
        "tests/turn/test_run_attempt_context_engine.py::test_the_addition_stands_in_the_instructions_and_the_context_before_the_request",
        "tests/unit/test_context_engine_projection.py::test_the_addition_stands_in_the_instructions_alone_and_last",
        "tests/unit/test_projection_plan.py::test_sections_are_joined_by_one_empty_line",
    ],
    "E-03": [
        "tests/unit/test_projection_plan.py::test_base_sections_follow_the_documented_order",
    ],
    "E-04": [
        "tests/unit/test_projection_plan.py::test_base_sections_follow_the_documented_order",
    ],
    "E-05": [
        "tests/unit/test_projection_plan.py::test_base_sections_follow_the_documented_order",
        "tests/unit/test_projection_plan.py::test_the_reply_rule_says_who_sends_the_final_answer",
    ],
    "E-07": [
        "tests/turn/test_workspace_files.py::test_a_file_that_is_longer_than_a_turn_is_cut_visibly_and_the_request_stays",
        "tests/turn/test_workspace_files.py::test_with_memory_tools_the_files_are_left_to_them",
        "tests/turn/test_workspace_files.py::test_without_memory_tools_a_thread_gets_the_files_once_and_whole",
    ],
    "E-08": [
        "tests/turn/test_workspace_files.py::test_without_memory_tools_a_thread_gets_the_files_once_and_whole",
    ],
    "E-09": [
        "tests/turn/test_thread_rotation.py::test_a_codex_model_reference_names_the_model_and_no_provider",
    ],
    "E-10": [
        "tests/process/test_workspace.py::test_base_instructions_are_codexs_own_and_a_lightweight_turn_reads_no_folder_rules",
    ],
    "E-11": [
        "tests/turn/test_turn_hooks.py::test_a_withdrawn_system_prompt_leaves_the_engines_addition_alone",
        "tests/turn/test_turn_hooks.py::test_restricting_tools_is_refused_and_said",
        "tests/turn/test_turn_hooks.py::test_what_prompt_hooks_change_reaches_codex_and_leaves_the_engines_addition",
    ],
    "E-12": [
        "tests/turn/test_turn_hooks.py::test_restricting_tools_is_refused_and_said",
        "tests/unit/test_hooks.py::test_handlers_cannot_change_what_others_see",
        "tests/unit/test_hooks.py::test_results_merge_by_priority_and_then_by_registration",
    ],
    "E-13": [
        "tests/turn/test_turn_hooks.py::test_a_failing_compaction_hook_stops_neither_the_turn_nor_the_other_hooks",
        "tests/turn/test_turn_hooks.py::test_a_sleeping_prompt_hook_is_skipped_and_the_others_count",
        "tests/unit/test_hooks.py::test_a_failing_and_a_sleeping_handler_are_skipped",
        "tests/unit/test_hooks.py::test_a_message_survives_a_handler_that_fails",
        "tests/unit/test_hooks.py::test_a_wrong_answer_is_skipped_and_the_others_count",
    ],
    "E-15": [
        "tests/process/test_carriers.py::test_an_engine_that_is_switched_off_and_on_goes_on_with_the_thread",
        "tests/process/test_injection_kills.py::test_a_kill_round_an_injection_loses_and_doubles_nothing",
        "tests/process/test_instructions.py::test_a_long_addition_is_not_cut",
        "tests/process/test_instructions.py::test_after_a_native_compaction_the_current_instructions_are_given_again",
        "tests/process/test_instructions.py::test_an_engine_that_fails_leaves_the_instructions_as_they_are",
        "tests/process/test_instructions.py::test_each_change_comes_once_supersedes_and_stays_until_the_rebase",
        "tests/process/test_instructions.py::test_withdrawn_instructions_are_said_to_be_withdrawn",
        "tests/process/test_instructions_after_compaction.py::test_a_superseded_addition_is_said_again_after_native_compaction",
        "tests/process/test_prefix.py::test_fifty_turns_over_two_restarts_keep_every_item_and_say_everything_once",
        "tests/unit/test_projection_plan.py::test_an_addition_is_read_back_from_its_item",
        "tests/unit/test_projection_plan.py::test_changed_addition_supersedes_and_a_removed_one_is_withdrawn",
        "tests/unit/test_projection_plan.py::test_superseding_item_is_a_whole_developer_message",
    ],
    "E-16": [
        "tests/process/test_workspace.py::test_a_cloned_repository_runs_nothing_and_its_agents_file_is_read",
        "tests/process/test_workspace.py::test_base_instructions_are_codexs_own_and_a_lightweight_turn_reads_no_folder_rules",
    ],
    "F-01": [
        "tests/turn/test_thread_fields.py::test_a_sandbox_is_named_on_turns_and_never_on_a_thread",
    ],
    "F-02": [
        "tests/process/test_workspace.py::test_a_cloned_repository_runs_nothing_and_its_agents_file_is_read",
        "tests/turn/test_thread_fields.py::test_a_sandbox_is_named_on_turns_and_never_on_a_thread",
    ],
    "F-03": [
        "tests/process/test_switching.py::test_a_change_of_model_keeps_the_thread_under_an_engine",
        "tests/turn/test_thread_fields.py::test_a_sandbox_is_named_on_turns_and_never_on_a_thread",
    ],
    "F-04": [
        "tests/process/test_switching.py::test_a_change_of_model_keeps_the_thread_under_an_engine",
        "tests/process/test_switching.py::test_codex_compacts_between_two_catalogued_models_and_the_thread_stays",
    ],
    "F-06": [
        "tests/turn/test_thread_fields.py::test_a_sandbox_is_named_on_turns_and_never_on_a_thread",
    ],
    "F-07": [
        "tests/process/test_switching.py::test_an_image_that_the_engine_shows_reaches_the_model_in_each_mode",
        "tests/unit/test_projection_items_for.py::test_images_stay_images_where_they_are_data",
    ],
    "F-08": [
        "tests/turn/test_thread_rotation.py::test_a_codex_model_reference_names_the_model_and_no_provider",
        "tests/unit/test_selection.py::test_the_codex_prefix_is_taken_off_the_model",
    ],
    "F-09": [
        "tests/unit/test_effort.py::test_an_effort_that_a_model_refuses_becomes_the_nearest",
    ],
    "F-10": [
        "tests/process/test_switching.py::test_a_change_of_model_keeps_the_thread_under_an_engine",
        "tests/process/test_switching.py::test_an_engine_switched_on_and_off_keeps_the_thread",
    ],
    "F-11": [
        "tests/process/test_carriers.py::test_an_engine_that_is_switched_off_and_on_goes_on_with_the_thread",
        "tests/process/test_carriers.py::test_changing_the_carrier_on_a_live_session_loses_nothing",
        "tests/process/test_prefix.py::test_fifty_turns_over_two_restarts_keep_every_item_and_say_everything_once",
        "tests/unit/test_codex_planning.py::test_changed_tools_need_another_thread_and_lose_nothing",
        "tests/unit/test_projection_plan.py::test_plans",
    ],
    "F-12": [
        "tests/unit/test_public_reports.py::test_a_channels_name_in_a_description_keeps_the_thread",
        "tests/unit/test_public_reports.py::test_authority_dependent_wording_keeps_the_thread_also_inside_a_schema",
        "tests/unit/test_tools.py::test_names_and_schemas_do_matter",
        "tests/unit/test_tools.py::test_order_of_tools_and_keys_and_descriptions_do_not_matter",
        "tests/unit/test_tools.py::test_what_the_fingerprint_holds_is_exact",
    ],
    "F-13": [
        "tests/process/test_rebase.py::test_a_thread_that_cannot_go_on_is_replaced_and_nothing_is_lost",
        "tests/turn/test_thread_rotation.py::test_tools_that_go_and_come_back_cost_threads_and_no_message",
        "tests/unit/test_codex_planning.py::test_a_change_of_how_tools_load_needs_another_thread_where_it_is_recorded",
        "tests/unit/test_codex_planning.py::test_a_forced_fresh_thread_without_an_engines_answer_carries_the_mirror",
        "tests/unit/test_codex_planning.py::test_changed_tools_need_another_thread_and_lose_nothing",
        "tests/unit/test_projection_plan.py::test_plans",
    ],
    "F-14": [
        "tests/turn/test_thread_rotation.py::test_tools_that_go_and_come_back_cost_threads_and_no_message",
    ],
    "F-15": [
        "tests/unit/test_codex_planning.py::test_a_change_of_how_tools_load_needs_another_thread_where_it_is_recorded",
    ],
    "F-17": [
        "tests/contract/test_store.py::test_a_binding_is_stored_under_its_revision_only",
        "tests/turn/test_thread_rotation.py::test_the_binding_says_what_the_thread_was_given",
    ],
    "F-18": [
        "tests/turn/test_thread_rotation.py::test_the_binding_says_what_the_thread_was_given",
    ],
    "F-19": [
        "tests/process/test_rebase.py::test_a_thread_that_cannot_go_on_is_replaced_and_nothing_is_lost",
        "tests/process/test_thread_taken.py::test_a_deleted_thread_is_replaced_at_the_next_turn_with_the_same_model",
        "tests/process/test_turn_faults.py::test_a_turn_that_is_tried_again_on_a_fresh_thread_says_its_message_once",
        "tests/unit/test_context_view.py::test_a_detail_that_is_no_code_is_told_as_it_is",
    ],
    "F-20": [
        "tests/turn/test_thread_rotation.py::test_a_connection_that_ends_during_resume_never_costs_the_binding",
    ],
    "F-23": [
        "tests/unit/test_projection_plan.py::test_plans",
    ],
    "F-24": [
        "tests/process/test_transient_thread.py::test_no_native_tool_is_offered_or_runs_in_such_a_turn",
        "tests/turn/test_transient_turn.py::test_codex_is_asked_for_a_thread_in_memory_and_left_it_afterwards",
        "tests/unit/test_public_reports.py::test_what_a_person_set_for_native_apps_is_not_overwritten",
        "tests/unit/test_thread_config.py::test_no_feature_of_codex_is_switched_on_for_a_thread",
    ],
    "F-25": [
        "tests/process/test_bootstrap.py::test_a_second_overflow_fails_the_turn_and_gives_its_thread_up",
        "tests/unit/test_codex_planning.py::test_a_thread_whose_turn_did_not_fit_is_given_up_by_the_next_one",
    ],
    "F-26": [
        "tests/process/test_wire_process.py::test_binary_that_is_old_nameless_or_broken_is_refused",
        "tests/process/test_wire_process.py::test_real_binary_shakes_hands_answers_refuses_and_leaves_at_eof",
        "tests/turn/test_wire_client.py::test_newer_version_than_tested_is_a_warning",
        "tests/turn/test_wire_client.py::test_old_or_nameless_version_is_refused",
        "tests/turn/test_wire_client.py::test_turn_runs_from_handshake_to_completion",
        "tests/unit/test_launch.py::test_missing_or_malformed_version_is_refused",
    ],
    "F-27": [
        "tests/turn/test_wire_client.py::test_turn_runs_from_handshake_to_completion",
        "tests/unit/test_protocol.py::test_every_request_has_a_deadline_and_nothing_read_is_opted_out",
    ],
    "F-28": [
        "tests/process/test_switching.py::test_a_change_of_model_keeps_the_thread_under_an_engine",
        "tests/process/test_switching.py::test_a_long_session_changed_in_every_way_and_back_loses_no_reply",
        "tests/process/test_switching.py::test_an_engine_switched_on_and_off_keeps_the_thread",
    ],
    "G-01": [
        "tests/process/test_prefix.py::test_fifty_turns_over_two_restarts_keep_every_item_and_say_everything_once",
        "tests/unit/test_projection_snapshot.py::test_raw_items_give_the_messages_and_typed_items_name_them",
    ],
    "G-02": [
        "tests/unit/test_projection_items.py::test_hooks_and_warnings_need_no_turn",
        "tests/unit/test_projection_items.py::test_nothing_counts_after_the_end",
        "tests/unit/test_projection_items.py::test_other_threads_and_turns_are_ignored",
    ],
    "G-03": [
        "tests/unit/test_projection_snapshot.py::test_raw_items_give_the_messages_and_typed_items_name_them",
    ],
    "G-04": [
        "tests/turn/test_turn_mirror.py::test_every_kind_of_item_is_kept_and_shown_and_only_three_roles_are_messages",
        "tests/unit/test_projection_items.py::test_reasoning_plan_and_output_stream",
        "tests/unit/test_projection_snapshot.py::test_reasoning_and_plans_are_light_records",
        "tests/unit/test_projection_snapshot.py::test_without_raw_items_the_entries_are_rendered_and_say_so",
    ],
    "G-05": [
        "tests/unit/test_projection_items.py::test_commentary_is_progress",
        "tests/unit/test_projection_items.py::test_deltas_append_and_the_completed_text_wins",
        "tests/unit/test_projection_items.py::test_late_deltas_of_a_finished_message_change_nothing",
        "tests/unit/test_projection_snapshot.py::test_codex_removed_text_stays_removed",
        "tests/unit/test_projection_snapshot.py::test_commentary_says_so",
    ],
    "G-06": [
        "tests/unit/test_projection_items.py::test_a_silent_token_replaces_no_answer",
        "tests/unit/test_projection_items.py::test_native_work_after_an_answer_makes_it_none",
    ],
    "G-07": [
        "tests/process/test_unwritten_prompt.py::test_such_a_prompt_is_answered_and_stands_nowhere_in_the_transcript",
        "tests/unit/test_projection_snapshot.py::test_a_raw_echo_of_a_typed_message_is_not_doubled",
        "tests/unit/test_projection_snapshot.py::test_codex_removed_text_stays_removed",
        "tests/unit/test_rollout.py::test_the_summary_of_a_native_compaction_is_nobodys_answer",
    ],
    "G-08": [
        "tests/process/test_codex_schema.py::test_every_kind_of_item_of_the_pinned_binary_is_played_through_a_turn",
        "tests/turn/test_turn_mirror.py::test_every_kind_of_item_is_kept_and_shown_and_only_three_roles_are_messages",
        "tests/unit/test_projection_items.py::test_tools_are_named_and_judged",
        "tests/unit/test_projection_snapshot.py::test_raw_items_give_the_messages_and_typed_items_name_them",
        "tests/unit/test_projection_snapshot.py::test_rendered_tools",
        "tests/unit/test_projection_snapshot.py::test_without_raw_items_the_entries_are_rendered_and_say_so",
        "tests/unit/test_protocol.py::test_item_has_its_name_status_and_kind",
    ],
    "G-09": [
        "tests/process/test_codex_schema.py::test_every_kind_of_item_of_the_pinned_binary_is_played_through_a_turn",
        "tests/unit/test_projection_items.py::test_tools_are_named_and_judged",
        "tests/unit/test_protocol.py::test_item_has_its_name_status_and_kind",
    ],
    "G-10": [
        "tests/unit/test_projection_items.py::test_tools_are_named_and_judged",
        "tests/unit/test_projection_snapshot.py::test_failed_and_declined_work_is_an_error",
        "tests/unit/test_protocol.py::test_audit_takes_no_odd_or_missing_status_for_success",
        "tests/unit/test_protocol.py::test_item_has_its_name_status_and_kind",
    ],
    "G-11": [
        "tests/unit/test_projection_snapshot.py::test_failed_and_declined_work_is_an_error",
        "tests/unit/test_projection_snapshot.py::test_raw_items_give_the_messages_and_typed_items_name_them",
        "tests/unit/test_projection_snapshot.py::test_rendered_tools",
        "tests/unit/test_projection_snapshot.py::test_repeated_call_ids_keep_keys_of_their_own",
        "tests/unit/test_projection_snapshot.py::test_without_raw_items_the_entries_are_rendered_and_say_so",
    ],
    "G-12": [
        "tests/unit/test_projection_snapshot.py::test_a_call_left_without_a_result_gets_an_error_result",
        "tests/unit/test_projection_snapshot.py::test_a_completed_turn_gets_no_synthetic_result",
    ],
    "G-13": [
        "tests/unit/test_cli_render.py::test_usage_counts_cached_input_as_input",
        "tests/unit/test_projection_items.py::test_malformed_usage_is_no_usage",
        "tests/unit/test_projection_items.py::test_usage_is_that_of_the_last_response",
    ],
    "G-14": [
        "tests/unit/test_projection_items.py::test_unreported_numbers_stay_unknown",
    ],
    "G-15": [
        "tests/unit/test_projection_items.py::test_unreported_numbers_stay_unknown",
        "tests/unit/test_projection_items.py::test_usage_is_that_of_the_last_response",
        "tests/unit/test_public_reports.py::test_old_token_counts_are_unknown_after_a_native_compaction",
    ],
    "G-16": [
        "tests/docs/test_library_page.py::test_every_code_of_a_failed_turn_has_its_row",
        "tests/unit/test_projection_items.py::test_a_failed_turn_tells_its_error",
        "tests/unit/test_projection_items.py::test_a_failed_turn_without_words_gets_a_default",
        "tests/unit/test_projection_items.py::test_an_end_of_an_unknown_kind_is_a_failure_that_says_so",
        "tests/unit/test_projection_items.py::test_faults_by_codex_own_code",
        "tests/unit/test_projection_items.py::test_other_threads_and_turns_are_ignored",
        "tests/unit/test_turn_machine.py::test_each_row_of_the_turn_table_holds",
    ],
    "G-17": [
        "tests/docs/test_library_page.py::test_every_code_of_a_failed_turn_has_its_row",
        "tests/unit/test_projection_items.py::test_a_retried_error_is_no_error",
    ],
    "G-18": [
        "tests/turn/test_turn_mirror.py::test_every_kind_of_item_is_kept_and_shown_and_only_three_roles_are_messages",
        "tests/unit/test_projection_items.py::test_missed_items_are_replayed_once",
    ],
    "G-19": [
        "tests/process/test_compact_native.py::test_the_marker_goes_first_and_the_next_turn_projects_again",
        "tests/process/test_switching.py::test_codex_compacts_between_two_catalogued_models_and_the_thread_stays",
        "tests/turn/test_turn_hooks.py::test_a_native_compaction_is_told_to_hooks_and_watchers_and_the_turn_goes_on",
        "tests/unit/test_projection_items.py::test_compaction_is_told_and_counted_once",
    ],
    "G-20": [
        "tests/unit/test_projection_items.py::test_compaction_is_told_and_counted_once",
    ],
    "G-21": [
        "tests/unit/test_projection_items.py::test_compaction_is_told_and_counted_once",
    ],
    "G-22": [
        "tests/unit/test_projection_items.py::test_hooks_and_warnings_need_no_turn",
    ],
    "G-23": [
        "tests/unit/test_projection_items.py::test_tools_are_named_and_judged",
    ],
    "G-24": [
        "tests/turn/test_turn_mirror.py::test_a_watcher_that_leaves_stops_nothing",
    ],
    "G-25": [
        "tests/unit/test_projection_items.py::test_rerouting_changes_who_answers",
    ],
    "G-26": [
        "tests/unit/test_projection_items.py::test_malformed_completions_do_not_end_the_turn",
        "tests/unit/test_projection_items.py::test_no_notification_breaks_the_projection",
    ],
    "G-27": [
        "tests/turn/test_turn_mirror.py::test_an_answer_that_was_there_when_the_time_ran_out_is_given",
    ],
    "G-28": [
        "tests/unit/test_projection_items.py::test_unreported_numbers_stay_unknown",
    ],
    "H-01": [
        "tests/turn/test_mirror_faults.py::test_a_mirror_that_cannot_be_written_costs_no_reply",
        "tests/turn/test_mirror_faults.py::test_odd_text_of_a_write_hook_costs_no_reply",
    ],
    "H-02": [
        "tests/turn/test_turn_mirror.py::test_every_kind_of_item_is_kept_and_shown_and_only_three_roles_are_messages",
    ],
    "H-03": [
        "tests/contract/test_store.py::test_the_same_key_is_stored_once_and_the_first_text_stays",
        "tests/process/test_prefix.py::test_fifty_turns_over_two_restarts_keep_every_item_and_say_everything_once",
        "tests/turn/test_public_reports.py::test_one_prompt_and_one_answer_are_stored_whoever_repeats_them",
        "tests/unit/test_projection_snapshot.py::test_raw_items_give_the_messages_and_typed_items_name_them",
    ],
    "H-04": [
        "tests/contract/test_store.py::test_equal_text_under_two_keys_is_kept_twice",
        "tests/contract/test_store.py::test_the_same_key_is_stored_once_and_the_first_text_stays",
        "tests/turn/test_public_reports.py::test_an_old_answer_that_is_told_again_is_not_stored_again",
        "tests/unit/test_projection_snapshot.py::test_a_snapshot_in_mid_turn_has_the_keys_of_the_last_one",
        "tests/unit/test_projection_snapshot.py::test_repeated_call_ids_keep_keys_of_their_own",
    ],
    "H-05": [
        "tests/turn/test_turn_mirror.py::test_times_and_ids_take_no_part_in_a_messages_fingerprint",
    ],
    "H-06": [
        "tests/contract/test_store.py::test_the_same_key_is_stored_once_and_the_first_text_stays",
    ],
    "H-07": [
        "tests/process/test_unwritten_prompt.py::test_a_hook_that_keeps_a_prompt_out_leaves_the_same_truth",
        "tests/turn/test_mirror_faults.py::test_odd_text_of_a_write_hook_costs_no_reply",
        "tests/turn/test_public_reports.py::test_a_redactor_that_matches_our_keys_loses_no_entry",
        "tests/turn/test_turn_hooks.py::test_a_message_that_a_hook_rewrote_is_what_the_engine_gets",
        "tests/turn/test_turn_hooks.py::test_a_write_hook_redacts_or_drops_a_message_under_the_same_key",
        "tests/unit/test_hooks.py::test_a_message_is_rewritten_or_left_out",
        "tests/unit/test_hooks.py::test_a_message_survives_a_handler_that_fails",
    ],
    "H-08": [
        "tests/turn/test_turn_mirror.py::test_each_entry_is_told_once_in_the_order_of_its_number",
    ],
    "H-09": [
        "tests/turn/test_turn_mirror.py::test_a_persons_message_is_told_once_however_often_the_turn_is_sent",
        "tests/turn/test_turn_mirror.py::test_a_watcher_that_leaves_stops_nothing",
    ],
    "H-10": [
        "tests/contract/test_store.py::test_what_the_transcript_does_not_have_is_held_in_front_of_the_entries",
        "tests/process/test_unwritten_prompt.py::test_a_hook_that_keeps_a_prompt_out_leaves_the_same_truth",
        "tests/process/test_unwritten_prompt.py::test_a_turn_that_codex_died_in_is_settled_without_its_prompt",
        "tests/process/test_unwritten_prompt.py::test_such_a_prompt_is_answered_and_stands_nowhere_in_the_transcript",
        "tests/process/test_unwritten_prompt.py::test_what_the_thread_got_is_known_and_the_engine_is_handed_the_answer_alone",
        "tests/turn/test_turn_mirror.py::test_a_prompt_that_is_not_to_be_kept_is_not_mirrored_when_its_turn_starts",
    ],
    "H-11": [
        "tests/turn/test_turn_mirror.py::test_a_sender_is_shown_by_name_and_id",
        "tests/turn/test_turn_mirror.py::test_the_users_entry_says_who_wrote_it_and_from_where",
    ],
    "H-12": [
        "tests/turn/test_turn_mirror.py::test_a_rewritten_record_never_rewrites_the_native_thread",
    ],
    "H-13": [
        "tests/contract/test_store.py::test_depth_counts_all_entries_and_position_only_what_engines_see",
        "tests/process/test_compact_native.py::test_the_marker_goes_first_and_the_next_turn_projects_again",
        "tests/unit/test_projection_snapshot.py::test_native_compaction_is_recorded_without_a_summary",
        "tests/unit/test_rollout.py::test_the_summary_of_a_native_compaction_is_nobodys_answer",
    ],
    "H-14": [
        "tests/contract/test_store.py::test_the_same_key_is_stored_once_and_the_first_text_stays",
        "tests/turn/test_public_reports.py::test_one_prompt_and_one_answer_are_stored_whoever_repeats_them",
        "tests/unit/test_projection_snapshot.py::test_without_a_prompt_its_entry_is_left_out",
    ],
    "H-15": [
        "tests/turn/test_turn_mirror.py::test_every_kind_of_item_is_kept_and_shown_and_only_three_roles_are_messages",
    ],
    "H-16": [
        "tests/turn/test_transient_turn.py::test_stopped_in_mid_turn_what_was_said_is_told_to_the_sessions_thread",
        "tests/unit/test_projection_snapshot.py::test_a_finished_message_without_a_raw_item_is_kept",
        "tests/unit/test_projection_snapshot.py::test_an_interrupted_turn_keeps_partial_text_as_a_notice",
    ],
    "H-17": [
        "tests/turn/test_turn_mirror.py::test_a_rewritten_record_never_rewrites_the_native_thread",
        "tests/unit/test_boundaries.py::test_a_harness_changes_no_file",
    ],
    "I-01": [
        "tests/process/test_lifecycle_order.py::test_a_turn_asks_everyone_in_the_fixed_order",
        "tests/unit/test_lifecycle.py::test_fallback_data_is_handed_over_where_the_mirror_failed",
    ],
    "I-02": [
        "tests/process/test_lifecycle_order.py::test_an_engine_without_after_turn_is_given_the_turns_own_messages",
        "tests/unit/test_lifecycle.py::test_fallback_data_is_handed_over_where_the_mirror_failed",
    ],
    "I-03": [
        "tests/process/test_settlement.py::test_a_whole_answer_outlives_its_settlement_and_is_written_by_the_next_run",
        "tests/turn/test_mirror_faults.py::test_a_mirror_that_cannot_be_written_costs_no_reply",
        "tests/unit/test_lifecycle.py::test_fallback_data_is_handed_over_where_the_mirror_failed",
    ],
    "I-04": [
        "tests/process/test_lifecycle_order.py::test_an_engine_without_after_turn_is_given_the_turns_own_messages",
        "tests/process/test_three_projections.py::test_an_engine_of_the_documents_alone_is_given_each_message_once",
        "tests/turn/test_public_reports.py::test_every_turn_is_handed_over_once_with_its_answer",
        "tests/turn/test_run_attempt_context_engine.py::test_an_engine_of_the_documents_alone_is_served_on_every_turn",
        "tests/unit/test_lifecycle.py::test_a_turn_is_handed_over_once_by_the_best_method",
        "tests/unit/test_lifecycle.py::test_calls_come_in_the_fixed_order_with_what_each_is_due",
    ],
    "I-05": [
        "tests/process/test_three_projections.py::test_an_engine_of_the_documents_alone_is_given_each_message_once",
        "tests/process/test_unwritten_prompt.py::test_what_the_thread_got_is_known_and_the_engine_is_handed_the_answer_alone",
        "tests/turn/test_run_attempt_context_engine.py::test_an_engine_of_the_documents_alone_is_served_on_every_turn",
        "tests/unit/test_lifecycle.py::test_a_turn_is_handed_over_once_by_the_best_method",
        "tests/unit/test_lifecycle.py::test_calls_come_in_the_fixed_order_with_what_each_is_due",
        "tests/unit/test_lifecycle.py::test_nothing_new_is_no_ingest_call",
    ],
    "I-06": [
        "tests/unit/test_lifecycle.py::test_host_only_messages_are_neither_shown_nor_counted",
    ],
    "I-07": [
        "tests/process/test_three_projections.py::test_ten_turns_under_a_failing_engine_lose_no_reply",
        "tests/unit/test_lifecycle.py::test_a_failure_is_one_warning_and_the_turn_goes_on",
        "tests/unit/test_lifecycle.py::test_one_failing_ingest_does_not_stop_the_others",
    ],
    "I-08": [
        "tests/process/test_three_projections.py::test_a_failed_and_a_stopped_turn_are_handed_over_and_not_maintained",
        "tests/turn/test_run_attempt_context_engine.py::test_a_bad_turn_is_handed_over_and_neither_maintained_nor_committed",
        "tests/turn/test_turn_outcomes.py::test_a_refused_turn_is_finalized_and_its_subscription_released",
        "tests/unit/test_lifecycle.py::test_a_bad_turn_is_handed_over_but_not_maintained",
        "tests/unit/test_lifecycle.py::test_calls_come_in_the_fixed_order_with_what_each_is_due",
    ],
    "I-09": [
        "tests/process/test_three_projections.py::test_a_failed_and_a_stopped_turn_are_handed_over_and_not_maintained",
        "tests/turn/test_run_attempt_context_engine.py::test_a_bad_turn_is_handed_over_and_neither_maintained_nor_committed",
        "tests/turn/test_turn_outcomes.py::test_a_refused_turn_is_finalized_and_its_subscription_released",
        "tests/unit/test_lifecycle.py::test_a_bad_turn_is_handed_over_but_not_maintained",
    ],
    "I-10": [
        "tests/process/test_three_projections.py::test_a_failed_and_a_stopped_turn_are_handed_over_and_not_maintained",
        "tests/turn/test_run_attempt_context_engine.py::test_a_bad_turn_is_handed_over_and_neither_maintained_nor_committed",
        "tests/unit/test_lifecycle.py::test_a_bad_turn_is_handed_over_but_not_maintained",
    ],
    "I-11": [
        "tests/turn/test_run_attempt_context_engine.py::test_a_bad_turn_is_handed_over_and_neither_maintained_nor_committed",
    ],
    "I-12": [
        "tests/unit/test_lifecycle.py::test_legacy_is_never_called",
    ],
    "I-13": [
        "tests/unit/test_lifecycle.py::test_unreported_usage_is_absent_and_never_zero",
    ],
    "I-14": [
        "tests/turn/test_run_attempt_context_engine.py::test_a_heartbeat_is_told_as_one_whichever_way_it_came",
    ],
    "I-15": [
        "tests/unit/test_lifecycle.py::test_maintenance_that_throws_is_a_warning",
    ],
    "I-19": [
        "tests/unit/test_lifecycle.py::test_a_bad_turn_is_handed_over_but_not_maintained",
    ],
    "I-21": [
        "tests/unit/test_lifecycle.py::test_a_turn_is_handed_over_once_by_the_best_method",
    ],
    "I-22": [
        "tests/unit/test_lifecycle.py::test_unreported_usage_is_absent_and_never_zero",
    ],
    "J-04": [
        "tests/process/test_compact_native.py::test_what_cannot_be_compacted_is_refused_and_nothing_is_changed",
    ],
    "J-10": [
        "tests/process/test_compact_native.py::test_a_compaction_that_takes_too_long_is_interrupted",
        "tests/process/test_config_load.py::test_deadlines_set_elsewhere_stand_in_the_one_record",
        "tests/turn/test_compact_native.py::test_a_compaction_that_ends_after_its_interrupt_is_not_completed",
        "tests/unit/test_config_records.py::test_without_any_setting_everything_has_the_contracts_default",
    ],
    "J-15": [
        "tests/process/test_compact_native.py::test_what_cannot_be_compacted_is_refused_and_nothing_is_changed",
    ],
    "J-18": [
        "tests/process/test_compact_native.py::test_the_marker_goes_first_and_the_next_turn_projects_again",
        "tests/turn/test_compact_native.py::test_only_a_whole_turn_with_a_whole_item_is_a_compaction",
    ],
    "J-19": [
        "tests/process/test_compact_native.py::test_a_client_that_dies_in_the_middle_leaves_it_unconfirmed",
        "tests/process/test_compact_native.py::test_a_compaction_that_fails_is_said_to_have",
        "tests/turn/test_compact_native.py::test_only_a_whole_turn_with_a_whole_item_is_a_compaction",
    ],
    "J-20": [
        "tests/process/test_compact_native.py::test_a_compaction_that_fails_is_said_to_have",
        "tests/turn/test_compact_native.py::test_only_a_whole_turn_with_a_whole_item_is_a_compaction",
    ],
    "J-21": [
        "tests/process/test_compact_native.py::test_a_compaction_that_takes_too_long_is_interrupted",
        "tests/turn/test_compact_native.py::test_a_compaction_that_ends_after_its_interrupt_is_not_completed",
    ],
    "J-22": [
        "tests/process/test_compact_native.py::test_a_compaction_that_takes_too_long_is_interrupted",
        "tests/turn/test_compact_native.py::test_a_compaction_that_ends_after_its_interrupt_is_not_completed",
    ],
    "J-23": [
        "tests/turn/test_compact_native.py::test_an_end_that_never_comes_retires_the_connection",
    ],
    "J-30": [
        "tests/turn/test_public_reports.py::test_an_overflow_never_makes_the_host_compact",
    ],
    "J-32": [
        "tests/process/test_compact_native.py::test_what_cannot_be_compacted_is_refused_and_nothing_is_changed",
    ],
    "J-33": [
        "tests/process/test_compact_native.py::test_the_marker_goes_first_and_the_next_turn_projects_again",
    ],
    "J-34": [
        "tests/turn/test_compact_native.py::test_a_refused_start_restores_the_binding",
        "tests/turn/test_compact_native.py::test_an_end_that_never_comes_retires_the_connection",
    ],
    "J-38": [
        "tests/process/test_compact_native.py::test_without_a_marker_the_compacted_thread_goes_on",
    ],
    "K-01": [
        "tests/docs/test_engines_page.py::test_the_example_tool_can_be_offered",
    ],
    "K-02": [
        "tests/unit/test_tools.py::test_tools_go_out_as_plain_functions",
    ],
    "K-05": [
        "tests/unit/test_tools.py::test_native_and_excluded_names_are_known_and_not_offered",
    ],
    "K-07": [
        "tests/unit/test_tools.py::test_a_bad_descriptor_is_left_out_alone",
    ],
    "K-08": [
        "tests/unit/test_tools.py::test_strange_property_names_survive",
    ],
    "K-09": [
        "tests/unit/test_tools.py::test_native_and_excluded_names_are_known_and_not_offered",
        "tests/unit/test_tools.py::test_unknown_and_unavailable_tools_do_not_run",
    ],
    "K-12": [
        "tests/unit/test_tools.py::test_whatever_a_tool_does_is_a_result",
    ],
    "K-15": [
        "tests/unit/test_tools.py::test_text_is_cut_over_all_parts_and_says_so",
    ],
    "K-16": [
        "tests/unit/test_tools.py::test_deadlines",
    ],
    "K-17": [
        "tests/unit/test_tools.py::test_a_slow_tool_is_cancelled_and_the_turn_goes_on",
    ],
    "K-18": [
        "tests/unit/test_projection_items.py::test_side_effects_and_replay",
    ],
    "L-01": [
        "tests/unit/test_hooks.py::test_observers_run_together_and_their_failures_are_nobodys",
        "tests/unit/test_hooks.py::test_results_merge_by_priority_and_then_by_registration",
    ],
    "L-02": [
        "tests/unit/test_config_records.py::test_a_hooks_deadline_is_its_own_then_the_common_then_the_plugins",
    ],
    "L-22": [
        "tests/turn/test_turn_hooks.py::test_the_end_of_an_attempt_is_told_with_its_real_duration",
        "tests/unit/test_hooks.py::test_observers_run_together_and_their_failures_are_nobodys",
    ],
    "M-01": [
        "tests/process/test_questions_refused.py::test_every_question_is_refused_shown_and_the_turn_goes_on",
        "tests/unit/test_interaction.py::test_a_thread_has_two_names",
    ],
    "M-04": [
        "tests/process/test_questions_refused.py::test_every_question_is_refused_shown_and_the_turn_goes_on",
        "tests/unit/test_interaction.py::test_every_question_has_its_documented_refusal",
    ],
    "M-05": [
        "tests/process/test_questions_refused.py::test_every_question_is_refused_shown_and_the_turn_goes_on",
        "tests/unit/test_interaction.py::test_every_question_has_its_documented_refusal",
    ],
    "M-06": [
        "tests/process/test_questions_refused.py::test_every_question_is_refused_shown_and_the_turn_goes_on",
        "tests/unit/test_interaction.py::test_every_question_has_its_documented_refusal",
    ],
    "M-29": [
        "tests/unit/test_interaction.py::test_every_question_has_its_documented_refusal",
    ],
    "M-43": [
        "tests/unit/test_interaction.py::test_every_question_has_its_documented_refusal",
    ],
    "N-01": [
        "tests/unit/test_config_records.py::test_without_any_setting_everything_has_the_contracts_default",
    ],
    "RS01": [
        "tests/process/test_inbox_kills.py::test_a_message_killed_before_it_was_stored_is_accepted_once_when_it_comes_again",
        "tests/process/test_inbox_kills.py::test_a_message_stored_and_not_acknowledged_is_answered_without_coming_again",
    ],
    "RS02": [
        "tests/process/test_inbox_kills.py::test_accepted_messages_outlive_the_process_and_are_answered_in_their_order",
    ],
    "RS03": [
        "tests/contract/test_store_inbox.py::test_the_same_id_again_is_the_same_message_and_its_end",
        "tests/process/test_inbox_kills.py::test_a_message_stored_and_not_acknowledged_is_answered_without_coming_again",
    ],
    "RS04": [
        "tests/turn/test_answer_stands.py::test_the_newest_message_is_refused_where_too_many_wait",
    ],
    "RS05": [
        "tests/contract/test_store_inbox.py::test_the_end_stands_with_the_entries_or_neither_does",
    ],
    "RS06": [
        "tests/process/test_inbox_kills.py::test_sigterm_lets_the_running_turn_end_and_keeps_what_waits",
    ],
    "RS07": [
        "tests/process/test_inbox_kills.py::test_codex_killed_before_any_output_costs_one_more_try",
    ],
    "RS08": [
        "tests/process/test_wire_process.py::test_burst_of_50000_deltas_from_a_child_delays_no_answer",
        "tests/turn/test_wire_client.py::test_burst_of_50000_deltas_while_a_request_waits",
        "tests/turn/test_wire_client.py::test_stream_over_its_bound_fails_visibly_and_alone",
    ],
    "RS09": [
        "tests/process/test_inbox_kills.py::test_an_effect_is_never_repeated_and_its_turn_is_said_to_be_unknown",
    ],
    "RS10": [
        "tests/process/test_inbox_kills.py::test_a_message_that_is_taken_up_again_sees_nothing_of_a_later_one",
    ],
    "RS11": [
        "tests/process/test_turn_faults.py::test_codex_that_closes_its_output_and_lives_on_is_ended_at_once",
        "tests/process/test_wire_process.py::test_end_of_stdout_with_the_process_alive_ends_the_process",
        "tests/turn/test_wire_client.py::test_lost_app_server_ends_all_that_waits",
    ],
    "RS12": [
        "tests/process/test_carriers.py::test_odd_text_reaches_the_model_in_a_form_that_can_be_sent",
        "tests/process/test_cli_bad_input.py::test_message_that_cannot_be_sent_is_refused_before_anything_is_opened",
        "tests/process/test_turn_faults.py::test_odd_text_reaches_the_model_as_valid_text_and_is_answered",
        "tests/process/test_wire_process.py::test_odd_text_reaches_the_real_binary_valid_and_is_answered",
        "tests/turn/test_gateway.py::test_a_text_of_a_million_characters_comes_in_pieces",
        "tests/turn/test_mirror_faults.py::test_odd_text_of_a_write_hook_costs_no_reply",
        "tests/unit/test_cli_prompt.py::test_input_that_is_no_utf_8_is_read_and_said",
        "tests/unit/test_gateway_frames.py::test_a_frame_is_one_line_of_json_whatever_is_in_it",
        "tests/unit/test_projection_items_for.py::test_lone_surrogates_do_not_reach_an_item",
        "tests/unit/test_projection_prompt.py::test_lone_surrogates_do_not_survive",
        "tests/unit/test_rpc.py::test_lone_surrogates_are_replaced_and_all_else_is_kept",
        "tests/unit/test_rpc.py::test_what_is_written_is_one_line_of_valid_json",
        "tests/unit/test_text.py::test_pairs_are_joined_and_lone_surrogates_and_nul_are_replaced",
        "tests/unit/test_text.py::test_valid_text_is_encodable_and_a_fixed_point",
        "tests/unit/test_tokens.py::test_lone_surrogates_are_counted_as_the_replacement_character",
    ],
    "RS16": [
        "tests/process/test_inbox_kills.py::test_a_message_whose_treadle_is_killed_is_answered_once_by_the_next_one",
        "tests/process/test_inbox_kills.py::test_a_turn_mirrored_three_times_with_kills_between_stands_once",
        "tests/unit/test_rpc.py::test_stream_cut_anywhere_gives_the_same_events",
    ],
    "RS24": [
        "tests/process/test_orphans_codex.py::test_a_stopped_codex_and_its_command_are_gone_before_the_next_one_starts",
        "tests/unit/test_children_policy.py::test_a_row_gets_its_verdict",
    ],
    "RS25": [
        "tests/process/test_orphans.py::test_a_decoy_at_the_pid_of_a_row_lives_and_the_row_is_closed",
        "tests/process/test_orphans.py::test_a_pid_that_changes_hands_between_the_look_and_the_signal_is_not_signalled",
        "tests/process/test_orphans.py::test_a_pid_that_the_kernel_gave_again_is_left_alone",
        "tests/process/test_orphans.py::test_opening_treadle_stops_orphans_and_spares_decoys",
        "tests/unit/test_children_policy.py::test_a_row_gets_its_verdict",
    ],
    "RS26": [
        "tests/process/test_cli_bad_input.py::test_state_directory_that_is_not_safe_or_in_use_is_refused",
        "tests/process/test_serve.py::test_a_socket_that_a_killed_owner_left_stops_nobody",
        "tests/process/test_serve.py::test_of_two_servers_one_serves_and_the_other_names_it",
        "tests/turn/test_gateway.py::test_what_a_dead_owner_left_is_replaced_and_what_is_no_socket_is_not",
    ],
    "RS27": [
        "tests/contract/test_store_writer.py::test_damage_that_a_reader_found_stops_the_writer_too",
        "tests/process/test_cli_bad_input.py::test_doctor_finds_what_is_wrong_and_changes_nothing",
        "tests/process/test_cli_bad_input.py::test_store_that_is_damaged_is_refused_and_left_as_it_is",
        "tests/process/test_serve.py::test_a_damaged_store_ends_the_server_in_seconds_and_is_left_alone",
        "tests/process/test_serve.py::test_status_and_stop_without_an_owner_change_nothing",
        "tests/process/test_store_faults.py::test_a_damaged_page_is_refused_at_start_and_the_file_kept",
        "tests/process/test_store_faults.py::test_a_look_finds_damage_that_nobody_reads",
        "tests/process/test_store_faults.py::test_damage_found_while_running_stops_all_writes",
    ],
    "RS28": [
        "tests/process/test_store_faults.py::test_fifty_thousand_writes_go_on_while_a_reader_stays",
        "tests/process/test_store_faults.py::test_the_log_shrinks_once_a_foreign_reader_ends",
        "tests/process/test_store_faults.py::test_the_log_stays_small_while_much_is_written",
    ],
    "RS41": [
        "tests/process/test_cli_bad_input.py::test_message_that_cannot_be_sent_is_refused_before_anything_is_opened",
        "tests/process/test_questions_refused.py::test_a_name_that_could_be_an_argument_is_refused_before_a_start",
        "tests/unit/test_config_records.py::test_a_bad_value_names_its_key_what_was_found_and_what_is_allowed",
        "tests/unit/test_protocol.py::test_id_that_looks_like_an_option_or_holds_a_line_break_is_refused",
    ],
    "RS42": [
        "tests/process/test_workspace.py::test_a_cloned_repository_runs_nothing_and_its_agents_file_is_read",
        "tests/process/test_workspace.py::test_the_trap_snaps_where_a_bare_client_gives_a_sandbox_with_the_thread",
    ],
    "RS43": [
        "tests/process/test_questions_refused.py::test_commands_see_no_secret_of_ours_and_nothing_that_steers_programs",
        "tests/process/test_wire_process.py::test_real_binary_shakes_hands_answers_refuses_and_leaves_at_eof",
        "tests/unit/test_launch.py::test_only_named_variables_reach_the_child",
        "tests/unit/test_launch.py::test_override_that_steers_programs_or_holds_a_secret_is_refused",
    ],
    "RS48": [
        "tests/process/test_cli_bad_input.py::test_state_directory_that_is_not_safe_or_in_use_is_refused",
        "tests/process/test_log.py::test_a_log_file_that_is_a_link_is_refused",
        "tests/process/test_log.py::test_directory_and_files_are_private_whatever_the_umask",
        "tests/process/test_questions_refused.py::test_all_that_a_turn_leaves_behind_is_private_whatever_the_umask",
        "tests/process/test_state_dir.py::test_a_directory_of_somebody_else_is_refused",
        "tests/process/test_state_dir.py::test_a_directory_that_others_can_enter_is_refused_and_left_alone",
        "tests/process/test_state_dir.py::test_a_link_is_refused_and_names_its_target",
        "tests/process/test_state_dir.py::test_a_lock_file_that_is_a_link_is_refused",
        "tests/process/test_state_dir.py::test_all_that_is_made_is_private_whatever_the_umask",
        "tests/process/test_store_faults.py::test_files_are_private_whatever_the_umask",
    ],
    "RS51": [
        "tests/process/test_cli_codex.py::test_hostile_answer_is_shown_without_control_characters",
        "tests/process/test_log.py::test_texts_are_bounded_and_printable",
        "tests/unit/test_cli_output.py::test_clean_text_has_nothing_below_a_blank_but_line_feed_and_tab",
        "tests/unit/test_cli_output.py::test_foreign_text_reaches_the_terminal_without_control_characters",
        "tests/unit/test_text.py::test_hidden_characters_are_shown_as_escapes",
        "tests/unit/test_text.py::test_printable_text_has_no_control_character_but_tab_and_line_feed",
    ],
    "RS53": [
        "tests/unit/test_backup_manifest.py::test_no_path_leads_out_of_the_state_directory",
    ],
    "RS54": [
        "tests/unit/test_offline_answer.py::test_a_request_line_inside_the_request_does_not_move_the_request",
    ],
    "RS55": [
        "tests/process/test_cli_bad_input.py::test_codex_that_is_too_old_is_refused",
        "tests/process/test_wire_process.py::test_binary_replaced_while_the_gateway_runs_is_refused",
        "tests/process/test_wire_process.py::test_binary_that_is_old_nameless_or_broken_is_refused",
        "tests/process/test_wire_process.py::test_packaged_binary_is_verified_against_its_wheel_once",
        "tests/process/test_wire_process.py::test_packaged_binary_with_one_changed_byte_has_another_hash",
        "tests/unit/test_launch.py::test_binary_is_refused",
        "tests/unit/test_launch.py::test_link_into_the_workspace_is_followed_and_refused",
        "tests/unit/test_launch.py::test_version_floor_and_ceiling",
    ],
    "S-01": [
        "tests/turn/test_run_attempt_context_engine.py::test_no_failure_of_an_engine_costs_a_reply_and_the_same_engine_is_asked_again",
        "tests/unit/test_lifecycle.py::test_a_failure_is_one_warning_and_the_turn_goes_on",
    ],
    "S-02": [
        "tests/process/test_lifecycle_order.py::test_a_failing_assemble_gives_the_bare_prompt_on_the_same_thread",
        "tests/process/test_three_projections.py::test_ten_turns_under_a_failing_engine_lose_no_reply",
        "tests/process/test_turn_faults.py::test_an_engine_that_breaks_in_assemble_costs_its_context_not_the_reply",
        "tests/turn/test_public_reports.py::test_an_engine_that_always_fails_costs_no_reply_and_is_told_once_a_turn",
        "tests/turn/test_run_attempt_context_engine.py::test_no_failure_of_an_engine_costs_a_reply_and_the_same_engine_is_asked_again",
        "tests/turn/test_turn_log.py::test_a_fault_of_an_engine_is_told_without_its_secrets",
        "tests/turn/test_turn_log.py::test_content_that_is_nested_too_deep_costs_the_context_and_never_the_reply",
        "tests/unit/test_foreign.py::test_reason_text_shows_no_secret_and_never_raises",
        "tests/unit/test_lifecycle.py::test_a_failure_is_one_warning_and_the_turn_goes_on",
    ],
    "S-03": [
        "tests/turn/test_turn_log.py::test_a_failing_projection_sends_the_original_prompt_and_keeps_what_is_known",
        "tests/turn/test_turn_log.py::test_content_that_is_nested_too_deep_costs_the_context_and_never_the_reply",
    ],
    "S-04": [
        "tests/turn/test_mirror_faults.py::test_a_mirror_that_cannot_be_written_costs_no_reply",
        "tests/unit/test_lifecycle.py::test_fallback_data_is_handed_over_where_the_mirror_failed",
    ],
    "S-05": [
        "tests/process/test_three_projections.py::test_ten_turns_under_a_failing_engine_lose_no_reply",
        "tests/turn/test_run_attempt_context_engine.py::test_no_failure_of_an_engine_costs_a_reply_and_the_same_engine_is_asked_again",
        "tests/unit/test_lifecycle.py::test_a_failure_is_one_warning_and_the_turn_goes_on",
    ],
    "S-06": [
        "tests/turn/test_run_attempt_context_engine.py::test_no_failure_of_an_engine_costs_a_reply_and_the_same_engine_is_asked_again",
        "tests/unit/test_lifecycle.py::test_maintenance_that_throws_is_a_warning",
    ],
    "S-07": [
        "tests/turn/test_turn_hooks.py::test_a_native_compaction_is_told_to_hooks_and_watchers_and_the_turn_goes_on",
        "tests/turn/test_turn_outcomes.py::test_a_compaction_that_fails_in_a_turn_sends_nothing_again",
        "tests/turn/test_turn_outcomes.py::test_overflow_of_a_first_turn_fails_without_a_compaction_or_a_second_prompt",
    ],
    "S-08": [
        "tests/turn/test_turn_outcomes.py::test_overflow_of_a_first_turn_fails_without_a_compaction_or_a_second_prompt",
    ],
    "S-09": [
        "tests/process/test_inbox_kills.py::test_codex_killed_before_any_output_costs_one_more_try",
        "tests/process/test_turn_faults.py::test_a_turn_that_is_tried_again_on_a_fresh_thread_says_its_message_once",
        "tests/process/test_turn_faults.py::test_codex_that_dies_in_mid_turn_is_replaced_and_nothing_is_said_twice",
        "tests/process/test_unwritten_prompt.py::test_a_turn_that_codex_died_in_is_settled_without_its_prompt",
        "tests/turn/test_transient_turn.py::test_a_lost_start_of_a_transient_thread_is_tried_again",
        "tests/turn/test_transient_turn.py::test_a_transient_turn_that_is_lost_is_never_sent_again",
        "tests/turn/test_turn_outcomes.py::test_a_client_that_closes_in_mid_turn_is_named_and_replaced_only_if_nothing_was_done",
        "tests/unit/test_projection_items.py::test_open_items_and_words_forbid_a_replay",
        "tests/unit/test_projection_items.py::test_side_effects_and_replay",
    ],
    "S-10": [
        "tests/process/test_inbox_kills.py::test_output_of_a_turn_that_was_cut_off_stays_and_says_that_it_is_not_all",
        "tests/process/test_three_projections.py::test_a_failed_and_a_stopped_turn_are_handed_over_and_not_maintained",
        "tests/turn/test_turn_outcomes.py::test_partial_output_stays_and_a_time_limit_is_no_success",
    ],
    "S-11": [
        "tests/contract/test_children.py::test_a_child_is_kept_before_and_after_it_was_started",
        "tests/contract/test_children.py::test_a_closed_child_is_no_longer_open_and_keeps_its_first_reason",
        "tests/process/test_orphans.py::test_a_child_is_registered_marked_and_closed_with_what_it_left",
        "tests/process/test_orphans.py::test_a_run_beside_an_orphan_that_cannot_be_stopped_ends_with_its_exit_code",
        "tests/process/test_orphans.py::test_an_app_server_is_registered_before_it_is_spoken_to",
        "tests/process/test_orphans.py::test_an_app_server_whose_owner_is_gone_is_stopped_with_all_it_started",
        "tests/process/test_orphans.py::test_children_of_an_owner_that_lives_are_never_touched",
        "tests/process/test_orphans.py::test_commands_of_a_dead_app_server_are_found_by_their_marker",
        "tests/process/test_orphans.py::test_doctor_shows_what_is_registered_and_what_starts_have_closed",
        "tests/process/test_orphans.py::test_nothing_is_started_while_the_processes_cannot_be_looked_at",
        "tests/process/test_orphans.py::test_nothing_is_started_while_what_is_left_cannot_be_stopped_in_time",
        "tests/process/test_orphans.py::test_one_that_is_deaf_is_killed_and_a_stopped_one_is_not_continued",
        "tests/process/test_orphans.py::test_opening_treadle_stops_orphans_and_spares_decoys",
        "tests/process/test_orphans.py::test_rows_of_processes_that_are_gone_are_closed",
        "tests/process/test_orphans_codex.py::test_after_a_clean_end_no_command_runs_on",
        "tests/process/test_orphans_codex.py::test_every_command_bears_the_marker_and_the_model_is_told_nothing_of_it",
        "tests/unit/test_children_policy.py::test_a_row_gets_its_verdict",
        "tests/unit/test_children_policy.py::test_only_what_is_provably_of_a_row_without_an_owner_is_ever_a_target",
        "tests/unit/test_children_policy.py::test_what_a_living_owner_has_is_not_reached_through_anothers_tree",
        "tests/unit/test_children_policy.py::test_when_all_targets_have_ended_every_row_without_an_owner_is_closed",
        "tests/unit/test_children_policy.py::test_without_a_table_nobody_is_signalled",
    ],
    "S-12": [
        "tests/process/test_orphans.py::test_nothing_is_started_while_what_is_left_cannot_be_stopped_in_time",
        "tests/process/test_turn_faults.py::test_codex_that_never_answers_at_its_start_is_given_up",
        "tests/process/test_wire_process.py::test_end_is_seen_although_something_it_started_holds_its_pipes",
        "tests/turn/test_turn_outcomes.py::test_a_control_call_that_is_not_answered_ends_at_the_configured_time",
    ],
    "S-13": [
        "tests/turn/test_turn_outcomes.py::test_stopped_before_the_thread_is_loaded_nothing_is_subscribed",
        "tests/turn/test_turn_outcomes.py::test_stopped_while_the_thread_is_loaded_its_subscription_is_released",
    ],
    "S-15": [
        "tests/migration/test_older_state.py::test_a_session_of_an_older_store_goes_on_with_its_context",
        "tests/process/test_rebase.py::test_a_thread_that_cannot_go_on_is_replaced_and_nothing_is_lost",
        "tests/process/test_thread_taken.py::test_a_deleted_thread_is_replaced_at_the_next_turn_with_the_same_model",
        "tests/process/test_thread_taken.py::test_an_uncertain_turn_on_a_deleted_thread_is_not_sent_again",
        "tests/unit/test_codex_planning.py::test_a_forced_fresh_thread_without_an_engines_answer_carries_the_mirror",
    ],
    "T-01": [
        "tests/turn/test_turn_log.py::test_every_engine_event_names_its_ids_and_no_record_holds_a_text",
        "tests/unit/test_events.py::test_the_contracts_texts_are_the_messages_of_their_events",
        "tests/unit/test_lifecycle.py::test_events_name_ids_and_counts_and_never_texts",
    ],
    "T-02": [
        "tests/process/test_log.py::test_a_record_has_event_message_level_time_ids_and_fields",
        "tests/turn/test_turn_log.py::test_every_engine_event_names_its_ids_and_no_record_holds_a_text",
        "tests/unit/test_lifecycle.py::test_events_name_ids_and_counts_and_never_texts",
    ],
    "T-03": [
        "tests/process/test_log.py::test_texts_are_bounded_and_printable",
        "tests/turn/test_turn_log.py::test_a_fault_of_an_engine_is_told_without_its_secrets",
        "tests/turn/test_turn_log.py::test_every_engine_event_names_its_ids_and_no_record_holds_a_text",
        "tests/unit/test_lifecycle.py::test_events_name_ids_and_counts_and_never_texts",
    ],
    "T-04": [
        "tests/turn/test_turn_log.py::test_a_wish_without_an_epoch_is_a_warning_and_projects_per_turn",
        "tests/turn/test_turn_log.py::test_each_decision_of_a_bootstrap_turn_is_logged_once",
        "tests/turn/test_turn_log.py::test_the_lengths_of_quoted_context_are_logged",
    ],
    "T-05": [
        "tests/turn/test_turn_log.py::test_every_binding_that_is_written_says_what_became_of_the_thread",
    ],
    "T-06": [
        "tests/turn/test_turn_log.py::test_a_slow_thread_setup_is_one_warning_with_its_stages",
        "tests/turn/test_turn_log.py::test_stages_that_are_slow_only_together_are_a_warning",
    ],
    "T-08": [
        "tests/turn/test_turn_log.py::test_a_fault_of_an_engine_is_told_without_its_secrets",
        "tests/unit/test_foreign.py::test_reason_text_shows_no_secret_and_never_raises",
    ],
    "U-01": [
        "tests/contract/test_store_lives.py::test_a_reset_removes_the_binding_and_keeps_what_was_said",
        "tests/process/test_session_lives.py::test_after_a_reset_the_model_sees_nothing_of_what_was_said",
        "tests/turn/test_public_reports.py::test_a_reset_session_does_not_go_on_in_the_old_thread",
        "tests/turn/test_session_lives.py::test_after_a_reset_the_next_turn_starts_a_thread",
        "tests/turn/test_session_lives.py::test_the_thread_of_an_ended_generation_is_archived",
    ],
    "U-02": [
        "tests/turn/test_session_lives.py::test_an_engine_is_told_which_generation_is_over_and_which_one_follows",
    ],
    "U-03": [
        "tests/contract/test_store_lives.py::test_a_generation_that_is_over_takes_no_binding_and_no_entry",
        "tests/process/test_session_lives.py::test_after_a_reset_the_model_sees_nothing_of_what_was_said",
        "tests/turn/test_public_reports.py::test_a_reset_session_does_not_go_on_in_the_old_thread",
        "tests/turn/test_session_lives.py::test_after_a_reset_the_next_turn_starts_a_thread",
    ],
    "U-04": [
        "tests/contract/test_store_lives.py::test_a_cut_within_a_turn_is_refused_and_keeps_the_binding",
        "tests/contract/test_store_lives.py::test_a_rewind_keeps_exactly_what_stands_up_to_the_entry",
        "tests/process/test_session_lives.py::test_after_a_rewind_the_model_sees_exactly_what_was_kept",
    ],
    "U-05": [
        "tests/contract/test_store_lives.py::test_a_deleted_session_is_gone_from_lists_and_searches_and_its_key_is_free",
        "tests/contract/test_store_lives.py::test_a_deletion_that_fails_keeps_the_binding",
        "tests/contract/test_store_subagents.py::test_deleting_a_child_or_its_parent_ends_it",
    ],
    "U-06": [
        "tests/process/test_compact_native.py::test_without_a_marker_the_compacted_thread_goes_on",
        "tests/process/test_native_compaction.py::test_legacy_compacts_at_most_once_more_than_the_bare_client",
    ],
    "U-08": [
        "tests/turn/test_session_lives.py::test_an_engine_is_told_which_generation_is_over_and_which_one_follows",
        "tests/turn/test_subagents.py::test_a_deleted_child_and_those_of_a_deleted_parent_are_over",
    ],
    "V-01": [
        "tests/unit/test_config_records.py::test_without_any_setting_everything_has_the_contracts_default",
    ],
    "V-02": [
        "tests/unit/test_config_records.py::test_without_any_setting_everything_has_the_contracts_default",
    ],
    "V-03": [
        "tests/unit/test_config_records.py::test_without_any_setting_everything_has_the_contracts_default",
    ],
    "V-04": [
        "tests/unit/test_config_records.py::test_without_any_setting_everything_has_the_contracts_default",
    ],
    "V-05": [
        "tests/unit/test_config_records.py::test_a_value_is_read_as_what_it_means",
        "tests/unit/test_config_records.py::test_without_any_setting_everything_has_the_contracts_default",
    ],
    "V-06": [
        "tests/process/test_config_load.py::test_a_codex_home_is_the_agents_own_or_the_persons",
        "tests/process/test_workspace.py::test_the_persons_own_codex_home_is_neither_read_nor_written",
        "tests/unit/test_config_records.py::test_without_any_setting_everything_has_the_contracts_default",
    ],
    "V-07": [
        "tests/turn/test_public_reports.py::test_an_unattended_turn_is_not_held_up_by_a_question",
        "tests/unit/test_config_records.py::test_modes_and_overrides_come_to_one_set_of_permissions",
        "tests/unit/test_config_records.py::test_without_any_setting_everything_has_the_contracts_default",
    ],
    "V-08": [
        "tests/unit/test_config_records.py::test_modes_and_overrides_come_to_one_set_of_permissions",
        "tests/unit/test_config_records.py::test_without_any_setting_everything_has_the_contracts_default",
    ],
    "V-09": [
        "tests/process/test_config_load.py::test_deadlines_set_elsewhere_stand_in_the_one_record",
        "tests/turn/test_turn_outcomes.py::test_a_control_call_that_is_not_answered_ends_at_the_configured_time",
        "tests/unit/test_config_records.py::test_a_value_is_read_as_what_it_means",
        "tests/unit/test_config_records.py::test_without_any_setting_everything_has_the_contracts_default",
    ],
    "V-10": [
        "tests/unit/test_config_records.py::test_a_key_has_its_default_is_read_checked_and_shown",
        "tests/unit/test_config_records.py::test_without_any_setting_everything_has_the_contracts_default",
    ],
    "V-11": [
        "tests/unit/test_config_records.py::test_a_key_has_its_default_is_read_checked_and_shown",
        "tests/unit/test_config_records.py::test_without_any_setting_everything_has_the_contracts_default",
    ],
    "V-12": [
        "tests/unit/test_config_records.py::test_an_old_key_means_its_new_one_and_warns",
        "tests/unit/test_config_records.py::test_keys_of_later_versions_are_accepted_and_said_to_have_no_effect",
        "tests/unit/test_config_records.py::test_what_is_said_in_the_new_place_wins_over_the_old",
        "tests/unit/test_config_records.py::test_without_any_setting_everything_has_the_contracts_default",
    ],
    "V-13": [
        "tests/unit/test_config_records.py::test_keys_of_later_versions_are_accepted_and_said_to_have_no_effect",
        "tests/unit/test_config_records.py::test_without_any_setting_everything_has_the_contracts_default",
    ],
    "V-14": [
        "tests/unit/test_config_records.py::test_a_key_has_its_default_is_read_checked_and_shown",
        "tests/unit/test_config_records.py::test_without_any_setting_everything_has_the_contracts_default",
    ],
    "V-15": [
        "tests/turn/test_compact_native.py::test_a_compaction_that_ends_after_its_interrupt_is_not_completed",
        "tests/turn/test_long_contexts.py::test_the_configured_reserve_decides_how_much_context_is_quoted",
        "tests/unit/test_config_records.py::test_a_key_has_its_default_is_read_checked_and_shown",
        "tests/unit/test_config_records.py::test_without_any_setting_everything_has_the_contracts_default",
    ],
    "V-16": [
        "tests/unit/test_config_records.py::test_without_any_setting_everything_has_the_contracts_default",
    ],
    "V-17": [
        "tests/unit/test_config_records.py::test_without_any_setting_everything_has_the_contracts_default",
    ],
    "V-18": [
        "tests/process/test_config_load.py::test_old_variables_work_with_a_warning_and_lose_against_new_ones",
        "tests/unit/test_config_records.py::test_without_any_setting_everything_has_the_contracts_default",
    ],
    "V-19": [
        "tests/unit/test_config_records.py::test_a_key_has_its_default_is_read_checked_and_shown",
        "tests/unit/test_config_records.py::test_without_any_setting_everything_has_the_contracts_default",
    ],
    "V-30": [
        "tests/process/test_config_load.py::test_old_variables_work_with_a_warning_and_lose_against_new_ones",
        "tests/unit/test_config_records.py::test_an_old_key_means_its_new_one_and_warns",
    ],
    "V-31": [
        "tests/turn/test_thread_rotation.py::test_a_codex_model_reference_names_the_model_and_no_provider",
        "tests/unit/test_config_records.py::test_an_old_key_means_its_new_one_and_warns",
    ],
    "V-32": [
        "tests/unit/test_config_records.py::test_keys_of_later_versions_are_accepted_and_said_to_have_no_effect",
    ],
    "V-33": [
        "tests/unit/test_config_records.py::test_an_old_key_means_its_new_one_and_warns",
    ],
    "W-01": [
        "tests/process/test_three_projections.py::test_a_failed_and_a_stopped_turn_are_handed_over_and_not_maintained",
        "tests/process/test_three_projections.py::test_an_engine_is_asked_in_order_and_its_context_precedes_the_request",
        "tests/turn/test_run_attempt_context_engine.py::test_a_bad_turn_is_handed_over_and_neither_maintained_nor_committed",
        "tests/turn/test_run_attempt_context_engine.py::test_an_engine_is_asked_in_order_with_what_each_call_is_due",
        "tests/turn/test_run_attempt_context_engine.py::test_an_engine_of_the_documents_alone_is_served_on_every_turn",
        "tests/turn/test_run_attempt_context_engine.py::test_the_addition_stands_in_the_instructions_and_the_context_before_the_request",
    ],
    "W-02": [
        "tests/process/test_three_projections.py::test_an_engine_is_asked_in_order_and_its_context_precedes_the_request",
        "tests/turn/test_run_attempt_context_engine.py::test_the_addition_stands_in_the_instructions_and_the_context_before_the_request",
        "tests/unit/test_context_engine_projection.py::test_a_repeated_prompt_stands_once_in_either_carrier",
        "tests/unit/test_context_engine_projection.py::test_an_empty_history_is_the_bare_prompt",
        "tests/unit/test_context_engine_projection.py::test_roles_keep_their_order_and_their_names",
        "tests/unit/test_context_engine_projection.py::test_the_addition_stands_in_the_instructions_alone_and_last",
        "tests/unit/test_context_engine_projection.py::test_the_same_inputs_give_the_same_bytes",
    ],
    "W-04": [
        "tests/process/test_three_projections.py::test_an_engine_is_asked_in_order_and_its_context_precedes_the_request",
        "tests/turn/test_run_attempt_context_engine.py::test_an_engine_is_asked_in_order_with_what_each_call_is_due",
    ],
    "W-06": [
        "tests/process/test_three_projections.py::test_a_failed_and_a_stopped_turn_are_handed_over_and_not_maintained",
        "tests/process/test_three_projections.py::test_an_engine_is_asked_in_order_and_its_context_precedes_the_request",
        "tests/process/test_three_projections.py::test_an_engine_of_the_documents_alone_is_given_each_message_once",
        "tests/process/test_three_projections.py::test_without_an_engine_nothing_changes_whatever_the_projection",
        "tests/turn/test_run_attempt_context_engine.py::test_a_bad_turn_is_handed_over_and_neither_maintained_nor_committed",
        "tests/turn/test_run_attempt_context_engine.py::test_no_failure_of_an_engine_costs_a_reply_and_the_same_engine_is_asked_again",
        "tests/turn/test_run_attempt_context_engine.py::test_the_addition_stands_in_the_instructions_and_the_context_before_the_request",
    ],
    "W-07": [
        "tests/process/test_switching.py::test_the_engines_context_reaches_the_request_of_every_kind_of_model",
        "tests/process/test_three_projections.py::test_a_failed_and_a_stopped_turn_are_handed_over_and_not_maintained",
        "tests/process/test_three_projections.py::test_an_engine_is_asked_in_order_and_its_context_precedes_the_request",
        "tests/process/test_three_projections.py::test_an_engine_of_the_documents_alone_is_given_each_message_once",
        "tests/turn/test_run_attempt_context_engine.py::test_an_engine_is_asked_in_order_with_what_each_call_is_due",
        "tests/turn/test_run_attempt_context_engine.py::test_the_addition_stands_in_the_instructions_and_the_context_before_the_request",
        "tests/unit/test_context_engine_projection.py::test_a_repeated_prompt_stands_once_in_either_carrier",
        "tests/unit/test_context_engine_projection.py::test_an_empty_history_is_the_bare_prompt",
        "tests/unit/test_context_engine_projection.py::test_roles_keep_their_order_and_their_names",
        "tests/unit/test_context_engine_projection.py::test_the_same_inputs_give_the_same_bytes",
    ],
    "W-08": [
        "tests/turn/test_run_attempt_context_engine.py::test_an_engine_is_asked_in_order_with_what_each_call_is_due",
    ],
    "W-09": [
        "tests/unit/test_boundaries.py::test_nothing_needs_the_lossless_engine",
        "tests/unit/test_ownership.py::test_no_core_module_needs_the_lossless_engine",
    ],
}
# end: written by scripts/requirements.py

DURABLE = "3 of 6: durable turns and sessions"
COMPACTION = "4 of 6: two compactions, the embedded harness, the engine conformance kit"
TOOLS = "5 of 6: tools, hooks, approvals and questions"
QUEUE = "later: queue modes"
SUPERVISION = "later: supervision of native threads and their safe continuation"
REPLIES = "later: visible replies and heartbeats"
MEDIA = "later: media"
DIAGNOSTICS = "later: diagnostics and feedback"
NETWORK = "later: the gateway over the network and its page"
PROFILES = "later: several accounts and their usage limits"
TRAJECTORY = "later: trajectories of requests and notifications"


def span(prefix: str, first: int, last: int) -> list[str]:
    """List the ids from `first` to `last`: `span("D-", 1, 3)` is D-01, D-02, D-03."""
    return [f"{prefix}{number:02d}" for number in range(first, last + 1)]


def with_reason(reason: str, *groups: list[str]) -> dict[str, str]:
    """Give every id of the groups the same reason."""
    return {case: reason for group in groups for case in group}


# Later lines win: an area first, then the ids of it that another part brings.
OUT_OF_SCOPE: dict[str, str] = {
    **with_reason(COMPACTION, span("A-", 1, 13), ["A-26", "A-28", "A-30"]),
    **with_reason(TOOLS, ["A-25"]),
    **with_reason(COMPACTION, ["B-17", "B-18", "B-26"]),
    **with_reason(DURABLE, span("B-", 34, 39)),
    **with_reason(TOOLS, ["E-01", "E-16"], span("E-", 3, 14)),
    **with_reason(TOOLS, ["F-16"]),
    **with_reason(SUPERVISION, ["F-05", "F-21", "F-22", "F-23"]),
    **with_reason(COMPACTION, span("I-", 15, 20)),
    **with_reason(DURABLE, ["I-21"]),
    **with_reason(COMPACTION, span("J-", 1, 40)),
    **with_reason(QUEUE, ["J-36"]),
    **with_reason(TOOLS, span("K-", 1, 21), span("L-", 1, 27), span("M-", 1, 47)),
    "K-06": "not built: the embedded harness has no shell or file tools of its own",
    **with_reason("not built: app-bound and picker elicitations", ["M-33", "M-38"]),
    **with_reason(QUEUE, span("N-", 1, 18)),
    **with_reason(SUPERVISION, span("O-", 1, 25)),
    **with_reason(REPLIES, span("P-", 1, 12)),
    **with_reason(MEDIA, span("Q-", 1, 7)),
    **with_reason(DIAGNOSTICS, span("R-", 1, 7)),
    **with_reason(PROFILES, ["S-14"]),
    **with_reason(COMPACTION, ["T-01", "T-07"]),
    **with_reason(TRAJECTORY, ["T-09"]),
    **with_reason(COMPACTION, ["U-08"]),
    **with_reason(SUPERVISION, ["U-07"]),
    **with_reason(COMPACTION, ["V-15"]),
    **with_reason(TOOLS, ["V-03", "V-04", "V-07", "V-08", "V-10", "V-11"]),
    **with_reason(SUPERVISION, ["V-12"]),
    **with_reason(QUEUE, ["V-13", "V-14"]),
    **with_reason(MEDIA, ["V-32"]),
    **with_reason(COMPACTION, ["W-03", "W-05", "W-06", "W-08"]),
    **with_reason(DURABLE, span("RS", 1, 7), span("RS", 9, 11), ["RS13", "RS14", "RS16", "RS17"]),
    **with_reason(DURABLE, ["RS24"]),
    **with_reason(TOOLS, span("RS", 18, 23), span("RS", 41, 43), span("RS", 49, 51), ["RS54"]),
    **with_reason(REPLIES, ["RS15"]),
    **with_reason(NETWORK, span("RS", 29, 40), ["RS47", "RS52", "RS53"]),
    **with_reason(DIAGNOSTICS, span("RS", 44, 46)),
}
