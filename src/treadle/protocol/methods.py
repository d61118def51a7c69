"""The messages of the app-server that Treadle speaks, as one table; knows nothing of when they go.

A test compares the table with the schema that the pinned binary prints: every name, params type and
experimental mark. What the app-server offers beyond the table is not spoken; `WHY_NOT` says why, by
prefix.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final


class Kind(Enum):
    """Who speaks, and whether an answer follows."""

    REQUEST = "request"
    """We ask, the app-server answers."""

    OWN_NOTIFICATION = "own_notification"
    """We tell."""

    NOTIFICATION = "notification"
    """The app-server tells."""

    SERVER_REQUEST = "server_request"
    """The app-server asks, we answer."""


class Scope(Enum):
    """What the message belongs to; a thread or turn message carries `threadId`."""

    CONNECTION = "connection"
    THREAD = "thread"
    TURN = "turn"


class Deadline(Enum):
    """How long a request may stay unanswered, in seconds; the value is the default of the class."""

    QUICK = 20.0
    """Reads a setting or starts something: milliseconds, so 20 s means that the peer hangs."""

    LOAD = 60.0
    """Reads or writes a rollout: a thread of many thousand items on a slow disk."""

    ACCOUNT = 45.0
    """May go to the network (token refresh, the sign-in service)."""

    NONE = 0.0
    """No answer is awaited by us: a notification, or a request of the app-server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One message of the protocol."""

    name: str
    """Name on the wire."""

    kind: Kind
    """Who speaks."""

    params: str | None
    """Name of the params type in the schema; None where there are no params."""

    result: str | None = None
    """Name of the result type; None for notifications."""

    scope: Scope
    """What the message belongs to."""

    experimental: bool = False
    """Absent from the schema without `--experimental`; needs `experimentalApi`."""

    in_schema: bool = True
    """False where the binary sends it but lists it in no message union of its schema."""

    deadline: Deadline = Deadline.NONE
    """Class of its deadline."""

    why: str
    """What Treadle does with it."""


def _ask(
    name: str,
    scope: Scope,
    deadline: Deadline,
    why: str,
    *,
    stem: str | None = None,
    params: str | None = "",
    result: str = "",
) -> Method:
    stem = stem or _stem(name)
    return Method(
        name=name,
        kind=Kind.REQUEST,
        params=f"{stem}Params" if params == "" else params,
        result=result or f"{stem}Response",
        scope=scope,
        deadline=deadline,
        why=why,
    )


def _told(
    name: str, scope: Scope, why: str, *, stem: str | None = None, in_schema: bool = True
) -> Method:
    return Method(
        name=name,
        kind=Kind.NOTIFICATION,
        params=f"{stem or _stem(name)}Notification",
        scope=scope,
        in_schema=in_schema,
        why=why,
    )


def _asked(name: str, stem: str, scope: Scope, why: str, *, experimental: bool = False) -> Method:
    return Method(
        name=name,
        kind=Kind.SERVER_REQUEST,
        params=f"{stem}Params",
        result=f"{stem}Response",
        scope=scope,
        experimental=experimental,
        why=why,
    )


def _stem(name: str) -> str:
    """Return the schema's usual stem of a name: `thread/inject_items` -> `ThreadInjectItems`."""
    return "".join(part[:1].upper() + part[1:] for part in name.replace("_", "/").split("/"))


_C, _T, _U = Scope.CONNECTION, Scope.THREAD, Scope.TURN
_QUICK, _LOAD, _ACCOUNT = Deadline.QUICK, Deadline.LOAD, Deadline.ACCOUNT
_REASONING: Final = "ReasoningSummary"

