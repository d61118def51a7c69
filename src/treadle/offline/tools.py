"""Read which tools a request offers, in the classic form and in code mode.

Pure. Knows nothing of when a tool is wanted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from treadle.model.json import JsonObject, JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """One argument of a tool."""

    name: str
    kind: str
    """JSON schema type, `string` if none is given."""

    required: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """A tool that may be called."""

    name: str
    namespace: str | None
    path: str
    """The name that code mode gives it: `mem__recall` for tool `recall` of namespace `mem`."""

    properties: tuple[Property, ...]
    """Required ones first, else in the order of the schema."""

    scripted: bool
    """Whether it is reached by a script (code mode), not by a call of its own."""

    freeform: bool = False
    """Whether its input is one text instead of an object."""

    def is_called(self, name: str) -> bool:
        """Say whether a person who writes this name means this tool."""
        wanted = re.sub(r"[^0-9a-z]+", "_", name.lower()).strip("_")
        full = re.sub(r"[^0-9a-z]+", "_", self.path.lower()).strip("_")
        return wanted in {full, re.sub(r"[^0-9a-z]+", "_", self.name.lower()).strip("_")}


_HEADING = re.compile(r"\A`([^`\n]+)`(?: \(`([^`\n]+)`\))?\n")
_DECLARED = re.compile(
    r"(?ms)^declare const tools: \{ (\w+)\((input: string|args: \{(.*?)\})\): Promise<"
)
_ARGUMENT = re.compile(r"(?m)(?:^  |\A\s*|; )([A-Za-z_$][\w$]*)(\?)?: ([^;\n]+)")


def offered_tools(tools: Sequence[JsonValue], items: Sequence[JsonObject]) -> tuple[Offered, ...]:
    """List the callable tools, in the order in which they are offered.

    In code mode only the tools that scripts reach are listed; they stand in the description of
    `exec`. Hosted tools (web search) are left out. Source: facts section 2.
    """
    direct = [tool for listed in tools for tool in _functions(listed, None)]
    nested: list[Offered] = []
    for item in items:
        if item.get("type") == "additional_tools":
            for listed in _sequence(item.get("tools")):
                nested.extend(_nested(listed))
    return tuple(nested or direct)


def _functions(tool: JsonValue, namespace: str | None) -> Iterator[Offered]:
    if not isinstance(tool, Mapping):
        return
    name = tool.get("name")
    match tool.get("type"):
        case "namespace":
            for inner in _sequence(tool.get("tools")):
                yield from _functions(inner, str(name))
        case "function" | "custom" as kind if isinstance(name, str):
            yield Offered(
                name=name,
                namespace=namespace,
                path=f"{namespace}__{name}" if namespace else name,
                properties=_properties(tool.get("parameters")),
                scripted=False,
                freeform=kind == "custom",
            )


def _nested(tool: JsonValue) -> Iterator[Offered]:
    if not isinstance(tool, Mapping):
        return
    for inner in _sequence(tool.get("tools")):
        yield from _nested(inner)
    if tool.get("type") == "custom" and tool.get("name") == "exec":
        yield from _described(str(tool.get("description") or ""))


def _described(description: str) -> Iterator[Offered]:
    for section in description.split("\n### ")[1:]:
        heading, found = _HEADING.match(section), _DECLARED.search(section)
        if heading is not None and found is not None:
            yield Offered(
                name=heading[2] or heading[1],
                namespace=None,
                path=found[1],
                properties=_declared(found[3] or ""),
                scripted=True,
                freeform=found[2].startswith("input"),
            )


def _declared(arguments: str) -> tuple[Property, ...]:
    found = [
        Property(name=name, kind=kind.strip(" ;}"), required=not optional)
        for name, optional, kind in _ARGUMENT.findall(arguments)
    ]
    return tuple(sorted(found, key=lambda p: not p.required))


def _properties(schema: JsonValue) -> tuple[Property, ...]:
    if not isinstance(schema, Mapping):
        return ()
    fields, required = schema.get("properties"), _sequence(schema.get("required"))
    if not isinstance(fields, Mapping):
        return ()
    found = [
        Property(name=name, kind=_kind(field), required=name in required)
        for name, field in fields.items()
    ]
    return tuple(sorted(found, key=lambda p: not p.required))


def _kind(field: JsonValue) -> str:
    kind = field.get("type") if isinstance(field, Mapping) else None
    return kind if isinstance(kind, str) else "string"


def _sequence(value: JsonValue) -> Sequence[JsonValue]:
    return value if isinstance(value, list | tuple) else ()
