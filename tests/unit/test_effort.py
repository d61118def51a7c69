"""The effort that is asked of Codex."""

from __future__ import annotations

import pytest

from treadle.harness.codex.effort import effort_for_wire


@pytest.mark.parametrize(
    ("effort", "model", "sent"),
    [
        (None, "gpt-6-sol", None),
        ("off", "gpt-6-sol", None),
        ("adaptive", None, None),
        ("high", "gpt-5.5", "high"),
        ("minimal", "gpt-5", "minimal"),
        ("minimal", "gpt-5-codex", "minimal"),
        ("minimal", "gpt-5.1", "low"),
        ("minimal", "gpt-5.10-mini", "low"),
        ("minimal", "gpt-6.1-sol", "low"),
        ("max", "gpt-5.5", "xhigh"),
        ("max", "gpt-5.6-luna", "max"),
        ("minimal", "scripted-1", "minimal"),
        ("max", None, "max"),
    ],
)
def test_an_effort_that_a_model_refuses_becomes_the_nearest(
    effort: str | None, model: str | None, sent: str | None
) -> None:
    """Spec F-09; report openclaw#71946: `minimal` was refused by newer models."""
    assert effort_for_wire(effort, model) == sent
