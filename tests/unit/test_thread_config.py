"""What every native thread is configured with."""

from __future__ import annotations

from treadle.harness.codex.launch import thread_config


def test_no_feature_of_codex_is_switched_on_for_a_thread() -> None:
    """Spec F-24: code mode is the model's choice; measured, see docs/how-it-works.md."""
    config = thread_config(None)
    sent = {key: value for key, value in config.items() if key.startswith("features")}
    assert sent == {
        "features.shell_snapshot": False,
        "features.unbounded_connection_retries": False,
    }
