"""Words: what of a message is searched, how text becomes words, and what a hit shows.

Pure; knows nothing of tables. One index serves every script: text is folded (composed, without case
and without accents), and each character of a script that is written without blanks, as well as each
pictograph, becomes a word of its own. A query goes the same way and its runs become phrases, so any
substring of Chinese, Japanese, Korean or Thai text is found, down to one character, by the same
table that finds words elsewhere. Unquoted words of three or more characters also find the words
that begin with them; quoted phrases are taken as they stand. Substrings inside words of other
scripts are not found: an index over all trigrams would be three times as large.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from treadle.model.json import JsonValue
from treadle.model.message import Message, parts_of

MAX_INDEXED_CHARS: Final = 1 << 20
"""Characters of one entry that are searched: as much as a person may say at once (decision 25)."""

SNIPPET_CHARS: Final = 240
"""Characters that a hit shows at most, the ellipses not counted."""

_LEAD: Final = 60
_MIN_PREFIX: Final = 3

_UNSEGMENTED: Final = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0x2FDF),  # radicals
    (0x3005, 0x3007),  # ideographic marks
    (0x3040, 0x312F),  # kana, bopomofo
    (0x31A0, 0x31FF),  # bopomofo, kana extensions
    (0x3400, 0x4DBF),  # Han
    (0x4E00, 0x9FFF),
    (0xA960, 0xA97F),  # Hangul: written with blanks, but its particles stick to the words
    (0xAC00, 0xD7FF),
    (0xF900, 0xFAFF),  # Han, compatibility
    (0x1B000, 0x1B16F),  # kana, supplements
    (0x20000, 0x3FFFF),  # Han, extensions
)
_TERM: Final = re.compile(r'"([^"]*)(?:"|$)|([^\s"]+)')
_DROPPED: Final = frozenset("\u200b\u200c\u200d\u2060\ufeff\u00ad\ufe0e\ufe0f")


class _Fold(dict[int, str]):
    """Maps a character to what is compared, made on demand; for `str.translate`."""

    def __missing__(self, point: int) -> str:
        char = chr(point)
        if char in _DROPPED:
            folded = ""
        else:
            bare = (c for c in unicodedata.normalize("NFKD", char) if not 0x300 <= ord(c) <= 0x36F)
            folded = unicodedata.normalize("NFKC", "".join(bare).casefold())
        self[point] = folded
        return folded


class _Apart(_Fold):
    """Maps a character to what is compared, set apart where it is a word of its own."""

    def __missing__(self, point: int) -> str:
        folded = super().__missing__(point)
        if _stands_alone(point):
            folded = f" {folded} "
        self[point] = folded
        return folded


class _Indexed(_Fold):
    """Maps a character to what is indexed."""

    def __missing__(self, point: int) -> str:
        folded = super().__missing__(point)
        if _stands_alone(point):
            folded = f" {_index_word(folded)} "
        self[point] = folded
        return folded


_FOLD: Final = _Fold()
_APART: Final = _Apart()
_INDEXED: Final = _Indexed()
"""Caches of pure functions: they grow with the characters seen, 1.1 million at most."""


def _index_word(word: str) -> str:
    """Spell pictographs and rare ideographs by number: the index's tables of characters are old."""
    if len(word) == 1 and (ord(word) > 0xFFFF or unicodedata.category(word) == "So"):
        return f"u{ord(word):x}"
    return word


def _stands_alone(point: int) -> bool:
    return (
        any(first <= point <= last for first, last in _UNSEGMENTED)
        or unicodedata.category(chr(point)) == "So"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One thing that must occur: words in a row, the last one perhaps only begun."""

    words: tuple[str, ...]
    prefix: bool


def words_of(message: Message) -> str:
    """Return the text of a message that is searched: texts, calls with arguments, results.

    Thinking and images are left out; parts are joined by LF; at most `MAX_INDEXED_CHARS`.
    """
    found: list[str] = []
    room = MAX_INDEXED_CHARS
    for text in _texts(message):
        if room <= 0:
            break
        found.append(text[:room])
        room -= len(text) + 1
    return "\n".join(found)


def _texts(message: Message) -> Iterator[str]:
    for part in parts_of(message):
        match part.get("type"):
            case "text":
                yield from _strings(part.get("text"))
            case "toolCall" | "tool_use":
                yield from _strings(part.get("name"))
                yield from _strings(part.get("arguments", part.get("input")))
            case "toolResult" | "tool_result":
                yield from _strings(part.get("toolName"))
                yield from _result_texts(part.get("content"))


def _result_texts(content: JsonValue) -> Iterator[str]:
    if isinstance(content, Sequence) and not isinstance(content, str):
        for part in content:
            if isinstance(part, Mapping) and part.get("type") == "text":
                yield from _strings(part.get("text"))
            elif isinstance(part, str):
                yield part
    else:
        yield from _strings(content)


def _strings(value: JsonValue) -> Iterator[str]:
    """Yield all texts in the value, in order, with the keys of objects; no recursion."""
    waiting: list[JsonValue] = [value]
    while waiting:
        match waiting.pop():
            case str() as text:
                yield text
            case Mapping() as members:
                for key in reversed(list(members)):
                    waiting += (members[key], key)
            case list() | tuple() as items:
                waiting.extend(reversed(items))
            case None | bool():
                pass
            case number:
                yield str(number)


def indexed_words(text: str) -> str:
    """Return the text as it goes into the index."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", text).translate(_INDEXED)


