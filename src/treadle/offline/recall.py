"""Find in the context what answers a question, by the words that both share.

Pure. Knows nothing of meaning: a statement fits if it holds at least two thirds of the question's
content words, and of those that hold most the newest wins, so that a correction replaces what it
corrects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from treadle.offline.reading import Passage, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One sentence of the context that states something."""

    source: Source
    text: str
    """Without list marks, without a full stop, without words that only introduce it."""

    order: int
    """Place in the context; newer is greater."""


NOTHING = "Nothing in my context says that."
"""The honest answer when no statement fits."""

_LONGEST_QUOTE = 400

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[.!?][\"”])\s+|\n+|(?<=[。！？])")
_MARK = re.compile(r"^\s*(?:[-*•>#]+|\d+[.)])\s+")
_INTRODUCED = re.compile(
    r"(?i)^(?:please\s+)?(?:remember|noted?|fyi|correction|update|the user said|stated earlier"
    r"|a tool said|the tool \S+ returned|i said earlier|you said|my instructions say"
    r"|a document says|a summary of earlier messages says)\b\s*(?:this\b|that\b)?\s*[:,]?\s*"
)
_SPEAKER = re.compile(r"(?i)^\W?(?:the )?(?:user|assistant|person|tool)\W?\s*:\s*")
_QUOTE = re.compile(r"[“\"]([^\"”]+)[\"”]")
_CITED = re.compile(
    r"(?i)^(?:you said|i said earlier|a tool said|my instructions say|a document says"
    r"|a summary of earlier messages says): "
)
_QUESTION = re.compile(
    r"(?i)^(?:and |so |but |please |ok(?:ay)?,? |hey,? )*"
    r"(?:what|which|who|whom|whose|when|where|why|how|do|does|did|is|are|was|were|am|can|could"
    r"|would|will|should|has|have|tell me|remind me|list|show me)\b"
)
_COPULA = re.compile(r"(?i)\b(?:is|are|was|were|equals|means)\b|[:=]")
_WORD = re.compile(r"[぀-ヿ㐀-鿿가-힣]|[^\W_぀-ヿ㐀-鿿가-힣]+(?:[-_.@/][^\W_]+)*")

_STOP_WORDS = """
    a about again all am an and any are as at be been before but by can could did do does done
    earlier else ever exactly every for from give had has have he her hers him his how i if in into
    is it its just know let list many may me mine more much must my no not now of off ok okay on one
    or our ours out over please recall remember remind said say says shall she should show so some
    tell than that the their them then there these they thing things this those to today told too us
    use was we were what when where which who whom whose why will with would yes you your yours
    我 你 的 是 什 么 吗 呢 了 在 他 她 们 の は が を に か で
"""
_STOP = frozenset(_STOP_WORDS.split())
_SAME = {
    "called": "name",
    "call": "name",
    "calls": "name",
    "named": "name",
    "names": "name",
    "favourite": "favorite",
    "colour": "color",
    "colours": "color",
    "lives": "live",
    "living": "live",
}
_ENDINGS = ("ings", "ing", "ied", "ies", "ed", "es", "s")
_TIMELY = re.compile(
    r"(?i)\b(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|may|june|july"
    r"|august|september|october|november|december|today|tomorrow|yesterday|noon|midnight|\d{1,2}:\d\d"
    r"|\d{4}-\d\d|\d+(?:st|nd|rd|th)?)\b"
)
_NUMBER = re.compile(
    r"(?i)\d|\b(?:no|none|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty)\b"
)
_HINTS = (
    (re.compile(r"(?i)\bwhen\b|\bwhat (?:day|date|time)\b|\bwhich (?:day|date)\b"), _TIMELY),
    (re.compile(r"(?i)\bhow (?:many|much|old|long|far)\b"), _NUMBER),
    (re.compile(r"(?i)\bwhere\b"), re.compile(r"(?i)\b(?:in|at|on|under|near|behind|from)\b|/")),
)


def is_question(sentence: str) -> bool:
    """Say whether a sentence asks for something known."""
    bare = sentence.strip()
    return bare.endswith(("?", "？")) or _QUESTION.match(bare) is not None


def sentences(text: str) -> list[str]:
    """Part a text into sentences; a line always ends one."""
    return [bare for part in _SENTENCE_END.split(text) if (bare := part.strip())]


