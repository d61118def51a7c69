"""The grammar of session keys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.model.errors import UsageError
from treadle.model.ids import AgentId
from treadle.model.session import session_name


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (None, "agent:main:main"),
        ("billing", "agent:main:billing"),
        ("telegram:12345", "agent:main:telegram:12345"),
        ("agent:work:billing", "agent:work:billing"),
        ("agent:work:telegram:9", "agent:work:telegram:9"),
        ("Überblick-2", "agent:main:Überblick-2"),
        ("日本語", "agent:main:日本語"),
    ],
)
def test_a_key_or_a_bare_name_is_read(text: str | None, key: str) -> None:
    assert session_name(text).key == key


def test_a_bare_name_belongs_to_the_agent_in_force() -> None:
    """Decision 31."""
    assert session_name("x", agent=AgentId("work")).key == "agent:work:x"


@pytest.mark.parametrize(
    "text",
    ["", " ", "-x", "a b", "a\nb", "agent:", "agent:main", "agent:main:", "agent:BAD:x", "x" * 201],
)
def test_anything_else_is_refused_with_what_to_do(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        session_name(text)
    assert refused.value.next_step


@given(st.text(max_size=40))
def test_a_full_key_reads_back_as_itself(text: str) -> None:
    try:
        name = session_name(text)
    except UsageError:
        return
    assert session_name(name.key) == name
