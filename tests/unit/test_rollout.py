"""Reading rollout files.

Origins of items, ends of turns, lines that cannot be read (decisions 3, 7).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.harness.codex.rollout import Origin, parse_rollout, raw_item, without_marks
from treadle.model.ids import TurnId

MARKS = "internal_chat_message_metadata_passthrough"
TURN = "turn-1"


def line(kind: str, payload: Mapping[str, object]) -> bytes:
    record = {"timestamp": "2026", "ordinal": 1, "type": kind, "payload": payload}
    return json.dumps(record, ensure_ascii=False).encode() + b"\n"


def message(
    role: str,
    text: str,
    turn: str | None = TURN,
    kinds: Sequence[str] | None = None,
    **more: object,
) -> dict[str, object]:
    part = "output_text" if role == "assistant" else "input_text"
    item: dict[str, object] = {
        "type": "message",
        "id": f"msg_{text}",
        "role": role,
        "content": [{"type": part, "text": text}],
        **more,
    }
    marks: dict[str, object] = {}
    if turn is not None:
        marks["turn_id"] = turn
    if kinds is not None:
        marks["content_item_kinds"] = list(kinds)
    return {**item, MARKS: marks} if marks else item


ORIGINS = [
    ("prompt", message("user", "hi", kinds=["user.text"]), Origin.PROMPT),
    (
        "prompt with an image",
        message("user", "hi", kinds=["user.text", "user.image"]),
        Origin.PROMPT,
    ),
    ("answer", message("assistant", "yes", kinds=["unknown"]), Origin.MODEL),
    ("permissions", message("developer", "p", kinds=["permissions.instructions"]), Origin.CODEX),
    (
        "AGENTS.md and environment",
        message("user", "e", kinds=["agents_md.instructions", "environments.environment_context"]),
        Origin.CODEX,
    ),
    ("an interruption's note", message("user", "a", kinds=["generic.turn_aborted"]), Origin.CODEX),
    (
        "injected between turns",
        message("user", "i", turn="auto-compact-0", kinds=["unknown"]),
        Origin.INJECTED,
    ),
    (
        "injected answer",
        message("assistant", "i", turn="auto-compact-3", kinds=["unknown"]),
        Origin.INJECTED,
    ),
    ("injected while a turn runs", message("user", "i", kinds=["unknown"]), Origin.INJECTED),
    (
        "context written by a first injection",
        message("developer", "c", turn="auto-compact-0", kinds=["permissions.instructions"]),
        Origin.CODEX,
    ),
    ("call", {"type": "function_call", "call_id": "c", MARKS: {"turn_id": TURN}}, Origin.MODEL),
    (
        "script",
        {"type": "custom_tool_call", "call_id": "c", MARKS: {"turn_id": TURN}},
        Origin.MODEL,
    ),
    (
        "output",
        {"type": "function_call_output", "call_id": "c", MARKS: {"turn_id": TURN}},
        Origin.TOOL,
    ),
    (
        "injected output",
        {"type": "function_call_output", "call_id": "c", MARKS: {"turn_id": "auto-compact-1"}},
        Origin.INJECTED,
    ),
    ("reasoning", {"type": "reasoning", "id": "rs_1", MARKS: {"turn_id": TURN}}, Origin.MODEL),
    ("without marks", {"type": "message", "role": "user", "content": []}, Origin.CODEX),
]


@pytest.mark.parametrize(("name", "payload", "origin"), ORIGINS, ids=[row[0] for row in ORIGINS])
def test_an_item_tells_where_it_came_from(
    name: str, payload: dict[str, object], origin: Origin
) -> None:
    """Measured on 0.163.

    Content kinds and turn ids tell prompts, model, tools and injections apart.
    """
    del name
    assert raw_item(payload).origin is origin  # type: ignore[arg-type]


def test_a_turn_gives_its_conversation_without_codexs_marks() -> None:
    """Decision 7: raw items are kept; the marks would make an injected copy look like a prompt."""
    data = b"".join([
        line("session_meta", {"id": "t"}),
        line("response_item", message("developer", "p", kinds=["permissions.instructions"])),
        line("response_item", message("user", "hi", kinds=["user.text"])),
        line("response_item", message("assistant", "yes", kinds=["unknown"])),
        line("response_item", message("assistant", "other", turn="turn-2", kinds=["unknown"])),
    ])
    said = parse_rollout(data).of_turn(TurnId(TURN))
    assert [item["id"] for item in said] == ["msg_hi", "msg_yes"]
    assert all(MARKS not in item for item in said)


def test_ends_client_ids_and_compactions_are_seen() -> None:
    data = b"".join([
        line(
            "event_msg",
            {
                "type": "item_completed",
                "turn_id": TURN,
                "item": {"type": "UserMessage", "client_id": "m_1"},
            },
        ),
        line("event_msg", {"type": "task_complete", "turn_id": TURN}),
        line("event_msg", {"type": "task_complete", "turn_id": "t2", "error": {"message": "x"}}),
        line("event_msg", {"type": "turn_aborted", "turn_id": "t3", "reason": "interrupted"}),
        line("compacted", {"message": "…"}),
    ])
    rollout = parse_rollout(data)
    assert rollout.client_ids == {"m_1": TURN}
    assert rollout.ended == {TURN: "completed", "t2": "failed", "t3": "interrupted"}
    assert rollout.compactions == 1


def test_an_unfinished_last_line_is_left_for_the_next_time() -> None:
    """A kill may leave half a line; the offset stands before it."""
    whole = line("response_item", message("user", "hi", kinds=["user.text"]))
    rollout = parse_rollout(whole + b'{"type":"respo', offset=100)
    assert rollout.end_offset == 100 + len(whole)
    assert len(rollout.items) == 1
    assert rollout.unreadable_lines == 0


def test_a_line_that_cannot_be_read_is_skipped_and_counted() -> None:
    """Codex itself leaves a torn line in the middle after a crash and goes on behind it."""
    good = line("response_item", message("user", "hi", kinds=["user.text"]))
    rollout = parse_rollout(b'{"type":"respo\n' + good + b"[]\n")
    assert (len(rollout.items), rollout.unreadable_lines) == (1, 2)


def test_text_with_a_unicode_line_separator_is_one_line() -> None:
    rollout = parse_rollout(line("response_item", message("user", "a\u2028b", kinds=["user.text"])))
    assert rollout.item_ids == {"msg_a\u2028b"}


@given(st.binary(max_size=400), st.integers(min_value=0, max_value=400))
def test_reading_in_two_steps_reads_the_same(tail: bytes, cut: int) -> None:
    """Law: what one reading gives, two readings at any offset it stopped at give too."""
    data = line("response_item", message("user", "hi", kinds=["user.text"])) + tail
    first = parse_rollout(data[:cut])
    second = parse_rollout(data[first.end_offset :], first.end_offset)
    whole = parse_rollout(data)
    assert (*first.items, *second.items) == whole.items
    assert second.end_offset == whole.end_offset


def test_taking_marks_off_changes_nothing_else() -> None:
    item = message("user", "hi", kinds=["user.text"], phase="x")
    assert without_marks(item) == {k: v for k, v in item.items() if k != MARKS}  # type: ignore[arg-type]


def test_the_summary_of_a_native_compaction_is_nobodys_answer() -> None:
    """Spec H-13, G-07: it stands there like an answer, in front of `compacted` (seen on 0.163)."""
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], MARKS: {"turn_id": TURN}}
    data = b"".join([
        line("response_item", message("assistant", "An earlier answer.")),
        line("response_item", reasoning),
        line("response_item", message("assistant", "The gist.")),
        line("compacted", {"message": "Another model said: The gist."}),
        line("response_item", message("user", "hi", kinds=["user.text"])),
        line("response_item", message("assistant", "yes")),
    ])
    rollout = parse_rollout(data)
    ids = [item["id"] for item in rollout.of_turn(TurnId(TURN))]
    assert ids == ["msg_An earlier answer.", "msg_hi", "msg_yes"]
    assert rollout.compactions == 1


def test_an_answer_that_is_not_the_summary_stays_an_answer() -> None:
    """A remote compaction stores no answer in front of it."""
    data = line("response_item", message("assistant", "yes")) + line("compacted", {"message": ""})
    assert [item["id"] for item in parse_rollout(data).of_turn(TurnId(TURN))] == ["msg_yes"]
