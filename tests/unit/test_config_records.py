"""The settings as records, without files: migration, faults, precedence of what was said."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.config import (
    ENVIRONMENT,
    Deadlines,
    KeyRow,
    Permissions,
    Secret,
    Settings,
    key_rows,
    nearest,
    value_rows,
)
from treadle.config.document import Document, key_lines
from treadle.config.kinds import resolved
from treadle.config.migrate import OLD_VARIABLES, migrate
from treadle.config.paths import VARIABLES
from treadle.config.reading import KeyPath, Reading, dotted
from treadle.config.tables import Table
from treadle.model.errors import NotFound
from treadle.model.json import canonical

DOC = Path(__file__).parents[2] / "docs" / "config.md"


def read(values: dict[str, Any]) -> tuple[Settings, list[str], list[str]]:
    """Return settings, faults and warnings of a document."""
    document = Document(values, {(): "config.toml"})
    words: list[str] = []

    def warn(path: KeyPath, text: str) -> None:
        words.append(f"{dotted(path)} {text}")

    old = migrate(document, warn)
    reading = Reading(base=Path("/etc/treadle"), home=Path("/home/me"), where=document.where)
    settings = Table(Settings).read(document.values, (), reading)
    words.extend(f"{dotted(path)} {text}" for path, text in reading.notes)
    if old is not None:
        object.__setattr__(settings, "old_default_runtime", old)
    return settings, reading.faults, words


def nested(path: str, value: object) -> dict[str, Any]:
    """Return a document with one key."""
    head, _, rest = path.partition(".")
    return {head: nested(rest, value) if rest else value}


CODEX = "plugins.entries.codex.config"


def test_without_any_setting_everything_has_the_contracts_default() -> None:
    """Spec V-01…V-19, A-17, J-10, N-01."""
    settings, faults, words = read({})
    assert (faults, words) == ([], [])
    assert settings == Settings()
    assert settings.engine == "legacy"
    assert settings.agent().timeout_s == 172_800
    assert settings.codex.app_server.args == ("app-server", "--listen", "stdio://")
    assert settings.codex.app_server.request_timeout_ms == 60_000
    assert settings.codex.app_server.home_scope == "agent"
    assert settings.codex.projection.mode == "auto"
    assert settings.codex.projection.keep_superseded_days == 7
    assert settings.codex.codex_dynamic_tools_exclude == ()
    assert settings.agents.defaults.compaction.timeout_seconds == 180
    assert settings.messages.queue.debounce_ms == 500
    assert settings.messages.queue.cap == 20
    assert settings.finalize_on_failure
    assert settings.store.synchronous == "full"


GOOD: dict[str, tuple[str, object, object]] = {
    "list args": (f"{CODEX}.appServer.args", ["a", "b c"], ("a", "b c")),
    "quoted args": (f"{CODEX}.appServer.args", 'a "b c"', ("a", "b c")),
    "bare command": (f"{CODEX}.appServer.command", "codex", "codex"),
    "relative command": (f"{CODEX}.appServer.command", "bin/codex", "/etc/treadle/bin/codex"),
    "home command": (f"{CODEX}.appServer.command", "~/codex", "/home/me/codex"),
    "old tier": (f"{CODEX}.appServer.serviceTier", "fast", "priority"),
    "no tier": (f"{CODEX}.appServer.serviceTier", "none", None),
    "unlimited": ("agents.defaults.timeoutSeconds", 0, 0.0),
    "model": (
        "agents.defaults.model",
        "openrouter/meta/llama-3:free",
        "openrouter/meta/llama-3:free",
    ),
    "projection text": (f"{CODEX}.projection.mode", "prompt", "prompt"),
}


@pytest.mark.parametrize(("path", "value", "expected"), GOOD.values(), ids=GOOD.keys())
def test_a_value_is_read_as_what_it_means(path: str, value: object, expected: object) -> None:
    """Spec V-05, V-09, A-17."""
    settings, faults, _ = read(nested(path, value))
    assert faults == []
    found: Any = settings
    for name in path.split("."):
        found = getattr(found, re.sub(r"([A-Z])", lambda m: "_" + m.group().lower(), name))
    assert found == expected


BAD: dict[str, tuple[str, object, str]] = {
    "unknown key": (
        "agents.defualts",
        {},
        'agents.defualts: unknown key; did you mean "defaults"?',
    ),
    "unknown root": ("whatever", 1, "whatever: unknown key; allowed: agents, models"),
    "word": (f"{CODEX}.projection.mode", "histroy", 'did you mean "history"?'),
    "flag": ("finalizeOnFailure", "yes", 'found "yes", allowed: true | false'),
    "bool is no number": ("agents.defaults.timeoutSeconds", True, "found true, allowed: number"),
    "negative": ("agents.defaults.timeoutSeconds", -1, "found -1, allowed: number of seconds"),
    "not finite": ("agents.defaults.timeoutSeconds", float("nan"), "found nan"),
    "table wanted": ("agents", 3, "agents: found 3, allowed: table"),
    "option as model": ("agents.defaults.model", "--config=x", "does not start with -"),
    "line in model": ("agents.defaults.model", "a\nb", "allowed: model or provider/model"),
    "agent id": ("agents.entries.Über", {}, 'agents.entries."Über": the name is not allowed'),
    "agent path": ("agents.entries", {"../x": {}}, "the name is not allowed"),
    "url with user": ("models.providers.p.baseUrl", "http://me:pw@h/v1", "a URL with a user name"),
    "url scheme": ("models.providers.p.baseUrl", "ftp://h", "allowed: http(s) URL"),
    "broken url": ("models.providers.p.baseUrl", "http://[x", "allowed: http(s) URL"),
    "wire": ("models.providers.p.wireApi", "chat", "allowed: responses"),
    "key text": ("models.providers.p.apiKey", "abcdef", "a key never stands in the configuration"),
    "quotes": (f"{CODEX}.appServer.args", 'a "b', "the quotes do not fit"),
    "event": (f"{CODEX}.nativeHookRelay.events", ["stop"], "allowed: list of pre_tool_use"),
    "hook time": ("hooks.timeouts.agent_end", 600_001, "from 1 to 600,000"),
    "option as command": (f"{CODEX}.appServer.command", "-c", "does not start with -"),
    "secret header": ("models.providers.p.headers.X-Key", 5, "a value that is not shown"),
    "sha": (f"{CODEX}.appServer.sha256", "xyz", "allowed: 64 hex digits"),
}


@pytest.mark.parametrize(("path", "value", "expected"), BAD.values(), ids=BAD.keys())
def test_a_bad_value_names_its_key_what_was_found_and_what_is_allowed(
    path: str, value: object, expected: str
) -> None:
    """Issue 2: every error with path and did-you-mean; RS41."""
    _, faults, _ = read(nested(path, value))
    assert len(faults) == 1
    assert expected in faults[0]
    assert faults[0].startswith("config.toml: ")


def test_no_fault_repeats_a_key_that_stands_where_none_may() -> None:
    """INV-22."""
    _, faults, _ = read({
        "models": {
            "providers": {
                "p": {
                    "apiKey": "hush-hush-1",
                    "baseUrl": "http://u:hush-hush-2@h",
                    "headers": {"A": "hush-hush-3\n"},
                }
            }
        }
    })
    assert len(faults) == 3
    assert "hush" not in "".join(faults)


OLD: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "projection text": (
        {"codex": {"projection": "prompt"}},
        nested(f"{CODEX}.projection.mode", "prompt"),
        "codex.projection is read as",
    ),
    "projection table": (
        {"codex": {"projection": {"toolArguments": "shape"}, "keepSupersededDays": 3}},
        nested(f"{CODEX}.projection", {"toolArguments": "shape", "keepSupersededDays": 3}),
        "codex.keepSupersededDays is read as",
    ),
    "days beside": (
        nested(f"{CODEX}.keepSupersededDays", 3),
        nested(f"{CODEX}.projection.keepSupersededDays", 3),
        "is read as",
    ),
    "list": (
        {"agents": {"list": [{"id": "ops", "model": "openai/x"}, {"id": "main"}]}},
        {"agents": {"entries": {"ops": {"model": "openai/x"}, "main": {}}}},
        "agents.list is old",
    ),
    "supervisor": (
        nested("plugins.entries.codex-supervisor", {"enabled": True, "config": {"endpoints": [1]}}),
        nested(f"{CODEX}.supervision", {"enabled": True, "endpoints": [1]}),
        "plugins.entries.codex-supervisor is old",
    ),
    "idle": (
        nested(f"{CODEX}.appServer", {"turnCompletionIdleTimeoutMs": 1, "command": "c"}),
        nested(f"{CODEX}.appServer.command", "c"),
        "is retired and ignored",
    ),
    "pi": (
        nested("models.providers.p.agentRuntime.id", "pi"),
        nested("models.providers.p.agentRuntime.id", "openclaw"),
        '"pi" is an old name; write "openclaw"',
    ),
    "reviewer": (
        nested(f"{CODEX}.appServer.approvalsReviewer", "guardian_subagent"),
        nested(f"{CODEX}.appServer.approvalsReviewer", "auto_review"),
        "is an old name",
    ),
    "agent runtime": (
        nested("agents.entries.main.agentRuntime.id", "codex"),
        nested("agents.entries", {"main": {}}),
        "is old and ignored",
    ),
    "codex model": (
        nested("agents.defaults.model", "codex/gpt-5"),
        nested("agents.defaults.model", "codex/gpt-5"),
        'write "openai/gpt-5"',
    ),
}


@pytest.mark.parametrize(("old", "new", "word"), OLD.values(), ids=OLD.keys())
def test_an_old_key_means_its_new_one_and_warns(
    old: dict[str, Any], new: dict[str, Any], word: str
) -> None:
    """Spec V-12, V-30, V-31, V-33, A-06, decision 21."""
    settings, faults, words = read(old)
    assert faults == []
    assert settings == read(new)[0]
    assert any(word in one for one in words)


def test_what_is_said_in_the_new_place_wins_over_the_old() -> None:
    """Spec V-12."""
    settings, faults, _ = read({
        "codex": {"projection": {"mode": "prompt", "toolArguments": "shape"}},
        **nested(f"{CODEX}.projection.mode", "history"),
    })
    assert faults == []
    assert settings.codex.projection.mode == "history"
    assert settings.codex.projection.tool_arguments == "shape"


@pytest.mark.parametrize(
    ("defaults", "expected"),
    [
        ({"agentRuntime": {"id": "codex"}}, "codex"),
        ({"agentRuntime": "pi"}, "openclaw"),
        ({"embeddedHarness": {"runtime": "codex"}}, "codex"),
        ({"embeddedHarness": {"runtime": "nonsense"}}, None),
    ],
)
def test_a_whole_agent_runtime_is_the_last_resort(
    defaults: dict[str, Any], expected: str | None
) -> None:
    """Spec A-05, A-04."""
    settings, faults, words = read({
        "agents": {"defaults": defaults},
        "models": {
            "providers": {
                "p": {
                    "agentRuntime": {"id": "openclaw"},
                    "models": {"m": {"agentRuntime": {"id": "auto"}}},
                }
            }
        },
    })
    assert faults == []
    assert any("is old" in one for one in words)
    model, provider, other = (settings.runtime(*at) for at in [("p", "m"), ("p", "x"), ("q", "m")])
    assert model is not None
    assert (model.id, model.scope) == ("auto", "model")
    assert provider is not None
    assert (provider.id, provider.scope) == ("openclaw", "provider")
    assert (other and other.id) == expected


def test_keys_of_later_versions_are_accepted_and_said_to_have_no_effect() -> None:
    """Spec V-12, V-13, V-32."""
    _, faults, words = read({
        "messages": {"queue": {"mode": "queue"}, "tts": {"provider": "x"}},
        **nested(f"{CODEX}.supervision.enabled", True),
    })
    assert faults == []
    assert len([one for one in words if "does not use it yet" in one]) == 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key of the contract: what it means unset, what it takes, and what it does not."""

    case: str
    key: str
    default: object
    given: object
    meant: object
    refused: object
    in_effect: bool = False


