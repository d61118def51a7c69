"""The list of what a backup holds: it comes back as it was written, and nothing else passes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.backup.manifest import BackedFile, Manifest, parse_manifest
from treadle.model.errors import BackupInvalid, MigrationNeeded

MANIFEST = Manifest(
    treadle="0.3.0",
    schema=2,
    made_at=1.5,
    state="/state",
    files=(
        BackedFile(path="treadle.sqlite3", size_bytes=1, sha256="a"),
        BackedFile(
            path="agents/main/codex/sessions/ü.jsonl", size_bytes=0, sha256="b", stable=False
        ),
    ),
    left_out=("engines/x/socket",),
)


def document(**changes: Any) -> str:
    return json.dumps({**json.loads(MANIFEST.to_text()), **changes})


def file(path: object) -> list[dict[str, object]]:
    return [{"path": path, "size": 1, "sha256": "a", "stable": True}]


def test_a_manifest_comes_back_as_it_was_written() -> None:
    """Ours."""
    assert parse_manifest(MANIFEST.to_text()) == MANIFEST


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "nonsense",
        document(format="zip"),
        document(version=0),
        document(version="1"),
        document(version=True),
        document(files="no"),
        document(files=[1]),
        document(files=[{"path": "a"}]),
        document(schema=-1),
        document(made_at="now"),
        document(state=""),
        document(files=file("a") * 2),
        document(files=[*file("a"), *file("a/b")]),
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    """Ours: a clear error, whatever it is."""
    with pytest.raises(BackupInvalid):
        parse_manifest(text)


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "../x", "a/../b", "a/..", ".", "..", "", "a//b", "a/", "a\\..\\b", "a\0b", 3],
)
def test_no_path_leads_out_of_the_state_directory(path: object) -> None:
    """RS53: absolute paths and `..` are refused before anything is copied."""
    with pytest.raises(BackupInvalid):
        parse_manifest(document(files=file(path)))


def test_a_newer_form_is_refused_as_newer() -> None:
    """INV-21."""
    with pytest.raises(MigrationNeeded):
        parse_manifest(document(version=2))


@given(st.text(max_size=200))
def test_no_text_raises_anything_else(text: str) -> None:
    """Ours."""
    with pytest.raises(BackupInvalid):
        parse_manifest(text)
