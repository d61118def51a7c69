"""The clients of a run under faults: one a session, each with its own memory across gateways.

A client sends messages under ids of its own, resends what was not acknowledged (and now and then
what was), goes on in its stream from its cursor, takes messages back, and writes down what it was
told before it believes it. It speaks the socket's protocol by itself: no code of Treadle's client
is used. Knows nothing of faults.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import anyio
from anyio.abc import SocketStream

from bench.reliability.logserver import LogLine
from bench.reliability.model import Step, message_text

ENDS: Final[Mapping[str, str]] = {
    "completed": "answered",
    "failed": "failed",
    "timed_out": "failed",
    "stopped": "cancelled",
}
"""States of the inbox by the outcome that `run.finished` tells; a lost one depends (`state_of`)."""

WAITING: Final = 3
"""Most messages of a session that are sent and have no end yet."""

AGAIN_S: Final = 0.2
"""Seconds between two tries to send what was refused, or to reach a gateway that is away."""

ASK_S: Final = 5.0
"""Seconds without any end after which a client asks what became of its messages."""

ANSWER_S: Final = 20.0
"""Seconds after which a connection that does not answer is given up."""

PLANS: Final[tuple[tuple[Step, ...], ...]] = (
    ("text",),
    ("text",),
    ("slow",),
    ("command", "text"),
    ("tool", "text"),
    ("command", "tool", "slow"),
    ("sleep", "text"),
)

Frame = dict[str, Any]


def state_of(outcome: str, *, replay_safe: bool) -> str:
    """Return the final state that a client understands from `run.finished`."""
    if outcome == "client_lost":
        return "failed" if replay_safe else "unknown"
    return ENDS[outcome]


@dataclass(slots=True, kw_only=True)
class Message:
    """A message that the client wants to have answered."""

    nonce: str
    client_id: str
    text: str
    cancel_after_s: float | None = None
    run_id: str | None = None
    """Known from the acknowledgement on."""

    state: str | None = None
    """Known from the end on."""


@dataclass(slots=True, kw_only=True)
class Plan:
    """What all clients of a run share."""

    log: LogLine
    socket: Path
    work: Path
    seed: int
    stopping: bool = False
    """Whether nobody sends anything new any more."""


class Lost(Exception):
    """The connection broke, or the gateway did not answer in time."""


class Client:
    """One session's client; `run` goes on until it is cancelled."""

    def __init__(self, plan: Plan, session: str, *, most: int) -> None:
        """`most` is how many messages it sends in all."""
        self.session = session
        self._most = most
        self.messages: list[Message] = []
        self._plan = plan
        self._chance = Random(f"{plan.seed} {session}")
        self._by_run: dict[str, Message] = {}
        self._states: dict[str, str] = {}
        self._cursor: dict[str, int] = {}
        self._subscription = 0
        self._changed = anyio.Event()
        self._connection: _Connection | None = None

    @property
    def stream(self) -> str:
        """The session's key."""
        return f"agent:main:{self.session}"

    @property
    def is_done(self) -> bool:
        """Whether it sent all that it was to send, and every message has its end."""
        return len(self.messages) >= self._most and not self.open

    @property
    def open(self) -> list[Message]:
        """Messages without an end."""
        return [one for one in self.messages if one.state is None]

    async def run(self) -> None:
        """Connect, and again whenever the connection is lost, until all has its end.

        It goes on until it is cancelled if nobody sends anything new any more: it may be asked to
        look again. Cancel: hangs up.
        """
        while not self.is_done:
            try:
                async with connected(self._plan.socket, self._took) as connection:
                    self._connection = connection
                    await self._served(connection)
            except* (Lost, OSError, anyio.BrokenResourceError, anyio.EndOfStream):
                pass  # it was killed, or is not there yet: the client comes back
            finally:
                self._connection = None
            await anyio.sleep(AGAIN_S)

    async def wait_for_ends(self) -> None:
        """Return once every message has an end. Cancel: nothing is lost."""
        while self.open:
            await self._changed.wait()

    async def next_end(self) -> None:
        """Return once another message has an end. Cancel: nothing is lost."""
        await self._changed.wait()

    async def check_again(self) -> None:
        """Send every message once more and look at the whole transcript. Raises: Lost, OSError."""
        async with connected(self._plan.socket, self._took) as connection:
            await self._hello(connection)
            for message in self.messages:
                await self._send(connection, message)
            await self._look(connection)

    async def _served(self, connection: _Connection) -> None:
        await self._hello(connection)
        await self._subscribe(connection)
        await self._look(connection)
        for message in [one for one in self.messages if one.run_id is not None]:
            if self._chance.random() < (0.2 if message.state is None else 0.02):
                await self._send(connection, message)
        async with anyio.create_task_group() as group:
            while not self.is_done:
                if not await self._send_what_waits(connection, group):
                    await anyio.sleep(AGAIN_S)
                    continue
                if self._may_say_more():
                    self.messages.append(self._next_message())
                    continue
                await self._something_ended(connection)
                if self._chance.random() < 0.2:
                    await self._look(connection)

    def _may_say_more(self) -> bool:
        is_over = self._plan.stopping or len(self.messages) >= self._most
        return not is_over and len(self.open) < WAITING

    async def _something_ended(self, connection: _Connection) -> None:
        """Wait for an end; after a while ask, as one who was told to load the state anew must."""
        with anyio.move_on_after(ASK_S):
            await self._changed.wait()
            return
        for message in self.open:
            if message.run_id is not None:
                await self._send(connection, message)

    async def _send_what_waits(self, connection: _Connection, group: anyio.abc.TaskGroup) -> bool:
        """Send what was not acknowledged, in order; False if the gateway does not take it now."""
        for message in self.messages:
            if message.run_id is None:
                if not await self._send(connection, message):
                    return False
                if message.cancel_after_s is not None:
                    group.start_soon(self._cancel, connection, message)
        return True

    def _next_message(self) -> Message:
        number = len(self.messages) + 1
        nonce = f"{self.session}-{number}-{self._chance.getrandbits(32):08x}"
        steps = list(self._chance.choice(PLANS))
        taken_back = self._chance.random() < 0.05
        return Message(
            nonce=nonce,
            client_id=f"c-{number}",
            text=message_text(nonce, steps),
            cancel_after_s=self._chance.random() * 0.5 if taken_back else None,
        )

    async def _hello(self, connection: _Connection) -> None:
        await connection.ask(type="hello", v=1, client=f"chaos {self.session}")

    async def _subscribe(self, connection: _Connection) -> None:
        self._subscription += 1
        stream = {"id": self.stream, **self._cursor}
        await connection.ask(type="subscribe", streams=[stream])

    async def _send(self, connection: _Connection, message: Message) -> bool:
        place = {"session": self.stream, "client_id": message.client_id}
        self._plan.log.tell("sent", message=message.nonce, **place)
        try:
            answer = await connection.ask(
                type="submit",
                session=self.session,
                text=message.text,
                client_message_id=message.client_id,
                cwd=str(self._plan.work),
            )
        except Refused as refused:
            self._plan.log.tell("refused", code=refused.code, **place)
            return False
        run_id = str(answer["run"])
        self._plan.log.tell("acked", run_id=run_id, **place)
        message.run_id = run_id
        self._by_run[run_id] = message
        message.state = self._states.get(run_id)  # its end may come before the acknowledgement
        finished = answer.get("finished")
        if finished is not None:
            self._ended(run_id, finished)
        return True

    async def _cancel(self, connection: _Connection, message: Message) -> None:
        assert message.cancel_after_s is not None, "only those are taken back"
        await anyio.sleep(message.cancel_after_s)
        place = {"session": self.stream, "client_id": message.client_id}
        self._plan.log.tell("cancel", **place)
        message.cancel_after_s = None
        with contextlib.suppress(Refused):  # it may be over
            await connection.ask(type="interrupt", run=message.run_id)

    async def _look(self, connection: _Connection) -> None:
        """Load the whole transcript, as a person who opens the session does."""
        entries: list[Frame] = []
        after = -1
        while True:
            try:
                page = await connection.ask(
                    type="sessions.entries", session=self.session, after_depth=after, limit=1000
                )
            except Refused:
                return  # there is no such session yet, or the store cannot be read just now
            if not page["items"]:
                break
            entries += page["items"]
            after = entries[-1]["depth"]
        if entries:
            self._plan.log.tell(
                "snapshot",
                session=self.stream,
                session_id=entries[0]["session_id"],
                entries=[f"{one['id']} {one['content_hash']}" for one in entries],
            )

    def _took(self, event: Frame) -> None:
        """Take an event of the stream: note it, and what it means."""
        seq = event.get("seq")
        data = event.get("data") or {}
        if event["type"] == "stream.opened":
            if data["mode"] == "snapshot":
                self._subscription += 1  # what comes now does not go on from what came before
                self._cursor = {"epoch": event["epoch"], "after": data["head"]}
            return
        if seq is None:
            return
        self._plan.log.tell(
            "received",
            subscription=f"{self.session}-{self._subscription}",
            stream=self.stream,
            epoch=event["epoch"],
            seq=seq,
        )
        self._cursor = {"epoch": event["epoch"], "after": seq}
        run_id = str(event.get("run") or "")
        if event["type"] == "notice":
            self._plan.log.tell("noticed", session=self.stream, run_id=run_id)
        elif event["type"] == "run.finished":
            self._ended(run_id, data)

    def _ended(self, run_id: str, data: Frame) -> None:
        state = state_of(data["outcome"], replay_safe=bool(data.get("replay_safe")))
        self._plan.log.tell("told", session=self.stream, run_id=run_id, state=state)
        self._states[run_id] = state
        message = self._by_run.get(run_id)
        if message is not None:
            message.state = state
        changed, self._changed = self._changed, anyio.Event()
        changed.set()


