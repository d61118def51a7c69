"""The real Codex against the offline model (issue 2 items 9 and 11)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from treadle.model.json import JsonObject, JsonValue
from treadle.offline.server import MODEL, OfflineModel
from treadle.testing.bare import BareCodex
from treadle.testing.provider import provider_config, write_config

pytestmark = [pytest.mark.anyio, pytest.mark.codex]

CODE_MODE_MODEL = "gpt-6.1-sol"

SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"limit": {"type": "integer"}, "query": {"type": "string"}},
    "required": ["query"],
}
RECALL: JsonObject = {
    "type": "namespace",
    "name": "memory",
    "description": "What was said long ago.",
    "tools": [
        {"type": "function", "name": "search", "description": "Search.", "inputSchema": SCHEMA}
    ],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rig:
    model: OfflineModel
    app: BareCodex
    work: Path
    calls: list[Any]

    async def thread(self, model: str, **params: JsonValue) -> str:
        policy: JsonObject = {"approvalPolicy": "on-request", "cwd": str(self.work)}
        started = await self.app.request(
            "thread/start", {"model": model, "dynamicTools": [RECALL], **policy, **params}
        )
        return str(started["thread"]["id"])

    async def say(self, thread: str, text: str) -> str:
        turn = await self.app.turn(thread, text)
        assert (turn.status, turn.error) == ("completed", None)
        return turn.text


@asynccontextmanager
async def open_rig(binary: Path, root: Path) -> AsyncIterator[Rig]:
    work = root / "work"
    work.mkdir()
    calls: list[Any] = []

    def answer(params: Any) -> JsonValue:
        calls.append(params)
        text = "The deploy day is Thursday."
        return {"contentItems": [{"type": "inputText", "text": text}], "success": True}

    async with OfflineModel() as model:
        write_config(root / "home", provider_config(model.base_url, model=MODEL))
        quiet = {"HOME": str(root)}  # a login shell of the person's own may say things
        async with BareCodex(binary, root / "home", cwd=work, env=quiet) as app:
            app.respond("item/tool/call", answer)
            await app.initialize()
            yield Rig(model=model, app=app, work=work, calls=calls)


@pytest.mark.parametrize("model", [MODEL, "gpt-5.5", CODE_MODE_MODEL])
async def test_three_turns_run_and_the_context_is_what_answers(
    model: str, codex_binary: Path, scratch: Path
) -> None:
    """Issue 2 item 9: classic tools, a catalog model, and code mode."""
    async with open_rig(codex_binary, scratch) as rig:
        thread = await rig.thread(model)
        assert await rig.say(thread, "My cat is called Mimi.") == "Noted: My cat is called Mimi."
        answer = await rig.say(thread, "What is the name of my cat?")
        assert answer == 'You said: "My cat is called Mimi"'
        found = await rig.say(thread, "Search your memory for the deploy day.")
        assert found == "The tool memory.search returned: The deploy day is Thursday."
        assert len(rig.calls) == 1
        assert rig.calls[0]["arguments"] == {"query": "the deploy day"}
        assert (rig.calls[0]["namespace"], rig.calls[0]["tool"]) == ("memory", "search")
        asked = await rig.say(thread, "Which day do we deploy?")
        assert asked == 'A tool said: "The deploy day is Thursday"'

        other = await rig.thread(model)
        unknown = await rig.say(other, "What is the name of my cat?")
        assert unknown == "Nothing in my context says that."


@pytest.mark.parametrize("model", [MODEL, CODE_MODE_MODEL])
async def test_a_command_is_run_when_asked(model: str, codex_binary: Path, scratch: Path) -> None:
    async with open_rig(codex_binary, scratch) as rig:
        (rig.work / "note.txt").write_text("The port is 8443.\n", encoding="utf-8")
        thread = await rig.thread(model)
        said = await rig.say(thread, "Run `cat note.txt` please.")
        assert said == "The tool exec_command returned: The port is 8443."


async def test_a_compaction_keeps_what_was_stated(codex_binary: Path, scratch: Path) -> None:
    async with open_rig(codex_binary, scratch) as rig:
        thread = await rig.thread(MODEL)
        await rig.say(thread, "Search your memory for the deploy day.")
        since = len(rig.app.events)
        await rig.app.request("thread/compact/start", {"threadId": thread})
        done = await rig.app.wait_for("turn/completed", since=since)
        assert done.params["turn"]["status"] == "completed"
        answer = await rig.say(thread, "What is the deploy day?")
        assert answer == 'A summary of earlier messages says: "The deploy day is Thursday"'


async def test_reported_usage_grows_with_the_context_and_is_cached(
    codex_binary: Path, scratch: Path
) -> None:
    """Decision 26: the base instructions alone exceed 1,024 tokens."""
    async with open_rig(codex_binary, scratch) as rig:
        thread = await rig.thread(MODEL)
        for text in ("I like tea.", "I like rice."):
            await rig.say(thread, text)
        first, second = rig.model.usages
        reported = [
            event.params["tokenUsage"]["last"]
            for event in rig.app.events
            if event.method == "thread/tokenUsage/updated"
        ]
    assert [u["inputTokens"] for u in reported] == [first.input_tokens, second.input_tokens]
    assert [u["cachedInputTokens"] for u in reported] == [0, second.cached_tokens]
    assert first.input_tokens - 128 <= second.cached_tokens <= first.input_tokens + 128
    assert second.input_tokens > first.input_tokens
    assert (first.exact, second.exact) == (True, True)


async def test_an_output_schema_is_answered_with_json(codex_binary: Path, scratch: Path) -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {"answer": {"type": "string"}},
        "required": ["answer"],
        "additionalProperties": False,
    }
    async with open_rig(codex_binary, scratch) as rig:
        thread = await rig.thread(MODEL)
        turn = await rig.app.turn(thread, "I like tea.", outputSchema=schema)
    assert turn.text == '{"answer": "Noted: I like tea."}'
