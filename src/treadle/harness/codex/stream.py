"""Send the turn and follow it to its end: events out, server requests answered, interrupts in.

Knows nothing of what is stored. Requests of the app-server are answered from tasks of the client,
so a slow tool never holds a notification up. Source: spec A-17, A-18, G-02, K-09…K-17; decision 27;
facts section 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import anyio

from treadle.contract.harness import AttemptParams, Emit
from treadle.contract.tool import ToolCall
from treadle.failpoints import failpoint
from treadle.harness.codex import launch, machine
from treadle.harness.codex.compaction_hooks import telling_hooks
from treadle.harness.codex.effort import effort_for_wire
from treadle.harness.codex.machine import Phase, TurnCommand, TurnInput, TurnState, step
from treadle.harness.codex.opening import Opened
from treadle.harness.codex.prepare import hook_context
from treadle.harness.codex.services import CodexServices
from treadle.interaction.translate import (
    QUESTION_METHODS,
    question_from_request,
    refusal_for,
)
from treadle.model.errors import RemoteProtocolError, RpcError, RpcTimeout, WireError
from treadle.model.ids import ThreadId, TurnId
from treadle.model.json import JsonObject, JsonValue
from treadle.model.question import Answer, Verdict
from treadle.model.turn import MessageSent, Notice, QuestionOpened, QuestionResolved, RunEvent
from treadle.observe import bind, emit
from treadle.projection.items import TurnProjection, TurnScope
from treadle.protocol.faults import Fault, fault_of
from treadle.protocol.rpc import ServerRequest
from treadle.wire.client import CodexClient, Handler
from treadle.wire.subscription import Closed, Subscription

_UNKNOWN_MODEL: Final = "Model metadata for"
"""How Codex's warning about a model that its catalog lacks begins (facts, section 2)."""

_INTERRUPT_ANSWER_S: Final = 5.0
"""Seconds.

0.163 never answers a second interrupt (facts, section 3), and the turn's end is what counts.
"""

_INTERRUPT_RACE_S: Final = 0.05
"""Seconds to wait when an interrupt just after `turn/start` finds no active turn yet (facts.

Section 3).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A turn that was sent and is over, one way or another."""

    turn_id: TurnId
    projection: TurnProjection
    state: TurnState
    lost: WireError | None = None
    """The app-server went away, or stopped answering."""

    timed_out: bool = False

    @property
    def goes_again(self) -> bool:
        """Whether the turn did not fit and has to be sent once more, on a fresh thread."""
        return self.state.phase is Phase.STARTING


