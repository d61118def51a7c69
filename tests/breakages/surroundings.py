"""Changes in what stands round a turn: selection, settings, secrets, files (spec A, V; INV, RS)."""

from __future__ import annotations

from typing import Final

from tests.breakages.breakage import Breakage

_SELECTION: Final = "tests/unit/test_selection.py"
_RECORDS: Final = "tests/unit/test_config_records.py"
_LOAD: Final = "tests/process/test_config_load.py"
_TEXT: Final = "tests/unit/test_text.py"
_LAUNCH: Final = "tests/unit/test_launch.py"
_POWER_CUT: Final = "tests/process/test_power_cut_store.py"

SURROUNDINGS: Final = (
    Breakage(
        "run-what-a-named-runtime-does-not-support",
        "A-07",
        "harness/selection.py",
        "if not support.supported:",
        "if support is None:",
        (f"{_SELECTION}::test_a_named_runtime_that_does_not_support_the_route_fails_the_run",),
    ),
    Breakage(
        "fall-back-to-a-runtime-that-cannot",
        "A-10",
        "harness/selection.py",
        "if support.fallback_runtime == BUILT_IN and _built_in_runs(by_id, query):",
        "if support.fallback_runtime == BUILT_IN:",
        (f"{_SELECTION}::test_a_refusal_stands_where_nobody_can_take_over",),
    ),
    Breakage(
        "let-a-key-do-nothing-in-silence",
        "V-14",
        "config/tables.py",
        "if not about.in_effect:",
        "if about.in_effect is None:",
        (f"{_RECORDS}::test_a_key_has_its_default_is_read_checked_and_shown",),
    ),
    Breakage(
        "quote-without-the-configured-reserve",
        "V-15",
        "harness/codex/prepare.py",
        "reserve_tokens_from(compaction.reserve_tokens, compaction.reserve_tokens_floor)",
        "reserve_tokens_from(None, None)",
        (
            "tests/turn/test_long_contexts.py"
            "::test_the_configured_reserve_decides_how_much_context_is_quoted",
        ),
    ),
    Breakage(
        "forget-what-codex-models-mean",
        "A-06",
        "harness/selection.py",
        '("model-reference", CODEX if model.provider == CODEX_PREFIX else None),',
        '("model-reference", None),',
        (f"{_SELECTION}::test_selection",),
    ),
    Breakage(
        "claim-a-route-that-is-not-https",
        "A-11",
        "harness/selection.py",
        'parts.scheme == "https"',
        'parts.scheme in {"http", "https"}',
        (f"{_SELECTION}::test_official_routes",),
    ),
    Breakage(
        "choose-an-engine-nobody-chose",
        "V-01",
        "config/records.py",
        'ID, "legacy", "The context engine;',
        'ID, "window", "The context engine;',
        (f"{_RECORDS}::test_without_any_setting_everything_has_the_contracts_default",),
    ),
    Breakage(
        "ignore-an-old-variable",
        "V-18",
        "config/migrate.py",
        '    "OPENCLAW_CODEX_APP_SERVER_BIN": (*APP_SERVER, "command"),\n',
        "",
        (f"{_LOAD}::test_old_variables_work_with_a_warning_and_lose_against_new_ones",),
    ),
    Breakage(
        "take-pi-for-a-runtime-of-its-own",
        "V-30",
        "config/records.py",
        '{"pi": "openclaw"}',
        "{}",
        (f"{_RECORDS}::test_an_old_key_means_its_new_one_and_warns",),
    ),
    Breakage(
        "keep-lone-surrogates",
        "RS12",
        "model/text.py",
        "return _SURROGATES_AND_NUL.sub(_valid_character, text)",
        "return text",
        (f"{_TEXT}::test_pairs_are_joined_and_lone_surrogates_and_nul_are_replaced",),
    ),
    Breakage(
        "show-what-stands-under-a-secret-name",
        "D-21",
        "model/text.py",
        "return REDACTED if secret and value else self.redact(value)",
        "return self.redact(value)",
        (f"{_TEXT}::test_values_are_redacted_by_field_name_and_by_shape",),
    ),
    Breakage(
        "show-watchers-the-arguments",
        "INV-22",
        "projection/tool_items.py",
        'return {"arguments": redact_value(item.arguments), **_measures(item)}',
        'return {"arguments": item.arguments, **_measures(item)}',
        ("tests/unit/test_projection_items.py::test_arguments_shown_to_watchers_are_redacted",),
    ),
    Breakage(
        "open-a-state-directory-that-others-can-enter",
        "RS48",
        "config/state_dir.py",
        "if mode & 0o077:",
        "if mode & 0o007:",
        (
            "tests/process/test_state_dir.py"
            "::test_a_directory_that_others_can_enter_is_refused_and_left_alone",
        ),
    ),
    Breakage(
        "pass-the-whole-environment-on",
        "RS43",
        "wire/environment.py",
        'return name in _PASSED or name.startswith("LC_")',
        "return bool(name)",
        (f"{_LAUNCH}::test_only_named_variables_reach_the_child",),
    ),
    Breakage(
        "run-two-turns-of-a-session-at-once",
        "A-14",
        "queue/lanes.py",
        "async with lane.lock:",
        "if True:",
        ("tests/turn/test_lanes.py::test_runs_of_one_session_take_turns_in_the_order_of_asking",),
    ),
    Breakage(
        "allow-fewer-runs-than-promised",
        "A-15",
        "queue/lanes.py",
        "return max(8, ",
        "return max(4, ",
        ("tests/turn/test_lanes.py::test_the_usual_cap_follows_the_processors",),
    ),
    Breakage(
        "need-the-lossless-engine",
        "W-09",
        "engines/registry.py",
        "import difflib\n",
        "import difflib\n\nif not __debug__:\n    import treadle.engines.lossless\n",
        ("tests/unit/test_boundaries.py::test_nothing_needs_the_lossless_engine",),
    ),
    Breakage(
        "confirm-what-the-disk-does-not-have",
        "INV-5",
        "store/sqlite.py",
        'wanted: Synchronous = self._durably if durable else "NORMAL"',
        'wanted: Synchronous = "NORMAL"',
        (f"{_POWER_CUT}::test_what_was_confirmed_survives_every_power_cut",),
    ),
)
