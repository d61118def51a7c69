"""Honest usage: decision 26."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.model.json import JsonObject, JsonValue
from treadle.offline.usage import IMAGE_TOKENS, CacheLedger, rendered
from treadle.tokens import EstimateCounter, ExactCounter

EXACT = ExactCounter()
LONG = "The quick brown fox jumps over the lazy dog. " * 150  # 1,501 tokens
WORDS = "one two three four five six seven eight nine ten " * 13


def message(text: str, **more: JsonValue) -> JsonObject:
    part = {"type": "input_text", "text": text}
    return {"type": "message", "role": "user", "content": [part], **more}


def body(*texts: str, key: str = "k", ids: str = "") -> JsonObject:
    items = [message(text, id=f"{ids}{n}") for n, text in enumerate(texts)]
    return {"input": items, "prompt_cache_key": key}


def test_nothing_is_cached_of_the_first_request() -> None:
    cached = CacheLedger(EXACT).record(body(LONG))
    assert cached.input_tokens == EXACT.count(f"user\n{LONG}")
    assert (cached.same_key_tokens, cached.any_key_tokens) == (0, 0)


def test_a_repeated_prefix_is_cached_in_steps_of_128_whatever_the_ids() -> None:
    ledger = CacheLedger(EXACT)
    head = ledger.record(body(LONG, "a", ids="one")).input_tokens
    cached = ledger.record(body(LONG, "a", "b", ids="two"))
    assert cached.same_key_tokens == head - head % 128


def test_less_than_1024_tokens_are_not_cached() -> None:
    ledger = CacheLedger(EXACT)
    ledger.record(body("short"))
    assert ledger.record(body("short", "more")).same_key_tokens == 0


def test_another_key_counts_only_for_the_figure_beside() -> None:
    ledger = CacheLedger(EXACT)
    ledger.record(body(LONG, key="one"))
    cached = ledger.record(body(LONG, key="other"))
    assert cached.same_key_tokens == 0
    assert cached.any_key_tokens > 1_024


def test_the_prefix_ends_inside_the_first_item_that_differs() -> None:
    ledger = CacheLedger(EXACT)
    ledger.record(body("head", LONG + "one end"))
    cached = ledger.record(body("head", LONG + "another end"))
    shared = EXACT.count("user\nhead") + EXACT.shared_prefix(
        f"user\n{LONG}one end", f"user\n{LONG}another end"
    )
    assert cached.same_key_tokens == shared - shared % 128 > 1_024


def test_offered_tools_stand_before_the_input() -> None:
    ledger = CacheLedger(EXACT)
    tools: list[JsonValue] = [{"type": "function", "name": "f"}]
    ledger.record({**body(LONG), "tools": tools})
    assert ledger.record({**body(LONG)}).same_key_tokens == 0
    assert ledger.record({**body(LONG), "tools": tools}).same_key_tokens > 0


def test_an_image_is_charged_once_and_its_data_is_not_text() -> None:
    image: JsonObject = {"type": "input_image", "image_url": "data:image/png;base64," + "A" * 9_000}
    item: JsonObject = {"type": "message", "role": "user", "content": [image]}
    cached = CacheLedger(EXACT).record({"input": [item]})
    assert cached.input_tokens == EXACT.count("user\n[image]") + IMAGE_TOKENS


def test_a_conversation_is_remembered_once_and_the_oldest_is_forgotten() -> None:
    ledger = CacheLedger(EXACT, keep_requests=2)
    for key in ("a", "b", "c"):
        for turn in range(3):
            ledger.record(body(LONG, *map(str, range(turn)), key=key))
    assert len(ledger) == 2
    assert ledger.record(body(LONG, key="a")).same_key_tokens == 0
    assert ledger.record(body(LONG, key="c")).same_key_tokens > 0


def test_characters_are_bounded_too() -> None:
    ledger = CacheLedger(EXACT, keep_chars=2 * len(LONG))
    for key in ("a", "b", "c", "d"):
        ledger.record(body(LONG, key=key))
    assert len(ledger) == 1


@pytest.mark.parametrize("counter", [EXACT, EstimateCounter()], ids=["exact", "estimate"])
@given(
    st.lists(st.lists(st.sampled_from([LONG, WORDS, "x", "y"]), max_size=4), max_size=6),
    st.lists(st.sampled_from([LONG, WORDS, "x", "y"]), max_size=4),
)
@settings(max_examples=40, deadline=None)
def test_cached_never_exceeds_input_and_is_the_best_of_all_earlier_requests(
    counter: ExactCounter | EstimateCounter,
    earlier: Sequence[Sequence[str]],
    texts: Sequence[str],
) -> None:
    """Ours: forgetting repeated requests changes no figure."""
    ledger = CacheLedger(counter)
    for number, one in enumerate(earlier):
        ledger.record(body(*one, key=str(number % 2)))
    cached = ledger.record(body(*texts, key="0"))
    assert cached.same_key_tokens <= cached.any_key_tokens <= cached.input_tokens
    bests = []
    for wanted in (("0",), ("0", "1")):
        shared = [
            _shared(counter, one, texts) for n, one in enumerate(earlier) if str(n % 2) in wanted
        ]
        most = max(shared, default=0)
        bests.append(most - most % 128 if most >= 1_024 else 0)
    assert bests == [cached.same_key_tokens, cached.any_key_tokens]


def _shared(
    counter: ExactCounter | EstimateCounter, one: Sequence[str], other: Sequence[str]
) -> int:
    tokens = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            return tokens + counter.shared_prefix(f"user\n{a}", f"user\n{b}")
        tokens += counter.count(f"user\n{a}")
    return tokens


def test_odd_shapes_are_rendered() -> None:
    assert rendered({"input": "hello"}) == [("hello", 0)]
    assert rendered({}) == []
    assert rendered({"input": [3, {"role": "user", "content": "x"}]}) == [("3", 0), ("user\nx", 0)]
    assert rendered({"input": [{"type": "x", "id": "1", "v": "\ud800"}]})[0][1] == 0
