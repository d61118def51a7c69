"""`treadle config`: the settings in force and where they come from. Changes nothing."""

from __future__ import annotations

import click

from treadle.cli import options
from treadle.cli.invocation import Invocation


@click.group()
def config() -> None:
    """Show the settings and their place."""


@config.command("show")
@click.argument("key", metavar="[KEY]", required=False)
@click.option("--source", is_flag=True, help="Say where each value came from.")
@options.json_option
@click.pass_obj
def show_config(invocation: Invocation, key: str | None, source: bool, as_json: bool) -> int:
    """Show every setting, or those at and below KEY; secrets are shown as 'set'."""
    from treadle.config.describe import value_rows

    settings = invocation.settings()
    rows = value_rows(settings)
    if key is not None:
        found = [row for row in rows if row.key == key or row.key.startswith(f"{key}.")]
        if not found:
            raise _unknown_key(key, [row.key for row in rows])
        rows = found
    output = invocation.output
    if as_json:
        output.json({
            "items": [{"key": r.key, "value": r.value, "source": r.source} for r in rows],
            "next": None,
        })
    else:
        from treadle.cli.render import toml_text

        for row in rows:
            origin = f"   # {row.source}" if source else ""
            output.print(f"{row.key} = {toml_text(row.value)}{origin}")
    for warned in settings.warnings:
        output.mark("!", str(warned))
    return 0


def _unknown_key(key: str, known: list[str]) -> Exception:
    from treadle.config.reading import nearest
    from treadle.model.errors import NotFound

    tables = {name.rpartition(".")[0] for name in known}
    near = nearest(key, [*known, *(table for table in tables if table)])
    step = f"Did you mean {near}?" if near else "treadle config show lists all keys"
    return NotFound(f"there is no setting {key!r}", next_step=step, key=key)


@config.command("path")
@click.pass_obj
def show_path(invocation: Invocation) -> int:
    """Print the path of the configuration file, whether it exists or not."""
    paths = invocation.paths()
    invocation.output.print(str(paths.config_file))
    if not paths.config_file.exists():
        invocation.output.say("(it does not exist; every key has its default)")
    return 0
