"""Call foreign code (engines, hooks, tools, channels) without depending on its manners.

Knows nothing of what is called or of what an answer means. Each call is a task of one task group
that lives in the *service*; whoever asks waits for the answer, not for the task. At the deadline,
or when the asker is cancelled, the asker goes on at once and the call stays behind, cancelled and
counted. Source: decision 14.

How a call is cancelled, and why not by a cancel scope: a scope cancels by level, again in every
cycle of the loop. Measured with anyio 4.16: a coroutine that swallows cancellation was cancelled
36,000 times in a second and took a whole core. So each call is cancelled once, by its task's own
`cancel` (the one use of asyncio here), and the group is shielded from its surroundings.

What closing does: all calls are cancelled and given `close_within_s`; then a coroutine that still
runs is closed where it stands and our task round it ends without its consent. A plain function runs
in a daemon thread, which nothing can stop: it is left to the end of the process, which does not
wait for it. A call that blocks the loop can't be survived; `treadle.watchdog` names it.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Protocol, Self
from weakref import WeakSet

import anyio
from anyio.abc import TaskGroup, TaskStatus

from treadle.model.errors import PluginError
from treadle.model.json import JsonValue
from treadle.model.text import printable, redact, truncate
from treadle.threads import ParkedThreads

CLOSE_WITHIN_S: Final = 2.0
"""Seconds that cancelled calls get to end when the service closes."""

MAX_REASON_CHARS: Final = 500
"""Characters of a foreign error's text that we pass on."""


class EventLog(Protocol):
    """Takes one event of `treadle.observe`; `observe.emit` is one."""

    def __call__(
        self, event: str, *, cause: BaseException | None = None, **fields: JsonValue
    ) -> None:
        """Log the event with these fields."""


class _Signal(Protocol):
    @property
    def aborted(self) -> bool: ...

    @property
    def reason(self) -> str | None: ...

    async def wait(self) -> None: ...


class Abort:
    """An abort signal that its owner can raise; one with a parent is raised when the parent is.

    Implements `contract.engine.AbortSignal`. `aborted` and `reason` may be read from any thread,
    everything else belongs to the loop.
    """

    __slots__ = ("__weakref__", "_children", "_event", "_parent", "_reason", "_waiters")

    def __init__(self, parent: _Signal | None = None) -> None:
        self._event = anyio.Event()
        self._reason: str | None = None
        self._children: WeakSet[Abort] = WeakSet()
        self._waiters: set[anyio.Event] = set()
        self._parent = None if isinstance(parent, Abort) else parent
        """Only one of another make: a parent of ours tells its children by itself."""
        if isinstance(parent, Abort):
            parent._children.add(self)
        if parent is not None and parent.aborted:
            self.set(parent.reason or "aborted")

    @property
    def aborted(self) -> bool:
        """Whether it was raised."""
        return self._event.is_set() or (self._parent is not None and self._parent.aborted)

    @property
    def reason(self) -> str | None:
        """Why, once raised; the first reason stays."""
        if self._event.is_set() or self._parent is None:
            return self._reason
        return self._parent.reason

    def set(self, reason: str) -> None:
        """Raise it. A second time changes nothing."""
        if self._event.is_set():
            return
        self._reason = reason
        self._event.set()
        for waiter in self._waiters:
            waiter.set()
        for child in list(self._children):
            child.set(reason)

    async def wait(self) -> None:
        """Return once it is raised. Cancel: nothing is consumed."""
        if self._parent is None or self.aborted:
            if not self.aborted:
                await self._event.wait()
            return
        async with anyio.create_task_group() as racers:
            racers.start_soon(_wait_then, self._parent.wait, racers.cancel_scope.cancel)
            await self._event.wait()
            racers.cancel_scope.cancel()

    @asynccontextmanager
    async def waking(self, event: anyio.Event) -> AsyncIterator[None]:
        """Set the event, too, should the signal be raised within the block."""
        if self.aborted:
            event.set()
        self._waiters.add(event)
        try:
            if self._parent is None:
                yield
                return
            async with anyio.create_task_group() as watching:
                watching.start_soon(_wait_then, self._parent.wait, event.set)
                yield
                watching.cancel_scope.cancel()
        finally:
            self._waiters.discard(event)


async def _wait_then(wait: Callable[[], Awaitable[None]], act: Callable[[], None]) -> None:
    await wait()
    act()


class ForeignFault(PluginError):
    """A foreign call brought no answer. Base of the three ways; each room translates it once."""

    def __init__(self, owner: str, operation: str, reason: str) -> None:
        """Keep who was asked, what for, and a reason that is safe to show."""
        super().__init__(
            f"{owner!r} failed in {operation!r}: {reason}", owner=owner, operation=operation
        )
        self.owner = owner
        self.operation = operation
        self.reason = reason


