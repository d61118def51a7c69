"""Say how much thinking to ask Codex for, in a word that the model takes.

Pure. Knows only what a model is called: its catalog is the app-server's. Source: spec F-09.
"""

from __future__ import annotations

import re
from typing import Final

_LEFT_TO_THE_MODEL: Final = frozenset({"off", "adaptive"})

_VERSION: Final = re.compile(r"gpt-(\d{1,3})(?:\.(\d{1,3}))?(?![\d.])")
"""How the models that Codex itself knows are called."""

_NO_MINIMAL: Final = (5, 1)
"""From this version on `minimal` is refused. Source: openai/codex catalog of 0.163, issue 71946."""

_MAX: Final = (5, 6)
"""From this version on there is `max`; before, `xhigh` is the most."""


def effort_for_wire(effort: str | None, model: str | None) -> str | None:
    """Return the effort to send; None leaves it to the model.

    A model whose name tells no version gets the word as it is.
    """
    if effort is None or effort in _LEFT_TO_THE_MODEL:
        return None
    found = _VERSION.match(model or "")
    if found is None:
        return effort
    version = (int(found.group(1)), int(found.group(2) or 0))
    if effort == "minimal" and version >= _NO_MINIMAL:
        return "low"
    if effort == "max" and version < _MAX:
        return "xhigh"
    return effort
