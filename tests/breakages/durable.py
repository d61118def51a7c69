"""Changes in what survives: messages, their order, their one end (INV, RS)."""

from __future__ import annotations

from typing import Final

from tests.breakages.breakage import Breakage

_STORE: Final = "tests/contract/test_store_inbox.py"
_KILLS: Final = "tests/process/test_inbox_kills.py"

DURABLE: Final = (
    Breakage(
        "tell-nobody-that-a-message-is-stored",
        "INV-1",
        "store/inbox.py",
        "            self._events.add(connection, stream, (told,))\n            stored",
        "            stored",
        (f"{_STORE}::test_an_accepted_message_is_stored_with_its_event",),
    ),
    Breakage(
        "take-another-message-for-the-known-one",
        "INV-2",
        "store/inbox.py",
        "if stored.request_hash != message.request_hash:",
        "if False:",
        (f"{_STORE}::test_another_message_under_a_known_id_is_refused",),
    ),
    Breakage(
        "let-a-message-end-twice",
        "INV-6",
        "store/inbox.py",
        "if row is None or settlement.state not in NEXT[MessageState(row[0])]:",
        "if row is None:",
        (f"{_STORE}::test_a_message_ends_once",),
    ),
    Breakage(
        "write-entries-without-the-end-of-their-message",
        "INV-6",
        "store/transcript.py",
        "            if settlement is not None:\n",
        "            if False:\n",
        (f"{_STORE}::test_the_end_stands_with_the_entries_or_neither_does",),
    ),
    Breakage(
        "call-a-turn-that-may-have-done-something-failed",
        "INV-9",
        "contract/inbox.py",
        "return MessageState.FAILED if replay_safe else MessageState.UNKNOWN",
        "return MessageState.FAILED",
        (f"{_STORE}::test_the_end_of_a_run_is_the_end_of_its_message",),
    ),
    Breakage(
        "repeat-a-turn-whose-tool-had-an-effect",
        "RS09",
        "harness/codex/recovery.py",
        'has_output=any(item.get("role") != "user" for item in raw),',
        "has_output=False,",
        (f"{_KILLS}::test_an_effect_is_never_repeated_and_its_turn_is_said_to_be_unknown",),
    ),
)
