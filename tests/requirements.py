"""Which tests stand for which id of the contract, and which ids are not (or not wholly) served yet.

`contract_ids.txt` lists the ids: cases `A-01` to `W-09` of the contract, `RS01` to `RS55` of the
reliability and security cases. `REQUIREMENTS` is written by `scripts/requirements` from the tests'
docstrings. `OUT_OF_SCOPE` is kept by hand; an id of which a later part brings the rest stands in
both. `tests/unit/test_requirements.py` holds the two against the list and against the tests.
"""

from __future__ import annotations

# begin: written by scripts/requirements.py
REQUIREMENTS: dict[str, list[str]] = {
    "A-04": [
        "tests/unit/test_config_records.py::test_a_whole_agent_runtime_is_the_last_resort",
    ],
    "A-05": [
        "tests/unit/test_config_records.py::test_a_whole_agent_runtime_is_the_last_resort",
    ],
    "A-06": [
        "tests/unit/test_config_records.py::test_an_old_key_means_its_new_one_and_warns",
    ],
    "A-15": [
        "tests/unit/test_config_records.py::test_lanes_are_at_least_eight_and_four_per_processor",
    ],
    "A-17": [
        "tests/process/test_config_load.py::test_deadlines_set_elsewhere_stand_in_the_one_record",
        "tests/unit/test_config_records.py::test_a_value_is_read_as_what_it_means",
        "tests/unit/test_config_records.py::test_without_any_setting_everything_has_the_contracts_default",
    ],
    "A-18": [
        "tests/unit/test_turn_machine.py::test_each_row_of_the_turn_table_holds",
    ],
    "A-19": [
        "tests/unit/test_turn_machine.py::test_each_row_of_the_turn_table_holds",
    ],
    "D-02": [
        "tests/unit/test_offline_answer.py::test_a_quoted_context_is_context_and_not_the_request",
    ],
    "D-04": [
        "tests/unit/test_offline_answer.py::test_a_quoted_context_is_context_and_not_the_request",
    ],
    "D-21": [
        "tests/unit/test_text.py::test_a_value_that_contains_itself_or_is_too_deep_is_cut",
        "tests/unit/test_text.py::test_values_are_redacted_by_field_name_and_by_shape",
    ],
    "D-23": [
        "tests/unit/test_text.py::test_a_token_is_redacted_wherever_it_stands",
    ],
    "D-41": [
        "tests/unit/test_turn_machine.py::test_a_second_overflow_fails",
        "tests/unit/test_turn_machine.py::test_each_row_of_the_turn_table_holds",
    ],
    "F-27": [
        "tests/unit/test_protocol.py::test_every_request_has_a_deadline_and_nothing_read_is_opted_out",
    ],
    "G-08": [
        "tests/unit/test_protocol.py::test_item_has_its_name_status_and_kind",
    ],
    "G-09": [
        "tests/unit/test_protocol.py::test_item_has_its_name_status_and_kind",
    ],
    "G-10": [
        "tests/unit/test_protocol.py::test_audit_takes_no_odd_or_missing_status_for_success",
        "tests/unit/test_protocol.py::test_item_has_its_name_status_and_kind",
    ],
    "G-16": [
        "tests/unit/test_turn_machine.py::test_each_row_of_the_turn_table_holds",
    ],
    "J-10": [
        "tests/process/test_config_load.py::test_deadlines_set_elsewhere_stand_in_the_one_record",
        "tests/unit/test_config_records.py::test_without_any_setting_everything_has_the_contracts_default",
    ],
    "L-02": [
        "tests/unit/test_config_records.py::test_a_hooks_deadline_is_its_own_then_the_common_then_the_plugins",
    ],
    "N-01": [
        "tests/unit/test_config_records.py::test_without_any_setting_everything_has_the_contracts_default",
    ],
    "RS12": [
        "tests/unit/test_rpc.py::test_lone_surrogates_are_replaced_and_all_else_is_kept",
        "tests/unit/test_rpc.py::test_what_is_written_is_one_line_of_valid_json",
        "tests/unit/test_text.py::test_pairs_are_joined_and_lone_surrogates_and_nul_are_replaced",
        "tests/unit/test_text.py::test_valid_text_is_encodable_and_a_fixed_point",
        "tests/unit/test_tokens.py::test_lone_surrogates_are_counted_as_the_replacement_character",
    ],
    "RS16": [
        "tests/unit/test_rpc.py::test_stream_cut_anywhere_gives_the_same_events",
    ],
    "RS41": [
        "tests/unit/test_config_records.py::test_a_bad_value_names_its_key_what_was_found_and_what_is_allowed",
        "tests/unit/test_protocol.py::test_id_that_looks_like_an_option_or_holds_a_line_break_is_refused",
    ],
    "RS48": [
        "tests/process/test_log.py::test_a_log_file_that_is_a_link_is_refused",
        "tests/process/test_log.py::test_directory_and_files_are_private_whatever_the_umask",
        "tests/process/test_state_dir.py::test_a_directory_of_somebody_else_is_refused",
        "tests/process/test_state_dir.py::test_a_directory_that_others_can_enter_is_refused_and_left_alone",
        "tests/process/test_state_dir.py::test_a_link_below_the_directory_is_refused",
        "tests/process/test_state_dir.py::test_a_link_is_refused_and_names_its_target",
        "tests/process/test_state_dir.py::test_a_lock_file_that_is_a_link_is_refused",
        "tests/process/test_state_dir.py::test_all_that_is_made_is_private_whatever_the_umask",
    ],
    "RS51": [
        "tests/process/test_log.py::test_texts_are_bounded_and_printable",
        "tests/unit/test_text.py::test_hidden_characters_are_shown_as_escapes",
        "tests/unit/test_text.py::test_printable_text_has_no_control_character_but_tab_and_line_feed",
    ],
    "RS54": [
        "tests/unit/test_offline_answer.py::test_a_request_line_inside_the_request_does_not_move_the_request",
    ],
    "S-02": [
        "tests/unit/test_foreign.py::test_reason_text_shows_no_secret_and_never_raises",
    ],
    "T-01": [
        "tests/unit/test_events.py::test_the_contracts_texts_are_the_messages_of_their_events",
    ],
    "T-02": [
        "tests/process/test_log.py::test_a_record_has_event_message_level_time_ids_and_fields",
    ],
    "T-03": [
        "tests/process/test_log.py::test_texts_are_bounded_and_printable",
    ],
    "T-08": [
        "tests/unit/test_foreign.py::test_reason_text_shows_no_secret_and_never_raises",
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
        "tests/unit/test_config_records.py::test_without_any_setting_everything_has_the_contracts_default",
    ],
    "V-07": [
        "tests/unit/test_config_records.py::test_modes_and_overrides_come_to_one_set_of_permissions",
        "tests/unit/test_config_records.py::test_without_any_setting_everything_has_the_contracts_default",
    ],
    "V-08": [
        "tests/unit/test_config_records.py::test_modes_and_overrides_come_to_one_set_of_permissions",
        "tests/unit/test_config_records.py::test_without_any_setting_everything_has_the_contracts_default",
    ],
    "V-09": [
        "tests/process/test_config_load.py::test_deadlines_set_elsewhere_stand_in_the_one_record",
        "tests/unit/test_config_records.py::test_a_value_is_read_as_what_it_means",
        "tests/unit/test_config_records.py::test_without_any_setting_everything_has_the_contracts_default",
    ],
    "V-10": [
        "tests/unit/test_config_records.py::test_without_any_setting_everything_has_the_contracts_default",
    ],
    "V-11": [
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
        "tests/unit/test_config_records.py::test_without_any_setting_everything_has_the_contracts_default",
    ],
    "V-15": [
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
        "tests/unit/test_config_records.py::test_without_any_setting_everything_has_the_contracts_default",
    ],
    "V-30": [
        "tests/process/test_config_load.py::test_old_variables_work_with_a_warning_and_lose_against_new_ones",
        "tests/unit/test_config_records.py::test_an_old_key_means_its_new_one_and_warns",
    ],
    "V-32": [
        "tests/unit/test_config_records.py::test_keys_of_later_versions_are_accepted_and_said_to_have_no_effect",
    ],
    "V-33": [
        "tests/unit/test_config_records.py::test_an_old_key_means_its_new_one_and_warns",
    ],
}
# end: written by scripts/requirements.py

