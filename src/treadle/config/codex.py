"""The settings of the codex plugin: app-server, projection, dynamic tools, relay, supervision.

Knows how the settings of approvals work together; starts nothing.
"""

# ruff: noqa: RUF009 - `setting` returns a dataclass field, made anew for each record

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from treadle.config.kinds import (
    Anything,
    Choice,
    Command,
    Flag,
    Integer,
    Nullable,
    Number,
    SecretText,
    Strings,
    Text,
)
from treadle.config.reading import Secret
from treadle.config.tables import OneOrMany, Table, TableOf, setting

HomeScope = Literal["agent", "user"]
ApprovalMode = Literal["guarded", "guardian", "yolo"]
ApprovalPolicy = Literal["untrusted", "on-request", "never"]
Sandbox = Literal["read-only", "workspace-write", "danger-full-access"]
Reviewer = Literal["user", "auto_review"]
ExecMode = Literal["deny", "allowlist", "ask", "auto", "full"]
ToolArguments = Literal["redacted", "shape"]
Projection = Literal["auto", "history", "prompt"]
RelayEvent = Literal["pre_tool_use", "post_tool_use", "permission_request", "before_agent_finalize"]

DEFAULT_ARGS = ("app-server", "--listen", "stdio://")
"""Source: spec V-05."""

RELAY_EVENTS = ("pre_tool_use", "post_tool_use", "permission_request", "before_agent_finalize")
"""Source: spec L-09."""

