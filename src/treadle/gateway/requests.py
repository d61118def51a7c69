"""What a client may ask: one record a request, checked when it is read. Pure.

Knows nothing of how it is answered or carried; the same records can be bodies of HTTP routes. A
field that is not named here is refused, so that nobody believes in an option that does nothing
(RS40). Source: design of the page, section 5.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from treadle.gateway.frames import object_in
from treadle.model.errors import UsageError
from treadle.model.json import JsonObject
from treadle.model.session import MAIN_AGENT

PROTOCOL: Final = 1
"""Version of requests and events; a change that breaks a client raises it."""

PAGE_MOST: Final = 1000

Id = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Name = Annotated[str, msgspec.Meta(max_length=1024)]
Count = Annotated[int, msgspec.Meta(ge=1, le=PAGE_MOST)]


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all have: a number of the client's, which the answer repeats."""

    id: Id = 0


class Hello(Request, frozen=True, kw_only=True, tag="hello"):
    """The first frame: who speaks, and which version."""

    v: int
    client: Name = ""


class Submit(Request, frozen=True, kw_only=True, tag="submit"):
    """A message for a session; answered once it is accepted.

    The same `client_message_id` again is the same message (INV-2). A text that is too long for one
    frame goes in several under one `client_message_id`; all but the last say `more`.
    """

    session: Name
    text: str
    client_message_id: Name
    more: bool = False
    agent: Name = MAIN_AGENT
    engine: Name | None = None
    model: Name | None = None
    effort: Name | None = None
    projection: Literal["auto", "history", "prompt"] | None = None
    cwd: Name | None = None
    native_tools: bool = True
    persist_prompt: bool = True
    output_schema: dict[str, object] | None = None


class Interrupt(Request, frozen=True, kw_only=True, tag="interrupt"):
    """Ask a run to stop; answered at once, also where it is over."""

    run: Name
    reason: Name = "a client interrupted it"


