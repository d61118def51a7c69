"""`treadle sessions reset|rewind|branch|rename|compact|delete`: what becomes of a whole session.

Knows nothing of how; the session does it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from treadle.cli import options
from treadle.cli.invocation import Invocation
from treadle.cli.opened import with_face

if TYPE_CHECKING:
    from treadle.contract.lives import Place, Turnover
    from treadle.contract.store import SessionRecord
    from treadle.gateway.face import Face
    from treadle.model.json import JsonValue

session_argument = click.argument("session", metavar="SESSION")
agent_option = click.option(
    "--agent", metavar="ID", default="main", help="Agent of a bare name.  [default: main]"
)


@click.command("reset")
@session_argument
@agent_option
@options.json_option
@click.pass_obj
def reset(invocation: Invocation, session: str, agent: str, as_json: bool) -> int:
    """Begin a new generation: empty transcript, fresh thread; the old one stays stored."""

    async def job(face: Face) -> int:
        record = await face.session(session, agent=agent).reset()
        if as_json:
            invocation.output.json(record_json(record))
        else:
            invocation.output.say(reset_line(record))
        return 0

    return with_face(invocation, job)


@click.command("rewind")
@session_argument
@click.argument("entry", metavar="ENTRY")
@agent_option
@options.json_option
@click.pass_obj
def rewind(invocation: Invocation, session: str, entry: str, agent: str, as_json: bool) -> int:
    """Go back: ENTRY, by its number or id, becomes the last one; it has to end a turn."""

    async def job(face: Face) -> int:
        turned = await face.session(session, agent=agent).rewind(place(entry))
        if as_json:
            invocation.output.json(turned_json(turned))
        else:
            invocation.output.say(rewound_line(turned))
        return 0

    return with_face(invocation, job)


@click.command("branch")
@session_argument
@click.argument("entry", metavar="[ENTRY]", required=False)
@click.option("--to", metavar="NAME", help="Its name.  [default: this one's and a number]")
@agent_option
@options.json_option
@click.pass_obj
def branch(
    invocation: Invocation,
    session: str,
    entry: str | None,
    to: str | None,
    agent: str,
    as_json: bool,
) -> int:
    """Begin another session with what was said up to ENTRY, or with all; this one stays."""

    async def job(face: Face) -> int:
        at = place(entry) if entry is not None else None
        made = await face.session(session, agent=agent).branch(to, at=at)
        record = await made.record()
        assert record is not None, "it was made a moment ago"
        if as_json:
            invocation.output.json(record_json(record))
        else:
            invocation.output.say(branched_line(record))
        return 0

    return with_face(invocation, job)


@click.command("rename")
@session_argument
@click.argument("title", metavar="TITLE")
@agent_option
@options.json_option
@click.pass_obj
def rename(invocation: Invocation, session: str, title: str, agent: str, as_json: bool) -> int:
    """Give a session another title; its key stays."""

    async def job(face: Face) -> int:
        record = await face.session(session, agent=agent).rename(title)
        if as_json:
            invocation.output.json(record_json(record))
        else:
            invocation.output.say(f"Session {record.key} is titled {record.title!r}.")
        return 0

    return with_face(invocation, job)


@click.command("compact")
@session_argument
@agent_option
@options.json_option
@click.pass_obj
def compact(invocation: Invocation, session: str, agent: str, as_json: bool) -> int:
    """Have Codex compact its thread of a session; the transcript stays as it is."""

    async def job(face: Face) -> int:
        result = await face.session(session, agent=agent).compact()
        if as_json:
            shown = {"compacted": result.compacted, "reason": result.reason}
            invocation.output.json({**shown, "details": dict(result.details)})
        elif result.compacted:
            invocation.output.say("Codex compacted its thread of the session.")
        else:
            invocation.output.say(f"The thread was not compacted: {result.reason}.")
        return 0 if result.compacted else 1

    return with_face(invocation, job)


@click.command("delete")
@session_argument
@agent_option
@options.json_option
@click.pass_obj
def delete(invocation: Invocation, session: str, agent: str, as_json: bool) -> int:
    """End a session: no list or search finds it; what was said stays stored."""

    async def job(face: Face) -> int:
        turned = await face.session(session, agent=agent).delete()
        if as_json:
            invocation.output.json(turned_json(turned))
        else:
            count = turned.left_behind
            invocation.output.say(
                f"Session {turned.before.key} is deleted; its {count:,} entries stay stored."
            )
        return 0

    return with_face(invocation, job)


COMMANDS = (reset, rewind, branch, rename, compact, delete)
"""For the group `treadle sessions`."""


def place(text: str) -> Place:
    """Read an entry: its number, as `sessions show` gives it, or its id."""
    from treadle.model.ids import EntryId

    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else EntryId(text)


def reset_line(record: SessionRecord) -> str:
    """Say that a generation began."""
    return f"Generation {record.generation} begins; the earlier ones stay stored."


def rewound_line(turned: Turnover) -> str:
    """Say what a rewind kept."""
    if turned.after is None or not turned.changed:
        return "That entry is the last one already; nothing was changed."
    last = turned.after.entry_count - 1
    left = "1 entry stays" if turned.left_behind == 1 else f"{turned.left_behind:,} entries stay"
    return (
        f"Generation {turned.after.generation} begins behind entry {last};"
        f" {left} stored in generation {turned.before.generation}."
    )


def branched_line(record: SessionRecord) -> str:
    """Say where a branch is."""
    return f"Session {record.key} begins with {record.entry_count:,} entries of this one."


def record_json(record: SessionRecord) -> dict[str, JsonValue]:
    """Return a session as `--json` prints it."""
    return {
        "key": record.key,
        "id": record.id,
        "generation": record.generation,
        "origin": record.origin,
        "agent": record.agent_id,
        "owner": record.owner,
        "cwd": record.cwd,
        "title": record.title,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "entry_count": record.entry_count,
    }


def turned_json(turned: Turnover) -> dict[str, JsonValue]:
    """Return what became of a session as `--json` prints it."""
    return {
        **record_json(turned.after if turned.after is not None else turned.before),
        "changed": turned.changed,
        "deleted": turned.after is None,
        "left_behind": turned.left_behind,
    }
