"""Until approvals exist every question is refused, shown, and never hangs; the sandbox holds.

Also what a command of the model's sees of our environment, and what may not enter a command line.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.process.faults_rig import Ran, World, command, program, say
from treadle.config import find_paths
from treadle.model.errors import TreadleError
from treadle.model.ids import AgentId
from treadle.model.json import JsonValue
from treadle.model.question import QuestionKind, Verdict
from treadle.model.turn import Outcome, QuestionOpened, QuestionResolved
from treadle.testing.model import Item, Request, ScriptedModel, call, reply
from treadle.testing.provider import write_config

pytestmark = [pytest.mark.anyio, pytest.mark.codex]

_TINY_SERVER = r"""
import json, sys
TOOL = {"name": "add", "description": "Add.", "inputSchema": {"type": "object", "properties": {}}}
for line in sys.stdin:
    told = json.loads(line)
    if "id" not in told:
        continue
    match told["method"]:
        case "initialize":
            result = {"protocolVersion": told["params"]["protocolVersion"],
                      "capabilities": {"tools": {}}, "serverInfo": {"name": "tiny", "version": "1"}}
        case "tools/list":
            result = {"tools": [TOOL]}
        case "tools/call":
            result = {"content": [{"type": "text", "text": "TOOL-RAN"}]}
        case _:
            result = {}
    print(json.dumps({"jsonrpc": "2.0", "id": told["id"], "result": result}), flush=True)
"""


def codex_home(world: World) -> Path:
    """Return the private home of the agent `main`, made if need be."""
    world.state.mkdir(mode=0o700)
    return find_paths(os.environ, state=world.state).codex_home(AgentId("main"), "agent", {})


def outputs(request: Request) -> list[str]:
    """Return the outputs of tool calls in a model request."""
    items = request.fields["input"]
    assert isinstance(items, list)
    return [
        json.dumps(item.get("output"))
        for item in items
        if isinstance(item, Mapping) and str(item.get("type")).endswith("_output")
    ]


def asked(ran: Ran) -> list[tuple[QuestionKind, Verdict]]:
    """Return each question that was opened with the verdict that followed it."""
    opened = {e.question.id: e.question.kind for e in ran.events if isinstance(e, QuestionOpened)}
    settled = {
        e.answer.question_id: e.answer for e in ran.events if isinstance(e, QuestionResolved)
    }
    assert list(opened) == list(settled)
    assert all(answer.by == "policy" and answer.reason for answer in settled.values())
    return [(kind, settled[name].verdict) for name, kind in opened.items()]


def _escalated(work: Path) -> Item:
    arguments: dict[str, JsonValue] = {
        "cmd": f"touch {work}/made",
        "sandbox_permissions": "require_escalated",
        "justification": "May I?",
    }
    return call("exec_command", arguments)


QUESTIONS: dict[str, tuple[QuestionKind, str]] = {
    "exec": (QuestionKind.COMMAND, "rejected by user"),
    "user input": (QuestionKind.USER_INPUT, "answers"),
    "permissions": (QuestionKind.PERMISSIONS, ""),
    "elicitation": (QuestionKind.ELICITATION, "user rejected MCP tool call"),
}


@pytest.mark.parametrize("kind", QUESTIONS)
async def test_every_question_is_refused_shown_and_the_turn_goes_on(
    codex_binary: Path, scratch: Path, kind: str
) -> None:
    """Decision 27; spec M-01, M-04 to M-06; facts sections 8 and 10; F3: request id 0."""
    wanted, told_model = QUESTIONS[kind]
    async with ScriptedModel() as model:
        world = World(root=scratch, base_url=model.base_url, more=command(codex_binary))
        calls: dict[str, Item] = {
            "exec": _escalated(world.work),
            "user input": call(
                "request_user_input",
                {
                    "questions": [
                        {
                            "id": "color",
                            "header": "Color",
                            "question": "Which?",
                            "options": [
                                {"label": "Red", "description": "r"},
                                {"label": "Blue", "description": "b"},
                            ],
                        }
                    ]
                },
            ),
            "permissions": call(
                "request_permissions",
                {"reason": "why not", "permissions": {"network": {"enabled": True}}},
            ),
            "elicitation": call("add", {}, namespace="mcp__tiny"),
        }
        server = program(scratch / "bin" / "tiny", _TINY_SERVER)
        write_config(
            codex_home(world),
            {
                "features": {
                    "default_mode_request_user_input": True,
                    "request_permissions_tool": True,
                },
                "mcp_servers": {
                    "tiny": {
                        "command": sys.executable,
                        "args": ["-IS", str(server)],
                        "default_tools_approval_mode": "prompt",
                    }
                },
            },
        )
        model.enqueue(reply(calls[kind]), "went on")
        async with world.runtime() as runtime:
            ran = await say(runtime.session("s", cwd=world.work), "do it")
        assert asked(ran) == [(wanted, Verdict.REFUSED_BY_POLICY)]
        assert (ran.end.outcome, ran.end.text) == (Outcome.COMPLETED, "went on")
        [output] = outputs(model.requests[-1])
        assert told_model in output
        assert "TOOL-RAN" not in output
        assert not (world.work / "made").exists()
        model.check()


async def test_a_command_can_read_but_not_write_its_folder(
    codex_binary: Path, scratch: Path
) -> None:
    """Decision 27: turns run in a read-only sandbox."""
    async with ScriptedModel() as model:
        world = World(root=scratch, base_url=model.base_url, more=command(codex_binary))
        (world.work / "note").write_text("READ-ME", encoding="utf-8")
        told = "cat note; touch made && echo WROTE; echo more >> note"
        model.enqueue(reply(call("exec_command", {"cmd": told})), "tried")
        async with world.runtime() as runtime:
            ran = await say(runtime.session("s", cwd=world.work), "do it")
        assert (ran.end.outcome, asked(ran)) == (Outcome.COMPLETED, [])
        [output] = outputs(model.requests[-1])
        assert "READ-ME" in output
        assert "WROTE" not in output
        assert [path.name for path in world.work.iterdir()] == ["note"]
        assert (world.work / "note").read_text(encoding="utf-8") == "READ-ME"


CANARIES = {
    "MY_API_KEY": "canary-key",
    "TREADLE_TOKEN": "canary-token",
    "DB_PASSWORD": "canary-password",
    "AWS_SECRET_ACCESS_KEY": "canary-secret",
    "HARMLESS": "canary-harmless",
    "LD_PRELOAD": "canary-preload.so",
    "BASH_ENV": "canary-bash-env",
    "MODEL_KEY_HERE": "canary-model-key",
}


async def test_commands_see_no_secret_of_ours_and_nothing_that_steers_programs(
    codex_binary: Path, scratch: Path
) -> None:
    """RS43, F4; the model's own key reaches Codex and no command."""
    async with ScriptedModel() as model:
        model.enqueue(reply(call("exec_command", {"cmd": "env"})), "seen")
        more = {
            **command(codex_binary),
            ("models", "providers", "scripted", "apiKeyEnv"): "MODEL_KEY_HERE",
        }
        world = World(root=scratch, base_url=model.base_url, more=more)
        async with world.runtime(environ={**os.environ, **CANARIES}) as runtime:
            ran = await say(runtime.session("s", cwd=world.work), "print it")
        assert ran.end.outcome is Outcome.COMPLETED
        [output] = outputs(model.requests[-1])
        assert "PATH=" in output
        assert not [value for value in CANARIES.values() if value in output]
        assert model.requests[0].headers["authorization"] == "Bearer canary-model-key"


