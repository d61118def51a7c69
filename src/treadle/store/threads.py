"""What is written of native threads inside somebody's transaction: bindings and holdings.

Shared by the transcript, whose appends may carry a binding, and by the binding store. Knows nothing
of claims: whoever calls has checked his.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import fields, replace

from treadle.contract.store import Binding, Held, Holding, OpenTurn
from treadle.model.errors import RevisionConflict
from treadle.model.ids import EntryId, RunId, SessionId, ThreadId, TurnId
from treadle.model.json import JsonObject, JsonValue
from treadle.store.driver import Connection
from treadle.store.rows import decoded_object, encoded


def read_binding(connection: Connection, session_id: SessionId) -> Binding | None:
    """Return the binding that is stored, or None."""
    row = connection.one("binding_of", session_id=session_id)
    if row is None or row[2] is None:
        return None
    return _binding_from(decoded_object(row[2]), revision=row[0])


def put_binding(connection: Connection, binding: Binding, now: float) -> Binding:
    """Store it if nobody else did since it was read, and return it with its new revision.

    After `clear_binding` revisions go on where they stood, so that a writer who still has an old
    one cannot hit by chance. Raises: RevisionConflict.
    """
    row = connection.one("binding_of", session_id=binding.session_id)
    last = 0 if row is None else row[0]
    stored = 0 if row is None or row[1] is None else last
    if binding.revision != stored:
        raise RevisionConflict(
            f"the binding of session {binding.session_id!r} has revision {stored}, "
            f"not {binding.revision}; nothing was written",
            session_id=binding.session_id,
            stored=stored,
            expected=binding.revision,
        )
    if row is not None and row[1] is not None and row[1] != binding.thread_id:
        supersede(connection, binding.session_id, ThreadId(row[1]), now)
    connection.run("forget_superseded", session_id=binding.session_id, thread_id=binding.thread_id)
    new = replace(binding, revision=last + 1)
    connection.run(
        "put_binding",
        session_id=new.session_id,
        revision=new.revision,
        thread_id=new.thread_id,
        doc=encode_binding(new),
    )
    return new


def clear_binding(
    connection: Connection, session_id: SessionId, thread_id: ThreadId, now: float
) -> bool:
    """Remove the binding if it names this thread, which is thereby given up."""
    row = connection.one("binding_of", session_id=session_id)
    if row is None or row[1] != thread_id:
        return False
    supersede(connection, session_id, thread_id, now)
    connection.run("put_binding", session_id=session_id, revision=row[0], thread_id=None, doc=None)
    return True


def supersede(
    connection: Connection, session_id: SessionId, thread_id: ThreadId, now: float
) -> None:
    """Note that the session gave this thread up now."""
    connection.run("forget_superseded", session_id=session_id, thread_id=thread_id)
    connection.run("supersede_thread", session_id=session_id, thread_id=thread_id, now=now)


def read_holding(connection: Connection, thread_id: ThreadId) -> Holding:
    """Return count and chain of what the thread holds."""
    row = connection.one("last_held", thread_id=thread_id)
    return Holding() if row is None else Holding(count=row[0], chain=row[1])


def holds_entry(connection: Connection, thread_id: ThreadId, entry_id: EntryId) -> bool:
    """Tell whether the thread holds this entry."""
    return connection.one("holds_entry", thread_id=thread_id, entry_id=entry_id) is not None


def add_held(connection: Connection, thread_id: ThreadId, more: Iterable[Held]) -> None:
    """Append to what the thread holds, as it is given."""
    holding = read_holding(connection, thread_id)
    for ordinal, held in enumerate(more, start=holding.count + 1):
        holding = Holding(count=ordinal, chain=next_chain(holding.chain, held.content_hash))
        connection.run(
            "add_held",
            thread_id=thread_id,
            ordinal=ordinal,
            entry_id=held.entry_id,
            content_hash=held.content_hash,
            chain=holding.chain,
        )


def next_chain(chain: str, content_hash: str) -> str:
    """Return the chain with one more message; see `Holding`."""
    return hashlib.sha256((chain + content_hash).encode()).hexdigest()


def encode_binding(binding: Binding) -> str:
    """Return the document that a binding is stored as; its revision stands beside it."""
    return encoded(_json_of(binding))


def _json_of(binding: Binding) -> JsonObject:
    doc: dict[str, JsonValue] = {
        field.name: getattr(binding, field.name)
        for field in fields(binding)
        if field.name not in {"revision", "open_turn"}
    }
    doc["open_turn"] = None
    if (turn := binding.open_turn) is not None:
        doc["open_turn"] = {
            "run_id": turn.run_id,
            "client_message_id": turn.client_message_id,
            "turn_id": turn.turn_id,
            "replayed": turn.replayed,
            "transient": turn.transient,
            "unwritten_prompt": turn.unwritten_prompt,
        }
    return doc


_KNOWN = frozenset(field.name for field in fields(Binding))


def _binding_from(doc: JsonObject, *, revision: int) -> Binding:
    """Return the record; what a newer Treadle wrote besides is left out."""
    known = {name: value for name, value in doc.items() if name in _KNOWN}
    turn = known.pop("open_turn", None)
    # What is stored was a Binding when `_json_of` wrote it: the types are those of its fields.
    return Binding(**known, revision=revision, open_turn=_turn_from(turn))  # type: ignore[arg-type]


def _turn_from(value: JsonValue) -> OpenTurn | None:
    match value:
        case {
            "run_id": str(run_id),
            "client_message_id": str(message_id),
            "turn_id": turn_id,
            **more,
        }:
            unwritten = more.get("unwritten_prompt")
            return OpenTurn(
                run_id=RunId(run_id),
                client_message_id=message_id,
                turn_id=TurnId(turn_id) if isinstance(turn_id, str) else None,
                replayed=more.get("replayed") is True,
                transient=more.get("transient") is True,
                unwritten_prompt=unwritten if isinstance(unwritten, str) else None,
            )
        case _:
            return None
