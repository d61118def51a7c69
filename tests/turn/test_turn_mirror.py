"""What the mirror keeps of a turn, and how watchers hear of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.turn.rig import Rig, Turn, item, turn_steps
from treadle.contract.hook import HookRegistration, MessageWrite
from treadle.contract.store import SearchQuery
from treadle.harness.codex.mirror import sender_label
from treadle.model.ids import ThreadId
from treadle.model.json import JsonObject
from treadle.model.message import EntryKind, Message, text_of, user_message
from treadle.model.turn import EntryCommitted, Outcome, PartValue
from treadle.testing.engine import RecordingEngine

pytestmark = pytest.mark.anyio

OVERFLOW = {"message": "too long", "codexErrorInfo": "contextWindowExceeded"}

ITEMS: tuple[dict[str, Any], ...] = (
    {"type": "reasoning", "summary": ["Thinking."], "content": []},
    {"type": "plan", "text": "1. Do it."},
    {"type": "commandExecution", "command": "ls", "cwd": "/", "status": "completed",
     "commandActions": [], "aggregatedOutput": "a file", "exitCode": 0},
    {"type": "fileChange", "changes": [], "status": "completed"},
    {"type": "mcpToolCall", "server": "s", "tool": "t", "status": "completed", "arguments": {},
     "result": {"content": [{"type": "text", "text": "from mcp"}]}},
    {"type": "dynamicToolCall", "tool": "note", "arguments": {}, "status": "completed",
     "contentItems": [{"type": "inputText", "text": "noted"}], "success": True},
    {"type": "collabAgentToolCall", "tool": "spawnAgent", "status": "completed",
     "senderThreadId": "a", "receiverThreadIds": [], "agentsStates": {}},
    {"type": "webSearch", "query": "cats"},
    {"type": "imageView", "path": "/a.png"},
    {"type": "imageGeneration", "status": "completed", "result": ""},
    {"type": "sleep", "durationMs": 5},
    {"type": "hookPrompt", "fragments": [{"text": "say more", "hookRunId": "h"}]},
    {"type": "enteredReviewMode", "review": "r"},
    {"type": "exitedReviewMode", "review": "r"},
    {"type": "contextCompaction"},
    {"type": "subAgentActivity", "kind": "x", "agentThreadId": "a", "agentPath": "/"},
    {"type": "functionCallOutput", "name": "f", "namespace": None, "output": "o"},
    {"type": "somethingOfNextYear", "what": "ever"},
)  # fmt: skip
"""One of each kind of item, and one that nobody knows yet."""


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(root=tmp_path)


def committed(turn: Turn) -> list[EntryCommitted]:
    return [event for event in turn.events if isinstance(event, EntryCommitted)]


async def test_every_kind_of_item_is_kept_and_shown_and_only_three_roles_are_messages(
    rig: Rig,
) -> None:
    """Spec G-04, G-08, G-18, H-02, H-15: an unknown kind too, with all that it holds."""
    between = [
        item(which, id=f"item-{number}", **fields)
        for number, fields in enumerate(ITEMS)
        for which in ("started", "completed")
    ]
    async with rig.opened() as runtime:
        rig.answers("done", between=between)
        session = runtime.session("t")
        turn = await rig.say(session, "do all")
        entries = await session.entries()
    assert turn.finished.outcome is Outcome.COMPLETED
    messages = [entry for entry in entries if entry.kind is EntryKind.MESSAGE]
    assert {entry.message.role for entry in messages} == {"user", "assistant", "toolResult"}
    shown = {str(event.part) for event in turn.events if isinstance(event, PartValue)}
    told = {
        str(getattr(event, "part", None) or getattr(event, "item_id", "")) for event in turn.events
    }
    for number, fields in enumerate(ITEMS):
        kept = [
            entry
            for entry in entries
            if f"item-{number}" in f"{entry.key} {entry.message} {entry.meta}"
        ]
        assert kept, fields
        assert f"item-{number}" in told, fields
    unknown = f"item-{len(ITEMS) - 1}"
    assert unknown in shown
    (odd,) = [entry for entry in entries if unknown in entry.key]
    assert "ever" in str(odd)


async def test_each_entry_is_told_once_in_the_order_of_its_number(rig: Rig) -> None:
    """Spec H-08: numbers go on from what was there; they are the entries' depths."""
    async with rig.opened() as runtime:
        session = runtime.session("t")
        rig.answers("1", "2")
        turns = [await rig.say(session, text) for text in ("one", "two")]
        entries = await session.entries()
    told = [event.entry for turn in turns for event in committed(turn)]
    assert [entry.depth for entry in told] == list(range(len(entries)))
    assert [entry.id for entry in told] == [entry.id for entry in entries]


