"""Call the handlers of this process, in order, and merge what they answer.

Knows nothing of native hooks or of plugins. A handler that raises, answers something else or takes
too long is logged and skipped; the others still count. Source: spec E-11…E-13, H-07, L-01, L-02.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from typing import Any, Final, Literal

import anyio

from treadle.contract.hook import (
    AgentEnd,
    CompactionObserved,
    HookName,
    HookRegistration,
    MessageWrite,
    PromptBuild,
    PromptBuildResult,
)
from treadle.contract.store import TranscriptSnapshot
from treadle.foreign import ForeignCalls, ForeignFault, ForeignTimeout
from treadle.model.message import Message
from treadle.observe import emit

_FAILED: Final = object()


class InProcessHooks:
    """The handlers of this process; implements `contract.hook.Hooks`. Belongs to the loop."""

    def __init__(
        self,
        foreign: ForeignCalls,
        registrations: Iterable[HookRegistration] = (),
        *,
        timeout_s: Callable[[str], float],
    ) -> None:
        """Take the deadline of each hook by its name, in seconds (`config` has them: L-02)."""
        self._foreign = foreign
        self._registered = list(registrations)
        self._timeout_s = timeout_s

    def register(self, registration: HookRegistration) -> None:
        """Add a handler; it takes part from the next call of its hook on."""
        self._registered.append(registration)

    async def before_prompt_build(self, payload: PromptBuild) -> PromptBuildResult:
        """Merge what the handlers change: each sees the payload as it came (spec E-12).

        The first `system_prompt` wins, texts are joined in order by one empty line, and
        `tools_allow` is what all of them allow.
        """
        merged = PromptBuildResult()
        for one in self._in_order("before_prompt_build"):
            answer = await self._ask(one, _detached(payload))
            if isinstance(answer, PromptBuildResult):
                if (broken := _wrong_field(answer)) is None:
                    merged = _merged(merged, answer)
                else:
                    self._refuse(one, broken)
            elif answer is not None and answer is not _FAILED:
                self._refuse(one, f"answered {type(answer).__name__}, no PromptBuildResult")
        return merged

    async def before_message_write(self, payload: MessageWrite) -> Message | None:
        """Let each handler replace the message; one that answers None leaves it out (spec H-07)."""
        message = payload.message
        for one in self._in_order("before_message_write"):
            given = replace(payload, message=copy.deepcopy(message))
            answer = await self._ask(one, given)
            if answer is None:
                return None
            if isinstance(answer, Message):
                message = answer
            elif answer is not _FAILED:
                self._refuse(one, f"answered {type(answer).__name__}, no Message")
        return message

    async def observe(
        self,
        name: Literal["before_compaction", "after_compaction", "agent_end"],
        payload: CompactionObserved | AgentEnd,
    ) -> None:
        """Tell all observers at once and wait for them; what they answer is ignored."""
        observers = self._in_order(name)
        if not observers:
            return
        async with anyio.create_task_group() as telling:
            for one in observers:
                telling.start_soon(self._ask, one, payload)

    def _in_order(self, name: HookName) -> Sequence[HookRegistration]:
        found = [one for one in self._registered if one.name == name]
        return sorted(found, key=lambda one: -one.priority)  # a stable sort keeps ties in order

    async def _ask(self, one: HookRegistration, payload: Any) -> object:
        try:
            answer: object = await self._foreign.call(
                one.owner, one.name, one.handler, payload, deadline_s=self._timeout_s(one.name)
            )
        except ForeignTimeout as late:
            emit("hook.timed_out", hook=one.name, owner=one.owner, reason=late.reason)
            return _FAILED
        except ForeignFault as fault:
            emit("hook.failed", hook=one.name, owner=one.owner, reason=fault.reason)
            return _FAILED
        return answer

    def _refuse(self, one: HookRegistration, reason: str) -> None:
        emit("hook.failed", hook=one.name, owner=one.owner, reason=reason)


def _detached(payload: PromptBuild) -> PromptBuild:
    """Return a payload whose lists are the handler's own (spec E-12)."""
    messages = payload.messages
    if not isinstance(messages, TranscriptSnapshot):  # that one decodes anew on each access
        messages = copy.deepcopy(list(messages))
    return replace(
        payload, messages=messages, planned_items=copy.deepcopy(tuple(payload.planned_items))
    )


def _wrong_field(answer: PromptBuildResult) -> str | None:
    for field in fields(answer):
        value = getattr(answer, field.name)
        kind = frozenset if field.name == "tools_allow" else str
        if value is not None and not isinstance(value, kind):
            return f"answered {field.name!r} as {type(value).__name__}"
    return None


def _merged(first: PromptBuildResult, then: PromptBuildResult) -> PromptBuildResult:
    allow = then.tools_allow
    if first.tools_allow is not None:
        allow = first.tools_allow if allow is None else first.tools_allow & allow
    kept = first.system_prompt is not None
    return PromptBuildResult(
        system_prompt=first.system_prompt if kept else then.system_prompt,
        prepend_system_context=_joined(first.prepend_system_context, then.prepend_system_context),
        append_system_context=_joined(first.append_system_context, then.append_system_context),
        prepend_context=_joined(first.prepend_context, then.prepend_context),
        append_context=_joined(first.append_context, then.append_context),
        tools_allow=allow,
    )


def _joined(first: str | None, then: str | None) -> str | None:
    texts = [text for text in (first, then) if text]
    return "\n\n".join(texts) if texts else first if first is not None else then
