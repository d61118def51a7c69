"""Options that several commands have, each with one name and one meaning."""

from __future__ import annotations

from typing import Final

import click

EFFORTS: Final = ("none", "off", "adaptive", "minimal", "low", "medium", "high", "xhigh", "max")
"""Words of `--effort`; a test compares them with the configuration's."""

session_option = click.option(
    "--session", metavar="KEY", help="Session, by name or full key.  [default: main]"
)
agent_option = click.option(
    "--agent", metavar="ID", default="main", show_default=True, help="Agent to act for."
)
engine_option = click.option("--engine", metavar="ID", help="Context engine for this.")
model_option = click.option("--model", metavar="M", help="Model, as provider/model or model.")
effort_option = click.option(
    "--effort", type=click.Choice(EFFORTS), metavar="E", help=f"Effort: {', '.join(EFFORTS)}."
)
cwd_option = click.option(
    "--cwd", metavar="DIR", type=click.Path(), help="Working folder; the session keeps it."
)
offline_option = click.option(
    "--offline", is_flag=True, help="Use the built-in offline model: no key, no network."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
