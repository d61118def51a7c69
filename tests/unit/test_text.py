"""Laws and tables of `model.text`."""

from __future__ import annotations

import json
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.model.json import JsonValue, canonical
from treadle.model.text import (
    _HINTS,
    _SHAPES,
    CIRCULAR,
    REDACTED,
    TOO_DEEP,
    Redactor,
    is_secret_name,
    printable,
    redact,
    redact_value,
    truncate,
    without_surrogates,
)

ANY_TEXT = st.text(st.characters(exclude_categories=()))
WITH_SURROGATES = st.text(st.sampled_from("a\x00\ud83d\ude00\udfff\u2028é😀"))


@given(ANY_TEXT | WITH_SURROGATES)
def test_valid_text_is_encodable_and_a_fixed_point(text: str) -> None:
    """RS12."""
    valid = without_surrogates(text)
    assert valid.encode("utf-8").decode("utf-8") == valid
    assert "\x00" not in valid
    assert without_surrogates(valid) == valid
    canonical(valid)


def test_pairs_are_joined_and_lone_surrogates_and_nul_are_replaced() -> None:
    """RS12."""
    assert (
        without_surrogates("a\ud83d\ude00b\ud83dc\ude00\x00\u2028")
        == "a😀b\ufffdc\ufffd\ufffd\u2028"
    )
    assert without_surrogates("😀" * 1000) == "😀" * 1000


@given(ANY_TEXT)
def test_printable_text_has_no_control_character_but_tab_and_line_feed(text: str) -> None:
    """RS51."""
    shown = printable(text)
    assert not [c for c in shown if ord(c) < 0x20 and c not in "\n\t"]
    assert not [c for c in shown if 0x7F <= ord(c) <= 0x9F or 0xD800 <= ord(c) <= 0xDFFF]
    assert printable(shown) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b]52;c;aGk=\x07", r"\x1b]52;c;aGk=\x07"),
        ("\x9b31m", r"\x9b31m"),
        ("a\rb\r\n", "a\\x0db\\x0d\n"),
        ("user\u202egpj.exe", r"user\u202egpj.exe"),
        ("x\U000e0041\U000e0100", r"x\U000e0041\U000e0100"),
        ("\ufeff\u200b", r"\ufeff\u200b"),
        ("👩\u200d💻 می\u200cخواهم ❤\ufe0f", "👩\u200d💻 می\u200cخواهم ❤\ufe0f"),
        ("\ud800", r"\ud800"),
    ],
)
def test_hidden_characters_are_shown_as_escapes(text: str, shown: str) -> None:
    """RS51; joiners that languages and emoji need stay."""
    assert printable(text) == shown


@given(st.text(), st.integers(-5, 60), st.sampled_from(["…", "[cut {dropped} chars]", ""]))
def test_truncated_text_never_exceeds_its_limit(text: str, limit: int, marker: str) -> None:
    cut = truncate(text, limit, marker)
    assert len(cut) <= max(limit, 0) or cut == text == ""
    if len(text) <= limit:
        assert cut == text


def test_a_truncated_text_names_what_was_dropped() -> None:
    assert truncate("x" * 100, 30, "[{dropped}]") == "x" * 26 + "[74]"
    assert truncate("x" * 102, 6, "[{dropped}]") == "x[101]"
    assert truncate("abcdef", 3, "[much longer]") == "[mu"


