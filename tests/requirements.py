"""Which tests stand for which id of the contract, and which ids are not (or not wholly) served yet.

`contract_ids.txt` lists the ids: cases `A-01` to `W-09` of the contract, `RS01` to `RS55` of the
reliability and security cases. `REQUIREMENTS` is written by `scripts/requirements` from the tests'
docstrings. `OUT_OF_SCOPE` is kept by hand; an id of which a later part brings the rest stands in
both. `tests/unit/test_requirements.py` holds the two against the list and against the tests.
"""

from __future__ import annotations

# begin: written by scripts/requirements.py
REQUIREMENTS: dict[str, list[str]] = {
    "A-18": [
        "tests/unit/test_turn_machine.py::test_each_row_of_the_turn_table_holds",
    ],
    "A-19": [
        "tests/unit/test_turn_machine.py::test_each_row_of_the_turn_table_holds",
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
    "G-16": [
        "tests/unit/test_turn_machine.py::test_each_row_of_the_turn_table_holds",
    ],
    "RS12": [
        "tests/unit/test_text.py::test_pairs_are_joined_and_lone_surrogates_and_nul_are_replaced",
        "tests/unit/test_text.py::test_valid_text_is_encodable_and_a_fixed_point",
        "tests/unit/test_tokens.py::test_lone_surrogates_are_counted_as_the_replacement_character",
    ],
    "RS48": [
        "tests/process/test_log.py::test_a_log_file_that_is_a_link_is_refused",
        "tests/process/test_log.py::test_directory_and_files_are_private_whatever_the_umask",
    ],
    "RS51": [
        "tests/process/test_log.py::test_texts_are_bounded_and_printable",
        "tests/unit/test_text.py::test_hidden_characters_are_shown_as_escapes",
        "tests/unit/test_text.py::test_printable_text_has_no_control_character_but_tab_and_line_feed",
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
