"""The user's entry of a run, and the hook that every new message passes before it is written.

Knows nothing of turns that have ended; those entries are `projection.snapshot`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from treadle.contract.harness import AttemptParams
from treadle.contract.hook import MessageWrite
from treadle.harness.codex.prepare import hook_context
from treadle.harness.codex.services import CodexServices
from treadle.model.ids import ThreadId
from treadle.model.json import JsonObject, JsonValue, canonical
from treadle.model.message import EntryKind, Message, NewEntry, user_message
from treadle.model.text import without_surrogates
from treadle.observe import emit
from treadle.projection.rendering import clean_value


def prompt_key(params: AttemptParams) -> str:
    """Return the identity of the run's prompt.

    The run stands where a turn id would: the entry is written before there is one, and a second
    attempt of the same run finds it (spec C-12, H-03, H-14).
    """
    return f"codex-app-server:run:{params.run_id}:prompt"


async def prompt_entry(
    services: CodexServices, params: AttemptParams, thread_id: ThreadId
) -> NewEntry | None:
    """Return the entry of what was said, or None where a hook or the caller keeps it out (H-10)."""
    if not params.persist_prompt:
        return None
    meta: dict[str, JsonValue] = {
        "trigger": params.trigger,
        "client_message_id": params.client_message_id,
    }
    if params.sender:
        meta["sender"] = {**params.sender, "label": sender_label(params.sender)}
    entry = NewEntry(
        key=prompt_key(params),
        message=user_message(params.prompt),
        thread_id=thread_id,
        run_id=params.run_id,
        meta=meta,
    )
    kept = await passed_by_hooks(services, params, [entry])
    return kept[0] if kept else None


def sender_label(sender: JsonObject) -> str:
    """Return how a person is shown who wrote a message: `name (id)`, or what is known of both.

    The id is left out where the name contains it. Source: spec H-11.
    """
    names = (sender.get(key) for key in ("name", "username", "e164"))
    name = next((found.strip() for found in names if isinstance(found, str) and found.strip()), "")
    known = sender.get("id")
    sender_id = known.strip() if isinstance(known, str) else ""
    if not name or not sender_id:
        return name or sender_id
    return name if sender_id in name else f"{name} ({sender_id})"


async def passed_by_hooks(
    services: CodexServices, params: AttemptParams, entries: Sequence[NewEntry]
) -> tuple[NewEntry, ...]:
    """Return the entries as `before_message_write` lets them through.

    Keys never change (spec H-07).

    An entry whose text a hook rewrote loses its raw items: they would bring the old text back.
    """
    kept: list[NewEntry] = []
    for entry in entries:
        if entry.kind is not EntryKind.MESSAGE:
            kept.append(entry)
            continue
        message = await services.hooks.before_message_write(
            MessageWrite(message=entry.message, ctx=hook_context(params))
        )
        if message is None:
            continue
        message = _storable(message, entry.message)
        if message == entry.message:
            kept.append(entry)
        else:
            kept.append(replace(entry, message=message, raw_items=()))
    return tuple(kept)


def _storable(message: Message, given: Message) -> Message:
    """Return what a hook made of a message in text that can be stored, else the message as it was.

    A hook's odd text costs its change, never the turn (spec H-01, RS12).
    """
    try:
        role, content = without_surrogates(message.role), clean_value(message.content)
        canonical(content)
    except (TypeError, ValueError, RecursionError) as odd:
        emit("hook.failed", hook="before_message_write", reason=f"its message is no JSON: {odd}")
        return given
    if (role, content) == (message.role, message.content):
        return message
    return replace(message, role=role, content=content)