def content_words(text: str) -> frozenset[str]:
    """Return the words that carry meaning, lower case, endings off, some synonyms made one."""
    words = (word.removesuffix("'s") for word in _WORD.findall(text.lower().replace("’", "'")))
    return frozenset(_stem(word) for word in words if word not in _STOP and len(word) < 200)


def _stem(word: str) -> str:
    if word in _SAME:
        return _SAME[word]
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            return word[: -len(ending)] + ("y" if ending in {"ies", "ied"} else "")
    return word


def statements(passages: Sequence[Passage]) -> Iterator[Statement]:
    """Yield what the context states, oldest first; questions and `NOTHING` are left out."""
    order = 0
    for passage in passages:
        for sentence in sentences(passage.text):
            for text in _stated(passage.source, sentence):
                yield Statement(source=passage.source, text=text, order=order)
                order += 1


def _stated(source: Source, sentence: str) -> Iterator[str]:
    bare = _MARK.sub("", sentence).strip()
    if source is Source.ASSISTANT and _CITED.match(bare):
        for quote in _QUOTE.findall(bare):
            yield quote.strip().rstrip(".")
        return
    if source is Source.SUMMARY:
        bare = _SPEAKER.sub("", _INTRODUCED.sub("", bare))
    if is_question(bare) or bare == NOTHING:
        return
    text = _INTRODUCED.sub("", bare).strip().strip('"“”').rstrip(".").strip()
    if text:
        yield text


def best_statement(question: str, known: Sequence[Statement]) -> Statement | None:
    """Return the statement that fits best; None if none fits.

    Instructions, documents and what the assistant said itself must hold every content word of the
    question; instructions and documents must also *say* something of them (`X is Y`, `X: Y`). A
    question for a place, time or number with a single content word needs a statement that looks
    like one.
    """
    wanted = content_words(question)
    traces = _traces(wanted)
    hint = next((shape for asked, shape in _HINTS if asked.search(question)), None)
    best: tuple[tuple[int, bool, bool, int], Statement] | None = None
    for statement in known:
        lower = statement.text.lower()
        if not any(trace in lower for trace in traces):
            continue  # cheap, and most of a long context ends here
        words = content_words(lower)
        shared = len(wanted & words)
        hinted = hint is not None and hint.search(statement.text) is not None
        if not _fits(statement, wanted, shared) or not words - wanted:
            continue
        if hint is not None and not hinted and len(wanted) == 1:
            continue
        own = statement.source not in {Source.INSTRUCTIONS, Source.DOCUMENT}
        rank = (shared, hinted, own, statement.order)
        if best is None or rank > best[0]:
            best = (rank, statement)
    return _original(best[1], known) if best else None


def _traces(wanted: frozenset[str]) -> tuple[str, ...]:
    """Return texts of which any statement that shares a content word holds at least one."""
    same = [word for word, stem in _SAME.items() if stem in wanted]
    return (*(word.removesuffix("y") if len(word) > 2 else word for word in wanted), *same)


def _fits(statement: Statement, wanted: frozenset[str], shared: int) -> bool:
    match statement.source:
        case Source.INSTRUCTIONS | Source.DOCUMENT:
            subject, said, _ = _split_at_copula(statement.text)
            return bool(said) and wanted <= content_words(subject)
        case Source.ASSISTANT:
            return shared == len(wanted)
        case _:
            return shared > 0 and 3 * shared >= 2 * len(wanted)


def _split_at_copula(text: str) -> tuple[str, str, str]:
    found = _COPULA.search(text)
    return (text[: found.start()], found[0], text[found.end() :]) if found else (text, "", "")


def _original(found: Statement, known: Sequence[Statement]) -> Statement:
    """Prefer the one who said it first-hand to the assistant that repeated it."""
    if found.source is not Source.ASSISTANT:
        return found
    same = (s for s in known if s.text == found.text and s.source is not Source.ASSISTANT)
    return next(same, found)


_CITATIONS = {
    Source.USER: "You said",
    Source.ASSISTANT: "I said earlier",
    Source.TOOL: "A tool said",
    Source.SUMMARY: "A summary of earlier messages says",
    Source.INSTRUCTIONS: "My instructions say",
    Source.DOCUMENT: "A document says",
}


def cite(statement: Statement) -> str:
    """Quote a statement with its source."""
    return f'{_CITATIONS[statement.source]}: "{shortened(statement.text)}"'


def shortened(text: str, limit: int = _LONGEST_QUOTE) -> str:
    """Cut a long quotation."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"
