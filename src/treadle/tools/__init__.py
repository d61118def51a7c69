"""Floor 3: dynamic tools: which ones a run offers, and what happens when one is called."""
