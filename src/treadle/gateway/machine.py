"""What a connection may do when: the side of the gateway, as a table. Pure.

Knows nothing of sockets or of how requests are answered.

| state | frame → next | commands |
|---|---|---|
| NEW | hello of our version → OPEN | welcome |
| NEW | anything else → CLOSED | refuse, close |
| OPEN | request → OPEN | carry out; `more` of a text is kept until its last piece |
| OPEN | what is no request → OPEN, the 16th time → CLOSED | refuse (, close) |
| any | a frame that is too long → CLOSED | refuse, close |
| CLOSED | anything | nothing |
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

import msgspec

from treadle.gateway.frames import TooLong
from treadle.gateway.requests import PROTOCOL, AnyRequest, Hello, Submit, id_in, request_in
from treadle.model.errors import MessageTooLarge, OwnerRefused, TreadleError, UsageError

MAX_BAD_FRAMES: Final = 16
"""Frames that are no request, after which whoever sends them is no client."""

MAX_TEXT_CHARS: Final = 2**20
"""Characters of a text that comes in pieces; the runtime refuses longer ones anyway."""


class State(Enum):
    """How far a connection is."""

    NEW = "new"
    OPEN = "open"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Welcome:
    """Answer a hello; from now on longer frames are read."""

    hello: Hello


@dataclass(frozen=True, slots=True)
class CarryOut:
    """Carry a request out and answer it."""

    request: AnyRequest


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer with an error."""

    id: int | None
    error: TreadleError


@dataclass(frozen=True, slots=True)
class Received:
    """Answer that a piece of a text has come."""

    id: int


@dataclass(frozen=True, slots=True)
class Close:
    """Read nothing more, and close once the answers are sent."""


Command = Welcome | CarryOut | Refuse | Received | Close


@dataclass(slots=True)
class ServerSide:
    """One connection's state."""

    state: State = State.NEW
    bad_frames: int = 0
    _pieces: dict[str, list[str]] = field(default_factory=dict)
    _chars: int = 0

    def step(self, line: bytes | TooLong) -> list[Command]:
        """Take the next frame and return what is to be done, in order."""
        if self.state is State.CLOSED:
            return []
        if isinstance(line, TooLong):
            error = UsageError(
                f"the frame is longer than {line.limit:,} bytes",
                next_step="Send a long text in several frames, all but the last with `more`.",
            )
            return self._closing(Refuse(None, error))
        try:
            request = request_in(line)
        except UsageError as error:
            return self._bad(Refuse(id_in(line), error))
        if self.state is State.NEW:
            return self._greeted(request)
        match request:
            case Hello():
                return self._bad(Refuse(request.id, UsageError("this connection said hello")))
            case Submit():
                return self._submitted(request)
            case _:
                return [CarryOut(request)]

    def _greeted(self, request: AnyRequest) -> list[Command]:
        if not isinstance(request, Hello):
            return self._closing(Refuse(request.id, UsageError("the first frame is no hello")))
        if request.v != PROTOCOL:
            error = OwnerRefused(
                f"this gateway speaks version {PROTOCOL}, the client {request.v}",
                next_step="Use the same Treadle for both: treadle stop, then start it again.",
            )
            return self._closing(Refuse(request.id, error))
        self.state = State.OPEN
        return [Welcome(request)]

    def _submitted(self, request: Submit) -> list[Command]:
        name = request.client_message_id
        if not request.more and name not in self._pieces:
            return [CarryOut(request)]
        pieces = self._pieces.setdefault(name, [])
        pieces.append(request.text)
        self._chars += len(request.text)
        if self._chars > MAX_TEXT_CHARS:
            self._pieces.clear()
            self._chars = 0
            error = MessageTooLarge(
                f"the pieces of a text have more than {MAX_TEXT_CHARS:,} characters; none was kept",
                next_step="Put the text into a file in the working folder and name the file.",
            )
            return self._bad(Refuse(request.id, error))
        if request.more:
            return [Received(request.id)]
        del self._pieces[name]
        text = "".join(pieces)
        self._chars -= len(text)
        return [CarryOut(msgspec.structs.replace(request, text=text))]

    def _bad(self, refuse: Refuse) -> list[Command]:
        self.bad_frames += 1
        if self.state is State.NEW or self.bad_frames >= MAX_BAD_FRAMES:
            return self._closing(refuse)
        return [refuse]

    def _closing(self, refuse: Refuse) -> list[Command]:
        self.state = State.CLOSED
        self._pieces.clear()
        return [refuse, Close()]
