"""Turn tools into what Codex is told of them, and into the fingerprint of a catalog.

Pure. Knows nothing of who offers a tool. Every tool goes to the top level in the plain function
form; namespaces and deferred loading come with the searchable catalog. Source: spec K-02, K-05,
K-07, F-11, F-12; facts section 4.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from treadle.contract.tool import DynamicTool
from treadle.model.json import JsonObject, JsonValue, canonical
from treadle.model.text import without_surrogates

NAME: Final = re.compile(r"[a-zA-Z0-9_-]+")
"""What the app-server takes as a name."""

MAX_SCHEMA_DEPTH: Final = 64
"""Levels of a schema; the app-server drops a message deeper than 128 without a word (F9)."""

NATIVE_NAMES: Final = frozenset({
    "read", "write", "edit", "apply_patch", "exec", "process", "update_plan", "tool_call",
    "tool_describe", "tool_search", "tool_search_code",
})  # fmt: skip
"""Names that Codex has tools of its own for (spec K-05)."""

_ALIASES: Final = {"bash": "exec", "apply-patch": "apply_patch"}


def normal_name(name: str) -> str:
    """Return a name as the exclusion list compares it (spec K-05)."""
    bare = name.strip().lower()
    return _ALIASES.get(bare, bare)


def fault_of(tool: DynamicTool) -> str | None:
    """Say why a tool cannot be offered, or None (spec K-07)."""
    if not isinstance(tool, DynamicTool):
        return f"it is {type(tool).__name__}, no DynamicTool"
    if not isinstance(tool.name, str) or not NAME.fullmatch(tool.name):
        return f"its name {tool.name!r} is not made of letters, digits, '_' and '-'"
    if not isinstance(tool.description, str):
        return f"its description is {type(tool.description).__name__}, no text"
    if not callable(tool.call):
        return "its 'call' cannot be called"
    return _schema_fault(tool.input_schema)


def spec_of(tool: DynamicTool) -> JsonObject:
    """Return the plain function form. Names in the schema are kept whatever they are (K-08)."""
    return {
        "type": "function",
        "name": tool.name,
        "description": without_surrogates(tool.description),
        "inputSchema": tool.input_schema,
    }


def fingerprint_of(specs: Iterable[JsonObject]) -> str:
    """Return the durable identity of a catalog, as JSON text.

    Object keys sorted, every `description` key removed at all depths, specs sorted by their JSON:
    neither order nor description matters; names, schemas, namespaces and loading do. Source: F-12.
    """
    texts = sorted(canonical(_without_descriptions(spec)).decode() for spec in specs)
    return f"[{','.join(texts)}]"


def _without_descriptions(value: JsonValue) -> JsonValue:
    if isinstance(value, Mapping):
        return {
            name: _without_descriptions(part)
            for name, part in value.items()
            if name != "description"
        }
    if isinstance(value, list | tuple):
        return [_without_descriptions(part) for part in value]
    return value


def _schema_fault(schema: object) -> str | None:
    if not isinstance(schema, Mapping):
        return f"its input schema is {type(schema).__name__}, no object"
    if schema.get("type") != "object":
        return f"its input schema has the type {schema.get('type')!r}; needed: 'object'"
    try:
        if _depth(schema) > MAX_SCHEMA_DEPTH:
            return f"its input schema is deeper than {MAX_SCHEMA_DEPTH} levels"
        canonical(schema)
    except (TypeError, ValueError, RecursionError) as error:
        return f"its input schema is no JSON: {error}"
    return None


def _depth(value: object) -> int:
    if isinstance(value, Mapping):
        return 1 + max(map(_depth, value.values()), default=0)
    if isinstance(value, list | tuple):
        return 1 + max(map(_depth, value), default=0)
    return 0
