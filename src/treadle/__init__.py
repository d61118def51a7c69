"""Treadle drives the real `codex app-server` under a pluggable context engine."""