async def test_all_that_a_turn_leaves_behind_is_private_whatever_the_umask(
    codex_binary: Path, scratch: Path
) -> None:
    """RS48, F11, INV-23: 0700 and 0600 but for `installation_id`, which Codex itself opens up."""
    umask = os.umask(0)
    try:
        async with ScriptedModel() as model:
            model.enqueue("done")
            world = World(root=scratch, base_url=model.base_url, more=command(codex_binary))
            async with world.runtime() as runtime:
                ran = await say(runtime.session("s", cwd=world.work), "hello")
            assert ran.end.outcome is Outcome.COMPLETED
    finally:
        os.umask(umask)
    found = [world.state, *world.state.rglob("*")]
    assert any(path.name.startswith("rollout-") for path in found)
    kept = [path for path in found if not path.is_symlink()]  # a link has no mode of its own
    open_ones = {path.name for path in kept if path.stat().st_mode & 0o077}
    assert open_ones <= {"installation_id"}


@pytest.mark.parametrize("name", ["--config=x", "-c", "a\nb", "a b", ""])
async def test_a_name_that_could_be_an_argument_is_refused_before_a_start(
    codex_binary: Path, scratch: Path, name: str
) -> None:
    """RS41: nothing that begins with a dash or breaks a line reaches a command line."""
    async with ScriptedModel() as model:
        world = World(root=scratch, base_url=model.base_url, more=command(codex_binary))
        async with world.runtime() as runtime:
            with pytest.raises(TreadleError):
                runtime.session("s", cwd=world.work).run("hello", model=name)
        assert not world.logged("wire.spawned")
        assert not model.requests
