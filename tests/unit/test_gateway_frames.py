"""Frames and what a connection may do when: pure, whatever bytes come."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from treadle.gateway.frames import (
    HELLO_BYTES,
    REQUEST_BYTES,
    LineReader,
    TooLong,
    frame,
    object_in,
)
from treadle.gateway.machine import (
    MAX_BAD_FRAMES,
    MAX_TEXT_CHARS,
    CarryOut,
    Close,
    Command,
    Received,
    Refuse,
    ServerSide,
    State,
    Welcome,
)
from treadle.gateway.requests import (
    AnyRequest,
    Hello,
    Interrupt,
    Ping,
    Submit,
    Subscribe,
    WantedStream,
    fields_of,
    request_in,
)
from treadle.model.errors import MessageTooLarge, UsageError
from treadle.model.json import JsonObject

HELLO = b'{"type":"hello","id":1,"v":1,"client":"t"}'
PING = b'{"type":"ping","id":2}'


def submit(text: str, *, more: bool = False, name: str = "m_1") -> bytes:
    return json.dumps({
        "type": "submit", "id": 3, "session": "main", "text": text, "client_message_id": name,
        "more": more,
    }).encode()  # fmt: skip


def lines(reader: LineReader, *pieces: bytes) -> list[bytes | TooLong]:
    return [line for piece in pieces for line in reader.feed(piece)]


@given(
    texts=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n"), min_size=1)),
    cuts=st.lists(st.integers(1, 7)),
)
def test_lines_are_the_same_wherever_the_bytes_are_cut(texts: list[str], cuts: list[int]) -> None:
    """Ours, limits: byte by byte, or all at once; blank lines say nothing."""
    data = b"".join(text.encode() + b"\n" for text in texts)
    whole = lines(LineReader(REQUEST_BYTES), data)
    pieces, at = [], 0
    for cut in [*cuts, *(1 for _ in data)]:
        pieces.append(data[at : at + cut])
        at += cut
    assert lines(LineReader(REQUEST_BYTES), *pieces) == whole
    assert whole == [text.encode().strip() for text in texts if text.encode().strip()]


@pytest.mark.parametrize("limit", [HELLO_BYTES, REQUEST_BYTES])
@pytest.mark.parametrize("piece", [1 << 16, 1 << 30])
def test_a_line_of_one_byte_too_many_ends_the_reading(limit: int, piece: int) -> None:
    """Ours, limits: 4 KiB + 1 before the greeting, 1 MiB + 1 after it, whole or in pieces."""
    fitting: list[bytes | TooLong] = [b"x" * limit]
    for size, expected in ((limit, fitting), (limit + 1, [TooLong(limit)])):
        reader = LineReader(limit)
        data = b"x" * size + b"\n"
        found = lines(reader, *(data[at : at + piece] for at in range(0, len(data), piece)))
        assert found == expected
        assert reader.feed(PING + b"\n") == ([PING] if size == limit else [])


def test_a_line_without_end_is_not_kept() -> None:
    """Ours, limits: memory stays bounded."""
    reader = LineReader(100)
    assert reader.feed(b"x" * 101) == [TooLong(100)]
    assert not reader.is_amid


@given(st.dictionaries(st.text(), st.text() | st.none() | st.lists(st.text()), max_size=5))
@example({"half": "\ud800", "\udfff": ["\ud83d"]})
def test_a_frame_is_one_line_of_json_whatever_is_in_it(value: JsonObject) -> None:
    """RS12: half characters do not end a connection."""
    data = frame(value)
    assert data.endswith(b"\n")
    assert data.count(b"\n") == 1
    assert object_in(data) is not None


@pytest.mark.parametrize(
    "line",
    [b"", b"[]", b"1", b'"x"', b"{", b"{}}", b'{"a":\xff}', b"[" * 10_000, b'{"a":' * 10_000],
    ids=range(9),
)
def test_what_is_no_object_is_none(line: bytes) -> None:
    """Ours, limits: also 10,000 levels of it."""
    assert object_in(line) is None


# ------------------------------------------------------------------------------ requests


@pytest.mark.parametrize(
    "request_",
    [
        Hello(id=1, v=1, client="t"),
        Submit(id=2, session="main", text="hi", client_message_id="m", output_schema={"a": [1]}),
        Subscribe(id=3, streams=(WantedStream(id="agent:main:main", epoch=1, after=7),)),
        Interrupt(id=4, run="r_1"),
        Ping(id=5),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_request_is_read_as_it_was_written(request_: AnyRequest) -> None:
    """Ours."""
    assert request_in(frame(fields_of(request_))) == request_


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"type":"nonsense"}', "nonsense"),
        (b'{"id":1}', "type"),
        (b'{"type":"ping","id":-1}', "id"),
        (b'{"type":"ping","id":true}', "id"),
        (b'{"type":"submit","session":"s","text":"t"}', "client_message_id"),
        (b'{"type":"ping","config":{"command":"/bin/sh"}}', "config"),
        (b'{"type":"subscribe","streams":[{"id":"s","env":{}}]}', "env"),
        (b'{"type":"sessions.list","limit":0}', "limit"),
        (b"not json", "no request"),
        (b'{"type":"ping","x":' + b"[" * 10_000, "no request"),
    ],
)
def test_what_is_no_request_is_refused_with_its_fault(line: bytes, said: str) -> None:
    """Ours: an option that nobody knows is refused by the schema, never ignored."""
    with pytest.raises(UsageError, match=said):
        request_in(line)


# ---------------------------------------------------------------------------- connection


@dataclass(frozen=True)
class Case:
    name: str
    frames: tuple[bytes | TooLong, ...]
    commands: tuple[str, ...]
    state: State
    errors: tuple[str, ...] = field(default=())


CASES = (
    Case("greeting", (HELLO,), ("Welcome",), State.OPEN),
    Case("request", (HELLO, PING), ("Welcome", "CarryOut"), State.OPEN),
    Case("no greeting", (PING,), ("Refuse", "Close"), State.CLOSED, ("no hello",)),
    Case("no json first", (b"GET / HTTP/1.1",), ("Refuse", "Close"), State.CLOSED, ("no request",)),
    Case(
        "other version", (b'{"type":"hello","v":2}',), ("Refuse", "Close"), State.CLOSED,
        ("version 1",),
    ),
    Case("twice", (HELLO, HELLO), ("Welcome", "Refuse"), State.OPEN, ("said hello",)),
    Case("bad, then good", (HELLO, b"{", PING), ("Welcome", "Refuse", "CarryOut"), State.OPEN),
    Case("too long", (TooLong(9), HELLO), ("Refuse", "Close"), State.CLOSED, ("9 bytes",)),
    Case("too long later", (HELLO, TooLong(9), PING), ("Welcome", "Refuse", "Close"), State.CLOSED),
    Case(
        "too many bad ones", (HELLO, *[b"{"] * (MAX_BAD_FRAMES + 3)),
        ("Welcome", *["Refuse"] * MAX_BAD_FRAMES, "Close"), State.CLOSED,
    ),
    Case(
        "pieces", (HELLO, submit("a", more=True), PING, submit("b", more=True), submit("c")),
        ("Welcome", "Received", "CarryOut", "Received", "CarryOut"), State.OPEN,
    ),
)  # fmt: skip


def played(*frames: bytes | TooLong) -> tuple[ServerSide, list[Command]]:
    side = ServerSide()
    return side, [command for one in frames for command in side.step(one)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_connection_goes_by_its_table(case: Case) -> None:
    """Ours: the table of `gateway.machine`."""
    side, commands = played(*case.frames)
    assert tuple(type(one).__name__ for one in commands) == case.commands
    assert side.state is case.state
    said = [one.error.message for one in commands if isinstance(one, Refuse)]
    for text in case.errors:
        assert text in said[0]


def test_the_pieces_of_a_text_are_joined_and_others_keep_theirs() -> None:
    """Ours: a text is as long as may be, a frame is not."""
    _, commands = played(
        HELLO, submit("a", more=True), submit("x", more=True, name="m_2"), submit("b"),
        submit("y", name="m_2"),
    )  # fmt: skip
    texts = [
        one.request.text
        for one in commands
        if isinstance(one, CarryOut) and isinstance(one.request, Submit)
    ]
    assert texts == ["ab", "xy"]


def test_pieces_are_bounded_together_and_then_none_is_kept() -> None:
    """Decision 25: nobody fills the memory with texts that never end."""
    half = "x" * (MAX_TEXT_CHARS // 2)
    side, commands = played(
        HELLO, submit(half, more=True), submit(half + "y", more=True, name="m_2"), submit("rest")
    )
    refused = [one.error for one in commands if isinstance(one, Refuse)]
    assert isinstance(refused[0], MessageTooLarge)
    last = commands[-1]
    assert isinstance(last, CarryOut)
    assert isinstance(last.request, Submit)
    assert last.request.text == "rest"
    assert side.state is State.OPEN


def test_a_refusal_repeats_the_number_of_its_frame_where_that_has_one() -> None:
    """Ours: a client can tell which of its requests was wrong."""
    _, commands = played(HELLO, b'{"type":"no","id":7}', b'{"id":"x"}', b"{")
    assert [one.id for one in commands if isinstance(one, Refuse)] == [7, None, None]


@given(st.lists(st.binary(max_size=40) | st.sampled_from([HELLO, PING, submit("x", more=True)])))
def test_no_bytes_crash_a_connection_or_open_a_closed_one(frames: list[bytes]) -> None:
    """Ours, limits: fuzz; nothing follows a close, and nothing is carried out before a greeting."""
    side = ServerSide()
    greeted = closed = False
    for one in frames:
        commands = side.step(one)
        assert not (closed and commands)
        for command in commands:
            greeted = greeted or isinstance(command, Welcome)
            closed = closed or isinstance(command, Close)
            assert greeted or not isinstance(command, CarryOut | Received)
    assert (side.state is State.CLOSED) == closed


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    ),
    st.sampled_from(["hello", "submit", "subscribe", "sessions.entries", "ping", "x"]),
)
def test_any_json_is_a_request_or_is_refused(value: object, kind: str) -> None:
    """Ours, limits: fuzz of the schema; the only error is ours."""
    body = value if isinstance(value, dict) else {"id": value, "text": value}
    try:
        line = msgspec.json.encode({**body, "type": kind})
    except (UnicodeEncodeError, OverflowError):
        return
    with suppress(UsageError):
        assert request_in(line).id >= 0
