"""Foreign calls: whoever asks goes on, whatever the called code does."""

from __future__ import annotations

import contextvars
import inspect
import threading
from collections.abc import Awaitable
from dataclasses import dataclass, field

import anyio
import pytest

from treadle.foreign import (
    Abort,
    ForeignAborted,
    ForeignCalls,
    ForeignFailure,
    ForeignTimeout,
    reason_text,
)
from treadle.model.json import JsonValue

pytestmark = pytest.mark.anyio

VOICE = contextvars.ContextVar("VOICE", default="nobody")


@dataclass
class Logged:
    """An event log that keeps what it is given."""

    events: list[tuple[str, dict[str, JsonValue]]] = field(default_factory=list)

    def __call__(
        self, event: str, *, cause: BaseException | None = None, **fields: JsonValue
    ) -> None:
        self.events.append((event, fields))


@dataclass
class Stubborn:
    """A coroutine that ignores cancellation until it is let go."""

    begun: anyio.Event = field(default_factory=anyio.Event)
    let_go: anyio.Event = field(default_factory=anyio.Event)
    cancelled_count: int = 0

    async def __call__(self) -> str:
        self.begun.set()
        while not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except anyio.get_cancelled_exc_class():
                self.cancelled_count += 1
        return "at last"


async def several_loop_turns() -> None:
    for _ in range(50):
        await anyio.lowlevel.checkpoint()


async def test_plain_functions_run_in_a_thread_and_async_ones_on_the_loop() -> None:
    """Decision 14."""
    here = threading.get_ident()

    async def on_loop(word: str) -> tuple[str, int]:
        return word, threading.get_ident()

    def returns_awaitable(word: str) -> Awaitable[tuple[str, int]]:
        return on_loop(word)

    async with ForeignCalls(Logged()) as calls:
        plain = await calls.call("e", "op", lambda: threading.get_ident(), deadline_s=5)
        assert plain != here
        assert await calls.call("e", "op", on_loop, "a", deadline_s=5) == ("a", here)
        assert await calls.call("e", "op", returns_awaitable, "b", deadline_s=None) == ("b", here)
        assert calls.stuck == ()


async def test_context_variables_of_the_asker_reach_the_call() -> None:
    async def read() -> str:
        return VOICE.get()

    async with ForeignCalls(Logged()) as calls:
        VOICE.set("asker")
        assert await calls.call("e", "op", VOICE.get, deadline_s=5) == "asker"
        assert await calls.call("e", "op", read, deadline_s=5) == "asker"


async def test_asker_goes_on_at_the_deadline_and_the_stubborn_call_is_counted() -> None:
    """Decision 14: cancelled exactly once, so it costs no CPU while it stays."""
    stubborn = Stubborn()
    abort = Abort()
    async with ForeignCalls(Logged()) as calls:
        with anyio.fail_after(5), pytest.raises(ForeignTimeout) as caught:
            await calls.call("eng", "assemble", stubborn, deadline_s=0.01, abort=abort)
        assert caught.value.fields == {"owner": "eng", "operation": "assemble"}
        assert abort.reason == "deadline"
        await several_loop_turns()
        assert stubborn.cancelled_count == 1
        assert [(c.owner, c.operation, c.in_thread) for c in calls.stuck] == [
            ("eng", "assemble", False)
        ]
        stubborn.let_go.set()
        await several_loop_turns()
        assert calls.stuck == ()


async def test_close_ends_within_its_bound_when_a_call_swallows_cancellation() -> None:
    stubborn = Stubborn()
    log = Logged()
    with anyio.fail_after(5):
        async with ForeignCalls(log, close_within_s=0.01) as calls:
            with pytest.raises(ForeignTimeout):
                await calls.call("eng", "assemble", stubborn, deadline_s=0.01)
    assert log.events == [
        ("task.leaked", {"owner": "eng", "operation": "assemble", "in_thread": False})
    ]


async def test_close_ends_when_a_call_swallows_even_being_closed() -> None:
    let_go = False

    async def shameless() -> None:
        while not let_go:
            try:
                await anyio.sleep_forever()
            except BaseException:
                continue

    log = Logged()
    with anyio.fail_after(5):
        async with ForeignCalls(log, close_within_s=0.01) as calls:
            with pytest.raises(ForeignTimeout):
                await calls.call("eng", "compact", shameless, deadline_s=0.01)
    assert [event for event, _ in log.events] == ["task.leaked"]
    let_go = True  # so that the interpreter can drop it in silence


async def test_close_does_not_wait_for_a_thread_that_never_ends() -> None:
    release = threading.Event()
    log = Logged()
    with anyio.fail_after(5):
        async with ForeignCalls(log, close_within_s=0.01) as calls:
            with pytest.raises(ForeignTimeout):
                await calls.call("eng", "ingest", release.wait, deadline_s=0.01)
            assert [c.in_thread for c in calls.stuck] == [True]
    assert [fields["in_thread"] for _, fields in log.events] == [True]
    release.set()


