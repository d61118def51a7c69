"""A turn's entries, from raw and typed items (spec G-01…G-12, H-03, H-13; decision 7)."""

from __future__ import annotations

from collections import Counter as Count
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.model.ids import EntryId, RunId, SessionId, ThreadId, TurnId
from treadle.model.json import JsonObject, JsonValue
from treadle.model.message import (
    Entry,
    EntryKind,
    Message,
    NewEntry,
    assistant_message,
    call_ids,
    parts_of,
    result_ids,
    text_of,
    tool_call_part,
    tool_result_message,
    user_message,
)
from treadle.projection.context_report import OUTSIDE_LISTED, ReportInput, context_report
from treadle.projection.history import Continue, Extend, Plan, PromptCarrier, Reason, Rebase, Seed
from treadle.projection.injection import ItemOptions, cleaned_raw, items_for
from treadle.projection.items import TurnProjection, TurnScope
from treadle.projection.snapshot import NO_RESULT
from treadle.tokens import EstimateCounter

RUN, THREAD, TURN = RunId("run"), ThreadId("T"), TurnId("U")
OURS: JsonObject = {"threadId": THREAD, "turnId": TURN}
SCOPE = "codex-app-server:T:U"


def told(
    *items: JsonObject, raw: tuple[JsonObject, ...] = (), status: str | None = "completed"
) -> TurnProjection:
    """A turn in which these typed items came and went; `raw` came as notifications before them."""
    turn = TurnProjection(TurnScope(run_id=RUN, thread_id=THREAD, model="m", model_provider="p"))
    turn.expect(TURN)
    for item in raw:
        turn.feed("rawResponseItem/completed", {**OURS, "item": item})
    for item in items:
        turn.feed("item/started", {**OURS, "item": item})
        if item.get("status") != "inProgress":
            turn.feed("item/completed", {**OURS, "item": item})
    if status is not None:
        turn.feed("turn/completed", {**OURS, "turn": {"id": TURN, "status": status}})
    return turn


def raw_message(role: str, text: str, name: str = "") -> JsonObject:
    kind = "output_text" if role == "assistant" else "input_text"
    return {
        "type": "message",
        "role": role,
        "content": [{"type": kind, "text": text}],
        **({"id": name} if name else {}),
    }


def user_item(name: str, text: str) -> JsonObject:
    content: JsonValue = [{"type": "text", "text": text, "text_elements": []}]
    return {"type": "userMessage", "id": name, "content": content}


def agent_item(name: str, text: str, **fields: JsonValue) -> JsonObject:
    return {"type": "agentMessage", "id": name, "text": text, "phase": None, **fields}


RAW_PROMPT = raw_message("user", "do it", "msg_u")
RAW_REASONING: JsonObject = {"type": "reasoning", "id": "rs", "encrypted_content": "x"}
RAW_CALL: JsonObject = {
    "type": "function_call",
    "id": "fc",
    "name": "exec_command",
    "arguments": '{"cmd": "ls"}',
    "call_id": "c1",
}
RAW_OUTPUT: JsonObject = {"type": "function_call_output", "call_id": "c1", "output": "a\nb"}
RAW_ANSWER = raw_message("assistant", "done", "msg_a")
COMMAND: JsonObject = {
    "type": "commandExecution",
    "id": "c1",
    "command": "bash -lc ls",
    "cwd": "/w",
    "source": "agent",
    "status": "completed",
    "aggregatedOutput": "a\nb\n",
    "exitCode": 0,
    "durationMs": 250,
}
TYPED = (user_item("u", "do it"), COMMAND, agent_item("msg_a", "done"))
PROMPT = user_message("do it")


def kinds(entries: tuple[NewEntry, ...]) -> list[str]:
    return [entry.key.removeprefix(f"{SCOPE}:") for entry in entries]


