"""The quoted block: exact bytes, safe delimiters, tool shapes, limits (spec area D1-D6)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from treadle.model.json import JsonValue
from treadle.model.message import Message, tool_call_part, user_message
from treadle.projection.prompt import (
    TURN_INPUT_LIMIT,
    ProjectionInput,
    TurnInput,
    context_limits,
    fit_turn_input,
    keep_tail,
    project_prompt,
    rendered_context,
    reserve_tokens_from,
)
from treadle.projection.quoted_images import images_left, quoted_images
from treadle.projection.rendering import neutralised, rendered_body, shape_of


def said(role: str, content: JsonValue) -> Message:
    return Message(role=role, content=content)


def projected(messages: list[Message], prompt: str, addition: str | None = None) -> str:
    return project_prompt(
        ProjectionInput(
            assembled_messages=messages,
            original_history_messages=[],
            prompt=prompt,
            system_prompt_addition=addition,
        )
    ).prompt_text


def test_block_has_the_documents_exact_bytes() -> None:
    """Spec D-02, D-04, D-05, D-09."""
    text = projected([said("user", " hi "), said("assistant", [text_part("yo")])], "  next? \n")
    assert text == (
        "OpenClaw assembled context for this turn:\n"
        "\n"
        "<conversation_context>\n"
        "[user]\nhi\n\n[assistant]\nyo\n"
        "</conversation_context>\n"
        "\n"
        "Current user request:\n"
        "next?"
    )


def test_without_context_the_prompt_stands_alone() -> None:
    """Spec D-06, D-10."""
    assert projected([], " ask ") == "ask"
    assert projected([said("user", "  "), said("assistant", None)], "ask") == "ask"


def test_result_keeps_the_given_list_and_counts_the_original_history() -> None:
    """Spec D-01, D-07, D-08, D-11."""
    messages = [said("user", "old"), said("user", "ask")]
    result = project_prompt(
        ProjectionInput(
            assembled_messages=messages,
            original_history_messages=[said("user", "a")] * 7,
            prompt="ask",
            system_prompt_addition="  be kind \n",
        )
    )
    assert result.assembled_messages is messages
    assert result.pre_prompt_message_count == 7
    assert result.developer_instruction_addition == "be kind"
    assert "be kind" not in result.prompt_text
    assert result.context_range is not None
    start, end = result.context_range
    assert result.prompt_text[start:end] == "[user]\nold"


def test_blank_addition_is_absent() -> None:
    """Spec D-07."""
    result = project_prompt(
        ProjectionInput(
            assembled_messages=[],
            original_history_messages=[],
            prompt="x",
            system_prompt_addition=" \n ",
        )
    )
    assert result.developer_instruction_addition is None
    assert result.context_range is None


@dataclass(frozen=True)
class Dedupe:
    name: str
    messages: list[Message]
    prompt: str
    kept: int


def text_part(text: str) -> dict[str, JsonValue]:
    return {"type": "text", "text": text}


DEDUPES = (
    Dedupe("equal", [said("user", "q")], "q", 0),
    Dedupe("trimmed", [said("user", " q\n")], " q", 0),
    Dedupe("parts joined", [said("user", [text_part("a"), text_part("b")])], "a\nb", 0),
    Dedupe("image beside text", [said("user", [text_part("q"), {"type": "image"}])], "q", 0),
    Dedupe("only the last", [said("user", "q"), said("user", "q")], "q", 1),
    Dedupe("earlier stays", [said("user", "q"), said("assistant", "a")], "q", 2),
    Dedupe("other role", [said("assistant", "q")], "q", 1),
    Dedupe("other text", [said("user", "qq")], "q", 1),
    Dedupe("empty prompt", [said("user", [{"type": "image"}])], "", 1),
)


@pytest.mark.parametrize("case", DEDUPES, ids=lambda case: case.name)
def test_only_a_last_user_message_that_repeats_the_prompt_is_left_out(case: Dedupe) -> None:
    """Spec D-12, D-13."""
    text = projected(case.messages, case.prompt)
    assert text.count("[user]") + text.count("[assistant]") == case.kept


BODIES: tuple[tuple[JsonValue, str], ...] = (
    ("  a b ", "a b"),
    ([text_part(" a "), text_part("  "), text_part("b")], "a\nb"),
    ({"odd": 1}, "[non-text content omitted]"),
    (7, "[non-text content omitted]"),
    (None, ""),
    ([{"type": "text", "text": 5}, "loose", 9], ""),
    ([{"type": "image", "data": "AAAA"}], "[image omitted]"),
    ([{"type": "video"}], "[video content omitted]"),
    ([{"data": 1}], "[non-text content omitted]"),
)


@pytest.mark.parametrize(("content", "body"), BODIES)
def test_bodies(content: JsonValue, body: str) -> None:
    """Spec D-14, D-15, D-16."""
    assert rendered_body(content, 6000) == body


def test_tool_call_shows_metadata_and_shape_and_no_value() -> None:
    """Spec D-17, D-19, D-20, D-22, D-23."""
    part: JsonValue = {
        "type": "toolCall",
        "arguments": {
            "z": ["sk-abcdefghijklmnopqrst", 1, None],
            "a": {"deep": True, "secretvalue": "hunter2"},
        },
        "id": "call_1",
        "name": "read",
        "callId": " ",
    }
    body = rendered_body([part], 6000)
    first, _, rest = body.partition("\n")
    assert first == "tool call: read"
    assert rest == json.dumps(
        {
            "type": "toolCall",
            "name": "read",
            "id": "call_1",
            "inputShape": {
                "a": {"deep": "[boolean]", "secretvalue": "[string]"},
                "z": ["[string]", "[number]", None],
            },
        },
        indent=2,
    )
    assert "sk-" not in body
    assert "hunter2" not in body


def test_tool_input_goes_before_arguments() -> None:
    """Spec D-20."""
    part: JsonValue = {"type": "tool_use", "name": "x", "input": {"i": 1}, "arguments": {"a": 1}}
    body = rendered_body([part], 6000)
    assert '"i": "[number]"' in body
    assert '"a"' not in body


def test_tool_result_is_redacted_with_sorted_keys() -> None:
    """Spec D-18, D-21, D-22, D-23."""
    part: JsonValue = {
        "type": "toolResult",
        "toolCallId": "call_1",
        "isError": False,
        "z": {"password": "hunter22", "n": 3, "b": True, "none": None},
        "content": [text_part("Authorization: Bearer abcdefghijklmnop")],
    }
    body = rendered_body([part], 6000)
    label, _, rest = body.partition("\n")
    assert label == "tool result: call_1"
    shown = json.loads(rest)
    assert list(shown) == ["type", "toolCallId", "content", "isError", "z"]
    assert list(shown["z"]) == ["b", "n", "none", "password"]
    assert shown["z"] == {"password": "[redacted]", "n": 3, "b": True, "none": None}
    assert "abcdefghijklmnop" not in body


def test_cycles_are_named() -> None:
    """Spec D-20, D-21."""
    loop: dict[str, JsonValue] = {"a": 1}
    loop["self"] = loop
    assert shape_of(loop) == {"a": "[number]", "self": "[Circular]"}
    result = rendered_body([{"type": "toolResult", "content": loop}], 6000)
    assert "[Circular]" in result


def test_a_secret_in_a_text_message_is_left_alone() -> None:
    """Spec D-24: projection does not redact what people say."""
    assert "sk-abcdefghijklmnopqrst" in projected([said("user", "sk-abcdefghijklmnopqrst")], "q")


NEUTRAL = (
    "a < b > c",
    "<conversation_contexts>",
    "<conversation>",
    "</context>",
    "Current user request: now",
    "say 'Current user request:' to it",
    "< >",
    "＜別",
)


@pytest.mark.parametrize("text", NEUTRAL)
def test_text_without_delimiters_keeps_its_bytes(text: str) -> None:
    """Spec D-25."""
    assert neutralised(text) == text


DANGEROUS = (
    "<conversation_context>",
    "</conversation_context>",
    "</CONVERSATION_context >",
    "< / conversation_context>",
    "</ conver\u200bsation_context\t>",
    "＜／ｃｏｎｖｅｒｓａｔｉｏｎ＿ｃｏｎｔｅｘｔ＞",
    "<\nconversation_context x='1'>",
    "<conversation_context",
)


@pytest.mark.parametrize("text", DANGEROUS)
def test_look_alikes_of_the_tags_are_neutralised(text: str) -> None:
    """Spec D-25: also in other case, in full width and with blanks inside."""
    assert neutralised(f"x{text}y z") == f"x&lt;{text[1:]}y z" or text.endswith("context")
    assert neutralised(text).startswith("&lt;")
    assert neutralised(neutralised(text)) == neutralised(text)


@pytest.mark.parametrize("line", ["Current user request:", "CURRENT user request:  "])
def test_a_line_that_is_the_request_heading_is_shifted(line: str) -> None:
    """Spec D-25."""
    assert neutralised(f"a\n{line}\nb") == f"a\n {line}\nb"


@given(st.lists(st.sampled_from(["<", "/", "conversation_context", ">", "\n", " ", "x",
                                 "Current user request:", "＜"]), max_size=12))  # fmt: skip
def test_only_one_pair_of_delimiters_is_left(pieces: list[str]) -> None:
    """Spec D-25: whatever history holds, the block has one opening, one end and one request."""
    text = projected([said("user", "".join(pieces)), said("assistant", "z")], "do it")
    assert text.count("<conversation_context>") == 1
    assert text.count("</conversation_context>") == 1
    assert text.split("\n").count("Current user request:") == 1


def test_limits_follow_the_budget() -> None:
    """Spec D-42, D-43, D-45."""
    cases: tuple[tuple[float | None, int, int], ...] = (
        (None, 20_000, 24_000),
        (0, 20_000, 24_000),
        (-3, 20_000, 24_000),
        (float("inf"), 20_000, 24_000),
        (float("nan"), 20_000, 24_000),
        (80_000, 20_000, 240_000),
        (16_000, 20_000, 32_000),
        (80_000, 40_000, 160_000),
        (1_000_000, 20_000, 1_000_000),
        (1, 20_000, 24_000),
    )
    for budget, reserve, chars in cases:
        limits = context_limits(budget, reserve)
        assert limits.max_context_chars == chars, budget
        assert limits.max_part_chars == min(128_000, max(6_000, chars // 4))


def test_reserve_comes_from_the_two_settings() -> None:
    """Spec D-44."""
    assert reserve_tokens_from(None, None) == 20_000
    assert reserve_tokens_from(12_000, None) == 20_000
    assert reserve_tokens_from(30_000, None) == 30_000
    assert reserve_tokens_from(12_000, 5_000) == 12_000
    assert reserve_tokens_from(None, 5_000) == 5_000


def test_a_long_part_keeps_its_head_and_says_what_went() -> None:
    """Spec D-45."""
    body = rendered_body("a" * 7000, 6000)
    assert len(body) == 6000
    kept, _, marker = body.partition("\n")
    assert marker == f"[truncated {7000 - len(kept)} chars]"


@given(st.text(alphabet="ab \n[]x", max_size=400), st.integers(-2, 420))
@example("abc\n" * 50, 100)
def test_older_text_is_dropped_to_the_limit(text: str, limit: int) -> None:
    """Spec D-46: never over the limit, the tail kept, N says how much went."""
    kept = keep_tail(text, limit)
    assert len(kept) <= max(0, limit)
    if len(text) <= limit:
        assert kept == text
    else:
        assert kept[:11] == "[truncated "[: max(0, limit)]
    if len(text) > limit and "\n" in kept:
        marker, _, tail = kept.partition("\n")
        assert text.endswith(tail)
        assert marker == f"[truncated {len(text) - len(tail)} chars from older context]"
        assert not tail[:1].isspace()


def test_a_limit_smaller_than_the_marker_cuts_the_marker() -> None:
    """Spec D-46."""
    assert keep_tail("x" * 100, 5) == "[trun"
    assert keep_tail("x" * 100, 0) == ""


def test_a_second_cut_counts_both() -> None:
    """Spec D-46, D-47."""
    once = keep_tail("a" * 500 + "b" * 500, 600)
    twice = keep_tail(once, 300)
    tail = twice.partition("\n")[2]
    assert twice.startswith(f"[truncated {1000 - len(tail)} chars from older context]")


def test_a_cut_never_lays_the_request_heading_bare() -> None:
    """Spec D-25, D-46."""
    text = "x" * 90 + "\n Current user request:\nrun it"
    for limit in range(50, len(text)):
        assert "Current user request:" not in keep_tail(text, limit).split("\n")


@given(
    st.lists(st.sampled_from(["hello", "x" * 300, "a\n\nb", "  "]), max_size=8),
    st.integers(0, 900),
)
def test_rendered_context_never_exceeds_its_limit(texts: list[str], limit: int) -> None:
    """Spec D-46."""
    messages = [user_message(text) for text in texts]
    assert len(rendered_context(messages, limit, 200)) <= limit


@given(
    st.integers(0, 300), st.integers(0, 80), st.integers(0, 80), st.integers(0, 80),
    st.integers(0, 500),
)  # fmt: skip
def test_turn_input_never_exceeds_its_limit(
    context: int, request: int, before: int, after: int, limit: int
) -> None:
    """Spec D-47."""
    whole = project_prompt(
        ProjectionInput(
            assembled_messages=[said("user", "c" * context)],
            original_history_messages=[],
            prompt="r" * request,
        )
    )
    fitted = fit_turn_input(
        TurnInput(
            prompt_text=whole.prompt_text,
            context_range=whole.context_range,
            before="b" * before,
            after="a" * after,
            limit=limit,
        )
    )
    assert len(fitted.text) <= limit
    if fitted.context_range is not None:
        start, end = fitted.context_range
        assert 0 <= start <= end <= len(fitted.text)
    if len(whole.prompt_text) + before + after <= limit:
        assert fitted.text == "b" * before + whole.prompt_text + "a" * after
        assert not fitted.is_cut


def test_context_shrinks_before_anything_else() -> None:
    """Spec D-47: the default limit is 2^20 characters."""
    assert TURN_INPUT_LIMIT == 2**20
    whole = project_prompt(
        ProjectionInput(
            assembled_messages=[said("user", "c" * 900)],
            original_history_messages=[],
            prompt="request",
        )
    )
    fitted = fit_turn_input(
        TurnInput(
            prompt_text=whole.prompt_text,
            context_range=whole.context_range,
            before="before\n",
            after="\nafter",
            limit=400,
        )
    )
    assert fitted.text.startswith("before\nOpenClaw assembled context")
    assert fitted.text.endswith("Current user request:\nrequest\nafter")
    assert "chars from older context]" in fitted.text
    assert fitted.dropped_other == 0


def test_hook_text_goes_before_the_request_does() -> None:
    """Spec D-47."""
    fitted = fit_turn_input(TurnInput(prompt_text="r" * 50, after="a" * 500, limit=100))
    assert fitted.text.startswith("r" * 50)
    assert len(fitted.text) == 100
    assert fitted.dropped_other == 450
    prepended = fit_turn_input(TurnInput(prompt_text="r" * 100, before="b" * 50, limit=100))
    assert prepended.text == "r" * 100
    cut = fit_turn_input(TurnInput(prompt_text="r" * 200, limit=100))
    assert cut.text == "r" * 100


def test_with_an_empty_request_the_tail_of_the_hook_text_survives() -> None:
    """Spec D-47."""
    fitted = fit_turn_input(TurnInput(prompt_text="", after="a" * 100 + "end", limit=20))
    assert fitted.text == "a" * 17 + "end"


_PROGRAM = """
import sys
from treadle.model.message import Message, tool_call_part
from treadle.projection.prompt import ProjectionInput, project_prompt
part = tool_call_part("c", "t", {k: {k: 1} for k in {"b", "a", "z", "m"}})
result = project_prompt(ProjectionInput(
    assembled_messages=[Message(role="assistant", content=[part], created_at=1.5)],
    original_history_messages=[], prompt="p"))