CODEX_TURN = "2 of 6: the Codex turn, case by case"
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
    **with_reason(CODEX_TURN, span("A-", 14, 30)),
    **with_reason(COMPACTION, span("A-", 1, 13), ["A-26", "A-28", "A-30"]),
    **with_reason(DURABLE, ["A-19"]),
    **with_reason(TOOLS, ["A-25"]),
    **with_reason(CODEX_TURN, span("B-", 1, 33), span("B-", 40, 48)),
    **with_reason(COMPACTION, ["B-17", "B-18"]),
    **with_reason(DURABLE, ["B-20", "B-21"], span("B-", 34, 39)),
    **with_reason(CODEX_TURN, span("C-", 1, 16)),
    **with_reason(CODEX_TURN, ["D-01"], span("D-", 3, 50)),
    **with_reason(TOOLS, ["E-01", "E-16"], span("E-", 3, 14)),
    **with_reason(CODEX_TURN, span("F-", 1, 28)),
    **with_reason(TOOLS, ["F-16"]),
    **with_reason(SUPERVISION, ["F-05", "F-22", "F-23"]),
    **with_reason(CODEX_TURN, span("G-", 1, 28), span("H-", 1, 17), span("I-", 1, 22)),
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
    **with_reason(CODEX_TURN, span("S-", 1, 10), ["S-12", "S-13"]),
    **with_reason(DURABLE, ["S-11", "S-15"]),
    **with_reason(PROFILES, ["S-14"]),
    **with_reason(CODEX_TURN, span("T-", 1, 8)),
    **with_reason(COMPACTION, ["T-01", "T-07"]),
    **with_reason(TRAJECTORY, ["T-09"]),
    **with_reason(DURABLE, span("U-", 1, 8)),
    **with_reason(SUPERVISION, ["U-07"]),
    **with_reason(CODEX_TURN, span("V-", 1, 19), span("V-", 30, 33)),
    **with_reason(COMPACTION, ["V-15"]),
    **with_reason(TOOLS, ["V-03", "V-04", "V-07", "V-08", "V-10", "V-11"]),
    **with_reason(SUPERVISION, ["V-12"]),
    **with_reason(QUEUE, ["V-13", "V-14"]),
    **with_reason(MEDIA, ["V-32"]),
    **with_reason(CODEX_TURN, span("W-", 1, 9)),
    **with_reason(COMPACTION, ["W-03", "W-05", "W-06", "W-08"]),
    **with_reason(DURABLE, span("RS", 1, 7), span("RS", 9, 11), ["RS13", "RS14", "RS16", "RS17"]),
    **with_reason(DURABLE, span("RS", 24, 28)),
    **with_reason(TOOLS, span("RS", 18, 23), span("RS", 41, 43), span("RS", 49, 51), ["RS54"]),
    **with_reason(REPLIES, ["RS15"]),
    **with_reason(NETWORK, span("RS", 29, 40), ["RS47", "RS52", "RS53"]),
    **with_reason(DIAGNOSTICS, span("RS", 44, 46)),
}
