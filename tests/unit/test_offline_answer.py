"""What the offline model answers, from its context alone (issue 2 item 9)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.engines.notes import CLOSING, NOTICE, OPENING
from treadle.model.json import JsonObject, JsonValue
from treadle.offline.answer import (
    Answer,
    CallCustom,
    CallFunction,
    Compact,
    Say,
    decide,
)
from treadle.offline.recall import NOTHING
from treadle.projection.seed import left_out_note

BASE: JsonObject = {
    "type": "message",
    "role": "developer",
    "content": [{"type": "input_text", "text": "The name is Codex. The deploy day is every day."}],
}
DEVELOPER: JsonObject = {
    "type": "message",
    "role": "developer",
    "content": [
        {"type": "input_text", "text": "The project codename is Falcon."},
        {
            "type": "input_text",
            "text": "<skills_instructions>\nThe cat is here.\n</skills_instructions>",
        },
    ],
}
HEAD: JsonObject = {
    "type": "message",
    "role": "user",
    "content": [
        {
            "type": "input_text",
            "text": "# AGENTS.md instructions for /w\n\n<INSTRUCTIONS>\nThe linter is ruff.\n"
            "</INSTRUCTIONS>",
        },
        {
            "type": "input_text",
            "text": "<environment_context>\n  <cwd>/w</cwd>\n</environment_context>",
        },
    ],
}


def user(text: str) -> JsonObject:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def assistant(text: str) -> JsonObject:
    part = {"type": "output_text", "text": text}
    return {"type": "message", "role": "assistant", "content": [part]}


def called(name: str, output: JsonValue, namespace: str | None = None) -> list[JsonObject]:
    call: dict[str, JsonValue] = {
        "type": "function_call",
        "call_id": f"call_{name}",
        "name": name,
        "arguments": "{}",
    }
    if namespace:
        call["namespace"] = namespace
    done: JsonObject = {
        "type": "function_call_output",
        "call_id": f"call_{name}",
        "output": output,
    }
    return [call, done]


def ask(*items: JsonObject, tools: Sequence[JsonValue] = (), **more: JsonValue) -> Answer:
    return decide({"input": [BASE, DEVELOPER, HEAD, *items], "tools": list(tools), **more})


def said(*items: JsonObject) -> str:
    answer = ask(*items)
    assert isinstance(answer, Say)
    return answer.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    name: str
    context: tuple[JsonObject, ...]
    question: str
    answer: str


CASES = (
    Case(
        name="a statement of the user",
        context=(user("My cat is called Mimi."), assistant("Noted: My cat is called Mimi.")),
        question="What is the name of my cat?",
        answer='You said: "My cat is called Mimi"',
    ),
    Case(
        name="remembered",
        context=(user("Remember: the door code is 4711"),),
        question="what's the door code?",
        answer='You said: "the door code is 4711"',
    ),
    Case(
        name="the newest value wins",
        context=(
            user("The deploy day is Tuesday."),
            assistant("Noted: The deploy day is Tuesday."),
            user("The deploy day is Friday now."),
        ),
        question="Which day do we deploy?",
        answer='You said: "The deploy day is Friday now"',
    ),
    Case(
        name="an answer given earlier does not outlive a correction",
        context=(
            user("The deploy day is Tuesday."),
            user("What is the deploy day?"),
            assistant('You said: "The deploy day is Tuesday"'),
            user("The deploy day is Friday."),
        ),
        question="What is the deploy day?",
        answer='You said: "The deploy day is Friday"',
    ),
    Case(
        name="what is not in the context is not known",
        context=(user("My dog is called Rex."),),
        question="What is the name of my cat?",
        answer=NOTHING,
    ),
    Case(
        name="half of the words do not make an answer",
        context=(user("The deploy script is run.sh."),),
        question="Which day do we deploy?",
        answer=NOTHING,
    ),
    Case(
        name="a question is no statement",
        context=(user("Is my cat called Mimi?"), assistant(NOTHING)),
        question="What is my cat called?",
        answer=NOTHING,
    ),
    Case(
        name="only the assistant's echo is left",
        context=(assistant("Noted: My cat is called Mimi."),),
        question="What is my cat called?",
        answer='I said earlier: "My cat is called Mimi"',
    ),
    Case(
        name="a tool's output",
        context=(user("look it up"), *called("look", "The port is 8443.")),
        question="Which port is it?",
        answer='A tool said: "The port is 8443"',
    ),
    Case(
        name="codex's summary after a compaction",
        context=(
            user(
                "Another language model started to solve this problem and produced a summary.\n"
                "Summary of what was stated, oldest first:\n- The user said: My cat is called Mimi"
            ),
        ),
        question="What is my cat called?",
        answer='A summary of earlier messages says: "My cat is called Mimi"',
    ),
    Case(
        name="developer instructions",
        context=(),
        question="What is the codename of the project?",
        answer='My instructions say: "The project codename is Falcon"',
    ),
    Case(
        name="base instructions say nothing of ours",
        context=(),
        question="What is the deploy day?",
        answer=NOTHING,
    ),
    Case(
        name="project instructions",
        context=(),
        question="What is the linter?",
        answer='A document says: "The linter is ruff"',
    ),
    Case(
        name="when asks for a time",
        context=(user("We deploy on Tuesday."), user("We deploy with run.sh.")),
        question="When do we deploy?",
        answer='You said: "We deploy on Tuesday"',
    ),
    Case(
        name="a place is no colour",
        context=(user("The office is green."),),
        question="Where is the office?",
        answer=NOTHING,
    ),
    Case(
        name="a number in words",
        context=(user("I have three cats."), user("My cats like tuna.")),
        question="How many cats do I have?",
        answer='You said: "I have three cats"',
    ),
    Case(
        name="everything",
        context=(user("I like tea."), assistant("Noted: I like tea."), user("I live in Bonn.")),
        question="What did I tell you?",
        answer='You said: "I like tea"\nYou said: "I live in Bonn"',
    ),
    Case(
        name="chinese",
        context=(user("我的猫叫咪咪。"),),
        question="我的猫叫什么？",
        answer='You said: "我的猫叫咪咪。"',
    ),
    Case(
        name="two questions",
        context=(user("My cat is called Mimi. I live in Bonn."),),
        question="What is my cat called? Where do I live?",
        answer='You said: "My cat is called Mimi"\nYou said: "I live in Bonn"',
    ),
    Case(name="a statement", context=(), question="I like tea.", answer="Noted: I like tea."),
    Case(name="an order to say", context=(), question="Reply with exactly: PONG", answer="PONG"),
    Case(name="thanks", context=(), question="Thank you!", answer="You are welcome."),
    Case(
        name="a title",
        context=(user("Help me to knit a very long scarf for winter"),),
        question="Write a short title for this conversation.",
        answer="Help me to knit a very",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_questions_are_answered_from_what_the_context_holds(case: Case) -> None:
    """Issue 2 item 9."""
    assert said(*case.context, user(case.question)) == case.answer


def test_notes_about_earlier_messages_are_context_and_never_the_request() -> None:
    """Decisions 5 and 17."""
    note = f"{OPENING}\n{NOTICE}\n- user: My cat is called Mimi.\n- What day is it?\n{CLOSING}"
    seed = left_out_note(7)
    expected = 'A summary of earlier messages says: "My cat is called Mimi"'
    assert said(user(seed), user(note), user("What is my cat called?")) == expected
    assert said(user("I like tea."), user(note), user(seed)) == "Noted: I like tea."
    assert said(user(note), user("What notes about earlier messages are there?")) == NOTHING


PROJECTED = (
    "OpenClaw assembled context for this turn:\n\n<conversation_context>\n"
    "[user]\nThe deploy day is Tuesday.\n\n[assistant]\nNoted.\n\n[toolResult]\nThe port is 8443.\n"
    "</conversation_context>\n\nCurrent user request:\n{}"
)


def test_a_quoted_context_is_context_and_not_the_request() -> None:
    """Spec D-02, D-04."""
    assert said(user(PROJECTED.format("What is the deploy day?"))) == (
        'You said: "The deploy day is Tuesday"'
    )
    assert said(user(PROJECTED.format("Which port?"))) == 'A tool said: "The port is 8443"'
    assert said(user(PROJECTED.format("I like tea."))) == "Noted: I like tea."


def test_a_request_line_inside_the_request_does_not_move_the_request() -> None:
    """RS54: the true request stands behind the block."""
    request = "Say: a\nCurrent user request:\nSay: b"
    assert said(user(PROJECTED.format(request))) == "a\nCurrent user request:\nSay: b"


RECALL: JsonObject = {
    "type": "namespace",
    "name": "mem",
    "description": "d",
    "tools": [
        {
            "type": "function",
            "name": "recall",
            "parameters": {
                "type": "object",
                "properties": {"n": {"type": "integer"}, "q": {"type": "string"}},
                "required": ["q"],
            },
        }
    ],
}
EXEC: JsonObject = {
    "type": "function",
    "name": "exec_command",
    "parameters": {
        "type": "object",
        "properties": {"cmd": {"type": "string"}, "workdir": {"type": "string"}},
        "required": ["cmd"],
    },
}
PATCH: JsonObject = {"type": "custom", "name": "apply_patch", "format": {"type": "grammar"}}
TOOLS: tuple[JsonValue, ...] = (EXEC, RECALL, PATCH, {"type": "web_search"})


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ("Search your memory for deploy day", "recall", {"q": "deploy day"}),
        ('use the tool mem.recall with {"q": "x", "n": 3}', "recall", {"q": "x", "n": 3}),
        ("Use recall with q=tea n=2.", "recall", {"q": "tea", "n": 2}),
        ("please call mem__recall with q='green tea'", "recall", {"q": "green tea"}),
        ('Could you use the recall tool for "cat. dog" please', "recall", {"q": "cat. dog"}),
        ("Run `ls -l | wc` now", "exec_command", {"cmd": "ls -l | wc"}),
        ("run the command `true` and tell me", "exec_command", {"cmd": "true"}),
        ("Call the tool `recall` with cats. Then stop.", "recall", {"q": "cats"}),
    ],
)
def test_an_offered_tool_is_called_when_the_text_asks_for_it(
    text: str, name: str, arguments: Mapping[str, JsonValue]
) -> None:
    answer = ask(user(text), tools=TOOLS)
    assert isinstance(answer, CallFunction)
    assert (answer.name, json.loads(answer.arguments)) == (name, arguments)
    assert answer.namespace == ("mem" if name == "recall" else None)


def test_free_form_tools_get_text() -> None:
    text = "Use the tool apply_patch with *** Begin Patch\n*** End Patch"
    assert ask(user(text), tools=TOOLS) == CallCustom(
        name="apply_patch", input="*** Begin Patch\n*** End Patch"
    )


@pytest.mark.parametrize(
    "text", ["How do I use the tool recall with q=x?", "Did you call recall?", "call me Bob"]
)
def test_talk_about_a_tool_calls_none(text: str) -> None:
    assert isinstance(ask(user(text), tools=TOOLS), Say)


def test_a_tool_that_is_not_offered_is_said_to_be_missing() -> None:
    assert ask(user("use the tool paint with red"), tools=TOOLS) == Say(
        text="No tool named paint is offered to me."
    )
    assert ask(user("Search my memory for cats")) == Say(
        text="No tool named memory_search is offered to me."
    )


def test_the_output_after_the_request_is_the_answer() -> None:
    request = user("search your memory for deploy day")
    output: JsonValue = [{"type": "input_text", "text": "It is Tuesday."}]
    assert ask(request, *called("recall", output, "mem"), tools=TOOLS) == Say(
        text="The tool mem.recall returned: It is Tuesday."
    )
    framed = "Chunk ID: a1\nWall time: 0.1 seconds\nProcess exited with code 0\nOutput:\nhi\n"
    assert ask(user("run `echo hi`"), *called("exec_command", framed), tools=TOOLS) == Say(
        text="The tool exec_command returned: hi"
    )


def test_an_output_of_an_earlier_turn_does_not_count() -> None:
    earlier = (user("search your memory for a"), *called("recall", "A", "mem"), assistant("A"))
    answer = ask(*earlier, user("search your memory for b"), tools=TOOLS)
    assert isinstance(answer, CallFunction)
    assert json.loads(answer.arguments) == {"q": "b"}


def test_two_asked_calls_are_made_one_after_the_other() -> None:
    request = user("Use recall with q=a and then use recall with q=b")
    first, second = (
        ask(request, tools=TOOLS),
        ask(request, *called("recall", "A", "mem"), tools=TOOLS),
    )
    assert isinstance(first, CallFunction)
    assert isinstance(second, CallFunction)
    assert (json.loads(first.arguments), json.loads(second.arguments)) == ({"q": "a"}, {"q": "b"})


CODE_MODE: JsonObject = {
    "type": "additional_tools",
    "role": "developer",
    "tools": [
        {
            "type": "namespace",
            "name": "functions",
            "tools": [
                {
                    "type": "custom",
                    "name": "exec",
                    "description": "Run JavaScript\n\n### `apply_patch`\nPatch.\n\n"
                    "exec tool declaration:\n```ts\ndeclare const tools: "
                    "{ apply_patch(input: string): Promise<unknown>; };\n```\n\n"
                    "### `exec_command`\nRuns.\n\nexec tool declaration:\n```ts\n"
                    "declare const tools: { exec_command(args: {\n  // Shell command.\n"
                    "  cmd: string;\n  // True allocates a PTY.\n  tty?: boolean;\n"
                    "}): Promise<{\n  output: string;\n}>; };\n```\n\n### `look_down` "
                    "(`look-down`)\nLook\n\nexec tool declaration:\n```ts\ndeclare const tools: "
                    "{ look_down(args: { n?: number; q: string; }): Promise<unknown>; };\n```\n\n"
                    "## mem\nd\n\n### `mem__recall`\nRecall\n\nexec tool declaration:\n```ts\n"
                    "declare const tools: { mem__recall(args: { n?: number; q: string; }): "
                    "Promise<unknown>; };\n```",
                },
                {"type": "function", "name": "wait", "parameters": {}},
            ],
        }
    ],
}


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("search your memory for tea", 'tools.mem__recall({"q": "tea"})'),
        ("use the tool look-down with q=x", 'tools.look_down({"q": "x"})'),
        ("Run `pwd`", 'tools.exec_command({"cmd": "pwd"})'),
        ("use the tool apply_patch with '*** X'", 'tools.apply_patch("*** X")'),
    ],
)
def test_in_code_mode_the_call_is_a_script(text: str, call: str) -> None:
    answer = ask(CODE_MODE, user(text))
    assert isinstance(answer, CallCustom)
    assert answer.name == "exec"
    assert answer.input.startswith(f"const r = await {call};\n")


def test_in_code_mode_the_script_s_text_is_the_answer() -> None:
    call: JsonObject = {
        "type": "custom_tool_call",
        "call_id": "c",
        "name": "exec",
        "input": 'const r = await tools.mem__recall({"q": "tea"});\ntext(r);',
    }
    done: JsonObject = {
        "type": "custom_tool_call_output",
        "call_id": "c",
        "output": [
            {"type": "input_text", "text": "Script completed\nWall time 0.0 seconds\nOutput:\n"},
            {"type": "input_text", "text": "green"},
        ],
    }
    assert ask(CODE_MODE, user("search your memory for tea"), call, done) == Say(
        text="The tool mem.recall returned: green"
    )


COMPACT = user("You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary.")


def test_a_compaction_gives_what_was_stated() -> None:
    """Facts section 5."""
    context = (user("My cat is called Mimi."), assistant("Noted."), *called("t", "Port: 1"))
    assert said(*context, COMPACT) == (
        "Summary of what was stated, oldest first:\n"
        "- The user said: My cat is called Mimi\n- A tool said: Port: 1"
    )
    assert said(COMPACT) == "Nothing has been stated so far."


def test_a_summary_of_a_summary_does_not_put_a_tool_s_words_into_the_user_s_mouth() -> None:
    """Decision 17: what is derived never gains trust."""
    first = ask(*called("t", "The port is 1."), {"type": "compaction_trigger"})
    assert isinstance(first, Compact)
    item: JsonObject = {"type": "compaction", "encrypted_content": first.packed}
    assert said(item, COMPACT).endswith("\n- Stated earlier: The port is 1")
    again = ask(item, {"type": "compaction_trigger"})
    assert isinstance(again, Compact)
    second: JsonObject = {"type": "compaction", "encrypted_content": again.packed}
    assert said(second, COMPACT).endswith("\n- Stated earlier: The port is 1")


def test_a_compaction_item_is_read_back() -> None:
    """Facts section 5: the answer to `compaction_trigger` is one opaque item."""
    answer = ask(user("My cat is called Mimi."), {"type": "compaction_trigger"})
    assert isinstance(answer, Compact)
    item: JsonObject = {"type": "compaction", "encrypted_content": answer.packed}
    assert said(item, user("What is my cat called?")) == (
        'A summary of earlier messages says: "My cat is called Mimi"'
    )


def test_an_output_schema_is_satisfied() -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {
            "answer": {"type": "string"},
            "found": {"type": "boolean"},
            "year": {"type": "integer"},
            "kind": {"enum": ["dog", "cat"]},
        },
    }
    wanted: JsonObject = {"format": {"type": "json_schema", "schema": schema}}
    answer = ask(user("The year of my cat is 2019."), user("Which year has my cat?"), text=wanted)
    assert isinstance(answer, Say)
    assert json.loads(answer.text) == {
        "answer": 'You said: "The year of my cat is 2019"',
        "found": True,
        "year": 2019,
        "kind": "cat",
    }


def test_nothing_asked_is_said() -> None:
    assert ask() == Say(text="I was asked nothing.")
    assert decide({}) == Say(text="I was asked nothing.")
    assert decide({"input": "hello"}) == Say(text="I was asked nothing.")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
_ITEMS = st.dictionaries(
    st.sampled_from(["type", "role", "content", "output", "name", "namespace", "tools", "text"]),
    st.sampled_from(["message", "user", "assistant", "function_call_output", "namespace"]) | _JSON,
)


@given(st.lists(_ITEMS, max_size=5), st.lists(_ITEMS, max_size=3))
def test_any_shape_of_input_is_answered_and_equal_input_equally(
    items: list[dict[str, JsonValue]], tools: list[dict[str, JsonValue]]
) -> None:
    body: JsonObject = {"input": items, "tools": tools}
    assert decide(body) == decide(body)


@given(st.text(max_size=200))
def test_any_text_is_answered(text: str) -> None:
    assert ask(user("I like tea."), user(text), tools=TOOLS) is not None


def test_ids_and_metadata_change_nothing() -> None:
    items = [user("My cat is called Mimi."), user("What is my cat called?")]
    marked = [{**item, "id": f"msg_{n}"} for n, item in enumerate(items)]
    one = decide({"input": items})
    assert one == decide({"input": marked, "client_metadata": {"a": "b"}, "prompt_cache_key": "k"})