HOME_SCOPE = Choice(("agent", "user"))
ENV_NAME = Text(says="name of an environment variable", pattern=r"[A-Za-z_][A-Za-z0-9_]{0,127}")
HEADER_NAME = Text(says="HTTP header name", pattern=r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Permissions:
    """What a turn may do and who is asked. Words as the app-server takes them."""

    approval_policy: ApprovalPolicy
    sandbox: Sandbox
    reviewer: Reviewer


PERMISSIONS: Mapping[ApprovalMode, Permissions] = {
    "guarded": Permissions(
        approval_policy="on-request", sandbox="workspace-write", reviewer="user"
    ),
    "guardian": Permissions(
        approval_policy="on-request", sandbox="workspace-write", reviewer="auto_review"
    ),
    "yolo": Permissions(approval_policy="never", sandbox="danger-full-access", reviewer="user"),
}
"""Source: decision 27, spec V-07."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppServer:
    """How the app-server is reached and started."""

    transport: Literal["stdio", "unix", "websocket"] = setting(
        Choice(("stdio", "unix", "websocket")), "stdio",
        "How the app-server is reached. Only `stdio` works in this version.",
    )  # fmt: skip
    command: str = setting(
        Command(), "codex",
        "The codex binary. Without a path it is looked up in PATH, then in the installed wheel.",
    )  # fmt: skip
    args: tuple[str, ...] = setting(Strings(shell=True), DEFAULT_ARGS, "Its arguments.")
    sha256: str | None = setting(
        Text(says="64 hex digits", pattern="[0-9a-fA-F]{64}"), None,
        "The SHA-256 that the binary must have; another one is not started.",
    )  # fmt: skip
    url: str | None = setting(
        Text(), None, "Address of a running app-server.", in_effect=False,
    )  # fmt: skip
    auth_token: Secret | None = setting(
        SecretText(), None, "Token for that address.", in_effect=False,
    )  # fmt: skip
    headers: Mapping[str, Secret] = setting(
        TableOf(SecretText(), HEADER_NAME), {}, "Headers for that address.", in_effect=False,
    )  # fmt: skip
    clear_env: tuple[str, ...] = setting(
        Strings(), (), "Variables the child does not get; `CODEX_HOME` and `HOME` are ignored.",
    )  # fmt: skip
    env: Mapping[str, str] = setting(
        TableOf(Text(), ENV_NAME), {},
        "Variables added to the child's environment; they pass the same filter as all others.",
    )  # fmt: skip
    home_scope: HomeScope = setting(
        HOME_SCOPE, "agent",
        "`agent`: each agent has its own `CODEX_HOME` under the state directory; `user`: yours.",
    )  # fmt: skip
    mode: ApprovalMode = setting(
        Choice(("guarded", "guardian", "yolo")), "guarded",
        "`guarded` asks you, `guardian` lets Codex's reviewer decide, `yolo` asks nobody. "
        "In this version every turn runs read-only and asks.",
        in_effect=False,
    )  # fmt: skip
    approval_policy: ApprovalPolicy | None = setting(
        Choice(("untrusted", "on-request", "never"), {"on-failure": "on-request"}), None,
        "Overrides what `mode` says about asking.", in_effect=False,
    )  # fmt: skip
    sandbox: Sandbox | None = setting(
        Choice(("read-only", "workspace-write", "danger-full-access")), None,
        "Overrides what `mode` says about the sandbox.", in_effect=False,
    )  # fmt: skip
    approvals_reviewer: Reviewer | None = setting(
        Choice(("user", "auto_review"), {"guardian_subagent": "auto_review"}), None,
        "Overrides what `mode` says about who is asked.", in_effect=False,
    )  # fmt: skip
    request_timeout_ms: int = setting(
        Integer(least=50, most=86_400_000, unit="ms"), 60_000, "Deadline of one control call.",
    )  # fmt: skip
    service_tier: str | None = setting(
        Nullable(
            Choice(("priority", "flex", "auto", "default"), {"fast": "priority"}), "none"
        ), None,
        "Service tier of each turn; `none` leaves it to the app-server.",
    )  # fmt: skip
    loop_detection_pre_tool_use_relay: bool = setting(
        Flag(), True, "Watch native tools for loops through the hook relay.", in_effect=False,
    )  # fmt: skip

    def permissions(self, exec_mode: ExecMode | None = None) -> Permissions:
        """Return what `mode`, the single overrides and `tools.exec.mode` come to.

        `auto` forces `guardian` and drops overrides that would loosen it. Source: spec V-07, V-08.
        """
        if exec_mode == "auto":
            forced = PERMISSIONS["guardian"]
            return replace(forced, sandbox="read-only") if self.sandbox == "read-only" else forced
        base = PERMISSIONS["yolo" if exec_mode == "full" else self.mode]
        return Permissions(
            approval_policy=self.approval_policy or base.approval_policy,
            sandbox=self.sandbox or base.sandbox,
            reviewer=self.approvals_reviewer or base.reviewer,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectionSettings:
    """How an engine's messages reach the model."""

    mode: Projection = setting(
        Choice(("auto", "history", "prompt")), "auto",
        "`history` puts real items into the thread, `prompt` quotes them before the request; "
        "`auto` takes `history` where the app-server can.",
    )  # fmt: skip
    tool_arguments: ToolArguments = setting(
        Choice(("redacted", "shape")), "redacted",
        "Arguments of tool calls that the thread did not make itself: without secrets, or "
        "only their shape.",
    )  # fmt: skip
    keep_thread: bool = setting(
        Flag(), False, "Keep the thread id over a rebase, by an anchor turn; every prompt then "
        "runs a hook.", in_effect=False,
    )  # fmt: skip
    keep_superseded_days: float = setting(
        Number(least=0, most=36_500, unit="days"), 7.0,
        "Days after which an archived, superseded thread is deleted.",
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeHookRelay:
    """Which native hooks are relayed."""

    events: tuple[RelayEvent, ...] | None = setting(
        Strings(words=RELAY_EVENTS), None,
        "Events to relay; `permission_request` only if it is named here.", in_effect=False,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervision:
    """Looking after threads of other clients."""

    enabled: bool = setting(Flag(), False, "List and show threads of others.", in_effect=False)
    allow_raw_transcripts: bool = setting(
        Flag(), False, "Show their texts in full.", in_effect=False
    )
    allow_write_controls: bool = setting(
        Flag(), False, "Let a person continue or archive them.", in_effect=False
    )
    endpoints: object = setting(Anything(), (), "Where they run.", in_effect=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """Looking for models."""

    enabled: bool = setting(Flag(), True, "Ask the app-server for its models.", in_effect=False)
    timeout_ms: int = setting(
        Integer(least=50, most=600_000, unit="ms"), 2500, "Deadline of that.", in_effect=False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CodexConfig:
    """`plugins.entries.codex.config`."""

    app_server: AppServer = setting(Table(AppServer), AppServer(), "The app-server.")
    projection: ProjectionSettings = setting(
        OneOrMany(Table(ProjectionSettings), "mode"), ProjectionSettings(), "Projection.",
    )  # fmt: skip
    codex_dynamic_tools_loading: Literal["searchable", "direct"] = setting(
        Choice(("searchable", "direct")), "searchable",
        "Whether the model finds dynamic tools by searching or sees them all.",
        in_effect=False,
    )  # fmt: skip
    codex_dynamic_tools_exclude: tuple[str, ...] = setting(
        Strings(), (), "Dynamic tools that are not offered."
    )
    native_hook_relay: NativeHookRelay = setting(
        Table(NativeHookRelay), NativeHookRelay(), "Native hooks."
    )
    supervision: Supervision = setting(Table(Supervision), Supervision(), "Supervision.")
    discovery: Discovery = setting(Table(Discovery), Discovery(), "Model discovery.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CodexEntry:
    """`plugins.entries.codex`."""

    enabled: bool = setting(Flag(), True, "False: no run may use the codex runtime.")
    config: CodexConfig = setting(Table(CodexConfig), CodexConfig(), "Its settings.")
