"""What is said in the handshake, and what the app-server says of itself; pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from treadle.model.json import JsonObject
from treadle.protocol.methods import OPT_OUT
from treadle.wire.binary import Version, check_version, parse_version

_AGENT: Final = re.compile(r"[^/]*/(\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo:
    """What the app-server said of itself."""

    user_agent: str
    version: Version
    version_text: str
    codex_home: str
    warning: str | None
    """Set if it is newer than any that was tried."""


def initialize_params(client_version: str) -> JsonObject:
    """Return the params of `initialize`. Source: spec F-27, facts section 1."""
    return {
        "clientInfo": {"name": "treadle", "title": "Treadle", "version": client_version},
        "capabilities": {"experimentalApi": True, "optOutNotificationMethods": list(OPT_OUT)},
    }


def info_from_answer(answer: JsonObject) -> ServerInfo:
    """Read the answer. Raises: VersionUnsupported if old, malformed or missing (spec F-26)."""
    agent = str(answer.get("userAgent") or "")
    match = _AGENT.match(agent)
    version, text = parse_version(match.group(1) if match else "")
    return ServerInfo(
        user_agent=agent,
        version=version,
        version_text=text,
        codex_home=str(answer.get("codexHome") or ""),
        warning=check_version(version, text),
    )
