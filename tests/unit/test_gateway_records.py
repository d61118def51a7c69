"""Records over the socket: what is written is what is read, and nothing else gets in."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from treadle.contract.store import ContextReport, SearchHit, SessionRecord
from treadle.engines.resolution import EngineFault, EngineListing
from treadle.gateway.records import event_from, plain, record_from, records_from
from treadle.model.errors import RemoteProtocolError
from treadle.model.ids import (
    AgentId,
    EngineId,
    EntryId,
    ItemId,
    RunId,
    SessionId,
    SessionKey,
    ThreadId,
    TurnId,
)
from treadle.model.json import JsonValue
from treadle.model.message import Entry, EntryKind, Message
from treadle.model.question import Answer, Question, QuestionId, QuestionKind, Verdict
from treadle.model.turn import (
    CompactionFinished,
    CompactionStarted,
    ContextAssembled,
    ContextReported,
    EntryCommitted,
    MessageAccepted,
    MessageCancelled,
    MessageFailed,
    MessageSent,
    MessageUnconfirmed,
    Notice,
    Outcome,
    PartDelta,
    PartValue,
    QuestionOpened,
    QuestionResolved,
    RunEvent,
    RunFinished,
    RunStarted,
    ThreadChanged,
    TurnStarted,
    Usage,
    entry_data,
    event_data,
)
from treadle.runtime.accounts import Account, ModelRow

RUN, TURN, THREAD, ITEM = RunId("r_1"), TurnId("tu"), ThreadId("th"), ItemId("it")
ENTRY = Entry(
    id=EntryId("ent_1"),
    session_id=SessionId("ses_1"),
    depth=3,
    position=2,
    parent=EntryId("ent_0"),
    kind=EntryKind.MESSAGE,
    key="k",
    message=Message(role="user", content=[{"type": "text", "text": "héllo"}],
                    entry_id=EntryId("ent_1"), created_at=1.5),
    content_hash="h",
    raw_items=({"type": "message"},),
    thread_id=None,
    turn_id=TURN,
    run_id=RUN,
    created_at=1.5,
    meta={"trigger": "user"},
)  # fmt: skip
RECORDS = (
    SessionRecord(
        key=SessionKey("agent:main:x"), id=SessionId("ses_1"), generation=2,
        agent_id=AgentId("main"), owner="local", cwd=None, title="t", created_at=1.0,
        updated_at=2.0, entry_count=3, settings={"model": "m", "deep": {"a": [1, None]}},
    ),
    ENTRY,
    SearchHit(
        session_key=SessionKey("agent:main:x"), entry=ENTRY, snippet="s", matches=((0, 1), (4, 5))
    ),
    ContextReport(
        run_id=RUN, session_id=SessionId("ses_1"), number=4, created_at=1.0, report={"a": 1}
    ),
    EngineListing(
        engine_id=EngineId("e"), owner="o", state="quarantined", failing_runs=1,
        fault=EngineFault(
            engine_id=EngineId("e"), owner="o", operation="register", reason="r", at=1.0
        ),
    ),
    EngineListing(
        engine_id=EngineId("e"), owner="o", state="ready", failing_runs=0, fault=None
    ),
    Account(agent_id=AgentId("main"), kind=None, needs_sign_in=True),
    ModelRow(
        model="m", name="n", about="a", is_default=True, efforts=("low", "high"),
        default_effort=None,
    ),
)  # fmt: skip
USAGE = Usage(input=1, output=2, cache_read=None, total=3)
EVENTS: tuple[RunEvent, ...] = (
    MessageAccepted(run_id=RUN, client_message_id="m", place=2),
    MessageSent(run_id=RUN, client_message_id="m"),
    MessageFailed(run_id=RUN, client_message_id="m", reason="r"),
    MessageCancelled(run_id=RUN, client_message_id="m", reason="r"),
    MessageUnconfirmed(run_id=RUN, client_message_id="m", reason="r"),
    RunStarted(run_id=RUN, session_key=SessionKey("agent:main:x"), session_id=SessionId("ses_1")),
    ContextAssembled(
        run_id=RUN, engine_id=EngineId("e"), decision="seed", reason="r", report={"items": 0}
    ),
    ThreadChanged(run_id=RUN, previous=None, thread_id=THREAD, reason="r"),
    TurnStarted(run_id=RUN, thread_id=THREAD, turn_id=TURN),
    PartDelta(run_id=RUN, part=ITEM, kind="text", at=4, text="more"),
    PartValue(run_id=RUN, part=ITEM, kind="tool", value={"status": "completed"}),
    QuestionOpened(
        run_id=RUN,
        question=Question(
            id=QuestionId("q"), kind=QuestionKind.COMMAND, thread_id=THREAD, turn_id=TURN,
            item_id=None, title="t", shown={"command": ["ls"]},
        ),
    ),
    QuestionResolved(
        run_id=RUN, answer=Answer(question_id=QuestionId("q"), verdict=Verdict.DENIED, by="policy")
    ),
    ContextReported(run_id=RUN, usage=USAGE),
    CompactionStarted(run_id=RUN, owner="codex", item_id=None),
    CompactionFinished(run_id=RUN, owner="codex", item_id=ITEM, details={"a": 1}),
    Notice(run_id=RUN, code="c", text="t"),
    RunFinished(
        run_id=RUN, outcome=Outcome.STOPPED, text="half", error={"code": "x"}, replay_safe=False,
        partial=True, usage=USAGE, duration_s=1.25,
    ),
)  # fmt: skip


def carried(value: JsonValue) -> JsonValue:
    """Send a value through JSON text."""
    found: JsonValue = json.loads(json.dumps(value))
    return found


@pytest.mark.parametrize("record", RECORDS, ids=lambda one: type(one).__name__)
def test_a_record_is_read_as_it_was_written(record: object) -> None:
    """Ours: a command shows the same, whether the owner is itself or another process."""
    assert record_from(type(record), carried(plain(record))) == record


@pytest.mark.parametrize("event", EVENTS, ids=lambda one: one.type)
def test_an_event_is_read_as_it_was_told(event: RunEvent) -> None:
    """Ours."""
    data = {name: value for name, value in event_data(event).items() if name != "run_id"}
    told = carried(data)
    assert isinstance(told, dict)
    assert event_from(event.type, event.run_id, told) == event


def test_every_event_of_a_run_can_be_carried_over_the_socket() -> None:
    """Ours: one that could not would be missing where a command attached."""
    carried_types = {one.type for one in EVENTS} | {EntryCommitted.type}
    assert carried_types == {one.type for one in get_args(RunEvent)}


def test_an_entry_is_read_as_it_was_told_without_what_is_not_told() -> None:
    """Ours: the same data comes out again."""
    told = carried({"entry": entry_data(ENTRY)})
    assert isinstance(told, dict)
    event = event_from("entry.committed", RUN, told)
    assert isinstance(event, EntryCommitted)
    assert carried(event_data(event)) == carried({"run_id": RUN, "entry": entry_data(ENTRY)})
    assert event.entry.raw_items == ()


def test_fields_of_a_newer_gateway_are_ignored_and_defaults_may_be_left_out() -> None:
    """Ours: additive changes break no client."""
    whole = plain(RECORDS[0])
    assert isinstance(whole, dict)
    newer = {**whole, "colour": "green"}
    del newer["settings"]
    found = record_from(SessionRecord, newer)
    assert found.settings == {}
    assert event_from("colour.changed", RUN, {}) is None


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (SessionRecord, None),
        (SessionRecord, {"key": "x"}),
        (Entry, {**entry_data(ENTRY), "kind": "nonsense", "message": {}}),
        (ModelRow, {"efforts": 3}),
    ],
)
def test_what_is_no_record_is_an_error_of_the_gateway(kind: type, value: JsonValue) -> None:
    """Ours."""
    with pytest.raises(RemoteProtocolError, match="gateway"):
        record_from(kind, value)
    with pytest.raises(RemoteProtocolError, match="gateway"):
        records_from(kind, [value])
    with pytest.raises(RemoteProtocolError, match="gateway"):
        records_from(kind, "no list")
