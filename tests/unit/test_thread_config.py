"""What a thread is told of its provider and window."""

from __future__ import annotations

from treadle.harness.codex.launch import ProviderLaunch, thread_config


def test_an_address_for_openai_takes_the_place_of_the_official_one() -> None:
    """Issue 2 done-when 7: `openai` is reserved in Codex and keeps Codex's own sign-in."""
    config = thread_config(ProviderLaunch(id="openai", base_url="http://127.0.0.1:9/v1"))
    assert config["openai_base_url"] == "http://127.0.0.1:9/v1"
    assert "model_providers" not in config


def test_a_configured_window_reaches_codex_and_another_one_is_left_to_it() -> None:
    """Facts section 2: `model_context_window` per thread."""
    assert thread_config(None, window=32_000)["model_context_window"] == 32_000
    assert "model_context_window" not in thread_config(None)
