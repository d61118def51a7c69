"""Public reports of the field, each with its small input: what can be shown without a loop.

Those that need a whole turn stand in `tests/turn/test_public_reports.py`.
"""

from __future__ import annotations

import pytest

from treadle.config.records import Provider
from treadle.contract.tool import DynamicTool
from treadle.harness.codex.launch import ProviderLaunch, provider_launch, thread_config
from treadle.model.ids import RunId, ThreadId, TurnId
from treadle.model.json import JsonObject
from treadle.model.message import Message, assistant_message, text_of, user_message
from treadle.projection.items import TurnProjection, TurnScope
from treadle.projection.prompt import (
    ProjectionInput,
    TurnInput,
    context_limits,
    fit_turn_input,
    project_prompt,
)
from treadle.projection.wanted import wanted_messages
from treadle.tools.specs import fingerprint_of, spec_of

THREAD, TURN = ThreadId("thr"), TurnId("turn")


def following() -> TurnProjection:
    turn = TurnProjection(TurnScope(run_id=RunId("run"), thread_id=THREAD))
    turn.expect(TURN)
    return turn


def used(total: int) -> JsonObject:
    last = {"totalTokens": total, "inputTokens": total - 10, "outputTokens": 10}
    return {"threadId": THREAD, "turnId": TURN, "tokenUsage": {"last": last}}


def test_old_token_counts_are_unknown_after_a_native_compaction() -> None:
    """Report openclaw#66263; spec G-15: the count before a compaction says nothing after it."""
    turn = following()
    turn.feed("thread/tokenUsage/updated", used(200_000))
    assert turn.usage is not None
    compaction: JsonObject = {
        "threadId": THREAD,
        "turnId": TURN,
        "item": {"type": "contextCompaction", "id": "c"},
    }
    turn.feed("item/completed", compaction)
    assert turn.usage is None
    turn.feed("thread/tokenUsage/updated", used(9_000))
    turn.feed("item/completed", compaction)
    assert turn.usage is not None
    assert turn.usage.context_tokens == 9_000


def test_a_projection_is_never_larger_than_the_window_it_goes_into() -> None:
    """Report openclaw#149689; spec D-42, D-47: native compaction cannot shrink a huge last input.

    400,000 characters of context, a window of 25,000 tokens (100,000 characters).
    """
    limits = context_limits(25_000)
    projected = project_prompt(
        ProjectionInput(
            assembled_messages=[user_message("x" * 999) for _ in range(400)],
            original_history_messages=(),
            prompt="go on",
            max_context_chars=limits.max_context_chars,
            max_part_chars=limits.max_part_chars,
        )
    )
    fitted = fit_turn_input(
        TurnInput(prompt_text=projected.prompt_text, context_range=projected.context_range)
    )
    assert len(fitted.text) < 100_000
    assert fitted.text.endswith("go on")


@pytest.mark.parametrize("tail", ["[10:00] hi", "hi there", "HI"])
def test_a_decorated_earlier_message_is_neither_doubled_nor_dropped(tail: str) -> None:
    """Report openclaw#150956; spec D-12: only the same text as the prompt is the prompt."""
    assembled = [user_message("hi"), assistant_message("hello"), user_message(tail)]
    wanted = wanted_messages(assembled, "hi")
    assert [text_of(one) for one in wanted.messages] == ["hi", "hello", tail]
    quoted = project_prompt(
        ProjectionInput(assembled_messages=assembled, original_history_messages=(), prompt="hi")
    ).prompt_text
    assert quoted.count(tail) == 1
    assert quoted.endswith("\nhi")


def test_the_prompt_itself_at_the_end_of_history_is_not_doubled() -> None:
    """Report openclaw#150956; spec D-12: blanks round it do not matter."""
    assembled: list[Message] = [assistant_message("hello"), user_message(" hi\n")]
    assert [text_of(one) for one in wanted_messages(assembled, "hi").messages] == ["hello"]


def catalog(description: str, *, inner: str = "", name: str = "send") -> str:
    """Return the fingerprint of a catalog of one tool."""
    only = DynamicTool(
        name=name,
        description=description,
        input_schema={
            "type": "object",
            "description": inner,
            "properties": {"to": {"type": "string", "description": inner}},
        },
        call=lambda call: "",
    )
    return fingerprint_of([spec_of(only)])


def test_a_channels_name_in_a_description_keeps_the_thread() -> None:
    """Report openclaw#69876; spec F-12: volatile wording is not what a tool is."""
    assert catalog("Send to #general.") == catalog("Send to @alice.")


def test_authority_dependent_wording_keeps_the_thread_also_inside_a_schema() -> None:
    """Report openclaw#148329; spec F-12."""
    owner = catalog("Send.", inner="You may send to anybody.")
    assert owner == catalog("Ask first.", inner="You may send to the owner alone.")
    assert owner != catalog("Send.", name="send_all")


@pytest.mark.parametrize(
    "provider", [None, provider_launch("p", Provider(base_url="https://p.example/v1"))]
)
def test_what_a_person_set_for_native_apps_is_not_overwritten(
    provider: ProviderLaunch | None,
) -> None:
    """Report openclaw#151260; spec F-24: nothing is sent for what nobody set here."""
    for lightweight in (False, True):
        config = thread_config(provider, lightweight=lightweight)
        assert not [key for key in config if key.split(".")[0] in {"apps", "mcp_servers", "tools"}]
        assert not [key for key in config if "approval" in key]
