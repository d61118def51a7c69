"""`treadle` as a program over the real Codex: the demonstration, runs, chats, accounts, signals."""

from __future__ import annotations

import json
import os
import pty
import signal
from pathlib import Path

import anyio
import pytest

from tests.process.program import Program, ended
from treadle.testing.model import ScriptedModel, hang, text

pytestmark = [pytest.mark.anyio, pytest.mark.codex]

KEY = "sk-proj-0123456789abcdefTREADLE"


@pytest.fixture
def program(scratch: Path, codex_binary: Path) -> Program:
    return Program(scratch, codex_binary)


async def test_demonstration_holds_and_can_be_shown_again(program: Program) -> None:
    """Ours: issue 2, the run command ends in a working demo."""
    shown = await program.answer("demo")

    assert "✗" not in shown
    assert shown.count("✓") >= 7
    assert 'You said: "The kiln fires at 1,240 degrees"' in shown
    assert "Nothing in my context says that." in shown
    assert "context rebase by engine window" in shown
    assert not program.state.exists()  # it keeps out of the person's own state
    await program.run("demo")


async def test_answer_goes_to_stdout_and_survives_a_restart(program: Program) -> None:
    """Ours: each command is a process of its own, so each turn follows a restart."""
    noted = await program.run("run", "--offline", "Remember that the kiln is at 1,240 degrees.")
    asked = await program.run("run", "--offline", "At how many degrees is the kiln?")

    assert noted.stdout.decode().startswith("Noted: ")
    assert asked.stdout.decode().endswith('the kiln is at 1,240 degrees"\n')
    assert b"\x1b" not in asked.stderr


async def test_piped_text_and_json_work_together(program: Program) -> None:
    """Ours: scripts."""
    done = await program.run("run", "--offline", "--json", "-", stdin="say exactly: ready")
    summary = json.loads(done.stdout)

    assert (summary["v"], summary["outcome"], summary["text"]) == (1, "completed", "ready")
    assert summary["session_key"] == "agent:main:main"
    assert summary["error"] is None
    assert len(summary["entries"]) == 2
    assert summary["usage"]["input"] > summary["usage"]["output"] > 0
    assert summary["context"]["engine"] == "legacy"
    assert summary["context"]["counted"]["tokens"] > 0


async def test_events_are_json_lines_that_end_with_the_end(program: Program) -> None:
    """Ours: `run --jsonl`."""
    done = await program.run("run", "--offline", "--jsonl", "say exactly: one two three")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    durable = [event["seq"] for event in events if "seq" in event]

    assert [event["type"] for event in events[:2]] == ["message.accepted", "run.started"]
    assert events[-1]["type"] == "run.finished"
    assert events[-1]["data"]["text"] == "one two three"
    assert durable == list(range(1, len(durable) + 1))
    deltas = [
        e["data"] for e in events if e["type"] == "part.delta" and e["data"]["kind"] == "text"
    ]
    assert "".join(delta["text"] for delta in deltas) == "one two three"


async def test_what_was_said_can_be_listed_shown_found_and_exported(program: Program) -> None:
    """Ours."""
    await program.run("run", "--offline", "--session", "pots", "The glaze is celadon.")
    await program.run("run", "--offline", "--session", "other", "Nothing of the kind.")

    listed = json.loads(await program.answer("sessions", "list", "--json"))
    assert [row["key"] for row in listed["items"]] == ["agent:main:other", "agent:main:pots"]
    shown = await program.answer("sessions", "show", "pots", "--last", "1")
    assert shown.endswith("Noted: The glaze is celadon.")
    assert "user" not in shown
    found = json.loads(await program.answer("sessions", "search", "celadon", "--json"))
    assert {hit["session_key"] for hit in found["items"]} == {"agent:main:pots"}
    lines = (await program.answer("sessions", "export", "pots")).splitlines()
    assert [json.loads(line)["type"] for line in lines] == ["session", "entry", "entry"]
    report = json.loads(await program.answer("context", "show", "pots", "--json"))
    assert report["turn"] == 1
    assert "decision" in await program.answer("context", "show", "pots", "--turn", "1")
    assert (await program.run("context", "show", "pots", "--turn", "7", exit_code=2)).stdout == b""


async def test_hostile_answer_is_shown_without_control_characters(program: Program) -> None:
    r"""RS51: CLI print and export; `\r`, CSI and OSC become visible."""
    async with ScriptedModel() as model:
        program.use(model)
        model.enqueue("a\x1b]52;c;QQ==\x07b\x1b[2Jc\rd\u202ee")
        printed = (await program.run("run", "hello")).stdout
    exported = (await program.run("sessions", "export", "main")).stdout
    shown = (await program.run("sessions", "show", "main")).stdout

    for output in (printed, exported, shown):
        assert not [byte for byte in output if byte < 0x20 and byte not in b"\n\t"]
    assert rb"\x1b]52" in printed


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_signal_stops_the_run_and_ends_with_its_exit_code(
    program: Program, number: signal.Signals, exit_code: int
) -> None:
    """Ours: the run is stopped first, and what was said stays."""
    async with ScriptedModel() as model:
        program.use(model)
        model.enqueue(hang(text("I begin")))
        with program.begun("run", "hello there") as process:
            await model.wait_for_requests(1, within_s=60)
            process.send_signal(number)
            code, _, err = await ended(process)

    assert code == exit_code, err
    assert "stopped" in err
    assert "hello there" in await program.answer("sessions", "show", "main")


