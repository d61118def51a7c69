"""Model requests as a scripted model recorded them, and what two of them have in common.

Knows nothing of what was answered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from treadle.model.json import JsonObject, JsonValue, canonical
from treadle.protocol.responses import is_output, item_kind, item_role, without_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One HTTP request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""

    raw: bytes
    body: JsonValue
    """The parsed JSON; None if there was none."""

    at: float
    """Seconds of the monotonic clock."""

    port: int = 0
    """The client's end of the connection, by which its process can be found; 0 if unknown."""

    @property
    def fields(self) -> JsonObject:
        """The body if it is an object, else an empty one."""
        return self.body if isinstance(self.body, dict) else {}

    @property
    def input(self) -> list[JsonObject]:
        """The Responses `input` (empty when there is none)."""
        value = self.fields.get("input")
        return [i for i in value if isinstance(i, dict)] if isinstance(value, list) else []

    @property
    def tools(self) -> list[JsonObject]:
        """The tools offered, wherever they stand: `tools`, or `additional_tools` (code mode)."""
        extra = (i.get("tools") for i in self.input if item_kind(i) == "additional_tools")
        lists = [self.fields.get("tools"), *extra]
        return [t for tools in lists for t in _sequence(tools) if isinstance(t, Mapping)]

    @property
    def tool_names(self) -> list[str]:
        """Names (or types, for built-in tools) of the tools offered."""
        return [str(tool.get("name") or tool.get("type")) for tool in self.tools]

    @property
    def is_compaction(self) -> bool:
        """Whether Codex marked the request as one for a compaction."""
        return '"request_kind":"compaction"' in self.headers.get("x-codex-turn-metadata", "")

    @property
    def thread_id(self) -> str:
        """The native thread that the request is for; empty if none is named."""
        return self.headers.get("thread-id", "")

    def texts(self, role: str | None = None) -> list[str]:
        """Every message text in the input, in order, of one role or of all."""
        messages = [item for item in self.input if item_kind(item) == "message"]
        parts = [
            part
            for item in messages
            if role in {None, item_role(item)}
            for part in _sequence(item.get("content"))
        ]
        texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
        return [text for text in texts if isinstance(text, str)]

    def output_of(self, call_id: str) -> JsonValue:
        """Return what the client answered to a tool call. Raises: KeyError if it did not."""
        for item in self.input:
            if is_output(item) and item.get("call_id") == call_id:
                return item.get("output", item)
        raise KeyError(call_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """How much of one request's input survives as an exact prefix of a later one's."""

    items: int
    items_total: int
    bytes: int
    bytes_total: int

    @property
    def percent(self) -> float:
        """Shared prefix in percent of the earlier request's bytes."""
        return 100.0 * self.bytes / self.bytes_total if self.bytes_total else 100.0


def prefix_overlap(earlier: Request, later: Request) -> Overlap:
    """Measure the item prefix that both share, ids included."""
    return _overlap(earlier.input, later.input)


def text_overlap(earlier: Request, later: Request) -> Overlap:
    """Measure the item prefix that both share when item ids are ignored."""
    bare = [[without_id(item) for item in request.input] for request in (earlier, later)]
    return _overlap(*bare)


def _overlap(earlier: Sequence[JsonObject], later: Sequence[JsonObject]) -> Overlap:
    sizes = [len(canonical(item)) for item in earlier]
    pairs = enumerate(zip(earlier, later, strict=False))
    same = next((at for at, (a, b) in pairs if a != b), min(len(earlier), len(later)))
    return Overlap(
        items=same, items_total=len(sizes), bytes=sum(sizes[:same]), bytes_total=sum(sizes)
    )


def _sequence(value: JsonValue) -> Sequence[JsonValue]:
    return value if isinstance(value, list | tuple) else ()