_REQUESTS: Final = (
    _ask("initialize", _C, _LOAD, "handshake; a cold start reads 150 MB"),
    _ask("thread/start", _T, _LOAD, "fresh thread of a session or rebase"),
    _ask("thread/resume", _T, _LOAD, "continue a bound thread"),
    _ask("thread/fork", _T, _LOAD, "fork a session"),
    _ask("thread/read", _T, _LOAD, "settle an unknown outcome"),
    _ask("thread/list", _C, _LOAD, "supervision of native threads"),
    _ask("thread/loaded/list", _C, _QUICK, "what is warm"),
    _ask("thread/archive", _T, _LOAD, "superseded threads"),
    _ask("thread/unarchive", _T, _LOAD, "undo an archive"),
    _ask("thread/delete", _T, _LOAD, "superseded threads after their days"),
    _ask("thread/unsubscribe", _T, _QUICK, "end of an attempt"),
    _ask("thread/name/set", _T, _QUICK, "name a thread of ours", stem="ThreadSetName"),
    _ask("thread/inject_items", _T, _LOAD, "history projection"),
    _ask("thread/revert", _T, _LOAD, "rewind; anchor way of a rebase"),
    _ask("thread/compact/start", _T, _QUICK, "native compaction"),
    _ask("thread/turns/list", _T, _LOAD, "look for an attempt id"),
    _ask("thread/items/list", _T, _LOAD, "project a lost turn"),
    _ask("turn/start", _U, _LOAD, "run a turn"),
    _ask("turn/steer", _U, _QUICK, "add to a running turn"),
    _ask("turn/interrupt", _U, _QUICK, "stop a running turn"),
    _ask("model/list", _C, _ACCOUNT, "treadle models; context windows"),
    _ask("account/read", _C, _ACCOUNT, "treadle whoami", stem="GetAccount"),
    _ask("account/login/start", _C, _ACCOUNT, "treadle login", stem="LoginAccount"),
    _ask("account/login/cancel", _C, _QUICK, "sign-in given up", stem="CancelLoginAccount"),
    _ask("account/logout", _C, _ACCOUNT, "treadle logout", stem="LogoutAccount", params=None),
    _ask("hooks/list", _C, _QUICK, "hashes by which our hooks are trusted"),
    _ask("config/read", _C, _QUICK, "doctor: stored trust, foreign settings"),
)

_NOTIFICATIONS: Final = (
    _told("error", _U, "retries and the last error of a turn"),
    _told("warning", _T, "unknown model, transcript not saved (F10)"),
    _told("configWarning", _C, "doctor, log"),
    _told("deprecationNotice", _C, "log"),
    _told("guardianWarning", _T, "shown beside the turn"),
    _told("thread/started", _T, "a thread exists"),
    _told("thread/status/changed", _T, "idle, active, systemError"),
    _told("thread/archived", _T, "supervision"),
    _told("thread/unarchived", _T, "supervision"),
    _told("thread/deleted", _T, "proof that a binding's thread is gone"),
    _told("thread/closed", _T, "unloaded: resume before the next call"),
    _told("thread/reverted", _T, "end of a rewind"),
    _told("thread/compacted", _T, "older binaries; newer send the item", stem="ContextCompacted"),
    _told("thread/tokenUsage/updated", _U, "usage; fill of the window"),
    _told("turn/started", _U, "from here on an interrupt works"),
    _told("turn/completed", _U, "end of a turn"),
    _told("turn/plan/updated", _U, "progress"),
    _told("item/started", _U, "progress"),
    _told("item/completed", _U, "mirror"),
    _told("item/agentMessage/delta", _U, "streaming", stem="AgentMessageDelta"),
    _told("item/plan/delta", _U, "streaming", stem="PlanDelta"),
    _told("item/reasoning/summaryTextDelta", _U, "streaming", stem=f"{_REASONING}TextDelta"),
    _told("item/reasoning/summaryPartAdded", _U, "streaming", stem=f"{_REASONING}PartAdded"),
    _told("item/reasoning/textDelta", _U, "streaming", stem="ReasoningTextDelta"),
    _told("item/commandExecution/outputDelta", _U, "streaming", stem="CommandExecutionOutputDelta"),
    _told("item/fileChange/outputDelta", _U, "streaming", stem="FileChangeOutputDelta"),
    _told("item/mcpToolCall/progress", _U, "progress", stem="McpToolCallProgress"),
    _told("serverRequest/resolved", _T, "a question is settled elsewhere"),
    _told("hook/started", _T, "progress"),
    _told("hook/completed", _T, "native hooks fail open (F2): watched"),
    _told("model/rerouted", _U, "another model answered than was asked"),
    _told(
        "mcpServer/startupStatus/updated", _C, "a server that failed", stem="McpServerStatusUpdated"
    ),
    _told("account/updated", _C, "signed in or out"),
    _told("account/login/completed", _C, "end of treadle login"),
    _told("account/rateLimits/updated", _C, "until when a profile is spent"),
    _told("rawResponse/completed", _U, "comes along with the raw items", in_schema=False),
    _told("rawResponseItem/completed", _U, "the raw items of decision 7", in_schema=False),
)

