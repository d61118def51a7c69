"""What an engine wants the model to see, ready to be compared: messages and their hashes.

Knows nothing of what a thread holds. Source: spec D-12, D-51, RS12.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from treadle.model.message import Message
from treadle.model.text import without_surrogates
from treadle.projection.prompt import without_trailing_prompt
from treadle.projection.rendering import clean_value


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The messages, oldest first, and the content hash of each."""

    messages: tuple[Message, ...]
    hashes: tuple[str, ...]


def wanted_messages(assembled: Sequence[Message], prompt: str) -> Wanted:
    """Return the messages without a last one that repeats the prompt, in text that can be sent.

    A message with a lone surrogate comes back cleaned; all others are the same objects. Source:
    spec D-12, D-51.
    """
    messages: list[Message] = []
    hashes: list[str] = []
    for message in without_trailing_prompt(assembled, prompt):
        try:
            hashes.append(message.content_hash)
        except UnicodeEncodeError:
            clean = _clean(message)
            hashes.append(clean.content_hash)
            messages.append(clean)
        else:
            messages.append(message)
    return Wanted(messages=tuple(messages), hashes=tuple(hashes))


def _clean(message: Message) -> Message:
    role, content = without_surrogates(message.role), clean_value(message.content)
    return replace(message, role=role, content=content)