def terms(query: str) -> tuple[Term, ...]:
    """Return what a query asks for; nothing in it is an operator but double quotes.

    Terms without a letter, digit or pictograph ask for nothing and are left out.
    """
    found = []
    for phrase, word in _TERM.findall(query):
        text = unicodedata.normalize("NFC", phrase or word)
        words = tuple(_tokens(text.translate(_APART)))
        if words:
            begun = bool(word) and len(words[-1]) >= _MIN_PREFIX
            found.append(Term(words=words, prefix=begun))
    return tuple(found)


def match_expression(wanted: Sequence[Term]) -> str:
    """Return the terms in the index's own query language; all must occur."""
    return " AND ".join(
        '"' + " ".join(map(_index_word, term.words)) + '"' + ("*" if term.prefix else "")
        for term in wanted
    )


def _tokens(text: str) -> list[str]:
    """Part folded text as the index's tokenizer does (letters, numbers, marks, pictographs)."""
    return "".join(c if _is_word_char(c) else " " for c in text).split()


def _is_word_char(char: str) -> bool:
    category = unicodedata.category(char)
    return category[0] in "LNM" or category in {"Co", "So"}


def snippet(text: str, wanted: Sequence[Term]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return a piece of the text round the first match, and where in the piece matches stand.

    The piece is plain text on one line, composed (NFC). Offsets count characters, `[start, stop)`,
    in order, without overlap.
    """
    text = unicodedata.normalize("NFC", text)
    spans = _spans(text, wanted)
    start = max(0, spans[0][0] - _LEAD) if spans else 0
    stop = min(len(text), start + SNIPPET_CHARS)
    before, after = "…" if start else "", "…" if stop < len(text) else ""
    shift = len(before) - start
    piece = re.sub(r"\s", " ", text[start:stop])
    matches = tuple((a + shift, b + shift) for a, b in spans if b <= stop)
    return f"{before}{piece}{after}", matches


def _spans(text: str, wanted: Sequence[Term]) -> list[tuple[int, int]]:
    """Return where terms stand in the composed text, in order, without overlap."""
    folded, origin = _folded_with_origin(text)
    found = sorted(
        (match.start(), match.end())
        for pattern in map(_pattern, wanted)
        for match in pattern.finditer(folded)
    )
    spans: list[tuple[int, int]] = []
    for start, stop in found:
        first = start if origin is None else origin[start]
        last = stop if origin is None else origin[stop - 1] + 1
        if not spans or first >= spans[-1][1]:
            spans.append((first, last))
    return spans


def _folded_with_origin(text: str) -> tuple[str, list[int] | None]:
    """Return the folded text, and for each of its characters the index of where it came from.

    No indexes where both have the same length character by character.
    """
    if text.isascii():
        return text.lower(), None
    pieces = [_FOLD[ord(char)] for char in text]
    origin: list[int] = []
    for index, piece in enumerate(pieces):
        origin.extend([index] * len(piece))
    return "".join(pieces), origin


def _pattern(term: Term) -> re.Pattern[str]:
    gap = r"[\W_]*?"
    body = gap.join(re.escape(word) for word in term.words)
    first, last = term.words[0], term.words[-1]
    before = "" if _stands_alone(ord(first[0])) else r"(?<![^\W_])"
    after = r"[^\W_]*" if term.prefix else r"(?![^\W_])"
    if _stands_alone(ord(last[-1])):
        after = ""
    return re.compile(before + body + after)