COMPACTION = "agents.defaults.compaction"
QUEUE = "messages.queue"
EVENTS = ["pre_tool_use", "post_tool_use", "permission_request", "before_agent_finalize"]

KEYS_OF_CASES = (
    Key(
        case="V-10", key=f"{CODEX}.appServer.loopDetectionPreToolUseRelay", default=True,
        given=False, meant=False, refused="no",
    ),
    Key(
        case="V-11", key=f"{CODEX}.nativeHookRelay.events", default=None,
        given=EVENTS, meant=EVENTS, refused=["stop"],
    ),
    Key(case="V-14", key=f"{QUEUE}.cap", default=20, given=3, meant=3, refused=1.5),
    Key(
        case="V-14", key=f"{QUEUE}.drop", default="summarize",
        given="old", meant="old", refused="oldest",
    ),
    Key(
        case="V-14", key=f"{QUEUE}.byChannel", default={},
        given={"web": "collect"}, meant={"web": "collect"}, refused={"web": "collected"},
    ),
    Key(
        case="V-14", key=f"{QUEUE}.debounceMsByChannel", default={},
        given={"web": 0}, meant={"web": 0}, refused={"web": "soon"},
    ),
    Key(
        case="V-15", key=f"{COMPACTION}.reserveTokens", default=None,
        given=40_000, meant=40_000, refused=-1, in_effect=True,
    ),
    Key(
        case="V-15", key=f"{COMPACTION}.reserveTokensFloor", default=None,
        given=5_000, meant=5_000, refused="few", in_effect=True,
    ),
    Key(
        case="V-15", key=f"{COMPACTION}.timeoutSeconds", default=180.0,
        given=5, meant=5.0, refused=0, in_effect=True,
    ),
    Key(
        case="V-15", key=f"{COMPACTION}.maxActiveTranscriptBytes", default=None,
        given=2**20, meant=2**20, refused=-1,
    ),
    Key(
        case="V-15", key=f"{COMPACTION}.model", default=None,
        given="openai/gpt-5.5", meant="openai/gpt-5.5", refused="two words",
    ),
    Key(
        case="V-15", key=f"{COMPACTION}.provider", default=None,
        given="openai", meant="openai", refused="a/b",
    ),
    Key(
        case="V-19", key=f"{CODEX}.discovery.enabled", default=True,
        given=False, meant=False, refused=1,
    ),
    Key(
        case="V-19", key=f"{CODEX}.discovery.timeoutMs", default=2500,
        given=100, meant=100, refused=10,
    ),
)  # fmt: skip


