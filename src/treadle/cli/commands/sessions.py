"""`treadle sessions`: list, show, search and export change nothing; the others say what they do."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from treadle.cli import options
from treadle.cli.commands.session_lives import COMMANDS, record_json
from treadle.cli.invocation import Invocation
from treadle.cli.opened import with_face

if TYPE_CHECKING:
    from treadle.contract.store import SearchHit, SessionRecord
    from treadle.gateway.face import Face
    from treadle.model.json import JsonValue
    from treadle.model.message import Entry

TITLE_CHARS = 60


@click.group()
def sessions() -> None:
    """List, show, search, export and change sessions."""


for _command in COMMANDS:
    sessions.add_command(_command)


@sessions.command("list")
@click.option("--agent", metavar="ID", help="Only this agent's.")
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=50,
    show_default=True,
    help="At most so many.",
)
@options.json_option
@click.pass_obj
def list_sessions(invocation: Invocation, agent: str | None, limit: int, as_json: bool) -> int:
    """List the sessions, the last used first."""

    async def job(face: Face) -> int:
        records = await face.sessions(agent=agent, limit=limit)
        if as_json:
            invocation.output.json({"items": [record_json(r) for r in records], "next": None})
        elif records:
            invocation.output.table([
                ("SESSION", "ENTRIES", "LAST USED", "TITLE"),
                *map(_row, records),
            ])
        else:
            invocation.output.say('There is no session yet. Begin one: treadle run "Hello"')
        return 0

    return with_face(invocation, job)


@sessions.command("show")
@click.argument("session", metavar="SESSION")
@click.option(
    "--agent", metavar="ID", default="main", help="Agent of a bare name.  [default: main]"
)
@click.option(
    "--last", type=click.IntRange(1), metavar="N", help="Only the last N entries.  [default: all]"
)
@options.json_option
@click.pass_obj
def show_session(
    invocation: Invocation, session: str, agent: str, last: int | None, as_json: bool
) -> int:
    """Show what was said in a session, in order."""

    async def job(face: Face) -> int:
        from treadle.model.turn import entry_data

        held = face.session(session, agent=agent)
        record = await held.record()
        after = record.entry_count - last - 1 if record is not None and last is not None else -1
        shown: list[JsonValue] = []
        page = await held.entries(after_depth=max(after, -1))
        while page:
            for entry in page:
                if as_json:
                    shown.append(entry_data(entry))
                else:
                    _print_entry(invocation, entry)
            page = await held.entries(after_depth=page[-1].depth)
        if as_json and record is not None:
            invocation.output.json({**record_json(record), "items": shown, "next": None})
        return 0

    return with_face(invocation, job)


@sessions.command("search")
@click.argument("words", metavar="WORDS")
@click.option("--session", metavar="KEY", help="Only in this session.")
@click.option("--agent", metavar="ID", help="Only this agent's; also the agent of a bare name.")
@click.option("--role", metavar="ROLE", help="Only user, assistant or toolResult.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="At most so many."
)
@options.json_option
@click.pass_obj
def search_sessions(
    invocation: Invocation,
    words: str,
    session: str | None,
    agent: str | None,
    role: str | None,
    limit: int,
    as_json: bool,
) -> int:
    """Find entries that hold all the words; "a phrase" in double quotes."""

    async def job(face: Face) -> int:
        from treadle.gateway.requests import Search

        request = Search(text=words, session=session, agent=agent, role=role, limit=limit)
        hits = await face.search(request)
        if as_json:
            invocation.output.json({"items": [_hit_json(hit) for hit in hits], "next": None})
        for hit in () if as_json else hits:
            head = f"{hit.session_key} · {_when(hit.entry.created_at)} · {hit.entry.message.role}"
            invocation.output.heading(head)
            invocation.output.print(f"  {' '.join(hit.snippet.split())}")
        if not hits:
            invocation.output.say("Nothing fits.")
        return 0

    return with_face(invocation, job)


@sessions.command("export")
@click.argument("session", metavar="SESSION")
@click.option(
    "--agent", metavar="ID", default="main", help="Agent of a bare name.  [default: main]"
)
@click.pass_obj
def export_session(invocation: Invocation, session: str, agent: str) -> int:
    """Print a whole session as JSON lines, raw items included."""

    async def job(face: Face) -> int:
        async for line in face.session(session, agent=agent).export():
            invocation.output.raw(line)
        return 0

    return with_face(invocation, job)


def _row(record: SessionRecord) -> tuple[str, str, str, str]:
    from treadle.model.text import truncate

    title = truncate(record.title, TITLE_CHARS, "…")
    return record.key, f"{record.entry_count:,}", _when(record.updated_at), title


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M")


def _hit_json(hit: SearchHit) -> dict[str, JsonValue]:
    from treadle.model.turn import entry_data

    return {
        "session_key": hit.session_key,
        "snippet": hit.snippet,
        "matches": [list(match) for match in hit.matches],
        "entry": entry_data(hit.entry),
    }


def _print_entry(invocation: Invocation, entry: Entry) -> None:
    from treadle.cli.render import entry_text

    kind = "" if entry.kind == "message" else f" · {entry.kind.value}"
    invocation.output.heading(
        f"{entry.depth} · {entry.message.role}{kind} · {_when(entry.created_at)}"
    )
    invocation.output.print(entry_text(entry.message) + "\n")