class Refused(Exception):
    """The gateway answered with an error."""

    def __init__(self, error: Frame) -> None:
        super().__init__(error.get("message"))
        self.code = str(error.get("code"))


@dataclass(slots=True)
class _Connection:
    stream: SocketStream
    number: int = 0
    answers: dict[int, Frame] = field(default_factory=dict)
    asked: dict[int, anyio.Event] = field(default_factory=dict)

    async def ask(self, **fields: Any) -> Frame:
        """Send a request and return its answer. Raises: Refused, Lost."""
        self.number += 1
        number, answered = self.number, anyio.Event()
        self.asked[number] = answered
        await self.stream.send(json.dumps({"id": number, **fields}).encode() + b"\n")
        with anyio.move_on_after(ANSWER_S):
            await answered.wait()
        if number not in self.answers:
            raise Lost(f"{fields['type']} was not answered within {ANSWER_S:g} s")
        answer = self.answers.pop(number)
        if "error" in answer:
            raise Refused(answer["error"])
        found: Frame = answer["ok"]
        return found


@asynccontextmanager
async def connected(socket: Path, took: Any) -> AsyncIterator[_Connection]:
    """Connect to a gateway; events go to `took` as they come. Raises: OSError, Lost."""
    async with await anyio.connect_unix(socket) as stream, anyio.create_task_group() as group:
        connection = _Connection(stream)
        group.start_soon(_read, connection, took)
        yield connection
        group.cancel_scope.cancel()


async def _read(connection: _Connection, took: Any) -> None:
    rest = b""
    while True:
        try:
            rest += await connection.stream.receive(65_536)
        except (anyio.EndOfStream, anyio.BrokenResourceError) as error:
            raise Lost("the gateway hung up") from error
        *lines, rest = rest.split(b"\n")
        for line in lines:
            frame = json.loads(line)
            if "stream" in frame:
                took(frame)
            elif isinstance(frame.get("id"), int):
                connection.answers[frame["id"]] = frame
                connection.asked.pop(frame["id"], anyio.Event()).set()


def all_open(clients: list[Client]) -> Iterator[Message]:
    """Yield every message without an end."""
    for client in clients:
        yield from client.open