def test_raw_items_give_the_messages_and_typed_items_name_them() -> None:
    """Spec G-01, G-03, G-08, G-11, H-03, decision 7."""
    entries = told(*TYPED).snapshot(
        [RAW_PROMPT, RAW_REASONING, RAW_CALL, RAW_OUTPUT, RAW_ANSWER], prompt=PROMPT
    )
    assert kinds(entries) == ["prompt", "call:c1", "result:c1", "assistant:msg_a"]
    assert [entry.raw_items for entry in entries] == [
        (RAW_PROMPT,),
        (RAW_REASONING, RAW_CALL),
        (RAW_OUTPUT,),
        (RAW_ANSWER,),
    ]
    prompt, call, result, answer = entries
    assert prompt.message == PROMPT
    assert call.message.content == [tool_call_part("c1", "bash", {"cmd": "ls"})]
    tool: JsonObject = {
        "name": "bash",
        "kind": "command",
        "status": "completed",
        "exit_code": 0,
        "source": "agent",
        "duration_s": 0.25,
    }
    assert call.meta == {"tool": tool, "model": "m", "model_provider": "p"}
    assert result.message == tool_result_message("c1", "bash", "a\nb", is_error=False)
    assert answer.message == assistant_message("done")
    assert {entry.kind for entry in entries} == {EntryKind.MESSAGE}
    assert {(entry.thread_id, entry.turn_id, entry.run_id) for entry in entries} == {
        (THREAD, TURN, RUN)
    }


def test_the_turn_is_the_same_from_raw_items_alone() -> None:
    """Decision 3: a turn that is settled after a crash has no typed items."""
    entries = told().snapshot(
        [RAW_PROMPT, RAW_CALL, RAW_OUTPUT, RAW_ANSWER], prompt=PROMPT, completed=True
    )
    assert kinds(entries) == ["prompt", "call:c1", "result:c1", "assistant:msg_a"]
    assert parts_of(entries[1].message)[0]["name"] == "exec_command"


def test_without_a_prompt_its_entry_is_left_out() -> None:
    """Spec H-14."""
    entries = told(TYPED[0], TYPED[2]).snapshot([RAW_PROMPT, RAW_ANSWER])
    assert kinds(entries) == ["assistant:msg_a"]


def test_a_prompt_behind_a_block_keeps_no_raw_item() -> None:
    """Spec D-51: the quoted context never becomes part of what the person said."""
    sent = "context before\n\ndo it"
    entries = told(user_item("u", sent)).snapshot([raw_message("user", sent)], prompt=PROMPT)
    assert entries[0].message == PROMPT
    assert entries[0].raw_items == ()


def test_codex_own_context_is_no_entry() -> None:
    """Decision 17: neither developer items nor Codex's own user messages."""
    entries = told(*TYPED).snapshot(
        [
            raw_message("developer", "permissions"),
            raw_message("user", "<environment_context>"),
            RAW_PROMPT,
            raw_message("user", "<turn_aborted>"),
            RAW_CALL,
            RAW_OUTPUT,
            RAW_ANSWER,
        ],
        prompt=PROMPT,
    )
    assert kinds(entries) == ["prompt", "call:c1", "result:c1", "assistant:msg_a"]


def test_a_steer_is_an_entry_of_its_own() -> None:
    """Facts section 3."""
    turn = told(user_item("u", "do it"), user_item("s", "faster"), agent_item("msg_a", "done"))
    steer = raw_message("user", "faster")
    entries = turn.snapshot([RAW_PROMPT, steer, RAW_ANSWER], prompt=PROMPT)
    assert kinds(entries) == ["prompt", "steer:s", "assistant:msg_a"]
    assert text_of(entries[1].message) == "faster"
    assert entries[1].raw_items == (steer,)


