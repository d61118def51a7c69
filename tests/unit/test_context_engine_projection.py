"""What an engine's context becomes, as text and as items: the documents' own list of tests."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.contract.engine import Assembled, EngineInfo
from treadle.contract.store import Holding
from treadle.harness.codex.planning import PlanningInput, plan_turn
from treadle.model.message import Message, assistant_message, text_of, user_message
from treadle.projection.history import Seed
from treadle.projection.injection import ItemOptions, items_for
from treadle.projection.instructions import BaseSections, base_sections, compose
from treadle.projection.prompt import ProjectionInput, project_prompt
from treadle.protocol.responses import item_text

INFO = EngineInfo(id="e", name="E")
ROLES = ("user", "assistant", "toolResult", "system", "custom")


def as_text(messages: list[Message], prompt: str) -> str:
    """Return the turn's text under the prompt carrier."""
    return project_prompt(
        ProjectionInput(
            assembled_messages=messages,
            original_history_messages=messages,
            prompt=prompt,
            max_context_chars=100_000,
        )
    ).prompt_text


def as_items(messages: list[Message], prompt: str) -> list[str]:
    """Return the texts of the items under the history carrier."""
    turn = plan_turn(
        PlanningInput(
            binding=None,
            holding=Holding(),
            held_hashes=tuple,
            history=messages,
            prompt=prompt,
            engine=INFO,
            engine_active=True,
            assembled=Assembled(messages=messages, estimated_tokens=0),
            mode="history",
            tool_fingerprint="t",
            citations_mode=None,
            count_tokens=lambda message: len(text_of(message)),
        )
    )
    assert isinstance(turn.plan, Seed)
    made = items_for(turn.inject, {}, ItemOptions(model="m", model_provider=None))
    return [item_text(one.item) for one in made]


@given(st.lists(st.tuples(st.sampled_from(ROLES), st.text(max_size=40)), max_size=12), st.text())
def test_the_same_inputs_give_the_same_bytes(parts: list[tuple[str, str]], prompt: str) -> None:
    """Spec W-02, W-07, D-29: as text and as items, whatever objects hold them."""
    first = [Message(role=role, content=text) for role, text in parts]
    again = [Message(role=role, content=[{"type": "text", "text": text}]) for role, text in parts]
    assert as_text(first, prompt) == as_text(list(first), prompt)
    assert as_text(again, prompt) == as_text(list(again), prompt)
    assert as_items(first, prompt) == as_items(list(first), prompt)


def test_a_repeated_prompt_stands_once_in_either_carrier() -> None:
    """Spec W-02, W-07, D-12: only the last message, only where a user said it."""
    messages = [user_message("same"), assistant_message("a"), user_message(" same ")]
    assert as_text(messages, "same").count("same") == 2
    assert as_items(messages, "same") == ["same", "a"]
    kept = [*messages, assistant_message("same")]
    assert as_text(kept, "same").count("same") == 4
    assert as_items(kept, "same")[-1] == "same"


@pytest.mark.parametrize("messages", [[], [user_message("  ")], [user_message("hello")]])
def test_an_empty_history_is_the_bare_prompt(messages: list[Message]) -> None:
    """Spec W-02, W-07, D-06: nothing, only blanks, or only the prompt itself."""
    assert as_text(messages, " hello ") == "hello"
    assert [text for text in as_items(messages, " hello ") if text.strip()] == []


def test_roles_keep_their_order_and_their_names() -> None:
    """Spec W-02, W-07, D-09."""
    messages = [Message(role=role, content=f"text of {role}") for role in ROLES]
    random.Random(7).shuffle(messages)
    text = as_text(messages, "go on")
    labels = [line for line in text.splitlines() if line.startswith("[")]
    assert labels == [f"[{message.role}]" for message in messages]
    items = as_items(messages, "go on")
    positions = [
        next(at for at, item in enumerate(items) if text_of(message) in item)
        for message in messages
    ]
    assert positions == sorted(positions)


def test_the_addition_stands_in_the_instructions_alone_and_last() -> None:
    """Spec W-02, D-07, E-02: behind the base, by one empty line."""
    base = compose(base_sections(BaseSections()))
    whole = compose((*base_sections(BaseSections()), "ADDITION"))
    assert whole == (f"{base}\n\nADDITION" if base else "ADDITION")
    projected = project_prompt(
        ProjectionInput(
            assembled_messages=[user_message("hello")],
            original_history_messages=[],
            prompt="go on",
            system_prompt_addition="  ADDITION ",
            max_context_chars=100_000,
        )
    )
    assert projected.developer_instruction_addition == "ADDITION"
    assert "ADDITION" not in projected.prompt_text
