"""The Codex harness: one attempt of one turn on the real app-server."""
