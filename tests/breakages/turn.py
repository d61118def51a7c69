"""Changes in what becomes of a turn: its events, its entries, its end (spec A-18, F, G, H, S)."""

from __future__ import annotations

from typing import Final

from tests.breakages.breakage import Breakage

_EVENTS: Final = "tests/unit/test_projection_items.py"
_ENTRIES: Final = "tests/unit/test_projection_snapshot.py"
_STORE: Final = "tests/contract/test_store.py"
_TOOLS: Final = "tests/unit/test_tools.py"
_MACHINE: Final = "tests/unit/test_turn_machine.py"
_THREADS: Final = "tests/turn/test_thread_fields.py"
_QUESTIONS: Final = "tests/unit/test_interaction.py"
_MIRROR: Final = "tests/turn/test_turn_mirror.py"
_TRANSIENT: Final = "tests/turn/test_transient_turn.py"
_PLANNING: Final = "tests/unit/test_codex_planning.py"

TURN: Final = (
    Breakage(
        "end-on-another-turns-completion",
        "A-18",
        "harness/codex/machine.py",
        "ours = event.thread_id == state.thread_id and event.turn_id == state.turn_id",
        "ours = event.thread_id == state.thread_id",
        (f"{_MACHINE}::test_each_row_of_the_turn_table_holds",),
    ),
    Breakage(
        "tell-an-engine-nothing-of-an-answer-that-is-written-late",
        "A-19",
        "harness/codex/finish.py",
        "mirrored = _unwritten(record)",
        "mirrored = replace(mirrored)",
        (
            "tests/process/test_settlement.py"
            "::test_a_whole_answer_outlives_its_settlement_and_is_written_by_the_next_run",
        ),
    ),
    Breakage(
        "retry-an-overflow-for-ever",
        "D-41",
        "harness/codex/machine.py",
        "state.resumed and not state.retried_fresh and not state.cancelled",
        "not state.cancelled",
        (f"{_MACHINE}::test_each_row_of_the_turn_table_holds",),
    ),
    Breakage(
        "hash-descriptions-of-tools",
        "F-12",
        "tools/specs.py",
        'if name != "description"',
        'if name != "no description"',
        (f"{_TOOLS}::test_order_of_tools_and_keys_and_descriptions_do_not_matter",),
    ),
    Breakage(
        "keep-a-thread-with-other-tools",
        "F-13",
        "harness/codex/planning.py",
        "return stored is None or stored == given.tool_fingerprint",
        "return True",
        (f"{_PLANNING}::test_changed_tools_need_another_thread_and_lose_nothing",),
    ),
    Breakage(
        "overwrite-a-newer-binding",
        "F-17",
        "store/threads.py",
        "if binding.revision != stored:",
        "if binding.revision > stored:",
        (f"{_STORE}::test_a_binding_is_stored_under_its_revision_only",),
    ),
    Breakage(
        "leave-native-tools-on-a-transient-thread",
        "D-39",
        "harness/codex/opening.py",
        "native_tools=not transient,",
        "native_tools=True,",
        (f"{_TRANSIENT}::test_codex_is_asked_for_a_thread_in_memory_and_left_it_afterwards",),
    ),
    Breakage(
        "hold-in-the-sessions-thread-what-a-transient-one-was-told",
        "D-39",
        "harness/codex/finish.py",
        "held_by=None if record.opened.transient else binding.thread_id,",
        "held_by=(record.opened.kept or binding).thread_id,",
        (f"{_TRANSIENT}::test_stopped_in_mid_turn_what_was_said_is_told_to_the_sessions_thread",),
    ),
    Breakage(
        "send-a-lost-transient-turn-again",
        "D-39",
        "harness/codex/attempt.py",
        "self._is_beyond_proof = opened.transient",
        "self._is_beyond_proof = False",
        (f"{_TRANSIENT}::test_a_transient_turn_that_is_lost_is_never_sent_again",),
    ),
    Breakage(
        "mirror-a-prompt-that-nobody-is-to-keep",
        "H-10",
        "harness/codex/mirror.py",
        "if not params.persist_prompt:",
        "if params.persist_prompt is None:",
        (f"{_MIRROR}::test_a_prompt_that_is_not_to_be_kept_is_not_mirrored_when_its_turn_starts",),
    ),
    Breakage(
        "forget-that-a-thread-has-an-unwritten-prompt",
        "H-10",
        "harness/codex/finish.py",
        "held_unwritten=unwritten_of(binding.open_turn),",
        "held_unwritten=(),",
        (f"{_MIRROR}::test_a_prompt_that_is_not_to_be_kept_is_not_mirrored_when_its_turn_starts",),
    ),
    Breakage(
        "accept-a-codex-that-is-too-old",
        "F-26",
        "wire/binary.py",
        "if version < FLOOR:",
        "if version < (0, 1, 0):",
        ("tests/turn/test_wire_client.py::test_old_or_nameless_version_is_refused",),
    ),
    Breakage(
        "listen-to-other-turns",
        "G-02",
        "projection/items.py",
        "return named == self._turn_id or (named is None and method in _THREAD_WIDE)",
        "return named is not None or method in _THREAD_WIDE",
        (f"{_EVENTS}::test_other_threads_and_turns_are_ignored",),
    ),
    Breakage(
        "append-a-completed-text-to-what-was-streamed",
        "G-05",
        "projection/items.py",
        "at = len(state.text) if text.startswith(state.text) else 0",
        "at = len(state.text)",
        (f"{_EVENTS}::test_deltas_append_and_the_completed_text_wins",),
    ),
    Breakage(
        "answer-with-what-was-said-before-the-work",
        "G-06",
        "projection/ledger.py",
        "if isinstance(item, NATIVE_WORK):",
        "if isinstance(item, ContextCompaction):",
        (f"{_EVENTS}::test_native_work_after_an_answer_makes_it_none",),
    ),
    Breakage(
        "take-an-unknown-status-for-success",
        "G-10",
        "protocol/items.py",
        "return _STATUS.get(word, ItemStatus.UNKNOWN)",
        "return _STATUS.get(word, ItemStatus.COMPLETED)",
        ("tests/unit/test_protocol.py::test_audit_takes_no_odd_or_missing_status_for_success",),
    ),
    Breakage(
        "leave-a-call-without-a-result",
        "G-12",
        "projection/snapshot.py",
        "if given.ended and not given.completed:",
        "if given.ended and given.completed:",
        (f"{_ENTRIES}::test_a_call_left_without_a_result_gets_an_error_result",),
    ),
    Breakage(
        "count-cached-tokens-twice",
        "G-13",
        "projection/usage.py",
        "input=max(0, input_tokens - (cached or 0) - (written or 0)),",
        "input=input_tokens,",
        (f"{_EVENTS}::test_usage_is_that_of_the_last_response",),
    ),
    Breakage(
        "end-a-turn-on-a-malformed-completion",
        "G-26",
        "projection/items.py",
        "if not isinstance(word, str) or word == _RUNNING:",
        "if not isinstance(word, str):",
        (f"{_EVENTS}::test_malformed_completions_do_not_end_the_turn",),
    ),
    Breakage(
        "take-a-retried-error-for-the-end",
        "G-17",
        "projection/items.py",
        'if params.get("willRetry") is True:',
        'if params.get("willRetry") is None:',
        (f"{_EVENTS}::test_a_retried_error_is_no_error",),
    ),
    Breakage(
        "replay-items-that-were-seen",
        "G-18",
        "projection/items.py",
        "if state is None or not state.is_completed:",
        "if state is None or state.is_completed:",
        (f"{_EVENTS}::test_missed_items_are_replayed_once",),
    ),
    Breakage(
        "tell-one-compaction-twice",
        "G-21",
        "projection/items.py",
        "case ContextCompaction() if is_first:",
        "case ContextCompaction():",
        (f"{_EVENTS}::test_compaction_is_told_and_counted_once",),
    ),
    Breakage(
        "give-two-turns-the-same-keys",
        "H-03",
        "projection/entries.py",
        'key=f"codex-app-server:{given.thread_id}:{given.turn_id}:{identity}",',
        'key=f"codex-app-server:{given.thread_id}:{identity}",',
        (f"{_ENTRIES}::test_raw_items_give_the_messages_and_typed_items_name_them",),
    ),
    Breakage(
        "store-a-key-again-with-its-new-text",
        "H-03",
        "store/transcript.py",
        "found = self._find(entry.new.key)\n            if found is None:",
        "found = self._find(entry.new.key)\n"
        "            if found is None or found.content_hash != entry.content_hash:",
        (f"{_STORE}::test_the_same_key_is_stored_once_and_the_first_text_stays",),
    ),
    Breakage(
        "write-for-a-run-that-lost-its-claim",
        "A-16",
        "store/claims.py",
        "if row != (claim.lease_epoch, claim.run_id) or session_id not in",
        "if row is None or session_id not in",
        (f"{_STORE}::test_a_newer_claim_makes_the_older_one_useless",),
    ),
    Breakage(
        "hold-before-it-is-confirmed",
        "decision 3",
        "store/bindings.py",
        'row = connection.one("injection_by_id", id=injection.id)',
        'row = connection.one("injection_by_id", id=injection.id)\n'
        "            add_held(connection, injection.thread_id, injection.held)",
        (f"{_STORE}::test_an_injection_is_intended_then_confirmed_with_its_binding",),
    ),
    Breakage(
        "run-a-tool-that-is-not-available",
        "K-09",
        "tools/call.py",
        "if name in tools.known:",
        "if name not in tools.known:",
        (f"{_TOOLS}::test_unknown_and_unavailable_tools_do_not_run",),
    ),
    Breakage(
        "call-a-failed-tool-a-success",
        "K-12",
        "tools/call.py",
        'return {"contentItems": items, "success": False}',
        'return {"contentItems": items, "success": True}',
        (f"{_TOOLS}::test_whatever_a_tool_does_is_a_result",),
    ),
    Breakage(
        "take-every-tool-for-safe-to-repeat",
        "K-18",
        "projection/tool_items.py",
        "return tool not in replay_safe_tools",
        "return tool in replay_safe_tools",
        (f"{_EVENTS}::test_side_effects_and_replay",),
    ),
    Breakage(
        "ask-the-lowest-priority-first",
        "L-01",
        "hooks/inprocess.py",
        "key=lambda one: -one.priority",
        "key=lambda one: one.priority",
        ("tests/unit/test_hooks.py::test_results_merge_by_priority_and_then_by_registration",),
    ),
    Breakage(
        "grant-more-permissions",
        "M-06",
        "interaction/translate.py",
        'refusal={"permissions": {}, "scope": "turn"},',
        'refusal={"permissions": {"network": {"enabled": True}}, "scope": "turn"},',
        (f"{_QUESTIONS}::test_every_question_has_its_documented_refusal",),
    ),
    Breakage(
        "accept-what-a-tool-server-asks",
        "M-29",
        "interaction/translate.py",
        'refusal={"action": "decline", "content": None},',
        'refusal={"action": "accept", "content": None},',
        (f"{_QUESTIONS}::test_every_question_has_its_documented_refusal",),
    ),
    Breakage(
        "send-a-turn-again-that-had-spoken",
        "S-09",
        "projection/ledger.py",
        "            or self.assistant_texts\n",
        "",
        (f"{_EVENTS}::test_open_items_and_words_forbid_a_replay",),
    ),
    Breakage(
        "mark-the-working-folder-as-trusted",
        "decision 1",
        "harness/codex/thread.py",
        '"approvalPolicy": launch.APPROVAL_POLICY,',
        '"approvalPolicy": launch.APPROVAL_POLICY, "sandbox": "read-only",',
        (f"{_THREADS}::test_a_sandbox_is_named_on_turns_and_never_on_a_thread",),
    ),
    Breakage(
        "start-a-turn-without-a-sandbox",
        "F-03",
        "harness/codex/stream.py",
        '            "sandboxPolicy": launch.SANDBOX_POLICY,\n',
        "",
        (f"{_THREADS}::test_a_sandbox_is_named_on_turns_and_never_on_a_thread",),
    ),
    Breakage(
        "give-a-thread-codexs-own-personality",
        "F-01",
        "harness/codex/thread.py",
        '            "personality": launch.PERSONALITY,\n',
        "",
        (f"{_THREADS}::test_a_sandbox_is_named_on_turns_and_never_on_a_thread",),
    ),
    Breakage(
        "send-items-before-the-intent",
        "decision 3",
        "harness/codex/thread.py",
        "await self._bindings.intend(claim, injection)",
        'await peer.request("thread/inject_items",'
        ' {"threadId": binding.thread_id, "items": planned.items})\n'
        "        await self._bindings.intend(claim, injection)",
        (f"{_THREADS}::test_an_injection_that_was_never_answered_is_known_and_not_held",),
    ),
    Breakage(
        "leave-a-refused-injection-open",
        "D-58",
        "harness/codex/thread.py",
        "except RpcError:\n            await self._bindings.abandon(claim, injection.id)",
        "except RpcError:\n            await anyio.sleep(0)",
        (f"{_THREADS}::test_a_refused_injection_holds_nothing_and_the_turn_goes_on",),
    ),
    Breakage(
        "keep-token-counts-over-a-compaction",
        "G-15",
        "projection/items.py",
        "self._reading = None  # the old",
        "pass  # the old",
        (
            "tests/unit/test_public_reports.py"
            "::test_old_token_counts_are_unknown_after_a_native_compaction",
        ),
    ),
    Breakage(
        "ask-for-minimal-where-it-is-refused",
        "F-09",
        "harness/codex/effort.py",
        'if effort == "minimal" and version >= _NO_MINIMAL:',
        'if effort == "minimal" and version < _NO_MINIMAL:',
        ("tests/unit/test_effort.py::test_an_effort_that_a_model_refuses_becomes_the_nearest",),
    ),
    Breakage(
        "bring-no-context-to-the-request",
        "W-07",
        "harness/codex/planning.py",
        "inject=(*note, *kept),",
        "inject=note,",
        (
            "tests/process/test_switching.py"
            "::test_the_engines_context_reaches_the_request_of_every_kind_of_model",
        ),
    ),
    Breakage(
        "let-a-write-hooks-odd-text-end-the-turn",
        "H-01",
        "harness/codex/mirror.py",
        "message = _storable(message, entry.message)",
        "pass",
        ("tests/turn/test_mirror_faults.py::test_odd_text_of_a_write_hook_costs_no_reply",),
    ),
    Breakage(
        "fail-a-turn-whose-mirror-failed",
        "S-04",
        "harness/codex/finish.py",
        'emit("mirror.failed", cause=error)\n            await self._notice(',
        "raise\n            await self._notice(",
        ("tests/turn/test_mirror_faults.py::test_a_mirror_that_cannot_be_written_costs_no_reply",),
    ),
    Breakage(
        "show-the-silent-token",
        "A-23",
        "harness/codex/finish.py",
        'return "" if text.strip() == "NO_REPLY" else text',
        "return text",
        (
            "tests/turn/test_turn_outcomes.py"
            "::test_a_turn_without_visible_text_is_classified_and_silence_is_never_shown",
        ),
    ),
)