async def test_an_outer_cancellation_reaches_the_body_but_not_the_calls() -> None:
    """A turn that is finalized while the service stops still gets its engine's answer."""
    answered = []

    async def slow() -> str:
        await several_loop_turns()
        return "done"

    with anyio.fail_after(5), anyio.CancelScope() as outer:
        async with ForeignCalls(Logged()) as calls:
            outer.cancel()
            with anyio.CancelScope(shield=True):
                answered.append(await calls.call("e", "after_turn", slow, deadline_s=5))
            await anyio.sleep_forever()
    assert outer.cancelled_caught
    assert answered == ["done"]


async def test_cancelling_the_asker_cancels_the_call() -> None:
    seen = []

    async def polite() -> None:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            seen.append("cancelled")
            raise

    async with ForeignCalls(Logged()) as calls:
        with anyio.move_on_after(0.01) as scope:
            await calls.call("e", "op", polite, deadline_s=None)
        assert scope.cancelled_caught
        with anyio.fail_after(5):
            await several_loop_turns()
        assert seen == ["cancelled"]
        assert calls.stuck == ()


async def test_a_coroutine_that_comes_too_late_is_closed() -> None:
    """Else Python warns of a coroutine that was never awaited, in whatever runs next."""
    release = threading.Event()
    made = []

    async def never() -> None:
        await anyio.sleep_forever()

    def late() -> Awaitable[None]:
        release.wait()
        made.append(never())
        return made[0]

    async with ForeignCalls(Logged()) as calls:
        with pytest.raises(ForeignTimeout):
            await calls.call("e", "op", late, deadline_s=0.01)
        release.set()
        with anyio.fail_after(5):
            while calls.stuck:
                await anyio.lowlevel.checkpoint()
    assert inspect.getcoroutinestate(made[0]) == inspect.CORO_CLOSED


async def test_a_raised_abort_gives_the_call_up() -> None:
    stubborn = Stubborn()
    run = Abort()
    async with ForeignCalls(Logged()) as calls, anyio.create_task_group() as tg:

        async def ask() -> None:
            with pytest.raises(ForeignAborted, match="stopped by the person"):
                await calls.call("e", "op", stubborn, deadline_s=None, abort=Abort(run))

        tg.start_soon(ask)
        await stubborn.begun.wait()
        run.set("stopped by the person")
        with anyio.fail_after(5):
            await several_loop_turns()
        stubborn.let_go.set()


@pytest.mark.parametrize(
    "error", [ValueError("no"), SystemExit(3), GeneratorExit()], ids=lambda e: type(e).__name__
)
async def test_whatever_a_call_raises_is_a_failure(error: BaseException) -> None:
    def plain() -> None:
        raise error

    async def on_loop() -> None:
        raise error

    async with ForeignCalls(Logged()) as calls:
        for func in (plain, on_loop):
            with pytest.raises(ForeignFailure) as caught:
                await calls.call("e", "op", func, deadline_s=5)
            assert caught.value.__cause__ is error


async def test_the_error_of_the_body_passes_unwrapped() -> None:
    with pytest.raises(ValueError, match="mine"):
        async with ForeignCalls(Logged()):
            raise ValueError("mine")


async def test_a_call_after_closing_is_refused() -> None:
    async with ForeignCalls(Logged()) as calls:
        pass
    with pytest.raises(ForeignAborted):
        await calls.call("e", "op", lambda: 1, deadline_s=5)


async def test_a_signal_is_raised_with_its_parent_and_keeps_its_first_reason() -> None:
    parent = Abort()
    child = Abort(parent)
    assert (child.aborted, child.reason) == (False, None)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tg:
            tg.start_soon(child.wait)
            await several_loop_turns()
            parent.set("first")
    parent.set("second")
    assert (child.aborted, child.reason) == (True, "first")
    own = Abort(Abort())
    own.set("own")
    await own.wait()
    assert own.reason == "own"
    assert Abort(parent).aborted, "a child of a raised one is raised"


class OtherSignal:
    """A signal that is not of our making."""

    def __init__(self) -> None:
        self.event = anyio.Event()

    @property
    def aborted(self) -> bool:
        return self.event.is_set()

    @property
    def reason(self) -> str | None:
        return "theirs" if self.aborted else None

    async def wait(self) -> None:
        await self.event.wait()


async def test_a_signal_may_hang_on_one_of_another_make() -> None:
    """Decision 15: the contract names no type of ours."""
    other = OtherSignal()
    child = Abort(other)
    async with ForeignCalls(Logged()) as calls, anyio.create_task_group() as tg:

        async def ask() -> None:
            with pytest.raises(ForeignAborted, match="theirs"):
                await calls.call("e", "op", anyio.sleep_forever, deadline_s=None, abort=child)

        tg.start_soon(ask)
        tg.start_soon(child.wait)
        await several_loop_turns()
        other.event.set()
        with anyio.fail_after(5):
            await child.wait()
    assert child.reason == "theirs"


def test_reason_text_shows_no_secret_and_never_raises() -> None:
    """Spec S-02, T-08."""

    class Unreadable(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    text = reason_text(ValueError("Authorization: Bearer abcdefgh12345678\x1b[31m" + "x" * 5000))
    assert text.startswith("ValueError: ")
    assert "abcdefgh" not in text
    assert "\x1b" not in text
    assert len(text) <= 500
    assert reason_text(Unreadable()) == "Unreadable: (its text cannot be read)"
    assert reason_text(KeyError()) == "KeyError"