class WantedStream(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stream and the last event of it that the client has applied; without one, from now on."""

    id: Name
    epoch: Id | None = None
    after: Id | None = None


class Subscribe(Request, frozen=True, kw_only=True, tag="subscribe"):
    """Follow streams; asked again for one, it begins anew from the cursor given (cursor rule 1)."""

    streams: Annotated[tuple[WantedStream, ...], msgspec.Meta(max_length=64)]


class Unsubscribe(Request, frozen=True, kw_only=True, tag="unsubscribe"):
    """Follow a stream no longer."""

    stream: Name


class ListSessions(Request, frozen=True, kw_only=True, tag="sessions.list"):
    """The sessions, the last used first."""

    agent: Name | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 50


class GetSession(Request, frozen=True, kw_only=True, tag="sessions.get"):
    """What is stored of a session; null where nothing is."""

    session: Name
    agent: Name = MAIN_AGENT


class ListEntries(Request, frozen=True, kw_only=True, tag="sessions.entries"):
    """Entries of a session from behind `after_depth` on; fewer than `limit` where they are large.

    The last page is an empty one.
    """

    session: Name
    agent: Name = MAIN_AGENT
    after_depth: Annotated[int, msgspec.Meta(ge=-1)] = -1
    limit: Count = 500
    raw: bool = False
    """Whether the raw Responses items come along."""


class Search(Request, frozen=True, kw_only=True, tag="sessions.search"):
    """Entries that hold all the words."""

    text: Annotated[str, msgspec.Meta(max_length=10_000)]
    session: Name | None = None
    agent: Name | None = None
    role: Name | None = None
    limit: Count = 20


class GetContext(Request, frozen=True, kw_only=True, tag="context.get"):
    """What the model was given in a turn, or in the last one; null where there is none."""

    session: Name
    agent: Name = MAIN_AGENT
    turn: Annotated[int, msgspec.Meta(ge=1)] | None = None


class ResetSession(Request, frozen=True, kw_only=True, tag="sessions.reset"):
    """Begin a new generation of a session."""

    session: Name
    agent: Name = MAIN_AGENT


class CompactSession(Request, frozen=True, kw_only=True, tag="sessions.compact"):
    """Have Codex compact its thread of a session; answered once that is over."""

    session: Name
    agent: Name = MAIN_AGENT


class RewindSession(Request, frozen=True, kw_only=True, tag="sessions.rewind"):
    """Make an entry, by its id or its depth, the last one of a session."""

    session: Name
    to: Annotated[int, msgspec.Meta(ge=0)] | Name
    agent: Name = MAIN_AGENT


class BranchSession(Request, frozen=True, kw_only=True, tag="sessions.branch"):
    """Begin another session with the entries up to one, or with all."""

    session: Name
    to: Name | None = None
    at: Annotated[int, msgspec.Meta(ge=0)] | Name | None = None
    agent: Name = MAIN_AGENT


class RenameSession(Request, frozen=True, kw_only=True, tag="sessions.rename"):
    """Give a session another title."""

    session: Name
    title: Annotated[str, msgspec.Meta(max_length=10_000)]
    agent: Name = MAIN_AGENT


class DeleteSession(Request, frozen=True, kw_only=True, tag="sessions.delete"):
    """End a session; what was said stays stored."""

    session: Name
    agent: Name = MAIN_AGENT


class ListEngines(Request, frozen=True, kw_only=True, tag="engines.list"):
    """The context engines and their state."""


class GetStatus(Request, frozen=True, kw_only=True, tag="status"):
    """Who serves, since when, and how it goes."""


class GetAccount(Request, frozen=True, kw_only=True, tag="accounts.get"):
    """Who an agent's Codex is signed in as."""

    agent: Name = MAIN_AGENT


class LogInWithKey(Request, frozen=True, kw_only=True, tag="accounts.log_in_with_key"):
    """Sign in with an API key, which stays in the agent's Codex home."""

    key: Name
    agent: Name = MAIN_AGENT


class BeginLogin(Request, frozen=True, kw_only=True, tag="accounts.begin_login"):
    """Begin a sign-in in a browser; it is given up when the connection ends."""

    agent: Name = MAIN_AGENT
    device: bool = False


class AwaitLogin(Request, frozen=True, kw_only=True, tag="accounts.await_login"):
    """Wait until the sign-in that this connection began is done."""


class LogOut(Request, frozen=True, kw_only=True, tag="accounts.log_out"):
    """Sign an agent's Codex out."""

    agent: Name = MAIN_AGENT


class ListModels(Request, frozen=True, kw_only=True, tag="accounts.models"):
    """The models that Codex knows."""

    agent: Name = MAIN_AGENT


class Stop(Request, frozen=True, kw_only=True, tag="stop"):
    """Take no more messages, let running turns end, and end; answered at once."""


class Ping(Request, frozen=True, kw_only=True, tag="ping"):
    """Nothing but a sign of life."""


AnyRequest = (
    Hello
    | Submit
    | Interrupt
    | Subscribe
    | Unsubscribe
    | ListSessions
    | GetSession
    | ListEntries
    | Search
    | GetContext
    | ResetSession
    | CompactSession
    | RewindSession
    | BranchSession
    | RenameSession
    | DeleteSession
    | ListEngines
    | GetStatus
    | GetAccount
    | LogInWithKey
    | BeginLogin
    | AwaitLogin
    | LogOut
    | ListModels
    | Stop
    | Ping
)

_DECODER: Final = msgspec.json.Decoder(AnyRequest)


def request_in(line: bytes) -> AnyRequest:
    """Return the request of a frame. Raises: UsageError, which says what is wrong with it."""
    try:
        return _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(
            f"the frame is no request: {error}",
            next_step="docs/serve.md lists the requests and their fields.",
        ) from None


def id_in(line: bytes) -> int | None:
    """Return the number of a frame that is no request, if it has one that can be repeated."""
    found = object_in(line)
    given = None if found is None else found.get("id")
    return given if isinstance(given, int) and not isinstance(given, bool) else None


def fields_of(request: Request) -> JsonObject:
    """Return the request as an object, defaults left out, as it goes into a frame."""
    found: JsonObject = msgspec.to_builtins(request)
    plain = {name: value for name, value in found.items() if value is not None}
    return {"type": request.__struct_config__.tag, **plain}
