"""The method table and the generated types against the schema that the pinned binary prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.turn.test_turn_mirror import ITEMS
from treadle.protocol.methods import BY_NAME, OPT_OUT, TABLE, WHY_NOT, Kind

ROOT = Path(__file__).parents[2]
UNIONS = {
    Kind.REQUEST: "ClientRequest",
    Kind.OWN_NOTIFICATION: "ClientNotification",
    Kind.NOTIFICATION: "ServerNotification",
    Kind.SERVER_REQUEST: "ServerRequest",
}


def dump(codex: Path, home: Path, *flags: str) -> dict[str, Any]:
    out = home / f"schema{len(flags)}"
    command = [str(codex), "app-server", "generate-json-schema", *flags, "--out", str(out)]
    env = {"PATH": os.environ["PATH"], "CODEX_HOME": str(home)}
    subprocess.run(command, check=True, env=env, stderr=subprocess.DEVNULL)
    return {name: json.loads((out / f"{name}.json").read_text("utf-8")) for name in UNIONS.values()}


def messages(files: dict[str, Any], kind: Kind) -> dict[str, str | None]:
    """Map each message's name to the name of its params type."""
    found = {}
    for option in files[UNIONS[kind]]["oneOf"]:
        fields = option["properties"]
        reference = fields.get("params", {}).get("$ref")
        found[fields["method"]["enum"][0]] = reference and reference.rpartition("/")[2]
    return found


@pytest.mark.codex
def test_table_agrees_with_the_schema_of_the_pinned_binary(
    codex_binary: Path, scratch: Path
) -> None:
    """Style 36: each name, params type and experimental mark; and why not the rest."""
    full = dump(codex_binary, scratch, "--experimental")
    stable = dump(codex_binary, scratch)
    for kind in Kind:
        known, always = messages(full, kind), messages(stable, kind)
        rows = {row.name: row for row in TABLE if row.kind is kind and row.in_schema}
        assert {name: row.params for name, row in rows.items()} == {
            name: known.get(name, "absent") for name in rows
        }
        assert {name for name, row in rows.items() if row.experimental} == {
            name for name in rows if name not in always
        }
    offered = {name for kind in Kind for name in messages(full, kind)}
    unexplained = {
        name
        for name in offered - set(BY_NAME)
        if not any(name.startswith(prefix) for prefix in WHY_NOT)
    }
    assert not unexplained
    assert set(OPT_OUT) <= set(messages(full, Kind.NOTIFICATION))


@pytest.mark.codex
def test_committed_types_are_what_the_pinned_binary_gives(codex_binary: Path) -> None:
    """Ours: a new binary shows as a difference in review."""
    command = [
        sys.executable,
        str(ROOT / "scripts" / "generate-protocol"),
        "--check",
        str(codex_binary),
    ]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.codex
def test_every_kind_of_item_of_the_pinned_binary_is_played_through_a_turn(
    codex_binary: Path, scratch: Path
) -> None:
    """Spec G-08, G-09: the list that `test_turn_mirror` plays is the schema's."""
    definitions = dump(codex_binary, scratch, "--experimental")["ServerNotification"]["definitions"]
    kinds = {one["properties"]["type"]["enum"][0] for one in definitions["ThreadItem"]["oneOf"]}
    played = {fields["type"] for fields in ITEMS}
    assert kinds - played == {"userMessage", "agentMessage"}, "these two every turn has"
