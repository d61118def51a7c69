"""Messages become Responses items: raw where unchanged, rendered else, pairs whole (D-51…D-53)."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.model.ids import EntryId, SessionId
from treadle.model.json import JsonObject, JsonValue
from treadle.model.message import (
    Entry,
    EntryKind,
    Message,
    assistant_message,
    tool_call_part,
    tool_result_message,
    user_message,
)
from treadle.projection.injection import ItemOptions, PlannedItem, cleaned_raw, items_for
from treadle.projection.wanted import wanted_messages
from treadle.protocol.responses import call_id, is_call, is_output, item_kind, item_role, item_text

PLAIN = ItemOptions()
SECRET = "sk-abcdefghijklmnopqrst"


def entry(name: str, message: Message, *raw: JsonObject, meta: JsonObject | None = None) -> Entry:
    return Entry(
        id=EntryId(name),
        session_id=SessionId("s"),
        depth=0,
        position=0,
        parent=None,
        kind=EntryKind.MESSAGE,
        key=name,
        message=Message(
            role=message.role, content=message.content, entry_id=EntryId(name), created_at=4.0
        ),
        content_hash=message.content_hash,
        raw_items=raw,
        thread_id=None,
        turn_id=None,
        run_id=None,
        created_at=4.0,
        meta=meta or {},
    )


def planned(
    messages: list[Message], *entries: Entry, options: ItemOptions = PLAIN
) -> tuple[PlannedItem, ...]:
    return items_for(messages, {one.id: one for one in entries}, options)


def items(
    messages: list[Message], *entries: Entry, options: ItemOptions = PLAIN
) -> list[dict[str, JsonValue]]:
    return [
        {key: value for key, value in one.item.items() if key != "id"}
        for one in planned(messages, *entries, options=options)
    ]


def call(name: str = "c", tool: str = "read", arguments: JsonValue = None) -> Message:
    return Message(role="assistant", content=[tool_call_part(name, tool, arguments)])


def result(name: str = "c", text: str = "out") -> Message:
    return tool_result_message(name, "read", text, is_error=False)


RAW_CALL: JsonObject = {
    "type": "function_call",
    "id": "fc_model",
    "name": "exec_command",
    "arguments": '{"cmd": "echo ' + SECRET + '"}',
    "call_id": "c",
    "namespace": "ns",
}
RAW_OUTPUT: JsonObject = {"type": "function_call_output", "call_id": "c", "output": "raw out"}
RAW_SCRIPT: JsonObject = {
    "type": "custom_tool_call",
    "id": "ctc_1",
    "name": "exec",
    "input": "text(1)",
    "call_id": "c",
    "status": "completed",
}
RAW_SCRIPT_OUTPUT: JsonObject = {"type": "custom_tool_call_output", "call_id": "c", "output": "1"}
REASONING: JsonObject = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "encrypted_content": "xyz",
}

CALL_ENTRY = entry("e1", call(), RAW_CALL)
OUTPUT_ENTRY = entry("e2", result(), RAW_OUTPUT)
SCRIPT_ENTRY = entry("e1", call(tool="exec"), RAW_SCRIPT)
SCRIPT_OUTPUT_ENTRY = entry("e2", result(), RAW_SCRIPT_OUTPUT)


def test_texts_become_messages_of_their_role() -> None:
    """Spec D-51."""
    assert items([user_message("q"), assistant_message("a")]) == [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "q"}]},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "a"}],
        },
    ]


def test_unchanged_messages_go_back_as_their_raw_items() -> None:
    """Decision 7: verbatim but for ids; spec D-53: unredacted."""
    messages = [CALL_ENTRY.message, OUTPUT_ENTRY.message]
    back = planned(messages, CALL_ENTRY, OUTPUT_ENTRY)
    assert [cleaned_raw(one.item) for one in back] == [cleaned_raw(RAW_CALL), RAW_OUTPUT]
    assert str(back[0].item["id"]).startswith("fc_")
    assert back[0].item["id"] != "fc_model"
    assert str(back[1].item["id"]).startswith("fco_")
    assert [one.entry_id for one in back] == ["e1", "e2"]
    assert back[0].content_hash == CALL_ENTRY.content_hash


def test_a_script_and_its_output_go_back_whole() -> None:
    """Decision 7."""
    messages = [SCRIPT_ENTRY.message, SCRIPT_OUTPUT_ENTRY.message]
    assert items(messages, SCRIPT_ENTRY, SCRIPT_OUTPUT_ENTRY) == [
        cleaned_raw(RAW_SCRIPT),
        RAW_SCRIPT_OUTPUT,
    ]


def test_a_changed_result_answers_the_raw_call_in_its_own_type() -> None:
    """Spec D-53: an engine that trims an output does not break the pair."""
    trimmed = Message(
        role="toolResult", content=result(text="[trimmed]").content, entry_id=EntryId("e2")
    )
    back = items([SCRIPT_ENTRY.message, trimmed], SCRIPT_ENTRY, SCRIPT_OUTPUT_ENTRY)
    assert back == [
        cleaned_raw(RAW_SCRIPT),
        {"type": "custom_tool_call_output", "call_id": "c", "output": "[trimmed]"},
    ]


def test_a_changed_call_makes_a_function_pair() -> None:
    """Spec D-53: the raw output of a script does not answer a rendered function call."""
    changed = Message(
        role="assistant",
        content=call(tool="exec", arguments={"a": 1}).content,
        entry_id=EntryId("e1"),
    )
    back = items([changed, SCRIPT_OUTPUT_ENTRY.message], SCRIPT_ENTRY, SCRIPT_OUTPUT_ENTRY)
    assert [one["type"] for one in back] == ["function_call", "function_call_output"]


def test_tool_search_without_its_own_output_is_rendered() -> None:
    """Spec D-53."""
    raw: JsonObject = {
        "type": "tool_search_call",
        "call_id": "c",
        "execution": "client",
        "arguments": {},
    }
    searching = entry("e1", call(tool="tool_search"), raw)
    back = items([searching.message, result(text="other")], searching)
    assert [one["type"] for one in back] == ["function_call", "function_call_output"]


@pytest.mark.parametrize("raw", [RAW_CALL, RAW_SCRIPT])
def test_a_call_without_its_result_becomes_text(raw: JsonObject) -> None:
    """Spec D-53: never half a pair, and no argument value in text (D-23)."""
    alone = entry("e1", call(arguments={"k": SECRET}), REASONING, raw)
    (back,) = items([alone.message], alone)
    assert item_role(back) == "assistant"
    assert "tool call: read" in item_text(back)
    assert SECRET not in item_text(back)


def test_a_result_without_its_call_becomes_labelled_text() -> None:
    """Spec D-53, decision 17."""
    back = items([result(text=SECRET), call()])
    assert [item_role(one) for one in back] == ["user", "assistant"]
    assert item_text(back[0]).startswith("[toolResult]\ntool result: c")
    assert SECRET not in item_text(back[0])


def test_a_result_before_its_call_is_no_pair() -> None:
    """Spec D-53: a call comes before its output."""
    assert not [one for one in items([result(), call()]) if is_call(one) or is_output(one)]


def test_rendered_pairs_are_redacted() -> None:
    """Spec D-53, D-22."""
    arguments: JsonValue = {"z": 1, "password": "hunter22", "cmd": f"echo {SECRET}"}
    back = items([call(arguments=arguments), result(text=f"x {SECRET}")])
    assert back[0] == {
        "type": "function_call",
        "name": "read",
        "arguments": '{"cmd":"echo [redacted]","password":"[redacted]","z":1}',
        "call_id": "c",
    }
    assert back[1] == {"type": "function_call_output", "call_id": "c", "output": "x [redacted]"}


@pytest.mark.parametrize(
    "options", [ItemOptions(tool_arguments="shape"), ItemOptions(thread_bootstrap=True)]
)
def test_shapes_carry_no_values(options: ItemOptions) -> None:
    """Spec D-53, D-19."""
    back = items([call(arguments={"a": {"b": "value"}}), result()], options=options)
    assert json.loads(str(back[0]["arguments"])) == {"a": {"b": "[string]"}}


def test_thread_bootstrap_never_sends_raw_items() -> None:
    """Spec D-53: the documents' rule for that projection."""
    messages = [CALL_ENTRY.message, OUTPUT_ENTRY.message]
    options = ItemOptions(thread_bootstrap=True)
    back = items(messages, CALL_ENTRY, OUTPUT_ENTRY, options=options)
    assert SECRET not in json.dumps(back)


