"""Read a Responses request as its model sees it: who said what, what is asked now, what is offered.

Pure. Knows nothing of how an answer is found. Everything here is told by the rendered input alone:
no header, id or metadata is looked at.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from treadle.model.json import JsonObject, JsonValue
from treadle.offline.tools import Offered, offered_tools
from treadle.protocol.responses import item_kind, item_role


class Source(StrEnum):
    """Who a passage of the context comes from."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    SUMMARY = "summary"
    INSTRUCTIONS = "instructions"
    DOCUMENT = "document"


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """One text of the context, in the order of the input."""

    source: Source
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A tool call that stands after the current request."""

    path: str
    """The tool's name as `Offered.path` writes it."""

    output: str | None
    """What the tool returned, without Codex's frame; None if nothing came yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A request, read."""

    request: str
    """What the person asks now; empty if nothing is asked."""

    passages: tuple[Passage, ...]
    """Everything said before the current request, oldest first."""

    made: tuple[Made, ...]
    """Tool calls since the current request, oldest first."""

    offered: tuple[Offered, ...]
    """The tools that may be called."""

    compaction: str | None
    """`text` if a summary is asked for as a message, `item` if as a compaction item."""

    schema: JsonObject | None
    """The JSON schema that the answer's text has to satisfy."""


COMPACTION_PROMPT = "You are performing a CONTEXT CHECKPOINT COMPACTION"
"""How Codex's own compaction request begins. Source: facts section 5."""

_COMPACTED = "treadle-offline-1:"
_SUMMARY_HEAD = re.compile(
    r"(?i)\A\W{0,3}(?:another language model started to solve"
    r"|notes? (?:about|on|from) earlier messages\b[^\n]*\bnot a request\b)"
)
_WRAPPED = re.compile(r"\A<([a-z][a-z0-9]*(?:[_-][a-z0-9_-]+| instructions)?)(?: [^>]*)?>")
_CODEX_TAGS = frozenset({
    "environment_context",
    "turn_aborted",
    "skill",
    "skills_instructions",
    "apps_instructions",
    "plugins_instructions",
    "permissions instructions",
    "collaboration_mode",
    "multi_agent_role",
    "multi_agent_mode",
    "model_switch",
    "tools",
})
_BLOCK = re.compile(r"(?s)<conversation_context>\n(.*?)\n?</conversation_context>")
_REQUEST_LINE = re.compile(r"(?m)^Current user request:[ \t]*$\n?")
_LABEL = re.compile(r"(?m)(?:\A|(?<=\n\n))\[([A-Za-z][A-Za-z_]{0,40})\]$\n?")
_BASE_LIMIT = 4_000
_EXEC_OUTPUT = re.compile(r"(?ms)\A(?:Chunk ID|Wall time|Process|Exit code).*?^Output:\n?(.*)\Z")
_SCRIPT_HEAD = re.compile(
    r"\AScript (?:completed|failed|running)\b[^\n]*(?:\n(?:Wall time|Output)[^\n]*)*\n*"
)
_SCRIPT_TOOL = re.compile(r"\btools\.(\w+)\(")

_LABELS = {
    "user": Source.USER,
    "assistant": Source.ASSISTANT,
    "toolResult": Source.TOOL,
    "tool": Source.TOOL,
    "compactionSummary": Source.SUMMARY,
    "branchSummary": Source.SUMMARY,
    "summary": Source.SUMMARY,
}


def read_request(body: JsonObject) -> Reading:
    """Read the body of `POST /responses`. Unknown items and wrong shapes are passed over."""
    items = [item for item in _list(body.get("input")) if isinstance(item, Mapping)]
    at = _index_of_request(items)
    request, passages = "", list(_instructions(items[:at]))
    for item in items[:at]:
        passages.extend(_passages(item))
    if at < len(items):
        *before, asked = _user_passages(_texts(items[at]))
        passages.extend(before)
        request = asked.text
    return Reading(
        request=request.strip(),
        passages=tuple(passages),
        made=tuple(_made(items[at + 1 :])),
        offered=offered_tools(_list(body.get("tools")), items),
        compaction=_compaction(items, request),
        schema=_schema(body),
    )


