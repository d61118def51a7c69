"""The method table, item readers, Responses builders, faults and names."""

from __future__ import annotations

import msgspec
import pytest

from treadle.model.errors import RpcError, ThreadBusy, UsageError
from treadle.model.ids import ItemId
from treadle.model.json import JsonObject
from treadle.protocol import generated, items, names, responses
from treadle.protocol.faults import Fault, error_from_answer, fault_of, refusal_of
from treadle.protocol.generate import NOT_GENERATED, camel, snake
from treadle.protocol.items import ItemKind, ItemStatus
from treadle.protocol.methods import BY_NAME, OPT_OUT, TABLE, Kind, deadline_s
from treadle.protocol.rpc import Notification, Peer


def test_every_name_stands_once_and_every_type_is_generated() -> None:
    assert len(BY_NAME) == len(TABLE)
    wanted = {name for row in TABLE for name in (row.params, row.result) if name is not None}
    unions = {"LoginAccountParams", "LoginAccountResponse", "McpServerElicitationRequestParams"}
    missing = {name for name in wanted - NOT_GENERATED if not hasattr(generated, name)}
    assert missing <= unions


def test_every_request_has_a_deadline_and_nothing_read_is_opted_out() -> None:
    """Spec F-27."""
    assert all(row.deadline.value > 0 for row in TABLE if row.kind is Kind.REQUEST)
    assert deadline_s("nobody/knows") > 0
    assert not set(OPT_OUT) & set(BY_NAME)


def test_unknown_enum_word_and_unknown_field_are_read() -> None:
    body = b'{"threadId":"t","turn":{"id":"u","status":"fromTheFuture","new":1},"x":2}'
    read = msgspec.json.decode(body, type=generated.TurnCompletedNotification)
    assert (read.thread_id, read.turn.id, read.turn.status) == ("t", "u", "fromTheFuture")


def test_misspelt_field_of_what_we_send_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"threadId": "t", "itemz": []}, type=generated.ThreadInjectItemsParams)


@pytest.mark.parametrize("wire", ["threadId", "clientUserMessageId", "cwd", "startedAtMs"])
def test_python_name_gives_the_wire_name_back(wire: str) -> None:
    assert camel(snake(wire)) == wire


ITEMS = [
    ({"type": "commandExecution", "id": "1", "status": "declined"}, "bash", "blocked", "command"),
    ({"type": "fileChange", "id": "1", "status": "failed"}, "apply_patch", "failed", "patch"),
    ({"type": "webSearch", "id": "1", "query": "q"}, "web_search", "completed", "search"),
    (
        {"type": "mcpToolCall", "id": "1", "server": "s", "tool": "t", "status": "inProgress"},
        "s.t",
        "running",
        "tool",
    ),
    (
        {"type": "dynamicToolCall", "id": "1", "tool": "d", "status": "odd"},
        "d",
        "completed",
        "tool",
    ),
    ({"type": "reasoning", "id": "1"}, None, "completed", "analysis"),
    ({"type": "contextCompaction", "id": "1"}, None, "completed", "analysis"),
    ({"type": "agentMessage", "id": "1", "text": "x"}, None, "completed", "message"),
    ({"type": "fromTheFuture", "id": "1"}, None, "completed", "other"),
]


@pytest.mark.parametrize(("raw", "name", "status", "kind"), ITEMS)
def test_item_has_its_name_status_and_kind(
    raw: JsonObject, name: str | None, status: str, kind: str
) -> None:
    """Spec G-08, G-09, G-10."""
    item = items.item_from_wire(raw)
    assert item.raw is raw
    assert items.tool_name(item) == name
    assert items.status(item) is ItemStatus(status)
    assert items.kind(item) is ItemKind(kind)


@pytest.mark.parametrize(
    ("word", "expected"),
    [("completed", "completed"), (None, "unknown"), ("odd", "unknown"), ("error", "failed")],
)
def test_audit_takes_no_odd_or_missing_status_for_success(word: object, expected: str) -> None:
    """Spec G-10."""
    item = items.item_from_wire({"type": "fileChange", "id": "1", "status": str(word or "")})
    assert items.audit_status(item) is ItemStatus(expected)


@pytest.mark.parametrize("kind", [row[0]["type"] for row in ITEMS])
def test_item_whose_fields_are_all_odd_is_still_read(kind: str) -> None:
    odd = {key: [None, 5] for key in ("id", "text", "content", "summary", "changes", "tool")}
    raw: JsonObject = {"type": kind, **odd, "fragments": 7, "error": 3}
    assert items.item_from_wire(raw).raw is raw


def test_message_items_are_read_with_their_texts() -> None:
    user = items.item_from_wire({
        "type": "userMessage",
        "id": "i",
        "clientId": "c",
        "content": [{"type": "text", "text": "hi", "text_elements": []}, {"type": "image"}],
    })
    assert isinstance(user, items.UserMessage)
    assert (user.client_id, user.text) == ("c", "hi")