def test_a_script_is_a_message_and_what_it_called_is_activity() -> None:
    """Facts section 2: code mode."""
    script: JsonObject = {
        "type": "custom_tool_call", "name": "exec", "input": "text(1)", "call_id": "s1",
    }  # fmt: skip
    output: JsonObject = {
        "type": "custom_tool_call_output",
        "call_id": "s1",
        "output": [{"type": "input_text", "text": "1"}],
    }
    nested: JsonObject = {
        "type": "dynamicToolCall", "id": "exec-77", "tool": "recall", "arguments": {"q": "x"},
        "contentItems": [{"type": "inputText", "text": "R"}], "status": "completed",
    }  # fmt: skip
    turn = told(user_item("u", "do it"), nested, agent_item("msg_a", "done"), raw=(script,))
    entries = turn.snapshot([RAW_PROMPT, script, output, RAW_ANSWER], prompt=PROMPT)
    assert kinds(entries) == [
        "prompt", "call:s1", "result:s1", "tool:exec-77", "assistant:msg_a",
    ]  # fmt: skip
    activity = entries[3]
    assert activity.kind is EntryKind.ACTIVITY
    assert activity.raw_items == ()
    assert call_ids(activity.message) == result_ids(activity.message) == ("exec-77",)
    assert parts_of(entries[1].message)[0]["arguments"] == {"input": "text(1)"}
    assert entries[1].raw_items == (script,)


def test_activity_stands_between_a_call_and_its_output_where_that_is_known() -> None:
    """Ours: raw notifications say when."""
    script: JsonObject = {"type": "custom_tool_call", "name": "exec", "call_id": "s1"}
    output: JsonObject = {"type": "custom_tool_call_output", "call_id": "s1", "output": "1"}
    turn = told(
        {"type": "dynamicToolCall", "id": "exec-1", "tool": "t"}, raw=(script,), status=None
    )
    turn.feed("rawResponseItem/completed", {**OURS, "item": output})
    assert kinds(turn.snapshot()) == ["call:s1", "tool:exec-1", "result:s1"]


def test_codex_removed_text_stays_removed() -> None:
    """Spec G-05, G-07: the raw item is kept as it was, the readable text is Codex's."""
    entries = told(agent_item("msg_a", "visible")).snapshot([
        raw_message("assistant", "visible<hidden>", "msg_a")
    ])
    assert text_of(entries[0].message) == "visible"
    emptied = told(agent_item("msg_a", "")).snapshot([RAW_ANSWER])
    assert text_of(emptied[0].message) == ""


def test_a_raw_echo_of_a_typed_message_is_not_doubled() -> None:
    """Spec G-07: also where the ids differ."""
    entries = told(agent_item("item-1", "done")).snapshot([raw_message("assistant", "done", "x")])
    assert kinds(entries) == ["assistant:item-1"]


def test_failed_and_declined_work_is_an_error() -> None:
    """Spec G-10, G-11."""
    for status in ("failed", "declined"):
        entries = told({**COMMAND, "status": status}).snapshot([RAW_CALL, RAW_OUTPUT])
        assert parts_of(entries[1].message)[0]["isError"] is True


def test_without_raw_items_the_entries_are_rendered_and_say_so() -> None:
    """Spec G-04, G-08, G-11, decision 7."""
    turn = told(*TYPED[:2], user_item("s", "more"), TYPED[2])
    entries = turn.snapshot(prompt=PROMPT)
    assert kinds(entries) == ["prompt", "call:c1", "result:c1", "steer:s", "assistant:msg_a"]
    assert all(entry.meta["rendered"] for entry in entries[1:])
    assert not any(entry.raw_items for entry in entries)
    assert parts_of(entries[1].message)[0]["name"] == "bash"
    assert entries[2].message == tool_result_message("c1", "bash", "a\nb\n", is_error=False)


