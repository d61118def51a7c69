"""What the working folder holds for the model, where no tool of ours could read it."""

from __future__ import annotations

from pathlib import Path

import anyio.to_thread
import pytest

from tests.turn.rig import Rig, item
from treadle.contract.hook import HookRegistration, PromptBuild
from treadle.model.message import text_of
from treadle.projection.prompt import TURN_INPUT_LIMIT
from treadle.runtime.service import Runtime
from treadle.runtime.sessions import Session
from treadle.testing.engine import RecordingEngine

pytestmark = pytest.mark.anyio

NO_MEMORY = ("plugins", "entries", "codex", "config", "codexDynamicToolsExclude")


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    work = tmp_path / "work"
    work.mkdir()
    (work / "MEMORY.md").write_text("The cat is called Tom.\n", encoding="utf-8")
    (work / "BOOTSTRAP.md").write_text("Introduce yourself.\n", encoding="utf-8")
    (work / "AGENTS.md").write_text("Never to be sent by us.\n", encoding="utf-8")
    return Rig(root=tmp_path)


async def session(rig: Rig, runtime: Runtime) -> Session:
    return await anyio.to_thread.run_sync(lambda: runtime.session("t", cwd=rig.root / "work"))


REFERENCE = """\
[BOOTSTRAP.md of the workspace]
Introduce yourself.

[MEMORY.md of the workspace]
The cat is called Tom.

"""


async def test_with_memory_tools_the_files_are_left_to_them(rig: Rig) -> None:
    """Spec E-07, D-06."""
    async with rig.opened() as runtime:
        await rig.say(await session(rig, runtime), "hello")
    assert rig.sent() == ["hello"]


async def test_without_memory_tools_a_thread_gets_the_files_once_and_whole(rig: Rig) -> None:
    """Spec E-07, E-08, D-48: again when they changed, after compaction, and on a fresh thread."""
    rig.keys[NO_MEMORY] = ["memory_search", "memory_get"]
    engine = RecordingEngine()
    async with rig.opened(engine) as runtime:
        talk = await session(rig, runtime)
        await rig.say(talk, "one")
        await rig.say(talk, "two")
        (rig.root / "work" / "MEMORY.md").write_text("The dog too.", encoding="utf-8")
        await rig.say(talk, "three")
        compaction = {"type": "contextCompaction", "id": "c"}
        rig.answers("ok", between=[item(one, **compaction) for one in ("started", "completed")])
        await rig.say(talk, "four")
        await rig.say(talk, "five")
        (rig.root / "work" / "MEMORY.md").unlink()
        (rig.root / "work" / "BOOTSTRAP.md").unlink()
        await rig.say(talk, "six")
        stored = [text_of(entry.message) for entry in await talk.entries()]
    changed = REFERENCE.replace("The cat is called Tom.", "The dog too.")
    heading = "Current user request:\n"
    assert rig.sent() == [
        f"{REFERENCE}{heading}one",
        "two",
        f"{changed}{heading}three",
        "four",
        f"{changed}{heading}five",
        "six",
    ]
    assert [text for text in stored if "workspace" in text] == [], "the mirror keeps what was said"


async def test_the_files_stand_in_front_of_the_quoted_context(rig: Rig) -> None:
    """Spec D-48, C-11: a section of its own, which the prompt hook sees as Codex will."""
    rig.keys[NO_MEMORY] = ["memory_search", "memory_get"]
    rig.keys["plugins", "entries", "codex", "config", "projection"] = "prompt"
    seen: list[str] = []

    def built(payload: PromptBuild) -> None:
        seen.append(payload.prompt)

    hooks = [HookRegistration(name="before_prompt_build", handler=built)]
    engine = RecordingEngine(recalled="Recalled.")
    async with rig.opened(engine, hooks=hooks) as runtime:
        await rig.say(await session(rig, runtime), "one")
    (sent,) = rig.sent()
    assert seen == [sent]
    block = "OpenClaw assembled context for this turn:\n\n<conversation_context>\n[user]\nRecalled."
    assert sent == f"{REFERENCE}{block}\n</conversation_context>\n\nCurrent user request:\none"


async def test_a_file_that_is_longer_than_a_turn_is_cut_visibly_and_the_request_stays(
    rig: Rig,
) -> None:
    """Spec E-07, D-47."""
    rig.keys[NO_MEMORY] = ["memory_search", "memory_get"]
    (rig.root / "work" / "MEMORY.md").write_text("m" * 2 * TURN_INPUT_LIMIT, encoding="utf-8")
    async with rig.opened() as runtime:
        turn = await rig.say(await session(rig, runtime), "one")
    (sent,) = rig.sent()
    assert len(sent) <= TURN_INPUT_LIMIT
    assert sent.endswith("Current user request:\none")
    assert "[truncated " in sent
    assert "context_cut" in turn.notices
    assert len(rig.logged("message.cut")) == 1
