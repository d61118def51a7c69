"""The offline model: a Responses-compatible model on loopback that needs no key.

It answers from what is in its context and from nothing else, so a demo shows truthfully whether
the context reached it. Knows nothing of sessions, engines or Codex.
"""