def pack_summary(summary: str) -> str:
    """Write a summary as the opaque content of a compaction item; `read_request` reads it back."""
    return _COMPACTED + base64.b64encode(summary.encode("utf-8", "replace")).decode()


def _unpack_summary(packed: str) -> str:
    try:
        raw = base64.b64decode(packed.removeprefix(_COMPACTED), validate=True)
    except (binascii.Error, ValueError):
        return ""
    return raw.decode("utf-8", "replace") if packed.startswith(_COMPACTED) else ""


def _list(value: JsonValue) -> Sequence[JsonValue]:
    return value if isinstance(value, list | tuple) else ()


def _index_of_request(items: Sequence[JsonObject]) -> int:
    """Return where the current request stands; the length of the list if nothing is asked."""
    if items and item_kind(items[-1]) == "compaction_trigger":
        return len(items)
    for at in range(len(items) - 1, -1, -1):
        item = items[at]
        if item_role(item) == "assistant":
            return len(items)
        if _is_user(item) and any(p.source is Source.USER for p in _user_passages(_texts(item))):
            return at
    return len(items)


def _is_user(item: JsonObject) -> bool:
    return item_role(item) == "user"


def _texts(item: JsonObject) -> list[str]:
    content = item.get("content")
    if isinstance(content, str):
        return [content]
    parts = [part for part in _list(content) if isinstance(part, Mapping)]
    return [text for part in parts if isinstance(text := part.get("text"), str)]


def _passages(item: JsonObject) -> Iterator[Passage]:
    match item_kind(item):
        case "message" if item.get("role") == "user":
            yield from _user_passages(_texts(item))
        case "message" if item.get("role") == "assistant":
            yield Passage(source=Source.ASSISTANT, text="\n".join(_texts(item)))
        case "function_call_output" | "custom_tool_call_output":
            yield Passage(source=Source.TOOL, text=_output(item))
        case "compaction":
            text = _unpack_summary(str(item.get("encrypted_content") or ""))
            yield Passage(source=Source.SUMMARY, text=text)
        case _:
            return


def _user_passages(texts: Sequence[str]) -> list[Passage]:
    """Part a user-role message; what the person says now comes last, if the message holds it."""
    quoted: list[Passage] = []
    own: list[str] = []
    for text in texts:
        source = _wrapper_source(text)
        if source is not None:
            quoted.append(Passage(source=source, text=_unwrapped(text)))
            continue
        before, request = _projected(text)
        quoted.extend(before)
        own.append(request)
    said = "\n".join(part for part in own if part.strip())
    own_passage = [Passage(source=Source.USER, text=said)] if said else []
    return [p for p in quoted if p.text.strip()] + own_passage


def _wrapper_source(text: str) -> Source | None:
    """Say what a user-role text is if it is not the person speaking."""
    if text.startswith("# AGENTS.md instructions"):
        return Source.DOCUMENT
    if _SUMMARY_HEAD.match(text):
        return Source.SUMMARY
    opened = _WRAPPED.match(text)
    if opened is None or not text.rstrip().endswith(f"</{opened[1]}>"):
        return None
    tag = opened[1]
    if tag == "user_shell_command":
        return Source.TOOL
    if "_" in tag or "-" in tag or tag in _CODEX_TAGS:
        return Source.SUMMARY if "note" in tag or "summar" in tag else Source.DOCUMENT
    return None


def _unwrapped(text: str) -> str:
    opened = _WRAPPED.match(text)
    if opened is not None:
        if opened[1] in _CODEX_TAGS:
            return ""
        inner = text[opened.end() :].strip().removesuffix(f"</{opened[1]}>").strip()
        return _unwrapped(inner) if _SUMMARY_HEAD.match(inner) else inner
    if _SUMMARY_HEAD.match(text):
        return text.partition("\n")[2]
    inside = re.search(r"(?s)<INSTRUCTIONS>(.*)</INSTRUCTIONS>", text)
    return inside[1] if inside else text


