"""A click group whose commands are imported when they are used.

Knows the names and one line of each command, so that listing them imports nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

import click


class Listed(NamedTuple):
    """A command as the list shows it; no dataclass, since making one costs a millisecond."""

    name: str
    target: str
    """`module:attribute`."""
    about: str


class LazyGroup(click.Group):
    """Resolves its commands from a list of `Listed`."""

    def __init__(self, *args: Any, listed: Sequence[Listed] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._listed = {one.name: one for one in listed}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the list."""
        return [*self._listed, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        found = self._listed.get(cmd_name)
        if found is None:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = found.target.partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; an unknown one is refused with the nearest name."""
        name = args[0]
        known = self.list_commands(ctx)
        if name not in known and not name.startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(name, known, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"There is no command {name!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        rows = [(one.name, one.about) for one in self._listed.values()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
