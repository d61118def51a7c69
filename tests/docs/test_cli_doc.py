"""`docs/cli.md` against the commands and tables that it describes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from treadle.cli.exit_codes import _EXITS, MEANINGS
from treadle.cli.main import cli
from treadle.model import turn

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")


def commands(
    command: click.Command = cli, path: tuple[str, ...] = ("treadle",)
) -> Iterator[tuple[str, click.Command]]:
    """Yield what can be run, and the root for its options."""
    if not isinstance(command, click.Group) or len(path) == 1:
        yield " ".join(path), command
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        for name in command.list_commands(ctx):
            found = command.get_command(ctx, name)
            assert found is not None
            yield from commands(found, (*path, name))


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the first table under a heading."""
    section = PAGE.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines[2:]]
    return [[cell.strip() for cell in row] for row in cells]


def flags(command: click.Command) -> set[str]:
    """Return a command's flags in their long form."""
    ctx = click.Context(command)
    options = [p for p in command.get_params(ctx) if isinstance(p, click.Option)]
    found = {max(option.opts, key=len) for option in options}
    return found if command is cli else found - {"--help"}


TABLE = {row[0].strip("`"): row for row in rows("Commands")}


def test_every_command_stands_in_the_table_and_no_other() -> None:
    """Ours; decision 22: one table, compared with the help."""
    assert sorted(TABLE) == sorted(name for name, _ in commands())


@pytest.mark.parametrize(("name", "command"), list(commands()))
def test_table_names_the_flags_that_a_command_has(name: str, command: click.Command) -> None:
    """Ours; decision 22."""
    assert set(re.findall(r"--[a-z-]+", TABLE[name][1])) == flags(command)


@pytest.mark.parametrize(("name", "command"), list(commands()))
def test_every_flag_and_command_has_a_help_text(name: str, command: click.Command) -> None:
    """Ours."""
    options = [p for p in command.params if isinstance(p, click.Option)]
    assert command.help, name
    assert all(option.help for option in options), name


def test_exit_codes_are_those_of_the_code() -> None:
    """Ours; decision 23."""
    assert {int(row[0]): row[1] for row in rows("Exit codes")} == dict(MEANINGS)


def test_codes_of_errors_stand_with_their_exit_codes() -> None:
    """Ours."""
    table = {
        code: int(row[1])
        for row in rows("Errors")
        if row[1].isdigit()
        for code in re.findall(r"`([a-z_.]+[a-z])`", row[0].partition(" but ")[0])
    }
    assert table == {code: int(number) for code, number in _EXITS.items()}


def test_types_of_events_are_those_of_the_code() -> None:
    """Ours."""
    section = PAGE.split("carry `base`", 1)[1].split("Unknown types", 1)[0]
    types = [one.type for one in turn.RunEvent.__args__]
    assert set(types) <= set(re.findall(r"`([a-z_]+\.[a-z_]+|notice)`", section))
