"""Words, queries and snippets: pure, no database."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.model.message import (
    Message,
    assistant_message,
    tool_call_part,
    tool_result_message,
    user_message,
)
from treadle.store.search import (
    MAX_INDEXED_CHARS,
    SNIPPET_CHARS,
    Term,
    indexed_words,
    match_expression,
    snippet,
    terms,
    words_of,
)


def test_texts_calls_and_results_are_searched_and_thinking_is_not() -> None:
    call = tool_call_part("c1", "exec_command", {"cmd": ["ls", "-la"], "limit": 7, "tty": True})
    parts = [{"type": "thinking", "thinking": "secretly"}, {"type": "text", "text": "said"}, call]

    assert words_of(Message(role="assistant", content=parts)) == (
        "said\nexec_command\ncmd\nls\n-la\nlimit\n7\ntty"
    )
    result = tool_result_message("c1", "exec_command", "total 4", is_error=False)
    assert words_of(result) == "exec_command\ntotal 4"
    assert words_of(Message(role="user", content="plain")) == "plain"
    assert words_of(Message(role="user", content=None)) == ""


def test_what_is_searched_of_one_entry_has_a_limit() -> None:
    assert len(words_of(user_message("a" * (MAX_INDEXED_CHARS + 5)))) == MAX_INDEXED_CHARS


def test_arguments_nested_ten_thousand_deep_are_read_without_recursion() -> None:
    value: object = "needle"
    for _ in range(10_000):
        value = [value]
    message = Message(role="assistant", content=[tool_call_part("c", "f", value)])  # type: ignore[arg-type]

    assert words_of(message) == "f\nneedle"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("Hello World", (Term(words=("hello",), prefix=True), Term(words=("world",), prefix=True))),
        ('"Hello World"', (Term(words=("hello", "world"), prefix=False),)),
        (
            'say "no way',
            (Term(words=("say",), prefix=True), Term(words=("no", "way"), prefix=False)),
        ),
        ("a_b", (Term(words=("a", "b"), prefix=False),)),  # too short to stand for what it begins
        ("foo.bar", (Term(words=("foo", "bar"), prefix=True),)),
        ("東京", (Term(words=("東", "京"), prefix=False),)),
        ("Ｃａｆé", (Term(words=("cafe",), prefix=True),)),  # full width, and an accent
        ("-> !!! *", ()),
        ("", ()),
    ],
)
def test_a_query_is_words_and_phrases_and_nothing_else(
    query: str, expected: tuple[Term, ...]
) -> None:
    assert terms(query) == expected


def test_pictographs_are_words_that_the_index_knows_by_number() -> None:
    assert indexed_words("done🚀now").split() == ["done", "u1f680", "now"]
    assert match_expression(terms("🚀")) == '"u1f680"'


def test_a_snippet_names_where_the_matches_stand() -> None:
    text = "x" * 500 + " the Café was\nclosed, the café opens " + "y" * 500

    piece, matches = snippet(text, terms("cafe"))

    assert piece.startswith("…")
    assert piece.endswith("…")
    assert "\n" not in piece
    assert [piece[a:b] for a, b in matches] == ["Café", "café"]


def test_a_snippet_without_a_match_is_the_beginning() -> None:
    assert snippet("nothing here", terms("elsewhere")) == ("nothing here", ())


def test_characters_that_fold_to_two_keep_the_offsets_right() -> None:
    piece, matches = snippet("ßßß Straße heißt", terms("STRASSE heisst"))

    assert [piece[a:b] for a, b in matches] == ["Straße", "heißt"]


@given(st.text(max_size=400), st.text(max_size=20))
def test_matches_always_lie_inside_the_snippet_in_order(text: str, query: str) -> None:
    piece, matches = snippet(text, terms(query))

    end = 0
    for start, stop in matches:
        assert end <= start < stop <= len(piece)
        end = stop
    assert len(piece) <= SNIPPET_CHARS + 2


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=60))
def test_composed_and_decomposed_text_become_the_same_words(text: str) -> None:
    composed = unicodedata.normalize("NFC", text)
    decomposed = unicodedata.normalize("NFD", text)

    assert indexed_words(composed) == indexed_words(decomposed)


def test_an_assistants_words_are_found_like_a_users() -> None:
    assert words_of(assistant_message("both")) == words_of(user_message("both"))