async def test_a_prompt_that_is_not_to_be_kept_is_not_mirrored_when_its_turn_starts(
    rig: Rig,
) -> None:
    """Spec H-10: nor told to watchers; another turn's is, and the thread's account has both."""
    async with rig.opened() as runtime:
        session = runtime.session("t")
        rig.answers("1", "2")
        hidden = await rig.say(session, "hidden", persist_prompt=False)
        shown = await rig.say(session, "shown")
        entries = await session.entries()
        held = await runtime.store.bindings.held(ThreadId("thread-1"))
    for turn, before_it_started in ((hidden, False), (shown, True)):
        names = [type(event).__name__ for event in turn.events]
        assert (names.index("EntryCommitted") < names.index("TurnStarted")) is before_it_started
    assert [text_of(entry.message) for entry in entries] == ["1", "shown", "2"]
    assert rig.sent() == ["hidden", "shown"]
    assert [one.content_hash for one in held] == [
        user_message("hidden").content_hash, *[entry.content_hash for entry in entries],
    ]  # fmt: skip


async def test_a_persons_message_is_told_once_however_often_the_turn_is_sent(rig: Rig) -> None:
    """Spec H-09, C-12, D-41: also where the turn had to be sent again on a fresh thread."""
    async with rig.opened(RecordingEngine()) as runtime:
        session = runtime.session("t")
        rig.answers("1")
        await rig.say(session, "one")
        rig.codex.once(
            "turn/start",
            turn_steps({"text": "", "status": "failed", "error": OVERFLOW, "only": True}),
        )
        rig.answers("2")
        turn = await rig.say(session, "two")
    said = [event for event in committed(turn) if event.entry.message.role == "user"]
    assert [text_of(event.entry.message) for event in said] == ["two"]


async def test_a_watcher_that_leaves_stops_nothing(rig: Rig) -> None:
    """Spec H-09, G-24: events are taken, not called, so nothing of a watcher can break a turn."""
    async with rig.opened() as runtime:
        session = runtime.session("t")
        rig.answers("1")
        with anyio.fail_after(10):
            run = session.run("one")
            async for _ in run:
                break
            finished = await run.result()
        entries = await session.entries()
    assert finished.text == "1"
    assert [text_of(entry.message) for entry in entries] == ["one", "1"]


@pytest.mark.parametrize(
    ("sender", "label"),
    [
        ({"id": "42", "name": "Ada"}, "Ada (42)"),
        ({"id": "42", "name": "Ada 42"}, "Ada 42"),
        ({"id": "42", "username": "ada"}, "ada (42)"),
        ({"id": "42"}, "42"),
        ({"e164": "+49301"}, "+49301"),
        ({"id": 7, "name": " "}, ""),
    ],
)
def test_a_sender_is_shown_by_name_and_id(sender: JsonObject, label: str) -> None:
    """Spec H-11."""
    assert sender_label(sender) == label


async def test_the_users_entry_says_who_wrote_it_and_from_where(rig: Rig) -> None:
    """Spec H-11: and the model does not see it."""
    sender: JsonObject = {
        "id": "42", "name": "Ada", "channel": "matrix", "provenance": {"room": "r"},
    }  # fmt: skip
    async with rig.opened() as runtime:
        session = runtime.session("t")
        rig.answers("1")
        with anyio.fail_after(10):
            await session.run("one", sender=sender).result()
        user, answer = await session.entries()
    assert user.meta["sender"] == {**sender, "label": "Ada (42)"}
    assert "sender" not in answer.meta
    assert rig.sent() == ["one"]