sys.stdout.write(result.prompt_text)
"""


def test_bytes_do_not_depend_on_the_process() -> None:
    """Spec D-22, D-29: other hash seeds, other insertion orders, same bytes."""
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
    keys = {key: {key: 1} for key in ("z", "m", "a", "b")}
    part = tool_call_part("c", "t", keys)
    texts.add(projected([Message(role="assistant", content=[part], created_at=9.0)], "p"))
    assert len(texts) == 1


def test_lone_surrogates_do_not_survive() -> None:
    """RS12."""
    projected([said("user", "a\ud800b"), said("x\udfff", "y")], "p\udc00").encode()


PIXEL = "data:image/png;base64,iVBORw0KGgo="


def test_a_quoted_image_stays_while_its_message_does() -> None:
    """Spec D-16, D-28: named in the text, sent beside it; gone with its message."""
    image: JsonValue = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
    other: JsonValue = {"type": "image", "url": "https://example.invalid/a.png"}
    messages = [
        said("user", [text_part("old " + "a" * 100), {"type": "image", "url": f"{PIXEL}AA"}]),
        said("assistant", "b" * 50),
        said("user", [text_part("new"), image, other]),
        said("assistant", "end"),
    ]
    whole = rendered_context(messages, 10_000, 6_000)
    images = quoted_images(messages, 6_000)
    assert images_left(images, whole) == (f"{PIXEL}AA", PIXEL)
    for limit in range(len(whole)):
        left = images_left(images, keep_tail(whole, limit))
        newest = "[user]\nnew\n[image omitted]\n[image omitted]" in keep_tail(whole, limit)
        assert left == ((PIXEL,) if newest else ())


def test_summaries_alone_are_quoted_apart_from_the_request() -> None:
    """Spec D-26: also where no older user message remains."""
    text = projected(
        [said("compactionSummary", "It began."), said("branchSummary", "It went on.")], "next"
    )
    assert text.endswith(
        "<conversation_context>\n[compactionSummary]\nIt began.\n\n[branchSummary]\nIt went on.\n"
        "</conversation_context>\n\nCurrent user request:\nnext"
    )


def test_what_came_with_the_message_stands_before_the_block() -> None:
    """Spec D-48: references and quoted replies first, then the block, then the request."""
    block = projected([said("user", "hi")], "next")
    fitted = fit_turn_input(
        TurnInput(prompt_text=block, context_range=None, before="In reply to: x\n\n")
    )
    assert fitted.text == f"In reply to: x\n\n{block}"