def _projected(text: str) -> tuple[list[Passage], str]:
    """Part a prompt that quotes its context (`prompt` projection) into quotations and request."""
    block = _BLOCK.search(text)
    line = _REQUEST_LINE.search(text, block.end() if block else 0)
    quoted = _quoted(block[1]) if block else []
    if line is None:
        return quoted, text[block.end() :] if block else text
    if block is None and text[: line.start()].strip():
        quoted = [Passage(source=Source.DOCUMENT, text=text[: line.start()])]
    return quoted, text[line.end() :]


def _quoted(block: str) -> list[Passage]:
    found = list(_LABEL.finditer(block))
    ends = [label.start() for label in found[1:]] + [len(block)]
    return [
        Passage(
            source=_LABELS.get(label[1], Source.DOCUMENT), text=block[label.end() : end].strip()
        )
        for label, end in zip(found, ends, strict=True)
    ]


def _instructions(items: Sequence[JsonObject]) -> Iterator[Passage]:
    """Yield developer texts but the base instructions, which are long and say nothing of ours."""
    messages = [_texts(item) for item in items if item_role(item) in {"developer", "system"}]
    for number, texts in enumerate(messages):
        for text in texts:
            if number == 0 and (len(messages) > 1 or len(text) > _BASE_LIMIT):
                continue
            yield Passage(source=Source.INSTRUCTIONS, text=_unwrapped(text) if _tag(text) else text)


def _tag(text: str) -> str:
    opened = _WRAPPED.match(text)
    return opened[1] if opened else ""


def _made(items: Sequence[JsonObject]) -> Iterator[Made]:
    outputs: dict[str, list[str]] = {}
    loose: list[str] = []
    for item in items:
        if item_kind(item).endswith("_call_output"):
            call_id = item.get("call_id")
            (outputs.setdefault(str(call_id), []) if call_id else loose).append(_output(item))
    for item in items:
        path = _path_of_call(item)
        if path is not None:
            answers = outputs.get(str(item.get("call_id")))
            yield Made(path=path, output="\n".join(answers) if answers else None)
    for text in loose:
        yield Made(path="", output=text)


def _path_of_call(item: JsonObject) -> str | None:
    name, namespace = str(item.get("name") or ""), item.get("namespace")
    match item_kind(item):
        case "function_call":
            return f"{namespace}__{name}" if namespace else name
        case "custom_tool_call":
            inside = _SCRIPT_TOOL.search(str(item.get("input") or ""))
            return inside[1] if inside and name == "exec" else name
        case _:
            return None


def _output(item: JsonObject) -> str:
    output = item.get("output")
    if isinstance(output, Mapping):
        output = output.get("content") or output.get("output")
    if isinstance(output, str):
        texts = [output]
    else:
        parts = [part for part in _list(output) if isinstance(part, Mapping)]
        texts = [text for part in parts if isinstance(text := part.get("text"), str)]
    bare = [_SCRIPT_HEAD.sub("", text) for text in texts]
    joined = "\n".join(text for text in bare if text.strip())
    framed = _EXEC_OUTPUT.match(joined)
    return (framed[1] if framed else joined).strip()


def _compaction(items: Sequence[JsonObject], request: str) -> str | None:
    if items and item_kind(items[-1]) == "compaction_trigger":
        return "item"
    return "text" if request.lstrip().startswith(COMPACTION_PROMPT) else None


def _schema(body: JsonObject) -> JsonObject | None:
    text = body.get("text")
    wanted = text.get("format") if isinstance(text, Mapping) else None
    schema = wanted.get("schema") if isinstance(wanted, Mapping) else None
    return schema if isinstance(schema, Mapping) else None