TOOLS: tuple[tuple[JsonObject, str, JsonValue, str], ...] = (
    ({"type": "fileChange", "id": "f", "changes": [{"path": "/a"}]}, "apply_patch",
     {"changes": [{"path": "/a"}]}, "/a"),
    ({"type": "webSearch", "id": "w", "query": "q"}, "web_search", {"query": "q"}, ""),
    ({"type": "mcpToolCall", "id": "m", "server": "s", "tool": "t", "arguments": {"x": 1},
      "result": {"content": [{"type": "text", "text": "3"}]}}, "s.t", {"x": 1}, "3"),
    ({"type": "mcpToolCall", "id": "m", "server": "s", "tool": "t", "status": "failed",
      "error": {"message": "no"}}, "s.t", None, "no"),
    ({"type": "dynamicToolCall", "id": "d", "tool": "recall", "arguments": {"q": 1},
      "contentItems": [{"type": "inputText", "text": "R"}]}, "recall", {"q": 1}, "R"),
)  # fmt: skip


@pytest.mark.parametrize(("item", "name", "arguments", "text"), TOOLS)
def test_rendered_tools(item: JsonObject, name: str, arguments: JsonValue, text: str) -> None:
    """Spec G-08, G-11."""
    call, result = told(item).snapshot()
    assert parts_of(call.message)[0]["name"] == name
    assert parts_of(call.message)[0]["arguments"] == arguments
    content = parts_of(result.message)[0]["content"]
    assert text_of(Message(role="toolResult", content=content)) == text


def test_reasoning_and_plans_are_light_records() -> None:
    """Spec G-04."""
    turn = told(
        {"type": "reasoning", "id": "r", "summary": ["first", "then"]},
        {"type": "reasoning", "id": "empty", "summary": []},
        {"type": "plan", "id": "U-plan", "text": "# Plan"},
        agent_item("msg_a", "done"),
    )
    entries = turn.snapshot([RAW_ANSWER])
    assert sorted(kinds(entries)) == ["assistant:msg_a", "plan:U-plan", "reasoning:r"]
    thought = next(entry for entry in entries if entry.key.endswith("reasoning:r"))
    assert thought.kind is EntryKind.ACTIVITY
    assert thought.message.content == [{"type": "thinking", "thinking": "first\n\nthen"}]


def test_native_compaction_is_recorded_without_a_summary() -> None:
    """Spec H-13."""
    (entry,) = told({"type": "contextCompaction", "id": "k"}).snapshot()
    assert entry.kind is EntryKind.COMPACTION
    assert entry.key == f"{SCOPE}:compaction:k"
    assert entry.meta == {"state": "done"}


def test_a_hosted_search_leads_the_next_message() -> None:
    """Decision 7: items without words are kept where they stood."""
    search: JsonObject = {"type": "web_search_call", "id": "ws", "action": {"type": "search"}}
    typed: JsonObject = {"type": "webSearch", "id": "ws", "query": "q"}
    entries = told(typed, agent_item("msg_a", "done")).snapshot([search, RAW_ANSWER])
    message = next(entry for entry in entries if entry.kind is EntryKind.MESSAGE)
    assert message.raw_items == (search, RAW_ANSWER)
    assert {entry.kind for entry in entries} == {EntryKind.MESSAGE, EntryKind.ACTIVITY}
    (last,) = told().snapshot([RAW_ANSWER, search, RAW_REASONING], completed=True)
    assert last.raw_items == (RAW_ANSWER, search)


def test_an_interrupted_turn_keeps_partial_text_as_a_notice() -> None:
    """Spec H-16: Codex does not give it back to the model, so it is no message."""
    turn = told(status=None)
    turn.feed("item/agentMessage/delta", {**OURS, "itemId": "a", "delta": "half an ans"})
    assert turn.snapshot() == ()
    turn.feed("turn/completed", {**OURS, "turn": {"id": TURN, "status": "interrupted"}})
    (entry,) = turn.snapshot([RAW_PROMPT])
    assert entry.kind is EntryKind.NOTICE
    assert entry.meta["partial"] is True
    assert text_of(entry.message) == "half an ans"