class TurnStream:
    """Plays one turn."""

    def __init__(
        self,
        services: CodexServices,
        params: AttemptParams,
        emit_event: Emit,
        client: CodexClient,
        opened: Opened,
        state: TurnState,
    ) -> None:
        """Begin where the thread is open and the prompt mirrored."""
        self._services = services
        self._params = params
        self._emit = emit_event
        self._client = client
        self._opened = opened
        self._state = state
        self._timed_out = False
        self._projection = TurnProjection(
            TurnScope(
                run_id=params.run_id,
                thread_id=opened.binding.thread_id,
                model=opened.binding.model,
                model_provider=opened.binding.model_provider,
                engine_owns_compaction=params.engine.info.owns_compaction,
                replay_safe_tools=frozenset(
                    name for name, tool in opened.tools.tools.items() if tool.replay_safe
                ),
            )
        )

    @property
    def _thread_id(self) -> ThreadId:
        return self._opened.binding.thread_id

    async def play(self) -> Played:
        """Send the turn and return once it is over.

        Raises: RpcError when `turn/start` is refused; RpcTimeout or ProcessExited when it is
        unknown whether it was taken. Cancel: the turn is interrupted within `deadlines.cleanup_s`;
        its record stays open and is settled by the next run.
        """
        async with self._client.subscribe(self._thread_id) as stream:
            with self._client.serve(self._handlers(), thread_id=self._thread_id):
                failpoint("S6")
                answer = await self._client.request("turn/start", self._turn_params())
                failpoint("S7")
                turn_id = _turn_id(answer)
                await self._emit(
                    MessageSent(
                        run_id=self._params.run_id,
                        client_message_id=self._params.client_message_id,
                    )
                )
                commands = self._step(machine.TurnAccepted(turn_id=turn_id))
                with bind(turn_id=turn_id):
                    emit("turn.started")
                    return await self._follow(stream, turn_id, commands)

    async def _follow(
        self,
        stream: Subscription,
        turn_id: TurnId,
        commands: tuple[TurnCommand, ...],
    ) -> Played:
        projection = self._projection
        lost: WireError | None = None
        try:
            async with (
                telling_hooks(self._services.hooks, hook_context(self._params), self._emit) as tell,
                anyio.create_task_group() as group,
            ):
                for event in self._worth_telling(projection.expect(turn_id)):
                    await tell(event)
                if TurnCommand.INTERRUPT in commands:
                    group.start_soon(self._interrupt, turn_id, stream)
                group.start_soon(self._watch_abort, turn_id, stream)
                group.start_soon(self._watch_budget, turn_id, stream)
                lost = await self._consume(stream, projection, tell)
                group.cancel_scope.cancel()
        except anyio.get_cancelled_exc_class():
            cleanup_s = self._services.settings.deadlines.cleanup_s
            with anyio.move_on_after(cleanup_s, shield=True):
                await self._ask_to_stop(turn_id)
            raise
        return Played(
            turn_id=turn_id,
            projection=projection,
            state=self._state,
            lost=lost,
            timed_out=self._timed_out,
        )

    async def _consume(
        self, stream: Subscription, projection: TurnProjection, tell: Emit
    ) -> WireError | None:
        """Take notifications until the turn is over; the error where it never said so."""
        while self._state.phase in {Phase.RUNNING, Phase.STOPPING, Phase.LOST}:
            got = await stream.receive()
            if isinstance(got, Closed):
                self._step(machine.WireLost())  # no change where the interrupt's grace was over
                return got.error or RemoteProtocolError("the notifications of this turn ended")
            self._step(machine.ItemSeen())
            for event in self._worth_telling(projection.feed(got.method, got.params())):
                await tell(event)
            failpoint("S8")
            if projection.end is not None and projection.turn_id is not None:
                failpoint("S9")
                if self._goes_again(projection):
                    return None
                self._step(
                    machine.TurnEnded(
                        thread_id=self._thread_id,
                        turn_id=projection.turn_id,
                        end=machine.End(projection.end.status),
                    )
                )
        return None

    def _goes_again(self, projection: TurnProjection) -> bool:
        """Whether a turn that did not fit is sent once more, on a fresh thread (spec D-41)."""
        if not (self._opened.may_start_over and projection.overflowed):
            return False
        if not projection.items.is_untouched:
            return False
        return TurnCommand.OPEN_FRESH_THREAD in self._step(machine.Overflowed())

    def _worth_telling(self, events: Sequence[RunEvent]) -> Sequence[RunEvent]:
        """Leave out Codex's warning that it does not know a model which we made ourselves."""
        if self._params.model.provider not in self._services.builtin_providers:
            return events
        return [
            event
            for event in events
            if not (isinstance(event, Notice) and _UNKNOWN_MODEL in event.text)
        ]

    # ------------------------------------------------------------------------------ stopping

    async def _watch_abort(self, turn_id: TurnId, stream: Subscription) -> None:
        await self._params.abort.wait()
        if TurnCommand.INTERRUPT in self._step(machine.CancelAsked()):
            await self._interrupt(turn_id, stream)

    async def _watch_budget(self, turn_id: TurnId, stream: Subscription) -> None:
        budget_s = self._services.settings.agent(self._params.agent_id).timeout_s
        if budget_s is None:
            return
        await anyio.sleep(budget_s)
        self._timed_out = True
        if TurnCommand.INTERRUPT in self._step(machine.CancelAsked()):
            await self._interrupt(turn_id, stream)

    async def _interrupt(self, turn_id: TurnId, stream: Subscription) -> None:
        emit("turn.interrupted", reason=self._params.abort.reason or "time limit")
        await self._ask_to_stop(turn_id)
        grace_s = self._services.settings.deadlines.interrupt_s
        await anyio.sleep(grace_s)
        if TurnCommand.RETIRE_CLIENT in self._step(machine.GraceOver()):
            self._client.retire("an interrupt was not confirmed")
            stream.close(RpcTimeout("turn/interrupt", grace_s))

    async def _ask_to_stop(self, turn_id: TurnId) -> None:
        params: JsonObject = {"threadId": self._thread_id, "turnId": turn_id}
        for _ in range(40):
            try:
                await self._client.request("turn/interrupt", params, timeout_s=_INTERRUPT_ANSWER_S)
            except RpcError as refused:
                if fault_of(refused) is not Fault.NO_ACTIVE_TURN:
                    return
                await anyio.sleep(_INTERRUPT_RACE_S)
            except WireError:
                return
            else:
                return

    # ---------------------------------------------------------------------- server requests

    def _handlers(self) -> Mapping[str, Handler]:
        return {
            "item/tool/call": self._tool_call,
            **dict.fromkeys(QUESTION_METHODS, self._question),
        }

    async def _tool_call(self, request: ServerRequest) -> JsonObject:
        given = request.params()
        call = ToolCall(
            call_id=_text(given, "callId"),
            name=_text(given, "tool"),
            arguments=_object(given.get("arguments")),
            session_key=self._params.session_key,
            run_id=self._params.run_id,
            thread_id=self._thread_id,
            turn_id=TurnId(_text(given, "turnId")),
        )
        return await self._services.tools.call(self._opened.tools, call)

    async def _question(self, request: ServerRequest) -> JsonObject:
        """Refuse by policy, visibly: until approvals exist nobody can be asked (decision 27)."""
        question = question_from_request(request.method, request.params(), request.id)
        self._step(machine.QuestionAsked(question_id=question.id))
        await self._emit(QuestionOpened(run_id=self._params.run_id, question=question))
        emit("question.refused", kind=question.kind.value)
        self._step(machine.QuestionSettled(question_id=question.id))
        await self._emit(
            QuestionResolved(
                run_id=self._params.run_id,
                answer=Answer(
                    question_id=question.id,
                    verdict=Verdict.REFUSED_BY_POLICY,
                    by="policy",
                    reason="this version runs read-only and cannot ask anybody",
                ),
            )
        )
        return refusal_for(request.method)

    # -------------------------------------------------------------------------------- the call

    def _turn_params(self) -> JsonObject:
        """Return what `turn/start` takes; without a text Codex answers what the thread holds."""
        params = self._params
        text = self._opened.projected.prompt_text
        images = ({"type": "image", "url": url} for url in self._opened.projected.images)
        said: list[JsonValue] = [{"type": "text", "text": text, "text_elements": []}, *images]
        fields: dict[str, JsonValue] = {
            "threadId": self._thread_id,
            "input": said if text else [],
            "clientUserMessageId": params.client_message_id if text else None,
            "cwd": params.cwd,
            "approvalPolicy": launch.APPROVAL_POLICY,
            "approvalsReviewer": launch.APPROVALS_REVIEWER,
            "sandboxPolicy": launch.SANDBOX_POLICY,
        }
        tier = self._services.settings.codex.app_server.service_tier
        optional: Mapping[str, JsonValue] = {
            "model": params.model.model,
            "personality": launch.PERSONALITY if params.model.model else None,
            "effort": effort_for_wire(params.effort, params.model.model),
            "serviceTier": tier,
            "outputSchema": params.output_schema,
            "environments": None if params.native_tools else [],
        }
        return fields | {name: value for name, value in optional.items() if value is not None}

    def _step(self, event: TurnInput) -> tuple[TurnCommand, ...]:
        self._state, commands = step(self._state, event)
        return commands


def _turn_id(answer: JsonObject) -> TurnId:
    match answer.get("turn"):
        case {"id": str() as turn_id}:
            return TurnId(turn_id)
        case found:
            raise RemoteProtocolError(f"'turn/start' answered without a turn: {str(found)[:200]!r}")


def _text(fields: JsonObject, name: str) -> str:
    found = fields.get(name)
    return found if isinstance(found, str) else ""


def _object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, Mapping) else {}
