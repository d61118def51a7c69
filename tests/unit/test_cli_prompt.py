"""A message made of the command line, files and standard input."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from treadle.cli.prompt import MAX_BYTES, message_of
from treadle.model.errors import MessageTooLarge, UsageError


def message(
    text: str | None = None, *files: Path, piped: bytes | None = None
) -> tuple[str, list[str]]:
    said: list[str] = []
    stdin = io.BytesIO(piped) if piped is not None else None
    return message_of(text, files, stdin, said.append), said


@pytest.mark.parametrize(
    ("text", "piped", "expected"),
    [
        ("hello", None, "hello"),
        ("hello", b"", "hello"),
        ("hello", b" \n", "hello"),
        ("hello", b"more\n", "hello\n\nmore"),
        ("-", b"all of it\n", "all of it"),
        (None, b"all of it\n", "all of it"),
        (None, b"\xef\xbb\xbfwith a mark", "with a mark"),
        (None, None, ""),
        (None, b"", ""),
    ],
)
def test_what_is_piped_in_comes_behind_the_text(
    text: str | None, piped: bytes | None, expected: str
) -> None:
    """Ours: stdin is appended; '-' stands for it."""
    assert message(text, piped=piped) == (expected, [])


def test_dash_at_a_terminal_is_refused() -> None:
    """Ours: nobody should sit before a program that waits in silence."""
    with pytest.raises(UsageError, match="terminal"):
        message("-")


def test_input_that_is_no_utf_8_is_read_and_said() -> None:
    """RS12: the text that is sent is valid."""
    text, said = message(piped=b"caf\xe9")
    assert text == "caf\ufffd"
    assert said == ["treadle: standard input is not UTF-8; what could not be read stands as \ufffd"]


def test_input_over_the_limit_is_refused_without_being_read_to_its_end() -> None:
    """Decision 25: nothing of a person's own text is ever cut."""
    source = io.BytesIO(b"x" * (MAX_BYTES + 1000))
    with pytest.raises(MessageTooLarge):
        message_of(None, (), source, lambda _: None)
    assert source.tell() == MAX_BYTES


def test_file_comes_with_its_name_in_a_fence_that_its_text_cannot_close(tmp_path: Path) -> None:
    """Ours."""
    file = tmp_path / "notes.md"
    file.write_text("before\n```\ninside\n```\n", encoding="utf-8")

    text, _ = message("look", file, piped=b"and this")

    assert text == "look\n\nFile notes.md:\n````\nbefore\n```\ninside\n```\n````\n\nand this"


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a\x00b"])
def test_file_that_is_no_text_is_refused(tmp_path: Path, content: bytes) -> None:
    """Ours."""
    file = tmp_path / "picture.png"
    file.write_bytes(content)
    with pytest.raises(UsageError, match="not UTF-8 text"):
        message("look", file)


def test_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Ours."""
    with pytest.raises(UsageError, match="nowhere"):
        message("look", tmp_path / "nowhere")