_SERVER_REQUESTS: Final = (
    _asked(
        "item/commandExecution/requestApproval",
        "CommandExecutionRequestApproval",
        _U,
        "approval of a command",
    ),
    _asked(
        "item/fileChange/requestApproval", "FileChangeRequestApproval", _U, "approval of a patch"
    ),
    _asked(
        "item/permissions/requestApproval",
        "PermissionsRequestApproval",
        _U,
        "approval of wider permissions",
    ),
    _asked("item/tool/requestUserInput", "ToolRequestUserInput", _U, "the model asks the person"),
    _asked(
        "mcpServer/elicitation/request",
        "McpServerElicitationRequest",
        _U,
        "an MCP server asks the person, or wants a tool approved",
    ),
    _asked("item/tool/call", "DynamicToolCall", _U, "a dynamic tool is called"),
    _asked("currentTime/read", "CurrentTimeRead", _T, "the clock", experimental=True),
)

TABLE: Final[tuple[Method, ...]] = (
    *_REQUESTS,
    Method(
        name="initialized",
        kind=Kind.OWN_NOTIFICATION,
        params=None,
        scope=Scope.CONNECTION,
        why="end of the handshake",
    ),
    *_NOTIFICATIONS,
    *_SERVER_REQUESTS,
)
"""Every message that Treadle speaks."""

BY_NAME: Final[Mapping[str, Method]] = MappingProxyType({method.name: method for method in TABLE})
"""The table by the name on the wire."""

OPT_OUT: Final[tuple[str, ...]] = (
    "thread/readState/changed",
    "thread/prediction/updated",
    "thread/goal/updated",
    "thread/goal/cleared",
    "thread/name/updated",
    "thread/settings/updated",
    "thread/queue/changed",
    "turn/diff/updated",
    "item/commandExecution/terminalInteraction",
    "item/fileChange/patchUpdated",
    "skills/changed",
    "app/list/updated",
    "project/changed",
    "remoteControl/status/changed",
    "fs/changed",
)
"""Notifications that the app-server is asked not to send: nobody reads them. Source: spec F-27."""

WHY_NOT: Final[Mapping[str, str]] = MappingProxyType({
    "app/": "connectors of a hosted service; Treadle brings dynamic tools",
    "account/": "only who is signed in; credits, workspaces and other clouds are Codex's own",
    "attestation/": "declared by no capability of ours, so never asked",
    "autoApprovalReview/": "shown when approvals arrive",
    "collaborationMode/": "the mode is sent with turn/start; its list is not needed",
    "command/": "commands belong to the model's turn, not to the client",
    "config": "written by launch flags and thread config, never into the person's file",
    "environment/": "remote environments",
    "execCommandApproval": "an approval's old name, for clients of the first protocol",
    "applyPatchApproval": "an approval's old name, for clients of the first protocol",
    "experimentalFeature/": "features are launch flags",
    "externalAgentConfig/": "import from other agents",
    "feedback/": "nothing is uploaded by itself",
    "fs/": "Treadle reads files itself",
    "fuzzyFileSearch": "an editor's need",
    "item/": "the remaining item notifications are details nobody shows yet",
    "marketplace/": "plugins of Codex",
    "mcpServer": "servers are configured per thread; their sign-in is Codex's own",
    "memory/": "memory is the context engine's",
    "mock/": "a test of the protocol's authors",
    "model/": "details of the hosted service",
    "modelProvider/": "details of the hosted service",
    "permissionProfile/": "sandboxPolicy is sent with each turn",
    "plugin/": "plugins of Codex",
    "process/": "commands belong to the model's turn, not to the client",
    "project": "projects of the desktop program",
    "remoteControl/": "remote control stays off",
    "review/": "a later issue",
    "rollout/": "Codex's own housekeeping",
    "server/": "diagnostics of the app-server",
    "skills/": "skills are Codex's own",
    "thread/": "queue, goals, sections, realtime and attachments are Treadle's own or nobody's",
    "threadSection/": "sections of the desktop program",
    "turn/": "settings go with turn/start",
    "userVerification/": "the desktop program",
    "windows": "Windows is used through WSL2",
})
"""Why a message outside the table is not spoken, by prefix of its name."""


def is_known(name: str) -> bool:
    """Whether a message of that name is in the table."""
    return name in BY_NAME


def deadline_s(name: str, request_s: float | None = None) -> float:
    """Return the deadline of a request in seconds; an unknown method gets the quick one.

    `request_s` takes the place of the longest class and bounds the others (spec S-12).
    """
    method = BY_NAME.get(name)
    known = method is not None and method.deadline is not Deadline.NONE
    own = method.deadline if method is not None and known else Deadline.QUICK
    if request_s is None:
        return float(own.value)
    return request_s if own is Deadline.LOAD else min(request_s, float(own.value))


def names(kind: Kind) -> tuple[str, ...]:
    """Return the names of one kind in the table's order."""
    return tuple(method.name for method in TABLE if method.kind is kind)
