"""What reaches the terminal: safe, in colour only where it may be, in symbols that it can show."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.cli.failure import Failure, show_failure
from treadle.cli.output import Output, clean


def output(
    *, unicode: bool = True, colour: bool = False
) -> tuple[Output, io.StringIO, io.StringIO]:
    out, err = io.StringIO(), io.StringIO()
    made = Output(out=out, err=err, unicode=unicode, out_colour=colour, err_colour=colour)
    return made, out, err


HOSTILE = "a\x1b]52;c;QQ==\x07b\x1b[2Jc\x9bd\u202ee\rf\x00g"


def test_foreign_text_reaches_the_terminal_without_control_characters() -> None:
    r"""RS51: OSC 52, CSI, C1, bidi and `\r` become visible."""
    made, out, err = output()
    made.print(HOSTILE)
    made.stream(HOSTILE)
    made.say(HOSTILE)
    made.mark("✓", HOSTILE)
    made.heading(HOSTILE)
    made.table([(HOSTILE, HOSTILE)])
    shown = out.getvalue() + err.getvalue()

    assert not [c for c in shown if (ord(c) < 0x20 and c not in "\n\t") or c in "\x7f\x9b\u202e"]
    assert r"\x1b]52" in shown


@given(st.text())
def test_clean_text_has_nothing_below_a_blank_but_line_feed_and_tab(text: str) -> None:
    """RS51."""
    assert not [c for c in clean(text) if ord(c) < 0x20 and c not in "\n\t"]


@given(st.text())
def test_json_line_is_one_line_that_reads_back(text: str) -> None:
    """Ours: scripts read it."""
    made, out, _ = output(unicode=False)
    made.json({"text": text})
    line = out.getvalue()

    assert line.endswith("\n")
    assert line.isascii()
    assert line.count("\n") == 1
    assert json.loads(line) == {"text": text}


def test_symbols_become_words_where_the_stream_takes_no_utf_8() -> None:
    """Ours: a terminal with another encoding."""
    made, out, err = output(unicode=False)
    made.mark("✓", "done · 2 → 3")
    made.ours("› hello")

    assert err.getvalue() == "ok done - 2 -> 3\n"
    assert out.getvalue() == "> hello\n"


def test_colour_is_on_the_symbol_alone_and_only_if_asked_for() -> None:
    """Ours: meaning never by colour alone."""
    plain, _, plain_err = output()
    plain.mark("✗", "failed")
    coloured, _, coloured_err = output(colour=True)
    coloured.mark("✗", "failed")

    assert plain_err.getvalue() == "✗ failed\n"
    assert coloured_err.getvalue() == "\x1b[31m✗\x1b[0m failed\n"


FAILURE = Failure(
    code="codex_not_signed_in",
    message="Codex is not signed in.",
    kept="your message stands in session main",
    next_step='run "treadle login"',
)


def test_failure_says_what_happened_what_was_kept_and_what_to_do() -> None:
    """Ours: three lines, the code last."""
    made, out, err = output()
    show_failure(made, FAILURE, as_json=False)

    assert out.getvalue() == ""
    assert err.getvalue() == (
        "treadle: Codex is not signed in.\n"
        "  Kept: your message stands in session main\n"
        '  Next: run "treadle login".   [codex_not_signed_in] exit 4\n'
    )


def test_failure_as_json_is_one_object_on_stdout() -> None:
    """Ours."""
    made, out, err = output()
    show_failure(made, FAILURE, as_json=True)

    assert err.getvalue() == ""
    assert json.loads(out.getvalue()) == {
        "error": {
            "code": "codex_not_signed_in",
            "message": "Codex is not signed in.",
            "next_step": 'run "treadle login"',
            "retry": False,
        }
    }


@pytest.mark.parametrize("rows", [[], [("a", "bb"), ("ccc", "d")]])
def test_table_has_columns_as_wide_as_their_widest_cell(rows: list[tuple[str, str]]) -> None:
    """Ours."""
    made, out, _ = output()
    made.table(rows)
    assert out.getvalue() == ("a    bb\nccc  d\n" if rows else "")