def notification(method: str, params: JsonObject) -> Notification:
    (event,) = Peer().feed(Peer().notify(method, params))
    assert isinstance(event, Notification)
    return event


def test_delta_is_read_and_an_odd_one_is_not() -> None:
    ids = {"threadId": "t", "turnId": "u", "itemId": "i"}
    told = notification("item/reasoning/summaryTextDelta", {**ids, "delta": "x", "summaryIndex": 2})
    delta = items.delta_from_wire(told)
    assert delta == items.Delta(method=told.method, item_id=ItemId("i"), part=2, text="x")
    assert items.delta_from_wire(notification("item/agentMessage/delta", {"delta": 5})) is None
    assert items.delta_from_wire(notification("warning", {"message": "m"})) is None


def test_responses_items_have_the_shapes_the_app_server_takes() -> None:
    """Facts section 6."""
    assert responses.message_item("user", "a") == {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "a"}],
    }
    assert responses.message_item("assistant", "a", "m1") == {
        "type": "message",
        "id": "m1",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "a"}],
    }
    call = responses.function_call_item("f", "{}", "c1", namespace="mem")
    output = responses.function_call_output_item("c1", [responses.text_part("r")])
    assert call == {
        "type": "function_call",
        "name": "f",
        "namespace": "mem",
        "arguments": "{}",
        "call_id": "c1",
    }
    assert responses.is_call(call)
    assert responses.is_output(output)
    assert responses.call_id(call) == responses.call_id(output) == "c1"
    assert responses.item_text(output) == "r"


def test_id_is_replaced_and_the_rest_of_an_item_stays() -> None:
    item = responses.custom_call_item("exec", "text(1)", "c1", "old")
    renamed = responses.with_id(item, "new")
    assert responses.item_id_of(renamed) == "new"
    assert responses.without_id(renamed) == responses.without_id(item)


def test_items_that_the_app_server_drops_in_silence_are_not_injectable() -> None:
    """Facts section 6."""
    assert responses.is_injectable(responses.message_item("developer", "x"))
    assert not responses.is_injectable({"type": "message", "role": "system", "content": []})
    assert not responses.is_injectable({"type": "from_the_future"})


FAULTS = [
    (-32600, "thread 0199 already has an active writer", None, Fault.THREAD_BUSY),
    (-32600, "thread not found: 0199", None, Fault.THREAD_NOT_LOADED),
    (-32600, "no rollout found for thread id 0199", None, Fault.NO_ROLLOUT),
    (-32600, "session 0199 is archived. Run `codex unarchive 0199`", None, Fault.THREAD_ARCHIVED),
    (-32600, "no active turn to interrupt", None, Fault.NO_ACTIVE_TURN),
    (-32600, "expected active turn id `a` but found `b`", None, Fault.OTHER_TURN),
    (-32600, "cannot steer a compact turn", None, Fault.NOT_STEERABLE),
    (
        -32600,
        "x",
        {"codexErrorInfo": {"activeTurnNotSteerable": {"turnKind": "compact"}}},
        Fault.NOT_STEERABLE,
    ),
    (-32602, "x", {"input_error_code": "input_too_large"}, Fault.INPUT_TOO_LARGE),
    (-32001, "Server overloaded; retry later.", None, Fault.OVERLOADED),
    (-32600, "Invalid request: unknown variant `nope`, expected", None, Fault.UNKNOWN_METHOD),
    (-32600, "input must not be empty", None, Fault.OTHER),
]


@pytest.mark.parametrize(("code", "message", "data", "fault"), FAULTS)
def test_refusal_is_named(code: int, message: str, data: JsonObject | None, fault: Fault) -> None:
    """Facts sections 3, 7 and 11; F7."""
    assert fault_of(RpcError("m", code, message, data)) is fault
    error = error_from_answer("m", code, message, data)
    assert isinstance(error, ThreadBusy) is (fault is Fault.THREAD_BUSY)


def test_every_request_of_the_app_server_has_a_refusal_or_gets_an_error() -> None:
    """Decision 27: nothing hangs and nothing is granted."""
    for row in TABLE:
        if row.kind is not Kind.SERVER_REQUEST:
            continue
        refusal = refusal_of(row.name)
        assert refusal is not None or row.name == "currentTime/read"
        assert "accept" not in str(refusal)
    assert refusal_of("from/theFuture") is None


@pytest.mark.parametrize("text", ["", "-c", "--config=x", "a\nb", "a b", "a\n", "\x00", "é"])
def test_id_that_looks_like_an_option_or_holds_a_line_break_is_refused(text: str) -> None:
    """RS41."""
    with pytest.raises(UsageError):
        names.checked_model_id(text)


def test_usual_ids_pass() -> None:
    assert names.checked_model_id("openai/gpt-5.5:high") == "openai/gpt-5.5:high"
