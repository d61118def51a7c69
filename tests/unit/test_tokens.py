"""Counting tokens: slices are exact, estimates say so."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rs_bpe.bpe import openai

from treadle.tokens import EstimateCounter, ExactCounter, open_counter, slices

_WHOLE = openai.o200k_base()
_EXACT = ExactCounter()

_RUNS = st.sampled_from([
    "hello",
    " world",
    "don't",
    "WE'RE",
    "'s",
    "'",
    " ",
    "  ",
    "\n",
    "\r\n",
    "\t",
    " \n ",
    "123",
    "4567",
    "你好世界",
    "。",
    "，",
    "日本語",
    "ひらがな",
    "カタカナー",
    "한국어",
    "😀",
    "👩‍👩‍👧",
    "é",
    "e\u0301",
    "ñandú",
    "Привет",
    "שלום",
    "/",
    "//",
    "+",
    "=",
    "_",
    "snake_case",
    "camelCase",
    "()",
    "{}",
    '"',
    "!!",
    "\u3000",
    "\u00a0",
    "\u2028",
    "ſ",
    "²",
    "Ⅷ",
    "<|endoftext|>",
])
_TEXTS = st.one_of(
    st.text(max_size=120, alphabet=st.characters(codec="utf-8")),
    st.lists(_RUNS, max_size=60).map("".join),
)


@given(_TEXTS, st.integers(1, 12))
@example("it's 'tis\n\nok", 1)
@example("a1b22c333d4444", 1)
@example("x \n y", 1)
def test_tokens_of_the_slices_joined_are_the_tokens_of_the_whole(text: str, size: int) -> None:
    """Ours: a sum over slices is exact, wherever the slices were cut."""
    parts = list(slices(text, size))
    assert "".join(parts) == text
    assert [t for part in parts for t in _WHOLE.encode(part)] == _WHOLE.encode(text)


@given(_TEXTS)
def test_count_is_the_number_of_tokens(text: str) -> None:
    assert _EXACT.count(text) == len(_EXACT.tokens(text)) == _WHOLE.count(text)


@given(_TEXTS, _TEXTS, _TEXTS)
def test_shared_prefix_is_the_longest_common_prefix_of_the_tokens(
    head: str, one: str, other: str
) -> None:
    left, right = _WHOLE.encode(head + one), _WHOLE.encode(head + other)
    same = _EXACT.shared_prefix(head + one, head + other)
    assert left[:same] == right[:same]
    assert same == min(len(left), len(right)) or left[same] != right[same]


@pytest.mark.parametrize(
    "text",
    ["word " * 20_000, "VGhpcyBpcyBiYXNlNjQ0" * 5_000, "你好，世界。" * 20_000, "x\n" * 50_000],
    ids=["prose", "base64", "chinese", "lines"],
)
def test_long_texts_are_cut_into_small_slices(text: str) -> None:
    """Decision 18: the tokenizer holds the interpreter lock, so no call may be long."""
    assert max(map(len, slices(text))) < 33_000
    assert _EXACT.count(text) == _WHOLE.count(text)


def test_lone_surrogates_are_counted_as_the_replacement_character() -> None:
    """RS12."""
    assert _EXACT.count("a\ud800b") == _WHOLE.count("a\ufffdb")
    assert EstimateCounter().count("a\ud800b") > 0


def test_the_estimator_says_that_it_is_one() -> None:
    assert not EstimateCounter().exact
    assert EstimateCounter().count("") == 0
    assert EstimateCounter().count("a" * 33) == 10


@given(st.text(max_size=50), st.text(max_size=50), st.text(max_size=50))
def test_estimated_prefix_is_the_estimate_of_the_common_text(
    head: str, one: str, other: str
) -> None:
    counter = EstimateCounter()
    left, right = head + one, head + other
    same = 0
    while same < min(len(left), len(right)) and left[same] == right[same]:
        same += 1
    assert counter.shared_prefix(left, right) == counter.count(left[:same])


def test_the_exact_counter_is_chosen_where_its_wheel_is() -> None:
    assert open_counter().exact