class ForeignTimeout(ForeignFault):
    """It did not answer in time; it was cancelled and may still run."""

    def __init__(self, owner: str, operation: str, deadline_s: float) -> None:
        """Keep the deadline in seconds."""
        super().__init__(owner, operation, f"no answer within {deadline_s:g} s")
        self.deadline_s = deadline_s


class ForeignFailure(ForeignFault):
    """It raised; the exception is the `__cause__`."""


class ForeignAborted(ForeignFault):
    """The abort signal was raised before it answered; it was cancelled and may still run."""


def reason_text(error: BaseException) -> str:
    """Return `Type: text` of a foreign error: redacted, printable, bounded, and never raising.

    Source: spec S-02, T-08.
    """
    kind = type(error).__name__
    try:
        text = str(error)
    except Exception:  # the text of a foreign error is foreign code too
        text = "(its text cannot be read)"
    shown = printable(redact(truncate(text, 4 * MAX_REASON_CHARS)))
    return truncate(f"{kind}: {shown}" if shown else kind, MAX_REASON_CHARS)


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckCall:
    """A call that was cancelled and has not ended."""

    owner: str
    operation: str
    cancelled_for_s: float
    """Seconds since it was cancelled."""

    in_thread: bool  # a plain function, which nothing can stop


class ForeignCalls:
    """Runs foreign calls; an async context manager that lives as long as the service."""

    def __init__(
        self,
        log: EventLog,
        *,
        close_within_s: float = CLOSE_WITHIN_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._close_within_s = close_within_s
        self._monotonic = monotonic
        self._closing = anyio.Event()
        self._outer = anyio.create_task_group()
        self._inner: TaskGroup | None = None
        self._calls: set[_Call] = set()
        self._threads = ParkedThreads("foreign call")

    async def __aenter__(self) -> Self:
        await self._outer.__aenter__()
        try:
            await self._outer.start(self._host)
        except BaseException:
            self._closing.set()
            await self._outer.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End within the bound, whatever the calls do; the body's own error passes as it is."""
        self._closing.set()
        await self._outer.__aexit__(None, None, None)

    @property
    def stuck(self) -> tuple[StuckCall, ...]:
        """Calls that were cancelled and still run, for health."""
        now = self._monotonic()
        return tuple(
            StuckCall(
                owner=call.owner,
                operation=call.operation,
                cancelled_for_s=now - call.cancelled_at,
                in_thread=call.thread_runs,
            )
            for call in self._calls
            if call.cancelled_at is not None
        )

    async def call(
        self,
        owner: str,
        operation: str,
        func: Callable[..., object],
        *args: object,
        deadline_s: float | None,
        abort: Abort | None = None,
    ) -> Any:
        """Return what `func(*args)` answers, awaited if that is an awaitable.

        A plain function runs in a thread of its own, with the asker's context variables. `abort` is
        raised by us at the deadline, so that the foreign code may be told by the same signal; if
        somebody else raises it, the call is given up.

        Raises: ForeignTimeout at the deadline, ForeignAborted, and ForeignFailure for anything that
        the call raised, `SystemExit` too. Cancel: the call is cancelled as at the deadline.
        """
        if (inner := self._inner) is None or self._closing.is_set():
            raise ForeignAborted(owner, operation, "the service is closing")
        call = _Call(owner, operation, func, args, self._calls.discard, self._threads)
        self._calls.add(call)
        inner.start_soon(call.run, name=f"foreign {owner}.{operation}")
        with anyio.move_on_after(deadline_s) as deadline:
            try:
                await _woken(call, abort)
            except anyio.get_cancelled_exc_class():
                if abort is not None:
                    abort.set("deadline" if deadline.cancel_called else "cancelled")
                call.cancel(self._monotonic())
                raise
        if call.has_answered:
            return call.answer()
        if deadline.cancelled_caught:
            assert deadline_s is not None
            raise ForeignTimeout(owner, operation, deadline_s)
        call.cancel(self._monotonic())
        raise ForeignAborted(owner, operation, (abort and abort.reason) or "aborted")

    async def _host(self, *, task_status: TaskStatus[None]) -> None:
        """Hold the calls' own task group, shielded from whatever ends the service."""
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as inner:
                self._inner = inner
                task_status.started()
                await self._closing.wait()
                await self._settle()
            self._inner = None

    async def _settle(self) -> None:
        for call in list(self._calls):
            call.cancel(self._monotonic())
        with anyio.move_on_after(self._close_within_s):
            for call in list(self._calls):
                await call.ended.wait()
        for call in list(self._calls):
            self._log(
                "task.leaked",
                owner=call.owner,
                operation=call.operation,
                in_thread=call.thread_runs,
            )
            call.abandon()
        self._threads.close()


async def _woken(call: _Call, abort: Abort | None) -> None:
    """Return when the call has answered or the signal is raised, whichever is first."""
    if abort is None:
        await call.wake.wait()
        return
    async with abort.waking(call.wake):
        await call.wake.wait()


class _Call:
    """One call: its task, perhaps its thread, and its outcome."""

    def __init__(
        self,
        owner: str,
        operation: str,
        func: Callable[..., object],
        args: tuple[object, ...],
        forget: Callable[[_Call], None],
        threads: ParkedThreads,
    ) -> None:
        self.owner = owner
        self.operation = operation
        self.cancelled_at: float | None = None
        self.thread_runs = False
        self.has_answered = False
        self.wake = anyio.Event()
        """Set when the asker should look: there is an answer, or the abort signal was raised."""
        self.ended = anyio.Event()
        """The task and the thread are both over."""
        self._func = func
        self._args = args
        self._forget = forget
        self._threads = threads
        self._task: asyncio.Task[Any] | None = None
        self._task_over = False
        self._driven: _Driven | None = None
        self._value: object = None
        self._error: BaseException | None = None

    def answer(self) -> object:
        """Return the value. Raises: ForeignFailure."""
        if self._error is not None:
            fault = ForeignFailure(self.owner, self.operation, reason_text(self._error))
            raise fault from self._error
        return self._value

    def cancel(self, now: float) -> None:
        """Cancel the task once; the thread, if there is one, cannot be."""
        if self.cancelled_at is None and not self.ended.is_set():
            self.cancelled_at = now
            if self._task is not None and not self._task_over:
                self._task.cancel()

    def abandon(self) -> None:
        """End our task round a coroutine that does not want to end."""
        if self._driven is not None and self._task is not None and not self._task_over:
            self._driven.abandon()
            self._task.cancel()

    async def run(self) -> None:
        """Make the call and keep its outcome; nothing of it leaves but KeyboardInterrupt."""
        self._task = asyncio.current_task()
        try:
            if self.cancelled_at is None:
                self._value = await self._made()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self._error = error
        finally:
            self._task_over = True
            self.has_answered = True
            self.wake.set()
            self._end_if_over()

    async def _made(self) -> object:
        if is_async(self._func):
            made = self._func(*self._args)
        else:
            made = await self._in_thread()
        if inspect.isawaitable(made):
            self._driven = _Driven(made if inspect.iscoroutine(made) else _awaited(made))
            return await self._driven
        return made

    async def _in_thread(self) -> object:
        loop = asyncio.get_running_loop()
        done = anyio.Event()
        outcome: list[object] = []
        failure: list[BaseException] = []
        context = contextvars.copy_context()

        def work() -> None:
            try:
                outcome.append(context.run(self._func, *self._args))
            except BaseException as error:
                failure.append(error)
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(self._thread_ended, done, outcome)

        self.thread_runs = True
        self._threads.run(work)
        try:
            await done.wait()
        except BaseException:
            _close_unawaited(outcome)
            raise
        if failure:
            raise failure[0]
        return outcome[0]

    def _thread_ended(self, done: anyio.Event, outcome: list[object]) -> None:
        self.thread_runs = False
        done.set()
        if self._task_over:
            _close_unawaited(outcome)
        self._end_if_over()

    def _end_if_over(self) -> None:
        if self._task_over and not self.thread_runs:
            self.ended.set()
            self._forget(self)


def _close_unawaited(outcome: list[object]) -> None:
    """Close a coroutine that a plain function made and that nobody will await any more."""
    for made in outcome:
        if inspect.iscoroutine(made):
            made.close()


async def _awaited(made: Awaitable[object]) -> object:
    return await made


def is_async(func: Callable[..., object]) -> bool:
    """Whether calling it makes a coroutine, so that it belongs on the loop and not in a thread."""
    bare = inspect.unwrap(func)
    return inspect.iscoroutinefunction(bare) or inspect.iscoroutinefunction(
        getattr(bare, "__call__", None)  # noqa: B004 - we want the method, not whether it exists
    )


class _Driven:
    """A coroutine driven by hand, so that its task can end without its consent."""

    def __init__(self, made: Coroutine[Any, Any, object]) -> None:
        self._made = made
        self._abandoned = False

    def abandon(self) -> None:
        """Close the coroutine; from now on the next wake-up ends the task, whatever it does."""
        self._abandoned = True
        with suppress(Exception):  # it may refuse (RuntimeError) or fail in its own clean-up
            self._made.close()

    def __await__(self) -> Generator[Any, Any, object]:
        step: Callable[[], Any] = lambda: self._made.send(None)  # noqa: E731 - rebound below
        while True:
            try:
                waits_for = step()
            except StopIteration as stop:
                return stop.value
            try:
                sent = yield waits_for
            except GeneratorExit:
                self._made.close()
                raise
            except BaseException as error:
                if self._abandoned:
                    raise
                step = self._thrower(error)
            else:
                step = self._sender(sent)

    def _sender(self, sent: Any) -> Callable[[], Any]:
        return lambda: self._made.send(sent)

    def _thrower(self, error: BaseException) -> Callable[[], Any]:
        return lambda: self._made.throw(error)