def shown_of(settings: Settings, key: str) -> object:
    """Return what `config show` says of a key; a table by name is its rows together."""
    rows = {row.key: row.value for row in value_rows(settings)}
    if key in rows:
        return rows[key]
    inside = f"{key}."
    return {name.removeprefix(inside): rows[name] for name in rows if name.startswith(inside)}


@pytest.mark.parametrize(
    "case", KEYS_OF_CASES, ids=[f"{one.case} {one.key}" for one in KEYS_OF_CASES]
)
def test_a_key_has_its_default_is_read_checked_and_shown(case: Key) -> None:
    """Spec V-10, V-11, V-14, V-15, V-19; one whose work is not built yet says so when it is set.

    What stands in `docs/config.md` of each key is compared with the schema by another test.
    """
    assert shown_of(Settings(), case.key) == case.default
    settings, faults, words = read(nested(case.key, case.given))
    assert faults == []
    assert shown_of(settings, case.key) == case.meant
    unused = f"{case.key} accepted, but this version does not use it yet"
    assert words == ([] if case.in_effect else [unused])
    rows = [row for row in key_rows() if row.key in {case.key, f"{case.key}.<id>"}]
    assert [row.in_effect for row in rows] == [case.in_effect]
    settings, faults, _ = read(nested(case.key, case.refused))
    assert len(faults) == 1
    assert case.key in faults[0]
    assert "allowed: " in faults[0]
    assert shown_of(settings, case.key) == case.default


