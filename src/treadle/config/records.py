"""The settings as frozen records, but for the codex plugin's own; field names are the keys.

A key's meaning, default and kind stand here once; `docs/config.md` is compared with them. Knows
nothing of files and environment.
"""

# ruff: noqa: RUF009 - `setting` returns a dataclass field, made anew for each record

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from treadle.config.codex import (
    ENV_NAME,
    HEADER_NAME,
    HOME_SCOPE,
    CodexEntry,
    ExecMode,
    HomeScope,
)
from treadle.config.kinds import (
    Anything,
    Choice,
    FilePath,
    Flag,
    Integer,
    Number,
    SecretText,
    Text,
    WebAddress,
)
from treadle.config.reading import Secret
from treadle.config.tables import REST, Table, TableOf, setting

RuntimeId = Literal["openclaw", "codex", "auto"]
QueueMode = Literal["steer", "followup", "collect", "interrupt"]
Effort = Literal["none", "off", "adaptive", "minimal", "low", "medium", "high", "xhigh", "max"]

MODEL_REF = Text(
    says="model or provider/model",
    pattern=r"[A-Za-z0-9][A-Za-z0-9_.:/@+-]{0,199}",
    hint="a model name has no blanks and does not start with -",
)
ID = Text(says="letters, digits, -, _ and .", pattern=r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
AGENT_ID = Text(says="lower-case letters, digits, - and _", pattern=r"[a-z0-9][a-z0-9_-]{0,63}")
EFFORT = Choice(("none", "off", "adaptive", "minimal", "low", "medium", "high", "xhigh", "max"))
RUNTIME = Choice(("openclaw", "codex", "auto"), {"pi": "openclaw"})
HOOK_LIMIT_MS = Integer(least=1, most=600_000, unit="ms")
TOKENS = Integer(unit="tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """`agents.defaults.compaction`."""

    reserve_tokens: int | None = setting(
        TOKENS, None, "Tokens of the window kept free for the answer."
    )
    reserve_tokens_floor: int | None = setting(
        TOKENS, None, "The least of that; without both, 20,000."
    )
    timeout_seconds: float = setting(
        Number(least=0.05, most=86_400), 180.0, "Deadline of one compaction."
    )
    max_active_transcript_bytes: int | None = setting(
        Integer(unit="bytes"), None,
        "A transcript larger than this is compacted before the turn.", in_effect=False,
    )  # fmt: skip
    model: str | None = setting(
        MODEL_REF, None, "Model for compaction; native compaction ignores it.", in_effect=False
    )
    provider: str | None = setting(
        ID, None, "Provider for compaction; native compaction ignores it.", in_effect=False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDefaults:
    """`agents.defaults`: what holds for every agent that does not say otherwise."""

    model: str | None = setting(
        MODEL_REF, None, "The model, as `provider/model` or `model`; none: the app-server's own."
    )
    timeout_seconds: float = setting(
        Number(most=31_536_000), 172_800.0, "Time budget of one attempt; 0 = no limit."
    )
    compaction: Compaction = setting(Table(Compaction), Compaction(), "Compaction.")
    image_generation_model: object = setting(
        Anything(), None, "Model for image generation.", in_effect=False
    )
    video_generation_model: object = setting(
        Anything(), None, "Model for video generation.", in_effect=False
    )
    pdf_model: object = setting(Anything(), None, "Model that reads PDF files.", in_effect=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEntry:
    """`agents.entries.<id>`."""

    workspace: Path | None = setting(
        FilePath(), None,
        "Working folder of its sessions; none: `agents/<id>/workspace` in the state directory.",
    )  # fmt: skip
    model: str | None = setting(MODEL_REF, None, "Its model, in place of the default.")
    engine: str | None = setting(ID, None, "Its context engine, in place of the slot's.")
    home_scope: HomeScope | None = setting(
        HOME_SCOPE, None, "Its Codex home, in place of the app-server's `homeScope`."
    )
    effort: Effort | None = setting(EFFORT, None, "How much its model thinks.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Agents:
    """`agents`."""

    defaults: AgentDefaults = setting(Table(AgentDefaults), AgentDefaults(), "Defaults.")
    entries: Mapping[str, AgentEntry] = setting(
        TableOf(Table(AgentEntry), AGENT_ID), {}, "The agents; `main` always exists."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRuntime:
    """Which runtime runs a provider's or a model's turns."""

    id: RuntimeId | None = setting(
        RUNTIME, None, "`codex`, `openclaw` (built in), or `auto`: who supports it."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEntry:
    """`models.providers.<id>.models.<id>`."""

    agent_runtime: AgentRuntime = setting(Table(AgentRuntime), AgentRuntime(), "Its runtime.")
    context_window: int | None = setting(
        Integer(least=1024, unit="tokens"), None,
        "Its context window, where the app-server does not know it.",
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """`models.providers.<id>`."""

    base_url: str | None = setting(WebAddress(), None, "Its address, up to `/responses`.")
    wire_api: Literal["responses"] = setting(Choice(("responses",)), "responses", "Its protocol.")
    api_key_file: Path | None = setting(
        FilePath(), None, "File that holds its key; the key itself never stands here."
    )
    api_key_env: str | None = setting(ENV_NAME, None, "Or the variable that holds its key.")
    headers: Mapping[str, Secret] = setting(
        TableOf(SecretText(), HEADER_NAME), {}, "Headers sent with each request."
    )
    agent_runtime: AgentRuntime = setting(
        Table(AgentRuntime), AgentRuntime(), "Runtime of its models."
    )
    models: Mapping[str, ModelEntry] = setting(
        TableOf(Table(ModelEntry), MODEL_REF), {}, "What is particular to single models."
    )


PROVIDER_HINTS = dict.fromkeys(
    ("apiKey", "api_key", "key", "token", "apikey"),
    "a key never stands in the configuration; use apiKeyFile or apiKeyEnv",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """`models`."""

    providers: Mapping[str, Provider] = setting(
        TableOf(Table(Provider, PROVIDER_HINTS), ID), {}, "Model providers."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Slots:
    """`plugins.slots`: who fills a place of which there is one."""

    context_engine: str = setting(
        ID, "legacy", "The context engine; `treadle engines list` shows what there is."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginEntry:
    """`plugins.entries.<id>` of a plugin that checks its settings itself."""

    enabled: bool = setting(Flag(), True, "False: the plugin is not used.")
    config: object = setting(Anything(), {}, "Its settings; the plugin checks them.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginEntries:
    """`plugins.entries`."""

    codex: CodexEntry = setting(Table(CodexEntry), CodexEntry(), "The codex plugin.")
    others: Mapping[str, PluginEntry] = setting(
        TableOf(Table(PluginEntry), ID), {}, "Other plugins.", key=REST
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugins:
    """`plugins`."""

    slots: Slots = setting(Table(Slots), Slots(), "Slots.")
    entries: PluginEntries = setting(Table(PluginEntries), PluginEntries(), "Plugins by id.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """`memory`."""

    citations: Literal["auto", "on", "off"] = setting(
        Choice(("auto", "on", "off")), "auto",
        "Whether answers cite what was remembered; engines get it as `citationsMode`.",
    )  # fmt: skip


QUEUE_MODE = Choice(
    ("steer", "followup", "collect", "interrupt"),
    {"queue": "steer", "steer-backlog": "followup", "steer+backlog": "followup"},
)
DEBOUNCE = Integer(least=-3_600_000, most=3_600_000, unit="ms")
"""Below 0 means the built-in 500. Source: spec N-03."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """`messages.queue`: what happens to a message that comes while a turn runs."""

    mode: QueueMode = setting(
        QUEUE_MODE, "steer", "Feed the turn, wait, collect, or interrupt.", in_effect=False
    )
    debounce_ms: int = setting(DEBOUNCE, 500, "Quiet time before a batch is sent.", in_effect=False)
    debounce_ms_by_channel: Mapping[str, int] = setting(
        TableOf(DEBOUNCE, ID), {}, "The same for single channels.", in_effect=False
    )
    cap: int = setting(
        Integer(least=-100_000, most=100_000),
        20,
        "Most messages that wait in a session.",
        in_effect=False,
    )
    drop: Literal["summarize", "old", "new"] = setting(
        Choice(("summarize", "old", "new")), "summarize", "What happens beyond that.",
        in_effect=False,
    )  # fmt: skip
    by_channel: Mapping[str, QueueMode] = setting(
        TableOf(QUEUE_MODE, ID), {}, "`mode` for single channels.", in_effect=False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Messages:
    """`messages`."""

    queue: Queue = setting(Table(Queue), Queue(), "The queue.")
    visible_replies: object = setting(
        Anything(), None, "Which replies are shown where.", in_effect=False
    )
    tts: object = setting(Anything(), None, "Model for speech.", in_effect=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolExec:
    """`tools.exec`."""

    mode: ExecMode | None = setting(
        Choice(("deny", "allowlist", "ask", "auto", "full")), None,
        "`auto` forces `appServer.mode` guardian, `full` means no approval.", in_effect=False,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """`tools`."""

    exec: ToolExec = setting(Table(ToolExec), ToolExec(), "Commands.")


HOOK_TIMEOUTS_S: Mapping[str, float] = {
    **dict.fromkeys(
        (
            "before_agent_run", "before_tool_call", "before_install", "before_prompt_build",
            "before_agent_finalize", "message_sending", "reply_payload_sending",
            "resolve_exec_env",
        ),
        15.0,
    ),
    **dict.fromkeys(("agent_end", "before_compaction", "after_compaction"), 30.0),
    "gateway_stop": 5.0,
}  # fmt: skip
"""Seconds by hook. Source: spec L-02."""

HOOK_TIMEOUT_S = 15.0
"""Seconds for a hook that L-02 does not name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """`hooks`."""

    timeout_ms: int | None = setting(HOOK_LIMIT_MS, None, "Deadline of every hook handler.")
    timeouts: Mapping[str, int] = setting(
        TableOf(HOOK_LIMIT_MS, ID), {}, "The same for single hooks, by name."
    )

    def timeout_s(self, hook: str, plugin_ms: int | None = None) -> float:
        """Return a hook's deadline in seconds: its own, the common, the plugin's, L-02's."""
        for given in (self.timeouts.get(hook), self.timeout_ms, plugin_ms):
            if given is not None:
                return min(max(given, 1), 600_000) / 1000
        return HOOK_TIMEOUTS_S.get(hook, HOOK_TIMEOUT_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lanes:
    """`lanes`: how many runs go at once."""

    main: int | None = setting(
        Integer(least=1, most=10_000), None,
        "Runs at once, all sessions together; none: four per processor, at least 8.",
    )  # fmt: skip
    subagent: int = setting(
        Integer(least=1, most=10_000), 8, "Runs of subagents at once.", in_effect=False
    )

    def limit(self, lane: str, cpu_count: int) -> int:
        """Return how many runs a lane takes at once. Source: spec A-15."""
        if lane == "main":
            return self.main or max(8, cpu_count * 4)
        return self.subagent if lane == "subagent" else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """`store`."""

    synchronous: Literal["full", "normal"] = setting(
        Choice(("full", "normal")), "full",
        "`full`: what was acknowledged survives a power cut. `normal` is faster and does not.",
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """`log`."""

    level: Literal["debug", "info", "warning", "error"] = setting(
        Choice(("debug", "info", "warning", "error")), "info", "What the log file holds."
    )
    max_bytes: int = setting(
        Integer(least=10_000, most=10**10, unit="bytes"), 10_000_000, "Size of one log file."
    )
    keep_count: int = setting(Integer(least=1, most=1000), 5, "Older log files that are kept.")
