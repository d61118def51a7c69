"""What one turn does to its thread.

The planner's inputs gathered, its plan carried into messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from treadle.contract.engine import Assembled, ContextProjection, EngineInfo
from treadle.contract.store import Binding, Holding
from treadle.harness.codex.planning import UNKNOWN_WINDOW, PlanningInput, TurnPlan, plan_turn
from treadle.model.ids import EntryId, SessionId, ThreadId
from treadle.model.json import JsonObject
from treadle.model.message import Message, assistant_message, text_of, user_message
from treadle.projection.history import (
    Continue,
    Extend,
    PromptCarrier,
    Reason,
    Rebase,
    Seed,
    holding_of,
)
from treadle.tools.specs import fingerprint_of

ENGINE = EngineInfo(id="e", name="E")


def talk(count: int) -> list[Message]:
    """`count` turns of two messages each, with entry ids."""
    said: list[Message] = []
    for number in range(count):
        for make, name in ((user_message, "q"), (assistant_message, "a")):
            one = make(f"{name}{number}")
            said.append(replace(one, entry_id=EntryId(f"{name}{number}")))
    return said


def holding(messages: Sequence[Message]) -> Holding:
    return holding_of([message.content_hash for message in messages])


def binding(**changes: object) -> Binding:
    made = Binding(
        session_id=SessionId("s"),
        thread_id=ThreadId("t"),
        revision=1,
        home="/h",
        cwd="/w",
        model="m",
        model_provider=None,
        tool_fingerprint="tools",
        instructions_hash="",
        addition_hash="",
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def assembled(messages: Sequence[Message], tokens: int = 10) -> Assembled:
    return Assembled(messages=messages, estimated_tokens=tokens)


def planned(**changes: object) -> TurnPlan:
    given = PlanningInput(
        binding=binding(),
        holding=Holding(),
        held_hashes=lambda: (),
        history=(),
        prompt="next",
        engine=ENGINE,
        engine_active=True,
        assembled=None,
        mode="auto",
        tool_fingerprint="tools",
        citations_mode=None,
        count_tokens=lambda message: len(text_of(message)),
    )
    return plan_turn(replace(given, **changes))  # type: ignore[arg-type]


def test_an_engine_that_wants_what_the_thread_holds_injects_nothing() -> None:
    """Spec D-51."""
    said = talk(3)
    done = planned(holding=holding(said), assembled=assembled(said))
    assert done.plan == Continue(reason=Reason.EQUAL)
    assert (done.inject, done.held) == ((), ())


def test_a_missing_tail_is_injected_and_held() -> None:
    """Spec D-51."""
    said = talk(3)
    done = planned(holding=holding(said[:4]), assembled=assembled(said))
    assert done.plan == Extend(from_index=4)
    assert done.inject == tuple(said[4:])
    assert [held.entry_id for held in done.held] == ["q2", "a2"]
    assert done.first_position == 4


def test_a_replaced_past_is_a_fresh_thread_with_exactly_what_is_wanted() -> None:
    """Spec D-54, decision 8."""
    said = talk(3)
    wanted = [user_message("summary"), *said[4:]]
    done = planned(holding=holding(said), assembled=assembled(wanted))
    assert done.plan == Rebase(reason=Reason.REPLACED)
    assert done.fresh_thread
    assert done.inject == tuple(wanted)
    assert len(done.held) == len(wanted)


def test_the_trailing_prompt_is_left_out_of_what_is_compared() -> None:
    """Spec D-12, D-51."""
    said = talk(1)
    done = planned(holding=holding(said), assembled=assembled([*said, user_message(" next ")]))
    assert done.plan == Continue(reason=Reason.EQUAL)


def test_an_assemble_that_failed_changes_nothing() -> None:
    """Spec D-57."""
    done = planned(holding=holding(talk(2)), history=talk(5))
    assert done.plan == Continue(reason=Reason.ASSEMBLE_FAILED)


def test_without_an_engine_a_thread_is_continued_unread() -> None:
    """Spec A-20, decision 12: nothing is compared, so nothing is read."""

    class Unreadable(list[Message]):
        def __getitem__(self, index: object) -> Message:  # type: ignore[override]
            raise AssertionError("read")

    done = planned(engine_active=False, history=Unreadable(talk(3)))
    assert done.plan == Continue(reason=Reason.LEGACY)


def test_a_fresh_thread_without_an_engine_carries_the_mirrored_history() -> None:
    """Spec D-27."""
    said = talk(3)
    done = planned(engine_active=False, binding=None, history=said)
    assert isinstance(done.plan, Seed)
    assert done.inject == tuple(said)


def test_what_was_said_elsewhere_is_injected_and_held() -> None:
    """Spec D-27, D-39."""
    said = talk(3)
    done = planned(engine_active=False, holding=holding(said[:4]), said_elsewhere=said[4:])
    assert done.plan == Extend(from_index=4, reason=Reason.SAID_ELSEWHERE)
    assert (done.inject, done.first_position) == (tuple(said[4:]), 4)
    assert [held.entry_id for held in done.held] == ["q2", "a2"]


def test_more_than_fits_of_what_was_said_elsewhere_is_left_out_behind_a_note() -> None:
    """Decision 5: the newest turns of it, and only they are held."""
    said = talk(200)
    done = planned(
        engine_active=False, binding=binding(window=500), history=said, said_elsewhere=said[100:]
    )
    note, *kept = done.inject
    assert kept == said[-len(kept) :]
    assert done.left_out_count == 300 - len(kept), "the first half is the thread's own"
    assert f"{done.left_out_count} older messages" in text_of(note)
    assert [held.content_hash for held in done.held] == [m.content_hash for m in done.inject]


def test_what_was_said_elsewhere_is_quoted_where_nothing_can_be_injected() -> None:
    """Spec D-27, D-39."""
    said = talk(3)
    done = planned(engine_active=False, said_elsewhere=said[4:], supports_inject=False)
    assert done.plan == PromptCarrier(reason=Reason.SAID_ELSEWHERE)
    assert (done.quoted, done.inject, done.fresh_thread) == (tuple(said[4:]), (), False)


def test_a_transient_thread_is_filled_by_the_window_that_the_session_knows() -> None:
    """Spec D-39, decision 5: its own has not been reported yet."""
    said = talk(200)
    done = planned(engine_active=False, binding=None, transient=True, window=500, history=said)
    assert done.plan == Seed(reason=Reason.TRANSIENT)
    assert done.fresh_thread
    assert 0 < sum(len(text_of(one)) for one in done.inject) <= 300


def test_a_long_session_is_seeded_with_its_newest_turns_and_a_note() -> None:
    """Decision 5.

    The newest whole units that fit 0.6 of the window, behind a note about the rest.
    """
    said = talk(200)
    small = binding(window=500)
    done = planned(engine_active=False, binding=small, history=said, unfit_because="gone")
    assert isinstance(done.plan, Rebase)
    note, *kept = done.inject
    assert f"{done.left_out_count} older messages" in text_of(note)
    assert kept == said[done.left_out_count :]
    assert kept[0].role == "user"
    assert sum(len(text_of(one)) for one in done.inject) <= 300
    assert [held.content_hash for held in done.held] == [m.content_hash for m in done.inject]


def test_what_an_engine_wanted_counts_as_held_although_not_all_of_it_fits() -> None:
    """Decision 5: else the next turn would seed again."""
    said = talk(200)
    done = planned(binding=binding(window=500), assembled=assembled(said), unfit_because="gone")
    assert isinstance(done.plan, Rebase)
    assert done.left_out_count > 0
    assert len(done.held) == len(said)
    again = planned(
        binding=binding(window=500),
        holding=holding_of([held.content_hash for held in done.held]),
        assembled=assembled(said),
    )
    assert again.plan == Continue(reason=Reason.EQUAL)


def test_a_long_transcript_is_read_from_its_end_only() -> None:
    """Decision 12: a turn costs what it needs; the window bounds it."""
    read: list[int] = []

    class Counting(list[Message]):
        def __getitem__(self, index: object) -> object:  # type: ignore[override]
            found = super().__getitem__(index)  # type: ignore[call-overload]
            read.append(len(found) if isinstance(found, list) else 1)
            return found

    text = "x" * (UNKNOWN_WINDOW // 1000)
    long = [user_message(text) for _ in range(5_000)]
    done = planned(engine_active=False, binding=None, history=Counting(long))
    assert sum(read) < 1_000
    assert done.left_out_count == 5_000 - (len(done.inject) - 1)


def test_prompt_mode_quotes_and_injects_nothing() -> None:
    """Spec D-01, D-51."""
    said = talk(2)
    done = planned(mode="prompt", holding=holding(said), assembled=assembled(said))
    assert done.plan == PromptCarrier(reason=Reason.MODE_PROMPT)
    assert (done.quoted, done.inject) == (tuple(said), ())


def test_after_three_rebases_in_a_row_only_what_is_new_is_quoted() -> None:
    """Spec D-54."""
    said = talk(2)
    recalled = user_message("recalled")
    done = planned(
        binding=binding(successive_rebases=3),
        holding=holding([user_message("other"), *said]),
        held_hashes=lambda: [user_message("other").content_hash, *(m.content_hash for m in said)],
        assembled=assembled([recalled, *said]),
    )
    assert done.plan == PromptCarrier(reason=Reason.DAMPENED)
    assert done.quoted == (recalled,)


def test_changed_tools_need_another_thread_and_lose_nothing() -> None:
    """Spec F-13, F-11."""
    said = talk(2)
    done = planned(tool_fingerprint="others", holding=holding(said), assembled=assembled(said))
    assert isinstance(done.plan, Rebase)
    assert done.plan.reason is Reason.TOOLS_CHANGED
    assert done.inject == tuple(said)


@pytest.mark.parametrize("engine_active", [False, True], ids=["legacy", "assemble failed"])
@pytest.mark.parametrize(
    "forced",
    [{"tool_fingerprint": "others"}, {"unfit_because": "gone"}, {"binding": None}],
    ids=["tools changed", "thread gone", "no thread"],
)
def test_a_forced_fresh_thread_without_an_engines_answer_carries_the_mirror(
    forced: dict[str, object], engine_active: bool
) -> None:
    """Spec D-27, F-13, S-15: nothing is lost with the thread, whoever is asked or fails."""
    said = talk(3)
    done = planned(engine_active=engine_active, history=said, holding=holding(said), **forced)
    assert done.fresh_thread
    assert done.inject == tuple(said)


ONCE = ContextProjection(mode="thread_bootstrap", epoch="one")


def given_once(**changes: object) -> Binding:
    """A thread that was given the context of the epoch `one`."""
    seeded = planned(binding=None, assembled=replace(assembled(talk(1)), context_projection=ONCE))
    return binding(engine=seeded.engine_record, **changes)


@pytest.mark.parametrize("engine_active", [False, True], ids=["legacy", "assemble failed"])
def test_what_a_thread_was_given_stays_known_while_no_engine_answers(engine_active: bool) -> None:
    """Spec D-37, D-57: no fresh thread only because the engine was silent for a turn."""
    bound = given_once()
    silent = planned(binding=bound, engine_active=engine_active, assembled=None)
    assert silent.engine_record == bound.engine
    bound = replace(bound, engine=silent.engine_record)
    asked = replace(assembled(talk(2)), context_projection=ONCE)
    again = planned(binding=bound, assembled=asked)
    assert again.plan == Continue(
        reason=Reason.BOOTSTRAP_HELD, detail="matching-thread-bootstrap-binding"
    )


def test_a_fresh_thread_without_an_engine_has_no_engine_record() -> None:
    """Spec D-37: it was given the mirror, no epoch of an engine."""
    fresh = planned(
        binding=given_once(), engine_active=False, history=talk(1), unfit_because="gone"
    )
    assert (fresh.fresh_thread, fresh.engine_record) == (True, None)


@pytest.mark.parametrize(
    ("mode", "projected", "total", "window", "is_left"),
    [
        ("auto", True, 241_198, 258_400, True),
        ("auto", True, 232_000, 258_400, False),
        ("auto", True, 241_198, None, True),
        ("auto", True, None, 258_400, False),
        ("auto", False, 241_198, 258_400, False),  # Codex compacts it (D-55)
        ("prompt", False, 241_198, 258_400, True),
    ],
)
def test_a_nearly_full_thread_is_left_where_its_context_was_projected_as_a_whole(
    mode: str, projected: bool, total: int | None, window: int | None, is_left: bool
) -> None:
    """Spec D-40."""
    said = talk(2)
    bound = given_once(last_total=total, window=window)
    if not projected:
        bound = replace(bound, engine=None)
    answer = assembled(said)
    if projected:
        answer = replace(answer, context_projection=ONCE)
    done = planned(binding=bound, mode=mode, holding=holding(said), assembled=answer)
    assert done.fresh_thread == is_left


def test_a_pinned_thread_is_not_left_however_full_it_is() -> None:
    """Spec D-56."""
    full = given_once(last_total=258_000, window=258_400, pinned=True, overflowed=True)
    done = planned(binding=full, assembled=replace(assembled(talk(1)), context_projection=ONCE))
    assert not done.fresh_thread


def test_a_thread_whose_turn_did_not_fit_is_given_up_by_the_next_one() -> None:
    """Spec F-25; without an engine it stays Codex's."""
    said = talk(1)
    full = binding(overflowed=True)
    done = planned(binding=full, holding=holding(said), assembled=assembled(said))
    assert isinstance(done.plan, Rebase)
    legacy = planned(binding=full, engine_active=False, history=said)
    assert legacy.plan == Continue(reason=Reason.LEGACY)


