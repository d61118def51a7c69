"""Floor 3, pure: the engine's decision in Codex's terms, and Codex's items back as entries."""