@pytest.mark.parametrize("raw", [[RAW_CALL], None])
def test_a_call_left_without_a_result_gets_an_error_result(raw: list[JsonObject] | None) -> None:
    """Spec G-12."""
    turn = told({**COMMAND, "status": "inProgress"}, status="interrupted")
    call, result = turn.snapshot(raw)
    assert call.key == f"{SCOPE}:call:c1"
    assert result.message == tool_result_message("c1", "bash", NO_RESULT, is_error=True)
    assert result.meta == {"synthetic": True}
    assert kinds(told(status=None).snapshot([RAW_CALL], completed=False)) == [
        "call:c1",
        "result:c1",
    ]


def test_a_completed_turn_gets_no_synthetic_result() -> None:
    """Spec G-12."""
    assert kinds(told().snapshot([RAW_CALL])) == ["call:c1"]


def test_repeated_call_ids_keep_keys_of_their_own() -> None:
    """Spec G-11, H-04: nothing of a turn is lost to a model that counts badly."""
    entries = told().snapshot([RAW_CALL, RAW_OUTPUT, RAW_CALL, RAW_OUTPUT])
    assert kinds(entries) == ["call:c1", "result:c1", "call:c1~2", "result:c1~2"]


def test_odd_raw_items_are_read() -> None:
    """Decision 7."""
    shell: JsonObject = {"type": "local_shell_call", "call_id": "l", "action": {"command": ["ls"]}}
    search: JsonObject = {"type": "tool_search_call", "call_id": "t", "arguments": {"query": "q"}}
    found: JsonObject = {"type": "tool_search_output", "call_id": "t", "tools": [{"name": "x"}]}
    bad: JsonObject = {**RAW_CALL, "arguments": "{not json"}
    nameless: JsonObject = {"type": "message", "role": "assistant", "content": []}
    entries = told().snapshot([shell, search, found, bad, nameless, nameless])
    assert kinds(entries) == [
        "call:l", "call:t", "result:t", "call:c1", "assistant:#1", "assistant:#2",
    ]  # fmt: skip
    names = [parts_of(entry.message)[0].get("name") for entry in entries[:2]]
    assert names == ["local_shell", "tool_search"]
    assert parts_of(entries[3].message)[0]["arguments"] == "{not json"


def test_an_image_in_an_output_stays_a_part() -> None:
    """Facts section 4."""
    output: JsonObject = {
        "type": "function_call_output",
        "call_id": "c1",
        "output": [
            {"type": "input_text", "text": "see"},
            {"type": "input_image", "image_url": "data:image/png;base64,AA"},
            {"type": "odd"},
            7,
        ],
    }
    entries = told().snapshot([RAW_CALL, output])
    assert parts_of(entries[1].message)[0]["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image", "url": "data:image/png;base64,AA"},
        {"type": "odd"},
    ]


def test_a_snapshot_in_mid_turn_has_the_keys_of_the_last_one() -> None:
    """Spec H-04."""
    turn = told(TYPED[0], COMMAND, status=None)
    early = kinds(turn.snapshot(prompt=PROMPT))
    turn.feed("item/completed", {**OURS, "item": TYPED[2]})
    turn.feed("turn/completed", {**OURS, "turn": {"id": TURN, "status": "completed"}})
    late = kinds(turn.snapshot([RAW_PROMPT, RAW_CALL, RAW_OUTPUT, RAW_ANSWER], prompt=PROMPT))
    assert early == late[:3]


def test_a_snapshot_needs_the_turn_id() -> None:
    """Ours."""
    turn = TurnProjection(TurnScope(run_id=RUN, thread_id=THREAD))
    with pytest.raises(ValueError, match="turn"):
        turn.snapshot()


RAWS = st.sampled_from([
    RAW_PROMPT, RAW_REASONING, RAW_CALL, RAW_OUTPUT, RAW_ANSWER,
    {"type": "custom_tool_call", "call_id": "c2"}, {"type": "web_search_call"}, {"type": "odd"},
    {"type": "function_call"}, {"type": "function_call_output"}, {"role": "assistant"}, {},
])  # fmt: skip


