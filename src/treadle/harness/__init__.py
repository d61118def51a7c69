"""Floor 5: one attempt of one turn, and the engine calls that every harness makes round it."""
