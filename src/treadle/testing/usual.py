"""What the scripted app-server usually answers: shapes of the real one with the least in them.

Knows no script and no bytes. Shapes: facts on codex app-server 0.163, sections 1 and 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from treadle.model.json import JsonObject
from treadle.protocol import generated
from treadle.protocol.methods import BY_NAME, Kind

Step = Mapping[str, Any]
"""One step of a script."""

Steps = Sequence[Step]


def fault_in(method: str, params: JsonObject) -> str | None:
    """Return what is wrong with a request's params; unlike the real one, name unknown fields."""
    row = BY_NAME.get(method)
    if row is None or row.kind is not Kind.REQUEST:
        return f"Invalid request: unknown variant `{method}`, expected one of those of the table"
    shape = getattr(generated, row.params or "", None)
    if shape is None:
        return None
    try:
        msgspec.convert(params, type=shape)
    except msgspec.ValidationError as error:
        return f"Invalid request: {error}"
    return None


def turn_notifications(
    thread: str, turn: str, client: str, body: Mapping[str, Any]
) -> list[JsonObject]:
    """Return the notifications of a plain turn, in the real one's order (facts section 3)."""
    text, status = body.get("text", "ok"), body.get("status", "completed")
    ids = {"threadId": thread, "turnId": turn}
    usage = {**_USAGE, **body.get("usage", {})}
    user = {
        "type": "userMessage",
        "id": f"{turn}-user",
        "clientId": client or None,
        "content": [{"type": "text", "text": body.get("user", ""), "text_elements": []}],
    }
    agent = {"type": "agentMessage", "id": f"{turn}-agent", "text": text, "phase": None}
    shell: JsonObject = {
        "id": turn,
        "items": [],
        "itemsView": "summary",
        "error": body.get("error"),
    }
    told: list[tuple[str, JsonObject]] = [
        ("thread/status/changed", {"threadId": thread, "status": {"type": "active"}}),
        ("turn/started", {"threadId": thread, "turn": {**shell, "status": "inProgress"}}),
        ("item/started", {**ids, "item": user, "startedAtMs": 1}),
        ("item/completed", {**ids, "item": user, "completedAtMs": 1}),
        *((m["method"], {**ids, **m.get("params", {})}) for m in body.get("between", ())),
        ("item/started", {**ids, "item": {**agent, "text": ""}, "startedAtMs": 1}),
        *(
            ("item/agentMessage/delta", {**ids, "itemId": agent["id"], "delta": piece})
            for piece in body.get("deltas", [text])
        ),
        ("item/completed", {**ids, "item": agent, "completedAtMs": 1}),
        (
            "thread/tokenUsage/updated",
            {**ids, "tokenUsage": {"total": usage, "last": usage, "modelContextWindow": 258_400}},
        ),
        ("thread/status/changed", {"threadId": thread, "status": {"type": "idle"}}),
        ("turn/completed", {"threadId": thread, "turn": {**shell, "status": status}}),
    ]
    return [{"method": method, "params": params} for method, params in told]


INITIALIZED: Final[JsonObject] = {
    "codexHome": "/nonexistent",
    "platformFamily": "unix",
    "platformOs": "linux",
}
_USAGE: Final[JsonObject] = {
    "totalTokens": 1020,
    "inputTokens": 1000,
    "cachedInputTokens": 400,
    "cacheWriteInputTokens": 0,
    "outputTokens": 20,
    "reasoningOutputTokens": 5,
}
_THREAD: Final[JsonObject] = {
    "id": "$thread",
    "preview": "",
    "modelProvider": "scripted",
    "createdAt": 1,
    "updatedAt": 1,
    "status": {"type": "idle"},
    "path": None,
    "cwd": "/",
    "turns": [],
}
_LOADED: Final[JsonObject] = {
    "thread": _THREAD,
    "model": "scripted-1",
    "modelProvider": "scripted",
    "cwd": "/",
    "approvalPolicy": "on-request",
    "approvalsReviewer": "user",
    "sandbox": {"type": "readOnly"},
}
_TURN: Final[JsonObject] = {
    "id": "$turn",
    "items": [],
    "itemsView": "notLoaded",
    "status": "inProgress",
    "error": None,
}
NO_ANSWER: Final[Steps] = [{"error": {"code": -32600, "message": "the script has no answer"}}]

DEFAULTS: Final[Mapping[str, Steps]] = {
    "thread/start": [
        {"answer": _LOADED},
        {"tell": {"method": "thread/started", "params": {"thread": _THREAD}}},
    ],
    "thread/resume": [{"answer": _LOADED}],
    "thread/fork": [{"answer": _LOADED}],
    "thread/read": [{"answer": {"thread": _THREAD}}],
    "thread/list": [{"answer": {"data": [], "nextCursor": None}}],
    "thread/loaded/list": [{"answer": {"data": [], "nextCursor": None}}],
    "thread/turns/list": [{"answer": {"data": [], "nextCursor": None}}],
    "thread/items/list": [{"answer": {"data": [], "nextCursor": None}}],
    "thread/inject_items": [{"answer": {}}],
    "thread/archive": [{"answer": {}}],
    "thread/unarchive": [{"answer": {"thread": _THREAD}}],
    "thread/delete": [{"answer": {}}],
    "thread/unsubscribe": [{"answer": {"status": "unsubscribed"}}],
    "thread/name/set": [{"answer": {}}],
    "thread/revert": [{"answer": {"thread": _THREAD}}],
    "thread/compact/start": [{"answer": {}}],
    "turn/start": [{"answer": {"turn": _TURN}}, {"turn": {"text": "ok"}}],
    "turn/steer": [{"answer": {"turnId": "$turn"}}],
    "turn/interrupt": [
        {"answer": {}},
        {
            "tell": {
                "method": "turn/completed",
                "params": {"threadId": "$thread", "turn": {**_TURN, "status": "interrupted"}},
            }
        },
    ],
    "model/list": [{"answer": {"data": [], "nextCursor": None}}],
    "account/read": [{"answer": {"account": None, "requiresOpenaiAuth": False}}],
    "hooks/list": [{"answer": {"data": []}}],
    "config/read": [{"answer": {"config": {}, "origins": {}}}],
}
"""How a request is answered where the script says nothing."""