@given(st.lists(RAWS, max_size=10), st.booleans())
def test_every_raw_item_of_the_conversation_is_kept_once_and_in_order(
    raw: list[JsonObject], completed: bool
) -> None:
    """Decision 7: but for the prompt's own, reasoning that led nowhere and what is no item."""
    entries = told().snapshot(raw, completed=completed)
    kept = [item for entry in entries for item in entry.raw_items]
    positions = iter(raw)
    assert all(any(item is one for one in positions) for item in kept)
    spoken = [one for one in raw if one.get("role") == "assistant"]
    assert [one for one in kept if one.get("role") == "assistant"] == spoken
    counts = Count(entry.key for entry in entries)
    assert set(counts.values()) <= {1}


SCRIPT: JsonObject = {"type": "custom_tool_call", "name": "exec", "input": "1", "call_id": "c1"}
SCRIPT_OUTPUT: JsonObject = {"type": "custom_tool_call_output", "call_id": "c1", "output": "1"}
SEARCH: JsonObject = {"type": "web_search_call", "id": "ws", "status": "completed"}
STEPS = st.sampled_from([
    (RAW_ANSWER,),
    (RAW_CALL, RAW_OUTPUT),
    (RAW_REASONING, RAW_CALL, RAW_OUTPUT),
    (SCRIPT, SCRIPT_OUTPUT),
    (RAW_REASONING, RAW_ANSWER),
    (SEARCH, RAW_ANSWER),
    (raw_message("user", "faster"),),
])


def stored(entries: tuple[NewEntry, ...]) -> list[Entry]:
    """The entries as a store would give them back."""
    return [
        Entry(
            id=EntryId(str(at)),
            session_id=SessionId("s"),
            depth=at,
            position=at,
            parent=None,
            kind=entry.kind,
            key=entry.key,
            message=replace(entry.message, entry_id=EntryId(str(at))),
            content_hash=entry.message.content_hash,
            raw_items=entry.raw_items,
            thread_id=entry.thread_id,
            turn_id=entry.turn_id,
            run_id=entry.run_id,
            created_at=0.0,
            meta=entry.meta,
        )
        for at, entry in enumerate(entries)
    ]


@given(st.lists(STEPS, max_size=6))
def test_a_turn_comes_back_as_it_was(steps: list[tuple[JsonObject, ...]]) -> None:
    """Decision 7: mirrored, then injected unchanged, a turn is the same items but for their ids."""
    raw = [RAW_PROMPT, *(item for step in steps for item in step)]
    entries = stored(told().snapshot(raw, prompt=PROMPT, completed=True))
    back = items_for(
        [entry.message for entry in entries],
        {entry.id: entry for entry in entries},
        ItemOptions(model="m", model_provider="p"),
    )
    assert [cleaned_raw(one.item) for one in back] == [cleaned_raw(item) for item in raw]


def test_a_prompt_of_an_image_alone_is_found() -> None:
    """Facts section 3: Codex writes text of its own round images."""
    raw: JsonObject = {
        "type": "message",
        "role": "user",
        "content": [
            {"type": "input_text", "text": "<image>"},
            {"type": "input_image", "image_url": "data:image/png;base64,AA"},
        ],
    }
    typed: JsonObject = {"type": "userMessage", "id": "u", "content": [{"type": "image"}]}
    picture = Message(role="user", content=[{"type": "image", "url": "data:image/png;base64,AA"}])
    (entry,) = told(typed).snapshot([raw], prompt=picture)
    assert entry.message == picture
    assert entry.raw_items == ()


def test_commentary_says_so() -> None:
    """Spec G-05."""
    item = agent_item("msg_a", "looking", phase="commentary")
    for entries in (
        told(item).snapshot(),
        told(item).snapshot([raw_message("assistant", "looking")]),
    ):
        assert entries[0].meta["phase"] == "commentary"


