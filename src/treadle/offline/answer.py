"""Decide what the offline model answers, from the rendered input of one request and nothing else.

Pure and deterministic: equal inputs (ids, headers and metadata aside) give equal answers. Knows
nothing of HTTP, streaming or usage.

| the request | the answer |
|---|---|
| a compaction | a summary made of what was stated |
| asks for an offered tool, not called yet | the call; a script in code mode |
| asks for a tool, and its output has come | the output |
| `say X` | X |
| a question | the newest fitting statement of the context, quoted; or that there is none |
| a statement | that it was noted |
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from treadle.model.json import JsonObject, JsonValue
from treadle.offline.asks import Ask, Missing, find_asks
from treadle.offline.reading import Made, Reading, Source, pack_summary, read_request
from treadle.offline.recall import (
    NOTHING,
    Statement,
    best_statement,
    cite,
    content_words,
    is_question,
    sentences,
    shortened,
    statements,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """A message."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFunction:
    """A `function_call`."""

    name: str
    namespace: str | None
    arguments: str
    """A JSON object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCustom:
    """A `custom_tool_call`: free-form input, or a script for code mode's `exec`."""

    name: str
    input: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Compact:
    """A `compaction` item."""

    packed: str


Answer = Say | CallFunction | CallCustom | Compact

SUMMARY_LINES = 60
"""Statements that a summary keeps; the newest."""

LONGEST_OUTPUT = 2_000
"""Characters of a tool's output that an answer repeats."""

_LISTED = 5
_SAY = re.compile(
    r"(?is)\A\s*(?:please\s+)?(?:say|repeat|echo|(?:reply|answer|respond) with)"
    r"(?:\s+(?:exactly|only|just|the words?))*\s*:?\s+(.+?)\s*\Z"
)
_TITLE = re.compile(
    r"(?i)\b(?:title|headline)\b.{0,80}\b(?:conversation|chat|session|thread|task)\b"
)
_GREETING = re.compile(
    r"(?i)\A\W*(?:hi|hello|hey|hallo|good (?:morning|afternoon|evening)|thanks?|thank you)"
    r"(?: there| again| a lot| very much)?\W*\Z"
)
_ALL = re.compile(r"(?i)\b(?:what|everything|all|which|list|summar)")

_WELCOME = "Hello. I am the offline model: I answer only from what is in my context."
_THANKS = "You are welcome."


def decide(body: JsonObject) -> Answer:
    """Answer one Responses request body."""
    reading = read_request(body)
    if reading.compaction is not None:
        summary = summarize(reading)
        return (
            Compact(packed=pack_summary(summary))
            if reading.compaction == "item"
            else Say(text=summary)
        )
    asked = find_asks(reading.request, reading.offered)
    ask = _next_ask(asked, reading.made)
    if ask is not None:
        return _call(ask)
    text = _from_outputs(reading.made) or _missing(asked) or _reply(reading)
    return Say(text=_shaped(text, reading.schema) if reading.schema is not None else text)


def summarize(reading: Reading) -> str:
    """Summarise by extraction: what was stated, oldest first, each once, the newest kept."""
    spoken = [p for p in reading.passages if p.source not in _UNSPOKEN]
    kept: dict[str, Statement] = {}
    for statement in statements(spoken):
        kept.pop(statement.text, None)
        kept[statement.text] = statement
    lines = [f"- {_SPEAKERS[s.source]}: {shortened(s.text)}" for s in kept.values()]
    if not lines:
        return "Nothing has been stated so far."
    return "\n".join(["Summary of what was stated, oldest first:", *lines[-SUMMARY_LINES:]])


_UNSPOKEN = frozenset({Source.INSTRUCTIONS, Source.DOCUMENT, Source.ASSISTANT})
_SPEAKERS = {
    Source.USER: "The user said",
    Source.TOOL: "A tool said",
    Source.SUMMARY: "Stated earlier",  # by whom was lost when it was summarized
}


def _next_ask(asked: Sequence[Ask | Missing], made: Sequence[Made]) -> Ask | None:
    calls = Counter(call.path for call in made)
    for ask in asked:
        if isinstance(ask, Ask):
            if calls[ask.tool.path] == 0:
                return ask
            calls[ask.tool.path] -= 1
    return None


def _call(ask: Ask) -> Answer:
    tool = ask.tool
    if tool.scripted:
        argument = json.dumps(ask.arguments, ensure_ascii=False)
        script = f"const r = await tools.{tool.path}({argument});\n{_SHOW_RESULT}"
        return CallCustom(name="exec", input=script)
    if isinstance(ask.arguments, str):
        return CallCustom(name=tool.name, input=ask.arguments)
    arguments = json.dumps(ask.arguments, ensure_ascii=False)
    return CallFunction(name=tool.name, namespace=tool.namespace, arguments=arguments)


_SHOW_RESULT = 'text(typeof r === "object" && r !== null && "output" in r ? r.output : r);'


def _from_outputs(made: Sequence[Made]) -> str:
    parts = [
        f"The tool {call.path.replace('__', '.') or 'result'} returned: "
        f"{shortened(call.output, LONGEST_OUTPUT) or '(nothing)'}"
        for call in made
        if call.output is not None
    ]
    return "\n".join(parts)


def _missing(asked: Sequence[Ask | Missing]) -> str:
    names = [ask.name for ask in asked if isinstance(ask, Missing)]
    return f"No tool named {', '.join(names)} is offered to me." if names else ""


def _reply(reading: Reading) -> str:
    request = reading.request
    if not request:
        return "I was asked nothing."
    if _GREETING.match(request):
        return _THANKS if "thank" in request.lower() else _WELCOME
    if said := _SAY.match(request):
        return said[1].strip('"“”')
    if _TITLE.search(request):
        return _title(reading)
    questions = [sentence for sentence in sentences(request) if is_question(sentence)]
    if questions:
        known = list(statements(reading.passages))
        return "\n".join(_answered(question, known) for question in questions)
    return f"Noted: {shortened(request)}"


def _answered(question: str, known: Sequence[Statement]) -> str:
    if not content_words(question):
        own = [s for s in known if s.source in {Source.USER, Source.SUMMARY}]
        if own and _ALL.search(question):
            return "\n".join(cite(statement) for statement in own[-_LISTED:])
        return NOTHING
    found = best_statement(question, known)
    return cite(found) if found is not None else NOTHING


def _title(reading: Reading) -> str:
    own = (p.text for p in reading.passages if p.source is Source.USER)
    words = next(own, reading.request).split()
    return " ".join(words[:6])


def _shaped(text: str, schema: JsonObject) -> str:
    """Write JSON that fits the schema, with the answer as its texts."""
    return json.dumps(_instance(text, schema), ensure_ascii=False)


def _instance(text: str, schema: JsonValue) -> JsonValue:
    if not isinstance(schema, Mapping):
        return text
    options = schema.get("enum")
    if isinstance(options, list | tuple) and options:
        return next((o for o in options if isinstance(o, str) and o in text), options[0])
    if "const" in schema:
        return schema["const"]
    kind = schema.get("type")
    match kind[0] if isinstance(kind, list | tuple) and kind else kind:
        case "object":
            fields = schema.get("properties")
            known = fields if isinstance(fields, Mapping) else {}
            return {name: _instance(text, field) for name, field in known.items()}
        case "array":
            return []
        case "integer" | "number":
            found = re.search(r"-?\d+", text)
            return int(found[0]) if found else 0
        case "boolean":
            return text != NOTHING
        case "null":
            return None
        case _:
            return text