def test_an_app_server_without_injection_gets_everything_as_text() -> None:
    """Spec D-49, decision 9: only the carrier changes."""
    said = talk(2)
    done = planned(supports_inject=False, holding=holding(said), assembled=assembled(said))
    assert done.plan == PromptCarrier(reason=Reason.NO_INJECTION)
    assert (done.quoted, done.inject) == (tuple(said), ())


def test_a_compaction_of_a_projected_thread_is_answered_once_by_an_engine_that_owns_it() -> None:
    """Spec D-55, decision 4."""
    owner = replace(ENGINE, owns_compaction=True)
    asked = replace(assembled(talk(1)), context_projection=ONCE)
    seeded = planned(binding=None, engine=owner, assembled=asked)
    bound = binding(engine=seeded.engine_record, window=1_000, compactions_seen=1)
    assert planned(binding=bound, engine=owner, assembled=asked).fresh_thread
    answered = replace(bound, rebased_for_compaction=True)
    assert not planned(binding=answered, engine=owner, assembled=asked).fresh_thread


def test_a_change_of_how_tools_load_needs_another_thread_where_it_is_recorded() -> None:
    """Spec F-15: from direct to deferred and back; what was never recorded is tolerated (F-13)."""
    spec: JsonObject = {"type": "function", "name": "a", "inputSchema": {"type": "object"}}
    direct, deferred = fingerprint_of([spec]), fingerprint_of([{**spec, "deferLoading": True}])
    said = talk(1)

    def is_fresh(stored: str | None, now: str) -> bool:
        bound = binding(tool_fingerprint=stored)
        done = planned(
            binding=bound, tool_fingerprint=now, holding=holding(said), assembled=assembled(said)
        )
        return done.fresh_thread

    assert [is_fresh(direct, deferred), is_fresh(deferred, direct)] == [True, True]
    assert [is_fresh(direct, direct), is_fresh(None, deferred)] == [False, False]
