"""What a caller may ask of a session, checked before anything is accepted.

Knows nothing of how it is carried out.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, TypedDict

from treadle.contract.harness import ProjectionMode
from treadle.model.errors import MessageTooLarge, UsageError
from treadle.model.json import JsonObject
from treadle.model.text import without_surrogates
from treadle.protocol.names import checked_model_id

HEARTBEAT: Final = "heartbeat"
HEARTBEAT_KINDS: Final = frozenset({HEARTBEAT, "commitment-only"})
"""Kinds of run that are heartbeats, whoever triggered them (spec I-14)."""

MAX_PROMPT_CHARS: Final = 2**20
"""Characters of a person's own text; more is refused before it is accepted (decision 25)."""


class RunOptions(TypedDict, total=False):
    """How one message is to be run; what is not given is the session's, agent's or usual choice."""

    engine: str | None
    model: str | None
    effort: str | None
    projection: ProjectionMode | None
    client_message_id: str | None
    """The sender's id of the message; one is made where none is given (INV-2)."""

    output_schema: JsonObject | None
    native_tools: bool
    """False: this one turn goes without Codex's own tools, on a thread of its own that is given the
    whole context; dynamic tools stay (spec D-39)."""

    persist_prompt: bool
    """False: the message does not become an entry, only its answer does (spec H-10)."""

    sender: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """One message and how it is to be run.

    None means the session's, the agent's or the default choice.
    """

    text: str
    engine: str | None = None
    model: str | None = None
    effort: str | None = None
    projection: ProjectionMode | None = None
    client_message_id: str | None = None
    output_schema: JsonObject | None = None
    lightweight: bool = False
    native_tools: bool = True
    """False: Codex's own tools (shell, patches, web search, …) are off for this one turn.

    It runs on a thread of its own, and the session's thread stays as it is (spec D-39).
    """

    persist_prompt: bool = True
    """False: the message is sent and answered and does not become an entry (spec H-10)."""

    trigger: str = "user"
    kind: str = "message"
    """What the run is for; one of `HEARTBEAT_KINDS`, or a message."""

    sender: JsonObject = field(default_factory=dict)

    @property
    def is_heartbeat(self) -> bool:
        """Whether nobody said anything: also where it came by the way of a user's (spec I-14)."""
        return self.trigger == HEARTBEAT or self.kind in HEARTBEAT_KINDS


def checked_request(request: RunRequest) -> RunRequest:
    """Return the request with a text that can be sent: no lone surrogates, no NUL (RS12).

    Raises: UsageError for an empty text or an impossible model, MessageTooLarge.
    """
    text = without_surrogates(request.text)
    if not text.strip():
        raise UsageError("the message is empty", next_step="Say something, or pipe it in with '-'.")
    if len(text) > MAX_PROMPT_CHARS:
        raise MessageTooLarge(
            f"the message has {len(text):,} characters, more than {MAX_PROMPT_CHARS:,};"
            " nothing was sent",
            next_step="Put the text into a file in the working folder and name the file.",
            characters=len(text),
            limit=MAX_PROMPT_CHARS,
        )
    if request.model is not None:
        checked_model_id(request.model)
    return replace(request, text=text)