async def test_time_limit_stops_the_run(program: Program) -> None:
    """Ours: exit 6."""
    async with ScriptedModel() as model:
        program.use(model)
        model.enqueue(hang())
        done = await program.run("run", "--json", "--timeout", "2", "hello", exit_code=6)

    assert json.loads(done.stdout)["outcome"] == "timed_out"


async def test_a_turn_without_native_tools_and_a_compaction_by_command(program: Program) -> None:
    """Spec D-38, D-39: the one offers no tool of Codex's own, the other leaves the session."""
    async with ScriptedModel() as model:
        program.use(model)
        model.enqueue("first", "second", "SUMMARY", "third")
        await program.answer("run", "message one")
        await program.answer("run", "--no-native-tools", "message two")
        done = json.loads(await program.answer("sessions", "compact", "main", "--json"))
        assert await program.answer("run", "message three") == "third"
        refused = await program.run("sessions", "compact", "nobody", exit_code=2)
    names = [request.tool_names for request in model.requests]
    assert [("exec_command" in one, "memory_search" in one) for one in names] == [
        (True, True), (False, True), (False, False), (True, True),
    ]  # fmt: skip
    assert (done["compacted"], done["reason"]) == (True, None)
    assert "SUMMARY" in model.requests[-1].raw.decode()
    assert b"there is no session" in refused.stderr


async def test_chat_talks_until_its_input_ends(program: Program) -> None:
    """Ours: commands are never sent; `//` sends a slash; /new forgets."""
    lines = (
        "The kiln is at 900 degrees.",
        "/statu",
        "//etc is a folder",
        "/context",
        "/new",
        "At how many degrees is the kiln?",
    )
    done = await program.run(
        "chat", "--offline", "--session", "c", stdin="".join(f"{line}\n" for line in lines)
    )
    out, err = done.stdout.decode(), done.stderr.decode()

    assert "Noted: The kiln is at 900 degrees." in out
    assert "Noted: /etc is a folder" in out
    assert "decision continue" in out
    assert out.endswith("Nothing in my context says that.\n")
    assert "Did you mean /status?" in err
    assert "treadle chat --session agent:main:c" in err


async def test_control_c_in_a_chat_interrupts_the_turn_and_twice_leaves(program: Program) -> None:
    """Ours, at a real terminal."""
    async with ScriptedModel() as model:
        program.use(model)
        model.enqueue(hang(text("I begin")), "second answer")
        master, slave = pty.openpty()
        process = program.begin_at(slave, "chat")
        os.close(slave)
        terminal = Terminal(master)
        try:
            with anyio.fail_after(90):
                await terminal.until("›")
                terminal.type("first\n")
                await terminal.until("I begin")
                terminal.type("\x03")
                await terminal.until("›")
                terminal.type("second\n")
                await terminal.until("second answer")
                await terminal.until("›")
                terminal.type("\x03")
                await terminal.until("leaves")
                terminal.type("\x03")
                await terminal.until("Session kept")
                code = await anyio.to_thread.run_sync(process.wait)
        finally:
            os.close(master)
            process.kill()
            process.wait()
    assert code == 130


class Terminal:
    """The other side of a program's terminal."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._seen = ""

    def type(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    async def until(self, expected: str) -> None:
        """Read until the text was shown; what stood before it is forgotten."""
        while expected not in self._seen:
            await anyio.wait_readable(self._descriptor)
            self._seen += os.read(self._descriptor, 65536).decode("utf-8", "replace")
        self._seen = self._seen.partition(expected)[2]


async def test_key_is_kept_in_the_home_of_codex_alone(program: Program, scratch: Path) -> None:
    """Issue 2, done when 7: one turn with the key, logout; the key is in no other file."""
    async with ScriptedModel() as model:
        model.enqueue("with a key")
        unsigned = await program.run("whoami", exit_code=4)
        signed = await program.run("login", "--api-key-stdin", stdin=f"{KEY}\n")
        who = json.loads(await program.answer("whoami", "--json"))
        program.use(model)
        answered = await program.answer("run", "hello")
        program.config.write_text("", encoding="utf-8")
        kept = holding(scratch, KEY)
        await program.run("logout")
        left = holding(scratch, KEY)

    assert "treadle login" in unsigned.stderr.decode()
    assert (who["signed_in"], who["kind"]) == (True, "apiKey")
    assert answered == "with a key"
    assert kept == [program.state / "agents" / "main" / "codex" / "auth.json"]
    assert left == []
    assert KEY not in (signed.stdout + signed.stderr).decode()


def holding(folder: Path, secret: str) -> list[Path]:
    """Return the files below that hold the secret."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return [path for path in files if secret.encode() in path.read_bytes()]


async def test_models_are_listed_without_a_network(program: Program) -> None:
    """Ours: Codex's own catalog."""
    rows = json.loads(await program.answer("models", "--json"))["items"]

    assert len(rows) >= 5
    assert [row["model"] for row in rows if row["is_default"]]
    assert all(row["efforts"] for row in rows)


async def test_doctor_finds_a_used_installation_sound(program: Program) -> None:
    """Ours."""
    await program.run("run", "--offline", "The glaze is celadon.")
    report = json.loads(await program.answer("doctor", "--json"))

    assert report["ok"] is True
    assert {one["state"] for one in report["items"]} == {"ok"}
    assert any("1 sessions, 2 entries" in one["text"] for one in report["items"])
