"""Settle what an earlier process left behind on a session's thread, before anything new is sent.

An injection without its confirmation, a turn without its entries. Reads the rollout, once this
process is the thread's only writer, and says *unknown* where it cannot know: nothing is sent again
by itself.
Source: decision 3; reliability section 1 (recovery table), F5, F6, F7; spec D-58, S-15.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from treadle.contract.harness import AttemptParams, AttemptResult, Emit
from treadle.contract.inbox import Settlement
from treadle.contract.store import Binding, Held, OpenTurn
from treadle.harness.codex.opening import thread_options
from treadle.harness.codex.peer import CodexPeer
from treadle.harness.codex.rollout import Rollout, read_rollout
from treadle.harness.codex.services import CodexServices
from treadle.harness.codex.thread import ThreadGone
from treadle.harness.settling import finished, settlement_of
from treadle.model.errors import ProcessExited, TurnRejected
from treadle.model.ids import RunId, SessionId, TurnId
from treadle.model.json import JsonObject
from treadle.model.message import ASSISTANT, EntryKind, Message, NewEntry, text_of
from treadle.model.turn import EntryCommitted, Notice, Outcome
from treadle.observe import emit
from treadle.projection.items import TurnProjection, TurnScope

ADDITION_LOST = "dropped by native compaction"
"""In place of a hash: equal to none, so that the addition is given again."""

INTERRUPTED: Final = "interrupted"
"""How a turn ended that was stopped: also where Treadle ended, and Codex with it."""

NOT_SENT = "This message did not reach the model: Treadle or Codex stopped before it was taken."
UNKNOWN = (
    "The turn was cut off: Treadle or Codex stopped in the middle. What stands here is what Codex"
    " had recorded; whether a tool did more is unknown."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """The binding as it now stands, and what became of a turn that was open."""

    binding: Binding
    open_run: RunId | None = None
    """The run whose turn was found open; None if none was."""

    reached_thread: bool = False
    turn_ended: str | None = None
    """How that turn ended (`completed`, `interrupted`, `failed`), None if it never did."""

    has_output: bool = False
    """Whether the model or a tool left anything of it, or may have."""

    replayed: bool = False
    """Whether it was tried once more already."""

    @property
    def goes_on(self) -> bool:
        """Whether the thread shows the message and nothing that was done about it.

        The one case in which a turn that reached the thread may be tried once more, and only once
        (spec S-09, INV-10). The end of Treadle interrupts a turn, so that says nothing.
        """
        untouched = not self.has_output and self.turn_ended in {None, INTERRUPTED}
        return self.reached_thread and untouched and not self.replayed

    @property
    def unfit_because(self) -> str | None:
        """Why the second try needs a fresh thread; None where the thread can be asked to answer."""
        was_stopped = self.goes_on and self.turn_ended == INTERRUPTED
        return "it says that the user stopped the turn on purpose" if was_stopped else None


class Recovery:
    """Settles one session's thread."""

    def __init__(self, services: CodexServices, params: AttemptParams, emit_event: Emit) -> None:
        """Keep the parts."""
        self._services = services
        self._params = params
        self._emit = emit_event

    async def settle(self, peer: CodexPeer, binding: Binding) -> Recovered:
        """Return the binding with nothing open.

        Loads the thread first where something is to be settled: only then nobody else writes its
        file. Raises: ThreadBusy, RpcTimeout, ProcessExited, StoreError.
        """
        if (turn := binding.open_turn) is not None and turn.transient:
            return await self._settle_transient(binding, turn)
        pending = await self._services.store.bindings.pending_injections(binding.thread_id)
        if not pending and binding.open_turn is None:
            return Recovered(binding=binding)
        if not await self._load(peer, binding):
            return await self._gone(binding)
        binding = await self._services.threads.settle_injections(self._params.claim, binding)
        if binding.open_turn is None:
            return Recovered(binding=binding)
        return await self._settle_turn(binding, binding.open_turn)

    async def _settle_transient(self, binding: Binding, turn: OpenTurn) -> Recovered:
        """Say that nobody knows what became of a turn whose thread went with its process (D-39).

        Nothing else can be pending: what was is settled before such a turn is sent.
        """
        stored = await self._services.store.transcript.append(
            self._params.claim,
            [turn_notice(turn, "unknown", UNKNOWN)],
            binding=replace(binding, open_turn=None),
            settlement=_cut_off(turn.run_id),
        )
        for entry in stored:
            await self._emit(EntryCommitted(run_id=self._params.run_id, entry=entry))
        await self._tell(UNKNOWN)
        return Recovered(
            binding=await self._kept(binding.session_id),
            open_run=turn.run_id,
            reached_thread=True,
            has_output=True,
        )

    async def _load(self, peer: CodexPeer, binding: Binding) -> bool:
        options = thread_options(self._services, self._params, instructions="")
        try:
            await self._services.threads.load(peer, binding, options)
        except ThreadGone as gone:
            emit("binding.conflicted", thread_id=binding.thread_id, reason=gone.reason)
            return False
        return True

    async def _gone(self, binding: Binding) -> Recovered:
        """The thread is gone, so what it held is told by the mirror alone; opening replaces it.

        A turn that was sent to it is uncertain and never sent again (spec S-15), unless the thread
        was never written down, which Codex does before it asks the model (F5), or this process saw
        to the end that nothing was done.
        """
        turn = binding.open_turn
        bindings = self._services.store.bindings
        for injection in await bindings.pending_injections(binding.thread_id):
            await bindings.abandon(self._params.claim, injection.id)
        closed = replace(binding, open_turn=None, holding_known=False)
        if turn is None:
            return Recovered(binding=await bindings.put(self._params.claim, closed))
        ours = turn.run_id == self._params.run_id
        if (ours and self._params.saw_nothing_done) or await self._never_written(binding):
            if ours:
                stored = await bindings.put(self._params.claim, closed)
                return Recovered(binding=stored, open_run=turn.run_id)
            return await self._noted(closed, turn, "not-sent", NOT_SENT)
        return await self._noted(closed, turn, "unknown", UNKNOWN)

    async def _never_written(self, binding: Binding) -> bool:
        if binding.rollout_offset > 0 or binding.rollout_path is None:
            return False
        holding = await self._services.store.bindings.holding(binding.thread_id)
        return holding.count == 0 and await read_rollout(binding.rollout_path) is None

    async def _noted(self, binding: Binding, turn: OpenTurn, what: str, text: str) -> Recovered:
        """Say what became of a turn whose thread cannot be read, and end its message."""
        is_sent = what != "not-sent"
        end = _cut_off(turn.run_id) if is_sent else _not_sent(turn.run_id)
        stored = await self._services.store.transcript.append(
            self._params.claim, [turn_notice(turn, what, text)], binding=binding, settlement=end
        )
        for entry in stored:
            await self._emit(EntryCommitted(run_id=self._params.run_id, entry=entry))
        await self._tell(text)
        return Recovered(
            binding=await self._kept(binding.session_id),
            open_run=turn.run_id,
            reached_thread=is_sent,
            has_output=is_sent,
        )

    async def _settle_turn(self, binding: Binding, turn: OpenTurn) -> Recovered:
        rollout = (
            await read_rollout(binding.rollout_path, binding.rollout_offset)
            if binding.rollout_path
            else None
        )
        found = rollout.client_ids.get(turn.client_message_id) if rollout is not None else None
        ours = turn.run_id == self._params.run_id
        if rollout is None or found is None:
            entries: tuple[NewEntry, ...] = (
                () if ours else (turn_notice(turn, "not-sent", NOT_SENT),)
            )
            return await self._store(binding, turn, rollout, entries, Recovered(binding=binding))
        if turn.replayed:  # the second try had no text of its own, so it carries no id of ours
            found = rollout.last_turn or found
        raw = rollout.of_turn(found)
        ended = rollout.ended.get(found)
        entries = self._entries(binding, turn, found, raw, ended)
        recovered = Recovered(
            binding=binding,
            reached_thread=True,
            turn_ended=ended,
            has_output=any(item.get("role") != "user" for item in raw),
            replayed=turn.replayed,
        )
        if ended != "completed" and not (ours and recovered.goes_on):
            entries = (*entries, turn_notice(turn, "unknown", UNKNOWN))
        return await self._store(binding, turn, rollout, entries, recovered)

    def _entries(
        self,
        binding: Binding,
        turn: OpenTurn,
        turn_id: TurnId,
        raw: tuple[JsonObject, ...],
        ended: str | None,
    ) -> tuple[NewEntry, ...]:
        projection = TurnProjection(
            TurnScope(
                run_id=turn.run_id,
                thread_id=binding.thread_id,
                model=binding.model,
                model_provider=binding.model_provider,
            )
        )
        projection.expect(turn_id)
        return projection.snapshot(raw, completed=ended == "completed")

    async def _store(
        self,
        binding: Binding,
        turn: OpenTurn,
        rollout: Rollout | None,
        entries: tuple[NewEntry, ...],
        recovered: Recovered,
    ) -> Recovered:
        """Write what was found; the prompt's entry counts as held where the thread has it."""
        offset = rollout.end_offset if rollout is not None else binding.rollout_offset
        ours_goes_on = recovered.goes_on and turn.run_id == self._params.run_id
        if ours_goes_on:
            offset = binding.rollout_offset  # should it be lost again, its message is found again
        compactions = rollout.compactions if rollout is not None else 0
        after = replace(
            after_compactions(binding, compactions),
            open_turn=None,
            rollout_offset=offset,
            holding_known=binding.holding_known and rollout is not None,
        )
        transcript = self._services.store.transcript
        prompt: tuple[NewEntry, ...] = ()
        unwritten: tuple[Held, ...] = ()
        if recovered.reached_thread:
            prompt = await self._prompt_again(turn)
            unwritten = () if ours_goes_on else unwritten_of(turn)  # else it is held at its end
        stored = await transcript.append(
            self._params.claim,
            [*prompt, *entries],
            held_by=binding.thread_id,
            held_unwritten=unwritten,
            binding=after,
            settlement=self._end_of(turn, recovered, entries),
        )
        for entry in stored[len(prompt) :]:
            await self._emit(EntryCommitted(run_id=self._params.run_id, entry=entry))
            if entry.kind is EntryKind.NOTICE:
                await self._tell(NOT_SENT if not recovered.reached_thread else UNKNOWN)
        kept = await self._kept(binding.session_id)
        emit("injection.settled", thread_id=binding.thread_id, found_count=len(stored))
        return replace(recovered, binding=kept, open_run=turn.run_id)

    def _end_of(
        self, turn: OpenTurn, recovered: Recovered, entries: tuple[NewEntry, ...]
    ) -> Settlement | None:
        """Return the end of the turn's message, or None where it is about to be tried again."""
        if not recovered.reached_thread:
            return None if turn.run_id == self._params.run_id else _not_sent(turn.run_id)
        if recovered.goes_on and turn.run_id == self._params.run_id:
            return None
        if recovered.turn_ended != "completed":
            return _cut_off(turn.run_id)
        said = [one.message for one in entries if one.message.role == ASSISTANT]
        text = text_of(said[-1]) if said else ""
        result = AttemptResult(outcome=Outcome.COMPLETED, text=text)
        return settlement_of(finished(turn.run_id, result, 0.0))

    async def _kept(self, session_id: SessionId) -> Binding:
        kept = await self._services.store.bindings.get(session_id)
        assert kept is not None, "it was written a moment ago under our claim"
        return kept

    async def _prompt_again(self, turn: OpenTurn) -> tuple[NewEntry, ...]:
        """Return the stored prompt of that run.

        To be recorded as held; it is among the newest entries.
        """
        snapshot = await self._services.store.transcript.snapshot(self._params.session.id)
        newest = snapshot.entries(max(0, len(snapshot) - 50), len(snapshot))
        return tuple(
            NewEntry(
                key=entry.key,
                message=entry.message,
                thread_id=entry.thread_id,
                turn_id=entry.turn_id,
                run_id=entry.run_id,
                meta=entry.meta,
            )
            for entry in newest
            if entry.run_id == turn.run_id and entry.message.role == "user"
        )[:1]

    async def _tell(self, text: str) -> None:
        await self._emit(
            Notice(
                run_id=self._params.run_id,
                code="turn_recovered",
                text=text,
                next_step="Say it again if you still need the answer.",
            )
        )