async def test_a_rewritten_record_never_rewrites_the_native_thread(rig: Rig) -> None:
    """Spec H-12, H-17: hooks change what the mirror keeps; Codex's own history stays its own."""

    def rewritten(payload: MessageWrite) -> Message:
        if payload.message.role != "toolResult":
            return payload.message
        return Message(role="toolResult", content="[rewritten]")

    hooks = [HookRegistration(name="before_message_write", handler=rewritten)]
    shell = {
        "type": "commandExecution", "id": "c1", "command": "ls", "cwd": "/", "status": "completed",
        "commandActions": [], "aggregatedOutput": "a file", "exitCode": 0,
    }  # fmt: skip
    async with rig.opened(RecordingEngine(), hooks=hooks) as runtime:
        session = runtime.session("t")
        rig.answers("1", between=[item(one, **shell) for one in ("started", "completed")])
        rig.answers("2")
        await rig.say(session, "one")
        second = await rig.say(session, "two")
        entries = await session.entries()
    assert "[rewritten]" in [text_of(entry.message) for entry in entries]
    assert second.decision == "continue"
    assert not {"thread/revert", "thread/inject_items", "thread/compact/start"} & set(rig.methods())
    assert rig.methods().count("thread/start") == 1


def test_times_and_ids_take_no_part_in_a_messages_fingerprint() -> None:
    """Spec H-05."""
    plain = Message(role="user", content="same")
    later = Message(role="user", content="same", created_at=7.0, host_only=True)
    assert plain.content_hash == later.content_hash
    assert plain.content_hash != Message(role="assistant", content="same").content_hash


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("我们明天在北京的咖啡馆见面讨论合同", "咖啡馆"),
        ("明日は東京駅で待ち合わせましょう", "東京駅"),
        ("カタカナのテストです", "テスト"),
        ("The shuttle carries weft", "shuttle weft"),
    ],
)
async def test_what_was_said_is_found_in_any_script(rig: Rig, said: str, asked: str) -> None:
    """Issue 3, 4: words, also without blanks between them, by role and session."""
    async with rig.opened() as runtime:
        session = runtime.session("t")
        rig.answers("noted", "other")
        await rig.say(session, said)
        await rig.say(runtime.session("u"), "nothing of that kind")
        hits = await runtime.search(SearchQuery(text=asked))
        by_role = await runtime.search(SearchQuery(text=asked, role="assistant"))
    assert [text_of(hit.entry.message) for hit in hits] == [said]
    assert hits[0].session_key == "agent:main:t"
    assert by_role == ()


async def test_an_answer_that_was_there_when_the_time_ran_out_is_given(rig: Rig) -> None:
    """Spec G-27, A-17: timed out and aborted, and what was said stands."""
    rig.keys["agents", "defaults", "timeoutSeconds"] = 0.2
    ids = {"threadId": "$thread", "turnId": "$turn"}
    agent = {"type": "agentMessage", "id": "a1", "text": "It is done.", "phase": None}
    turn: dict[str, Any] = {"id": "$turn", "items": [], "status": "inProgress", "error": None}
    rig.codex.once(
        "turn/start",
        [
            {"answer": {"turn": turn}},
            {"tell": {"method": "turn/started", "params": {"threadId": "$thread", "turn": turn}}},
            {
                "tell": {
                    "method": "item/completed",
                    "params": {**ids, "item": agent, "completedAtMs": 1},
                }
            },
        ],
    )
    async with rig.opened() as runtime:
        session = runtime.session("t")
        done = await rig.say(session, "one")
        entries = await session.entries()
    assert done.finished.outcome is Outcome.TIMED_OUT
    assert done.error["code"] == "turn.interrupted"
    assert done.finished.text == "It is done."
    assert [text_of(e.message) for e in entries if e.kind is EntryKind.MESSAGE][:1] == ["one"]
    assert "turn/interrupt" in rig.methods()
