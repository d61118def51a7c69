"""Old keys and names: each is taken for what it means today, with a warning that says so.

Pure. Source: spec A-05, A-06, V-12, V-18, V-30, V-33, decision 21.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from treadle.config.document import Document
from treadle.config.reading import KeyPath, dotted

CODEX: Final[KeyPath] = ("plugins", "entries", "codex", "config")
APP_SERVER: Final[KeyPath] = (*CODEX, "appServer")

OLD_VARIABLES: Final[Mapping[str, KeyPath]] = {
    "OPENCLAW_CODEX_APP_SERVER_BIN": (*APP_SERVER, "command"),
    "OPENCLAW_CODEX_APP_SERVER_ARGS": (*APP_SERVER, "args"),
    "OPENCLAW_CODEX_APP_SERVER_MODE": (*APP_SERVER, "mode"),
    "OPENCLAW_CODEX_APP_SERVER_APPROVAL_POLICY": (*APP_SERVER, "approvalPolicy"),
    "OPENCLAW_CODEX_APP_SERVER_SANDBOX": (*APP_SERVER, "sandbox"),
}
"""Read with a warning. Source: spec V-18."""

RETIRED_VARIABLES: Final = ("OPENCLAW_CODEX_APP_SERVER_GUARDIAN",)
"""Ignored with a warning. Source: spec V-30."""

_RUNTIMES: Final = {"openclaw": "openclaw", "pi": "openclaw", "codex": "codex", "auto": "auto"}

Warn = Callable[[KeyPath, str], None]


def migrate(document: Document, warn: Warn) -> str | None:
    """Rewrite old keys in place and return the old default runtime, if there is a usable one."""
    _agents_list(document, warn)
    runtime = _whole_agent_runtime(document, warn)
    _projection(document, warn)
    _supervisor(document, warn)
    _idle_timeouts(document, warn)
    _codex_models(document, warn)
    return runtime


def _agents_list(document: Document, warn: Warn) -> None:
    at = ("agents", "list")
    listed = document.get(at)
    if not isinstance(listed, list):
        return
    warn(at, "is old; write [agents.entries.<id>]")
    for number, one in enumerate(listed):
        agent_id = one.get("id") if isinstance(one, dict) else None
        if not isinstance(agent_id, str):
            warn(at, f"entry {number + 1} has no id and is ignored")
            continue
        origin = document.where((*at, str(number)))
        for name, value in one.items():
            new = ("agents", "entries", agent_id, name)
            if name not in {"id", "default"} and document.get(new) is None:
                document.put(new, value, origin)
        if document.get(("agents", "entries", agent_id)) is None:
            document.put(("agents", "entries", agent_id), {}, origin)
    document.pop(at)


def _whole_agent_runtime(document: Document, warn: Warn) -> str | None:
    found: str | None = None
    for name in ("agentRuntime", "embeddedHarness"):
        at = ("agents", "defaults", name)
        value = document.get(at)
        if value is None:
            continue
        word = value if isinstance(value, str) else _of(value, "id", "runtime")
        usable = _RUNTIMES.get(word) if isinstance(word, str) else None
        warn(
            at,
            "is old; write models.providers.<id>.agentRuntime.id. "
            + (
                f'Until then "{usable}" holds where no provider or model names a runtime'
                if usable
                else f"Its value is ignored; allowed: {', '.join(_RUNTIMES)}"
            ),
        )
        found = found or usable
        document.pop(at)
    _single_agents_runtime(document, warn)
    return found


def _single_agents_runtime(document: Document, warn: Warn) -> None:
    entries = document.get(("agents", "entries"))
    for agent_id in list(entries) if isinstance(entries, dict) else ():
        for name in ("agentRuntime", "embeddedHarness"):
            at = ("agents", "entries", agent_id, name)
            if document.get(at) is not None:
                warn(at, "is old and ignored; write models.providers.<id>.agentRuntime.id")
                document.pop(at)


def _of(value: object, *names: str) -> object:
    if not isinstance(value, dict):
        return None
    return next((value[name] for name in names if name in value), None)


def _projection(document: Document, warn: Warn) -> None:
    """Read `codex.projection…` and `codex.keepSupersededDays` as what they mean (decision 21)."""
    target = (*CODEX, "projection")
    if isinstance(document.get(target), str):
        document.put((*target, "mode"), document.pop(target), document.where(target))
    for place in (("codex",), ("plugins", "entries", "codex"), CODEX):
        days = (*place, "keepSupersededDays")
        if document.get(days) is not None:
            warn(days, f"is read as {dotted((*target, 'keepSupersededDays'))}")
            document.move(days, (*target, "keepSupersededDays"))
    for place in (("codex",), ("plugins", "entries", "codex")):
        projection = (*place, "projection")
        value = document.get(projection)
        if value is None:
            continue
        warn(projection, f"is read as {dotted(target)}")
        document.move(projection, (*target, "mode") if isinstance(value, str) else target)
    if document.get(("codex",)) == {}:
        document.pop(("codex",))


def _supervisor(document: Document, warn: Warn) -> None:
    old = ("plugins", "entries", "codex-supervisor")
    value = document.get(old)
    if not isinstance(value, dict):
        return
    new = (*CODEX, "supervision")
    warn(old, f"is old; write {dotted(new)}")
    if isinstance(value.get("config"), dict):
        document.move((*old, "config"), new)
    if isinstance(value.get("enabled"), bool):
        document.move((*old, "enabled"), (*new, "enabled"))
    document.pop(old)


def _idle_timeouts(document: Document, warn: Warn) -> None:
    for place in (APP_SERVER, CODEX):
        table = document.get(place)
        for name in list(table) if isinstance(table, dict) else ():
            if re.fullmatch(r"\w*[iI]dleTimeoutMs", name):
                at = (*place, name)
                warn(at, "is retired and ignored: a turn ends when Codex says so, not by silence")
                document.pop(at)


def _codex_models(document: Document, warn: Warn) -> None:
    entries = document.get(("agents", "entries"))
    places: list[KeyPath] = [("agents", "defaults", "model")]
    if isinstance(entries, dict):
        places.extend(("agents", "entries", agent_id, "model") for agent_id in entries)
    for at in places:
        model = document.get(at)
        if isinstance(model, str) and model.startswith("codex/"):
            name = model.removeprefix("codex/")
            warn(
                at,
                f'"{model}" is an old form and still runs on codex; write "openai/{name}" and '
                'models.providers.openai.agentRuntime.id = "codex"',
            )
