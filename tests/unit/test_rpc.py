"""The sans-IO peer: frames, kinds of message, what cannot be read, what may be written."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.model.errors import LocalProtocolError, RemoteProtocolError
from treadle.model.json import JsonValue
from treadle.protocol.rpc import (
    MAX_DEPTH,
    Answer,
    ErrorAnswer,
    Event,
    Garbage,
    LineSplitter,
    Notification,
    Peer,
    ServerRequest,
    Stray,
    TooLarge,
    encode,
)

SCRIPT = (
    b'{"method":"turn/started","params":{"threadId":"t","turn":{"id":"u"}}}\n'
    b"\n"
    b'{"id":0,"method":"item/tool/call","params":{"threadId":"t","turnId":"u","callId":"c"}}\n'
    b"no message\n"
    b'{"id":1,"result":{"ok":true}}\r\n'
    b'{"id":77,"result":{}}\n'
    b'{"method":"thread/started","params":{"thread":{"id":"t2"}},"emittedAtMs":5}\n'
)


def kinds(events: list[Event]) -> list[tuple[Any, ...]]:
    """Write events as plain values, bodies decoded."""
    found: list[tuple[Any, ...]] = []
    for event in events:
        match event:
            case Notification():
                found.append(("told", event.method, event.thread_id, event.turn_id, event.params()))
            case ServerRequest():
                found.append(("asked", event.id, event.method, event.thread_id, event.params()))
            case Answer():
                found.append(("answer", event.id, event.method, event.result()))
            case Garbage():
                found.append(("garbage", event.size_bytes, event.sample))
            case _:
                found.append((event,))
    return found


def peer_with_one_request() -> Peer:
    peer = Peer()
    peer.request("model/list")
    return peer


@given(st.lists(st.integers(0, len(SCRIPT)), max_size=30))
def test_stream_cut_anywhere_gives_the_same_events(cuts: list[int]) -> None:
    """RS16 of the harness rules: frames parse the same wherever the pipe cuts them."""
    whole = kinds(peer_with_one_request().feed(SCRIPT))
    edges = [0, *sorted(cuts), len(SCRIPT)]
    peer = peer_with_one_request()
    parts = [SCRIPT[a:b] for a, b in pairwise(edges)]
    assert kinds([event for part in parts for event in peer.feed(part)]) == whole


def test_each_kind_of_message_is_told_apart() -> None:
    """Facts section 1: no `jsonrpc` key; id 0 is a request (F3)."""
    assert kinds(peer_with_one_request().feed(SCRIPT)) == [
        ("told", "turn/started", "t", "u", {"threadId": "t", "turn": {"id": "u"}}),
        (
            "asked",
            0,
            "item/tool/call",
            "t",
            {"threadId": "t", "turnId": "u", "callId": "c"},
        ),
        ("garbage", 10, "no message"),
        ("answer", 1, "model/list", {"ok": True}),
        (Stray(id=77),),
        ("told", "thread/started", "t2", None, {"thread": {"id": "t2"}}),
    ]


@pytest.mark.parametrize(
    "line",
    [
        b"[]",
        b"17",
        b"{}",
        b'{"id":1}',
        b'{"id":1.5,"result":{}}',
        b'{"id":true,"result":{}}',
        b'{"method":5}',
        b'{"id":1,"result":',
        b"\xff\xfe{}",
        b"[" * 5000,
    ],
)
def test_line_that_is_no_message_is_counted_and_kept_short(line: bytes) -> None:
    """Fault matrix: a garbage line is ignored, counted, sampled."""
    peer = peer_with_one_request()
    (event,) = peer.feed(line + b"\n")
    assert isinstance(event, Garbage)
    assert event.size_bytes == len(line)
    assert len(event.sample) <= 200
    assert peer.garbage_count == 1
    [answer] = peer.feed(b'{"id":1,"result":{}}\n')
    assert isinstance(answer, Answer), "the request is still open"


def test_sample_of_garbage_shows_no_secret() -> None:
    """INV-22."""
    (event,) = Peer().feed(b"Authorization: Bearer abcdefghijklmnop\n")
    assert isinstance(event, Garbage)
    assert "abcdefghijklmnop" not in event.sample


def test_partial_last_line_is_garbage_at_the_end_of_the_stream() -> None:
    """Fault matrix: a partial last line, then EOF."""
    peer = Peer()
    assert peer.feed(b'{"method":"warning"') == []
    assert peer.finish() == [Garbage(size_bytes=19, sample='{"method":"warning"')]
    assert peer.finish() == []


@given(st.integers(1, 40), st.integers(1, 9))
def test_line_over_the_limit_is_reported_once_and_the_next_is_read(size: int, step: int) -> None:
    """Fault matrix: a frame over the limit is dropped."""
    splitter = LineSplitter(limit_bytes=20)
    stream = b"x" * size + b"\nok\n"
    lines = [
        line
        for start in range(0, len(stream), step)
        for line in splitter.feed(stream[start : start + step])
    ]
    assert lines == [b"x" * size if size <= 20 else None, b"ok"]


def test_too_large_line_is_an_event() -> None:
    peer = Peer(limit_bytes=10)
    assert peer.feed(b"x" * 11 + b"\n") == [TooLarge(limit_bytes=10)]


def test_error_answer_keeps_code_text_and_data() -> None:
    peer = peer_with_one_request()
    line = b'{"id":1,"error":{"code":-32602,"message":"m","data":{"input_error_code":"x"}}}\n'
    assert peer.feed(line) == [
        ErrorAnswer(
            id=1, method="model/list", code=-32602, message="m", data={"input_error_code": "x"}
        )
    ]


def test_error_answer_of_an_odd_shape_still_closes_the_request() -> None:
    peer = peer_with_one_request()
    (event,) = peer.feed(b'{"id":1,"error":"broken"}\n')
    assert event == ErrorAnswer(id=1, method="model/list", code=0, message='"broken"', data=None)
    assert isinstance(peer.feed(b'{"id":1,"result":{}}\n')[0], Stray)


def test_late_or_second_answer_is_stray() -> None:
    """Fault matrix: an answer to an unknown id is ignored and counted."""
    peer = peer_with_one_request()
    peer.expire(1)
    assert peer.feed(b'{"id":1,"result":{}}\n{"id":null,"error":{}}\n') == [
        Stray(id=1),
        Stray(id=None),
    ]
    assert peer.stray_count == 2


def test_body_with_a_lone_surrogate_or_a_broken_byte_is_still_read() -> None:
    peer = Peer()
    one, other = peer.feed(
        b'{"method":"warning","params":{"message":"a\\ud800b"}}\n'
        b'{"method":"warning","params":{"message":"a\xffb"}}\n'
    )
    assert isinstance(one, Notification)
    assert isinstance(other, Notification)
    assert one.params() == {"message": "a\ufffdb"}
    assert other.params() == {"message": "a\ufffdb"}


def test_body_that_is_no_object_is_the_readers_error() -> None:
    (event,) = Peer().feed(b'{"method":"warning","params":[1]}\n')
    assert isinstance(event, Notification)
    with pytest.raises(RemoteProtocolError):
        event.params()


ANY_JSON: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(st.characters()), ANY_JSON, max_size=5))
def test_what_is_written_is_one_line_of_valid_json(params: dict[str, JsonValue]) -> None:
    """RS12: surrogates, NUL, U+2028 and line ends never break the frame."""
    _, line = Peer().request("turn/start", params)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert json.loads(line.decode("utf-8"))["method"] == "turn/start"


def test_lone_surrogates_are_replaced_and_all_else_is_kept() -> None:
    """RS12, F9: the app-server drops a line with a lone surrogate and answers nothing."""
    line = encode({"params": {"a\ud800": ["x\udfff", "\x00\u2028\U0001f600", 1]}})
    assert json.loads(line) == {"params": {"a\ufffd": ["x\ufffd", "\ufffd\u2028\U0001f600", 1]}}


def test_nesting_that_the_app_server_would_drop_is_refused() -> None:
    """F9: a line deeper than 128 levels gets no answer."""
    deep: Any = 1
    for _ in range(MAX_DEPTH):
        deep = [deep]
    with pytest.raises(LocalProtocolError):
        Peer().request("turn/start", {"input": deep})


def test_refused_request_leaves_nothing_open() -> None:
    peer = Peer()
    with pytest.raises(LocalProtocolError):
        peer.request("turn/start", {"input": object()})  # type: ignore[dict-item]  # the point
    assert isinstance(peer.feed(b'{"id":1,"result":{}}\n')[0], Stray)


def test_answers_and_refusals_keep_the_id_zero() -> None:
    """F3: the first request of the app-server has the id 0."""
    peer = Peer()
    assert json.loads(peer.answer(0, {"a": 1})) == {"id": 0, "result": {"a": 1}}
    assert json.loads(peer.refuse(0, -32601, "no")) == {
        "id": 0,
        "error": {"code": -32601, "message": "no"},
    }
    assert json.loads(peer.notify("initialized")) == {"method": "initialized"}