SECRETS = {
    "openai": "sk-proj-abcdefghijklmnop1234",
    "github": "ghp_abcdefghijklmnopqrstuvwxyz012345",
    "slack": "xoxb-1234567890-abcdefgh",
    "aws": "AKIAABCDEFGHIJKLMNOP",
    "google": "AIza" + "a" * 35,
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJtZSJ9.c2lnbmF0dXJl",
}


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS.keys())
@pytest.mark.parametrize("around", ["{}", "see {}.", '{{"a": "{}"}}', "x={}&y=1", "\n{}\n"])
def test_a_token_is_redacted_wherever_it_stands(secret: str, around: str) -> None:
    """Spec D-23."""
    shown = redact(around.format(secret))
    assert secret not in shown
    assert REDACTED in shown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Authorization: Bearer abcdefgh12345678", f"Authorization: {REDACTED}"),
        ("got Bearer abcdefgh12345678 back", f"got Bearer {REDACTED} back"),
        ("Cookie: a=b; c=d\nHost: x", f"Cookie: {REDACTED}\nHost: x"),
        ("password=hunter2", f"password={REDACTED}"),
        ('{"db_password": "hunter2"}', f'{{"db_password": "{REDACTED}"}}'),
        ("AUTH_TOKEN=abcdef0123456789", f"AUTH_TOKEN={REDACTED}"),
        ("https://me:pa55@host/x", f"https://me:{REDACTED}@host/x"),
        ("key: " + "0f" * 20, f"key: {REDACTED}"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nafter",
            f"-----BEGIN RSA PRIVATE KEY-----{REDACTED}\nafter",
        ),
        ("-----BEGIN PRIVATE KEY-----\nMIIE", f"-----BEGIN PRIVATE KEY-----{REDACTED}"),
    ],
)
def test_named_secrets_are_redacted_and_their_names_stay(text: str, expected: str) -> None:
    """INV-22."""
    assert redact(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens: 4096000000, input tokens=1234567890",
        "the token bucket; a secret garden; the key idea: simplicity",
        "commit 0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f",
        "sk-learn is a library, task-oriented-programming-for-everyone",
        "https://host:8080/path?page=2",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("shape", [shape for shape, _ in _SHAPES], ids=range(len(_SHAPES)))
@given(data=st.data())
def test_whatever_fits_a_shape_holds_a_hint(shape: re.Pattern[str], data: st.DataObject) -> None:
    """So an ASCII text without a hint needs no look at the shapes."""
    text = data.draw(st.from_regex(shape, alphabet=st.characters(max_codepoint=127)))
    assert any(hint in text.lower() for hint in _HINTS)


@given(ANY_TEXT | st.text(st.sampled_from("sk-=: \"'passwordtoken@/[redacted]1")))
def test_redacting_twice_changes_nothing(text: str) -> None:
    once = redact(text)
    assert redact(once) == once


@pytest.mark.parametrize(
    "unit",
    [
        "a-",
        "token",
        "password ",
        "://a:",
        "-----BEGIN PRIVATE KEY-----",
        "eyJaaaaaaaa.",
        "eyJaaaaaaaaa.aaaa",
        "Bearer ",
        "cookie: ",
        "key",
        "sk-",
        "secret=",
        " ",
        "\n",
    ],
)
def test_redaction_takes_linear_time(unit: str) -> None:
    """CPU time of a text eight times as long is at most some 8 (here: 24) times as large."""

    def cpu(size: int) -> float:
        text = unit * (size // len(unit))
        best = 1e9
        for _ in range(3):
            began = time.process_time()
            redact(text)
            best = min(best, time.process_time() - began)
        return best

    assert cpu(400_000) < 24 * max(cpu(50_000), 0.002)


def test_known_secrets_are_redacted_in_every_spelling() -> None:
    """INV-22."""
    redactor = Redactor(['p"ä ss/word', "tiny"])
    for spelling in (
        'p"ä ss/word',
        json.dumps('p"ä ss/word'),
        json.dumps('p"ä ss/word', ensure_ascii=False),
        "p%22%C3%A4%20ss%2Fword",
    ):
        assert redactor.redact(f"x {spelling} y").strip('xy "') == REDACTED
    assert redactor.redact("tiny words stay") == "tiny words stay"
    assert "word" not in repr(redactor)


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "apiKey",
        "api_key",
        "X-Auth-Token",
        "set-cookie",
        "Authorization",
        "clientSecret",
    ],
)
def test_names_of_secrets_are_known(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["tokens", "max_tokens", "tokenCount", "author", "keys", "sessionKey"]
)
def test_names_of_counts_are_not_secret(name: str) -> None:
    assert not is_secret_name(name)


def test_values_are_redacted_by_field_name_and_by_shape() -> None:
    """Spec D-21."""
    value: JsonValue = {
        "user": "me",
        "password": "x",
        "token": 5,
        "nested": {"cookie": ["a", {"b": "c", "n": None}], "text": "use sk-abcdefghijklmnop now"},
        "headers": [{"name": "Authorization", "value": "zzz"}, {"name": "Accept", "value": "*/*"}],
        "empty": {"secret": ""},
    }
    assert redact_value(value) == {
        "user": "me",
        "password": REDACTED,
        "token": 5,
        "nested": {"cookie": [REDACTED, {"b": REDACTED, "n": None}], "text": f"use {REDACTED} now"},
        "headers": [
            {"name": "Authorization", "value": REDACTED},
            {"name": "Accept", "value": "*/*"},
        ],
        "empty": {"secret": ""},
    }


def test_a_value_that_contains_itself_or_is_too_deep_is_cut() -> None:
    """Spec D-21."""
    loop: dict[str, JsonValue] = {"a": 1}
    loop["self"] = loop
    assert redact_value(loop) == {"a": 1, "self": CIRCULAR}
    deep: JsonValue = "sk-abcdefghijklmnop"
    for _ in range(5000):
        deep = [deep]
    assert TOO_DEEP in json.dumps(redact_value(deep))