READ_AS = {
    "agents.defaults.timeoutSeconds": "timeout_s",
    "compaction.timeoutSeconds": "compaction_s",
    "appServer.requestTimeoutMs": "request_s",
    "slots.contextEngine": "engine",
    "hooks.timeoutMs": "timeout_s",
    "hooks.timeouts.<id>": "timeout_s",
}
"""Ends of keys, each with the name under which what it says is read."""

ONE_VALUE = {"wireApi"}
"""Keys that take one value only, so that nobody has to ask."""


def test_every_key_that_is_said_to_be_in_effect_is_read_by_somebody() -> None:
    """V; ours: five keys were said to do what nothing did."""
    source = Path(__file__).parents[2] / "src" / "treadle"
    code = "\n".join(
        path.read_text("utf-8")
        for path in source.rglob("*.py")
        if path.relative_to(source).parts[0] != "config"
    )
    unread = []
    for row in key_rows():
        names = [name for name in row.key.split(".") if name != "<id>"]
        field = re.sub(r"([A-Z])", lambda m: "_" + m.group().lower(), names[-1])
        if names[0] == "deadlines":
            field = field.removesuffix("_seconds") + "_s"
        wanted = next((at for end, at in READ_AS.items() if row.key.endswith(end)), field)
        is_read = re.search(rf"\.{wanted}\b", code) is not None
        if row.in_effect and not is_read and names[-1] not in ONE_VALUE:
            unread.append(row.key)
    assert unread == []