def cut_off() -> ProcessExited:
    """Return the error of a turn whose end nobody saw."""
    return ProcessExited(
        "Codex stopped in the middle of the turn; what it did last is unknown",
        next_step="Read what stands in the session, then say it again if you still need it.",
    )


def _cut_off(run_id: RunId) -> Settlement:
    lost = AttemptResult(
        outcome=Outcome.CLIENT_LOST, text="", prompt_error=cut_off().to_json(), replay_safe=False
    )
    return settlement_of(finished(run_id, lost, 0.0))


def _not_sent(run_id: RunId) -> Settlement:
    refused = TurnRejected(NOT_SENT, next_step="Say it again if you still need the answer.")
    result = AttemptResult(outcome=Outcome.FAILED, text="", prompt_error=refused.to_json())
    return settlement_of(finished(run_id, result, 0.0))


def after_compactions(binding: Binding, count: int) -> Binding:
    """Return the binding after so many native compactions.

    Codex then says the thread's first instructions again and drops the items that superseded them,
    so a changed addition counts as not given (measured on 0.163). Source: spec E-15, D-55.
    """
    if count == 0:
        return binding
    lost = binding.supersessions > 0
    return replace(
        binding,
        compactions_seen=binding.compactions_seen + count,
        addition_hash=ADDITION_LOST if lost else binding.addition_hash,
    )


def unwritten_of(turn: OpenTurn | None) -> tuple[Held, ...]:
    """Return the turn's prompt as its thread holds it, where the transcript does not (H-10).

    An engine never asks for it, so that its next turn gets a thread without it (spec D-54).
    """
    if turn is None or turn.unwritten_prompt is None:
        return ()
    return (Held(content_hash=turn.unwritten_prompt),)


def turn_notice(turn: OpenTurn, what: str, text: str) -> NewEntry:
    """Return the entry that says what is not known of a turn; no engine sees it."""
    return NewEntry(
        key=f"treadle:run:{turn.run_id}:{what}",
        message=Message(role="notice", content=[{"type": "text", "text": text}]),
        kind=EntryKind.NOTICE,
        run_id=turn.run_id,
        meta={"notice": what},
    )