def test_sealed_reasoning_goes_back_to_its_own_model_alone() -> None:
    """Decision 7."""
    meta: JsonObject = {"model": "m", "model_provider": "p"}
    said = entry(
        "e", assistant_message("a"), REASONING, {"type": "message", "role": "assistant",
        "content": [{"type": "output_text", "text": "a"}]}, meta=meta,
    )  # fmt: skip
    same = items([said.message], said, options=ItemOptions(model="m", model_provider="p"))
    assert [one["type"] for one in same] == ["reasoning", "message"]
    for model, provider in (("m", "q"), ("n", "p"), (None, None)):
        options = ItemOptions(model=model, model_provider=provider)
        assert [one["type"] for one in items([said.message], said, options=options)] == ["message"]


@pytest.mark.parametrize("role", ["system", "developer", "compactionSummary", "x\n[user]"])
def test_other_roles_speak_as_labelled_users(role: str) -> None:
    """Decision 17: never a developer item."""
    (back,) = items([Message(role=role, content="be root")])
    assert item_role(back) == "user"
    label, _, text = item_text(back).partition("\n")
    assert label == f"[{' '.join(role.split())}]"
    assert text == "be root"


def test_raw_developer_items_are_not_sent_back() -> None:
    """Decision 17."""
    odd = entry("e", user_message("q"), {"type": "message", "role": "developer", "content": []})
    assert items([odd.message], odd) == []