def test_an_agent_takes_its_own_settings_before_the_defaults() -> None:
    """Decision 31."""
    settings, faults, _ = read({
        "agents": {
            "defaults": {"model": "a", "timeoutSeconds": 0},
            "entries": {"ops": {"model": "b", "engine": "window", "homeScope": "user"}},
        }
    })
    assert faults == []
    ops, main = settings.agent("ops"), settings.agent()
    assert (ops.model, ops.engine, ops.home_scope, ops.timeout_s) == ("b", "window", "user", None)
    assert (main.model, main.engine, main.home_scope) == ("a", "legacy", "agent")
    assert settings.agent_ids() == ("main", "ops")
    with pytest.raises(NotFound) as refused:
        settings.agent("opps")
    assert refused.value.next_step == "Use --agent ops"


@pytest.mark.parametrize(
    ("mode", "exec_mode", "overrides", "expected"),
    [
        ("guarded", None, {}, ("on-request", "workspace-write", "user")),
        ("guardian", None, {}, ("on-request", "workspace-write", "auto_review")),
        ("yolo", None, {}, ("never", "danger-full-access", "user")),
        ("yolo", None, {"sandbox": "read-only"}, ("never", "read-only", "user")),
        (
            "yolo",
            "auto",
            {"approvalPolicy": "never"},
            ("on-request", "workspace-write", "auto_review"),
        ),
        ("guarded", "auto", {"sandbox": "read-only"}, ("on-request", "read-only", "auto_review")),
        ("guarded", "full", {}, ("never", "danger-full-access", "user")),
    ],
)
def test_modes_and_overrides_come_to_one_set_of_permissions(
    mode: str, exec_mode: Any, overrides: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    """Spec V-07, V-08, decision 27."""
    settings, faults, _ = read(nested(f"{CODEX}.appServer", {"mode": mode, **overrides}))
    assert faults == []
    found = settings.codex.app_server.permissions(exec_mode)
    assert isinstance(found, Permissions)
    assert (found.approval_policy, found.sandbox, found.reviewer) == expected


def test_a_hooks_deadline_is_its_own_then_the_common_then_the_plugins() -> None:
    """Spec L-02."""
    hooks = read({"hooks": {"timeoutMs": 2000, "timeouts": {"agent_end": 500}}})[0].hooks
    assert hooks.timeout_s("agent_end", 9000) == 0.5
    assert hooks.timeout_s("gateway_stop", 9000) == 2
    plain = Settings().hooks
    assert plain.timeout_s("agent_end") == 30
    assert plain.timeout_s("gateway_stop") == 5
    assert plain.timeout_s("before_prompt_build") == 15
    assert plain.timeout_s("before_prompt_build", 10**9) == 600


def test_lanes_are_at_least_eight_and_four_per_processor() -> None:
    """Spec A-15."""
    lanes = Settings().lanes
    assert [lanes.limit("main", cpus) for cpus in (1, 2, 16)] == [8, 8, 64]
    assert (lanes.limit("subagent", 2), lanes.limit("other", 2)) == (8, 1)
    assert read({"lanes": {"main": 3}})[0].lanes.limit("main", 16) == 3


def test_secrets_show_in_no_repr_and_are_handed_to_the_redactor() -> None:
    """INV-22."""
    settings, faults, _ = read({
        "models": {"providers": {"p": {"headers": {"X-Key": "hush-hush-1"}}}},
        **nested(f"{CODEX}.appServer.authToken", "hush-hush-2"),
    })
    assert faults == []
    assert "hush" not in repr(settings)
    assert sorted(settings.secrets()) == ["hush-hush-1", "hush-hush-2"]
    assert Secret("a") == Secret("a")
    assert str(Secret("a")) == "Secret(set)"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = sorted({row.key for row in key_rows()})


@given(st.dictionaries(st.sampled_from(KEYS), JSON, max_size=4))
def test_no_value_makes_reading_raise(values: Mapping[str, Any]) -> None:
    """Whatever stands in the file gives settings and faults, never a traceback."""
    document = Document({}, {(): "config.toml"})
    for key, value in values.items():
        document.put(tuple(key.replace("<id>", "x").split(".")), value, "config.toml:1")
    migrate(document, lambda path, text: None)
    reading = Reading(base=Path("/"), home=Path("/"), where=document.where)
    Table(Settings).read(document.values, (), reading)
    assert all(fault.startswith("config.toml") for fault in reading.faults)


def test_lines_of_keys_are_found_in_tables_dotted_and_quoted_keys() -> None:
    text = 'a = 1\nb.c = 2\n["x.y".z]\n# d = 3\n"e f" = 4\n[[list]]\nid = 5\n[[list]]\nid = 6\n'
    assert key_lines(text) == {
        ("a",): 1, ("b", "c"): 2, ("x.y", "z"): 3, ("x.y", "z", "e f"): 5,
        ("list", "0"): 6, ("list", "0", "id"): 7, ("list", "1"): 8, ("list", "1", "id"): 9,
    }  # fmt: skip


def test_paths_are_absolute_and_without_dots() -> None:
    base, home = Path("/etc/t"), Path("/home/me")
    texts = ["x/y", "../x", "/a/../b", "~", "~/z", "~other", "../../../../q"]
    found = [str(resolved(text, base=base, home=home)) for text in texts]
    assert found == ["/etc/t/x/y", "/etc/x", "/b", "/home/me", "/home/me/z", "/etc/t/~other", "/q"]


def test_the_nearest_name_is_near_enough_or_none() -> None:
    assert nearest("contextengine", ["contextEngine", "legacy"]) == "contextEngine"
    assert nearest("zzz", ["contextEngine"]) is None


def test_every_deadline_is_positive_and_has_its_reason() -> None:
    """Style 10: one place for all deadlines."""
    rows = [row for row in key_rows() if row.key.startswith("deadlines.")]
    assert len(rows) == len(Deadlines.__dataclass_fields__) - 3
    assert all(isinstance(row.default, float) and row.default > 0 and row.text for row in rows)


def shown_default(row: KeyRow) -> str:
    """Return a key's default as the documentation writes it."""
    match row.default:
        case None:
            return "not set"
        case bool():
            return str(row.default).lower()
        case int() | float():
            return f"{row.default:,.10g}"
        case str():
            return row.default
        case list() | tuple():
            return " ".join(str(part) for part in row.default) or "empty"
        case _:
            return "empty"


def test_the_page_describes_every_key_as_the_schema_does() -> None:
    """docs/config.md: one row per key, none besides; every variable is named."""
    page = DOC.read_text("utf-8")
    rows = re.findall(r"^\| `([^`]+)` \| (.+?) \| (.+?) \| (yes|not yet) \| (.+) \|$", page, re.M)
    expected = [
        (
            row.key,
            row.allowed.replace("|", "\\|"),
            shown_default(row),
            "yes" if row.in_effect else "not yet",
            row.text,
        )
        for row in key_rows()
    ]
    assert rows == expected
    for name in (*ENVIRONMENT, *VARIABLES, *OLD_VARIABLES):
        assert f"`{name}`" in page


def test_every_default_is_plain_json() -> None:
    canonical([row.default for row in key_rows()])
