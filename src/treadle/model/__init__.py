"""Floor 1: data and pure text. Imports nothing of ours and does no I/O."""
