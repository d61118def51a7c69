"""Handlers in this process: order, merging, and the ones that fail."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from treadle.contract.hook import (
    AgentEnd,
    HookContext,
    HookRegistration,
    MessageWrite,
    PromptBuild,
    PromptBuildResult,
)
from treadle.foreign import ForeignCalls
from treadle.hooks.inprocess import InProcessHooks
from treadle.model.ids import EngineId, RunId, SessionId, SessionKey
from treadle.model.message import Message, text_of, user_message
from treadle.observe import emit

pytestmark = pytest.mark.anyio

CTX = HookContext(
    session_key=SessionKey("agent:main:main"),
    session_id=SessionId("ses_1"),
    run_id=RunId("run_1"),
    agent_id="main",
    engine_id=EngineId("legacy"),
    cwd="/w",
)
PROMPT = PromptBuild(
    prompt="p",
    developer_instructions="d",
    messages=[user_message("one")],
    ctx=CTX,
    current_user_message="p",
    planned_items=({"type": "message"},),
)
END = AgentEnd(ctx=CTX, messages=(), success=True, duration_s=1.0)


@pytest.fixture
async def hooks() -> AsyncIterator[InProcessHooks]:
    async with ForeignCalls(emit, close_within_s=0.05) as foreign:
        yield InProcessHooks(foreign, timeout_s=lambda name: 0.1)


def prompt_hook(handler: Any, priority: int = 0) -> HookRegistration:
    return HookRegistration(name="before_prompt_build", handler=handler, priority=priority)


async def test_nobody_registered_changes_nothing(hooks: InProcessHooks) -> None:
    assert await hooks.before_prompt_build(PROMPT) == PromptBuildResult()
    message = user_message("x")
    assert await hooks.before_message_write(MessageWrite(message=message, ctx=CTX)) is message
    await hooks.observe("agent_end", END)


async def test_results_merge_by_priority_and_then_by_registration(hooks: InProcessHooks) -> None:
    """Spec E-12, L-01."""

    async def late(payload: PromptBuild) -> PromptBuildResult:
        return PromptBuildResult(
            system_prompt="late",
            prepend_context="3",
            tools_allow=frozenset({"a", "b"}),
        )

    hooks.register(prompt_hook(lambda p: PromptBuildResult(prepend_context="2")))
    hooks.register(prompt_hook(late, priority=-1))
    hooks.register(
        prompt_hook(
            lambda p: PromptBuildResult(
                system_prompt="", prepend_context="1", tools_allow=frozenset({"b", "c"})
            ),
            priority=9,
        )
    )
    assert await hooks.before_prompt_build(PROMPT) == PromptBuildResult(
        system_prompt="", prepend_context="1\n\n2\n\n3", tools_allow=frozenset({"b"})
    )


WRONG_FIELD: Any = 5


@pytest.mark.parametrize(
    "answer", [{"prepend_context": "x"}, "text", PromptBuildResult(prepend_context=WRONG_FIELD)]
)
async def test_a_wrong_answer_is_skipped_and_the_others_count(
    answer: object, hooks: InProcessHooks, caplog: pytest.LogCaptureFixture
) -> None:
    """Spec E-13."""
    hooks.register(prompt_hook(lambda p: answer))
    hooks.register(prompt_hook(lambda p: PromptBuildResult(append_context="kept")))
    assert await hooks.before_prompt_build(PROMPT) == PromptBuildResult(append_context="kept")
    assert "hook failed" in caplog.messages


async def test_a_failing_and_a_sleeping_handler_are_skipped(
    hooks: InProcessHooks, caplog: pytest.LogCaptureFixture
) -> None:
    """Spec E-13."""

    async def sleeps(payload: PromptBuild) -> None:
        await anyio.sleep_forever()

    def throws(payload: PromptBuild) -> None:
        raise ValueError("no")

    hooks.register(prompt_hook(throws))
    hooks.register(prompt_hook(sleeps))
    hooks.register(prompt_hook(lambda p: None))
    hooks.register(prompt_hook(lambda p: PromptBuildResult(append_system_context="kept")))
    with anyio.fail_after(5):
        result = await hooks.before_prompt_build(PROMPT)
    assert result == PromptBuildResult(append_system_context="kept")
    assert caplog.messages == ["hook failed", "hook did not answer in time"]


async def test_a_message_survives_a_handler_that_fails(hooks: InProcessHooks) -> None:
    """Spec E-13, H-07: only an answer of none leaves a message out."""

    def throws(payload: MessageWrite) -> Message:
        raise ValueError("no")

    hooks.register(HookRegistration(name="before_message_write", handler=throws))
    given = MessageWrite(message=user_message("hello"), ctx=CTX)
    assert await hooks.before_message_write(given) == user_message("hello")


async def test_handlers_cannot_change_what_others_see(hooks: InProcessHooks) -> None:
    """Spec E-12: a detached snapshot."""
    seen: list[tuple[int, Any]] = []

    def meddles(payload: Any) -> None:
        seen.append((len(payload.messages), payload.planned_items[0]["type"]))
        payload.messages.clear()
        payload.planned_items[0]["type"] = "changed"

    hooks.register(prompt_hook(meddles))
    hooks.register(prompt_hook(meddles))
    await hooks.before_prompt_build(PROMPT)
    assert seen == [(1, "message"), (1, "message")]
    assert len(PROMPT.messages) == 1


async def test_a_message_is_rewritten_or_left_out(hooks: InProcessHooks) -> None:
    """Spec H-07."""

    def shout(payload: MessageWrite) -> Message:
        return user_message(str(payload.message.content).upper())

    def drop_secrets(payload: MessageWrite) -> Message | None:
        return None if "SECRET" in str(payload.message.content) else payload.message

    def broken(payload: MessageWrite) -> str:
        return "not a message"

    for handler in (broken, shout, drop_secrets):
        hooks.register(HookRegistration(name="before_message_write", handler=handler))
    written = await hooks.before_message_write(MessageWrite(message=user_message("a"), ctx=CTX))
    assert written is not None
    assert "'TEXT': 'A'" in text_of(written)
    secret = MessageWrite(message=user_message("secret"), ctx=CTX)
    assert await hooks.before_message_write(secret) is None


async def test_observers_run_together_and_their_failures_are_nobodys(
    hooks: InProcessHooks, caplog: pytest.LogCaptureFixture
) -> None:
    """Spec L-01, L-22."""
    both = anyio.Event()
    here: list[str] = []

    async def first(payload: AgentEnd) -> None:
        await both.wait()
        here.append("first")

    async def second(payload: AgentEnd) -> None:
        both.set()
        here.append("second")
        raise ValueError("ignored")

    for handler in (first, second):
        hooks.register(HookRegistration(name="agent_end", handler=handler))
    with anyio.fail_after(5):
        await hooks.observe("agent_end", END)
    assert sorted(here) == ["first", "second"]
    assert caplog.messages == ["hook failed"]
