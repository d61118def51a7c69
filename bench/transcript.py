"""Write a long transcript through the store's own append, before anything is measured.

Knows nothing of Codex: what is written here stands in the store alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from treadle.clock import RandomIds, SystemClock
from treadle.model.ids import AgentId, RunId, SessionKey
from treadle.model.message import EntryKind, Message, NewEntry, assistant_message, user_message
from treadle.store.open import open_store

SESSION = SessionKey("agent:main:bench")

HELD = 200
"""Messages that the native thread is to hold of the transcript, the newest."""

WINDOW_SIZE = 150
"""`config.size` of the engine `window`.

It then shows the newest 200 of `150 * j + 200` messages, and cuts only 100 messages later.
"""

_BATCH = 1000
_TEXT = (
    "the shuttle carries weft between raised threads while the treadle moves harness and reed so "
    "cloth grows row by row under tension and every pick is beaten into place before another comes"
)
_WORDS = tuple(_TEXT.split())


def message_count(entries: int) -> int:
    """Return how many of so many entries are messages; the others are notices.

    The largest `150 * j + 200` that fits, so that `window` shows exactly the newest 200.
    """
    if entries < HELD:
        return entries
    return (entries - HELD) // WINDOW_SIZE * WINDOW_SIZE + HELD


def message(number: int) -> Message:
    """Return the message of that number, from 0: user and assistant by turns, some 60 words."""
    words = [_WORDS[(number * 7 + at * (number % 11 + 1)) % len(_WORDS)] for at in range(60)]
    text = f"Message {number}: {' '.join(words)}."
    return user_message(text) if number % 2 == 0 else assistant_message(text)


def new_entries(entries: int) -> Iterator[NewEntry]:
    """Yield the entries in order: the notices first, then the messages."""
    messages = message_count(entries)
    for number in range(entries - messages):
        yield NewEntry(
            key=f"bench:notice:{number}",
            message=assistant_message(f"Notice {number}."),
            kind=EntryKind.NOTICE,
        )
    for number in range(messages):
        yield NewEntry(key=f"bench:message:{number}", message=message(number))


async def write_transcript(database: Path, entries: int, work: Path) -> None:
    """Make the session with so many entries in a store that does not exist yet."""
    database.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
    clock = SystemClock()
    async with open_store(database, clock=clock, ids=RandomIds(clock)) as store:
        session = await store.sessions.open(
            SESSION, agent_id=AgentId("main"), owner="local", cwd=str(work)
        )
        claim = await store.transcript.claim(session.id, RunId("r_bench"))
        waiting = new_entries(entries)
        while batch := tuple(islice(waiting, _BATCH)):
            await store.transcript.append(claim, batch)
        await store.transcript.release(claim)


def items_from(messages: Sequence[Message]) -> list[dict[str, object]]:
    """Return messages as the Responses items that a bare client injects."""
    found: list[dict[str, object]] = []
    for one in messages:
        kind = "input_text" if one.role == "user" else "output_text"
        assert isinstance(one.content, list)
        content = [{"type": kind, "text": part["text"]} for part in one.content]
        found.append({"type": "message", "role": one.role, "content": content})
    return found