def test_a_finished_message_without_a_raw_item_is_kept() -> None:
    """Spec H-16: nothing that was said is lost."""
    entries = told(TYPED[0], TYPED[2]).snapshot([RAW_PROMPT], prompt=PROMPT)
    assert kinds(entries) == ["prompt", "assistant:msg_a"]
    assert entries[1].meta["rendered"] is True


# ---------------------------------------------------------------------------- context report


def test_report_counts_by_kind_and_names_what_is_outside() -> None:
    """Issue 2, item 12; decision 5."""
    left_out = [Message(role="user", content="old", entry_id=EntryId(str(n))) for n in range(300)]
    counter = EstimateCounter()
    report = context_report(
        ReportInput(
            engine_id="window",
            plan=Rebase(reason=Reason.REPLACED),
            same_count=0,
            new=[
                user_message("a note"),
                Message(role="assistant", content=[tool_call_part("c", "t", {"k": "v"})]),
                tool_result_message("c", "t", "result text", is_error=False),
                Message(role="user", content=[{"type": "image"}, {"type": "thinking"}]),
            ],
            prompt="go on",
            addition="be kind",
            left_out=left_out,
            left_out_unread=10,
        ),
        counter,
    )
    counted = report["counted"]
    assert counted == {
        "kinds": {
            "addition": {"pieces": 1, "tokens": counter.count("be kind")},
            "image": {"pieces": 1, "tokens": 0},
            "prompt": {"pieces": 1, "tokens": counter.count("go on")},
            "toolCall": {"pieces": 1, "tokens": counter.count('{"k":"v"}')},
            "toolResult": {"pieces": 1, "tokens": counter.count("result text")},
            "user": {"pieces": 1, "tokens": counter.count("a note")},
        },
        "tokens": sum(
            counter.count(text)
            for text in ("be kind", "go on", '{"k":"v"}', "result text", "a note")
        ),
        "counter": counter.name,
        "exact": False,
    }
    assert report["decision"] == "rebase"
    assert report["reason_code"] == "context-replaced"
    assert report["same_start"] == {"messages": 0, "tokens": None}
    outside = report["outside"]
    assert isinstance(outside, dict)
    assert outside["messages"] == 310
    assert len(outside["newest"]) == OUTSIDE_LISTED
    assert outside["newest"][-1] == {"entry_id": "299", "role": "user", "outside": "seed budget"}


def test_report_of_a_quiet_turn() -> None:
    """Issue 2, item 12."""
    report = context_report(
        ReportInput(
            engine_id="legacy",
            plan=Continue(reason=Reason.LEGACY),
            same_count=4,
            same=[user_message("q")],
            new=(),
            prompt="go on",
        ),
        EstimateCounter(),
    )
    assert report["decision"] == "continue"
    assert report["same_start"] == {"messages": 4, "tokens": 1}
    assert report["new"] == {"messages": 0, "tokens": 0}
    assert report["outside"] == {"messages": 0, "why": None, "newest": []}


@pytest.mark.parametrize(
    ("plan", "name"),
    [
        (Extend(from_index=1), "extend"),
        (Seed(), "seed"),
        (PromptCarrier(reason=Reason.PINNED), "prompt"),
    ],
)
def test_report_names_the_decision(plan: Plan, name: str) -> None:
    """Issue 2, item 12: results that are no parts are counted too."""
    odd = Message(
        role="toolResult",
        content=[
            {"type": "toolResult", "content": "text"},
            {"type": "toolResult"},
            {"type": "toolResult", "content": [{"odd": 1}]},
        ],
    )
    report = context_report(
        ReportInput(engine_id="e", plan=plan, same_count=0, new=[odd], prompt=""),
        EstimateCounter(),
    )
    assert report["decision"] == name
    assert report["new"] == {"messages": 1, "tokens": 2 + 4}
