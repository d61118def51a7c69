"""Floor 3: named points at which plugins look at a run or change it."""