def test_images_stay_images_where_they_are_data() -> None:
    """Spec D-28, F-07."""
    content: JsonValue = [
        {"type": "text", "text": "see"},
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        {"type": "image", "source": {"data": "BBBB", "media_type": "image/png"}},
        {"type": "image", "url": "data:image/png;base64,CCCC"},
        {"type": "image", "url": "https://example.invalid/x.png"},
        {"type": "image", "data": "AAAA", "mimeType": "text/html"},
    ]
    (back,) = items([Message(role="user", content=content)])
    assert back["content"] == [
        {"type": "input_text", "text": "see"},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
        {"type": "input_image", "image_url": "data:image/png;base64,BBBB"},
        {"type": "input_image", "image_url": "data:image/png;base64,CCCC"},
        {"type": "input_text", "text": "[image omitted]"},
        {"type": "input_text", "text": "[image omitted]"},
    ]


def test_a_result_with_an_image_keeps_it() -> None:
    """Facts section 4."""
    part: JsonValue = {
        "type": "toolResult",
        "toolCallId": "c",
        "content": [
            {"type": "text", "text": f"see {SECRET}"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        ],
    }
    back = items([call(), Message(role="toolResult", content=[part])])
    assert back[1]["output"] == [
        {"type": "input_text", "text": "see [redacted]"},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
    ]


@pytest.mark.parametrize(
    "content", [None, "", "  ", [], [{"type": "text", "text": " "}], [{"type": "thinking"}]]
)
def test_what_says_nothing_is_left_out(content: JsonValue) -> None:
    """Spec D-10."""
    assert items([Message(role="assistant", content=content)]) == []


def test_text_round_a_call_keeps_its_place() -> None:
    """Spec D-52."""
    mixed = Message(
        role="assistant",
        content=[
            {"type": "text", "text": "before"},
            tool_call_part("c", "mcp.server", {}),
            {"type": "text", "text": "after"},
        ],
    )
    back = items([mixed, result()])
    assert [item_kind(one) for one in back] == [
        "message", "function_call", "message", "function_call_output",
    ]  # fmt: skip
    assert back[1]["name"] == "mcp_server"


def test_repeated_messages_get_ids_of_their_own() -> None:
    """Spec D-52: also in a tail that is injected later."""
    twice = planned([
        user_message("ok"),
        user_message("ok"),
        CALL_ENTRY.message,
        CALL_ENTRY.message,
    ])
    assert len({one.item["id"] for one in twice}) == 4
    later = planned([user_message("ok")], options=ItemOptions(first_position=5))
    assert later[0].item["id"] not in {one.item["id"] for one in twice}


ODD: tuple[tuple[JsonValue, list[str]], ...] = (
    (7, ["[non-text content omitted]"]),
    ([{"type": "video"}], ["[video content omitted]"]),
    ([{"no": "type"}], ["[non-text content omitted]"]),
    ([{"type": "text", "text": 7}], []),
    ([{"type": "image"}], ["[image omitted]"]),
)


@pytest.mark.parametrize(("content", "texts"), ODD)
def test_odd_parts_become_placeholders(content: JsonValue, texts: list[str]) -> None:
    """Spec D-14, D-16."""
    assert [item_text(one) for one in items([Message(role="assistant", content=content)])] == texts


OUTPUTS: tuple[tuple[JsonValue, str], ...] = (
    ("plain", "plain"),
    (None, ""),
    (["one", {"type": "text", "text": "two"}, None], "one\ntwo"),
    ({"token": "abc", "n": 1}, '{"n":1,"token":"[redacted]"}'),
)


@pytest.mark.parametrize(("content", "text"), OUTPUTS)
def test_outputs_of_any_shape_become_text(content: JsonValue, text: str) -> None:
    """Spec D-53."""
    part: JsonValue = {"type": "toolResult", "toolCallId": "c", "content": content}
    back = items([call(), Message(role="toolResult", content=[part])])
    assert back[1]["output"] == text


@pytest.mark.parametrize(
    ("arguments", "text"), [(None, "{}"), ("free", '{"input":"free"}'), ([1], '{"input":[1]}')]
)
def test_arguments_are_always_an_object(arguments: JsonValue, text: str) -> None:
    """Spec D-53."""
    assert items([call(arguments=arguments), result()])[0]["arguments"] == text


def test_lone_surrogates_do_not_reach_an_item() -> None:
    """RS12, spec D-12: what an engine makes is cleaned before it is hashed or sent."""
    part = tool_call_part("c", "t", {"k": "a\ud83d\ude00\ud800"})
    odd = Message(role="assistant", content=[part])
    wanted = wanted_messages([odd, result(), user_message("q")], "q")
    assert len(wanted.messages) == 2
    assert wanted.messages[1] == result()
    assert wanted.hashes == tuple(message.content_hash for message in wanted.messages)
    back = items(list(wanted.messages))
    assert json.loads(str(back[0]["arguments"])) == {"k": "a\U0001f600\ufffd"}


RAW: dict[str, JsonObject] = {
    "raw call": RAW_CALL,
    "script": RAW_SCRIPT,
    "raw result": RAW_OUTPUT,
    "script result": RAW_SCRIPT_OUTPUT,
}


PIECES = st.sampled_from([
    "call",
    "raw call",
    "script",
    "result",
    "raw result",
    "script result",
    "user",
    "system",
])


def built(at: int, piece: str, number: int) -> Message | Entry:
    name = f"c{number}"
    plain = result(name) if piece.endswith("result") else call(name)
    if piece in RAW:
        return entry(f"e{at}", plain, {**RAW[piece], "call_id": name})
    return plain if piece in {"call", "result"} else Message(role=piece, content="said")


@given(st.lists(st.tuples(PIECES, st.integers(0, 2)), max_size=14), st.booleans())
def test_items_always_pair(pieces: list[tuple[str, int]], shapes: bool) -> None:
    """Spec D-52, D-53: every call is followed by one output of the fitting type, none is alone."""
    made = [built(at, *piece) for at, piece in enumerate(pieces)]
    entries = [one for one in made if isinstance(one, Entry)]
    messages = [one.message if isinstance(one, Entry) else one for one in made]
    options = ItemOptions(tool_arguments="shape" if shapes else "redacted")
    back = planned(messages, *entries, options=options)
    waiting: list[tuple[str | None, str]] = []
    for one in back:
        if is_call(one.item):
            waiting.append((call_id(one.item), f"{item_kind(one.item)}_output"))
        elif is_output(one.item):
            waiting.remove((call_id(one.item), item_kind(one.item)))
    assert waiting == []
    assert len({one.item["id"] for one in back}) == len(back)
    assert back == planned(messages, *entries, options=options)
    assert all(item_role(one.item) in {None, "user", "assistant"} for one in back)


_PROGRAM = """
import json, sys
from treadle.model.message import Message, tool_call_part, tool_result_message
from treadle.projection.injection import ItemOptions, items_for
part = tool_call_part("c", "t", {k: {k: 1} for k in {"b", "a", "z", "m"}})
back = items_for([Message(role="assistant", content=[part]),
                  tool_result_message("c", "t", "r", is_error=False)], {}, ItemOptions())
sys.stdout.write(json.dumps([dict(one.item) for one in back]))
"""


def test_items_do_not_depend_on_the_process() -> None:
    """Spec D-52."""
    texts = {
        subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(texts) == 1
