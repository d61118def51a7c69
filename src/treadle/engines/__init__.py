"""Floor 3: context engines: finding them, guarding them, and the two that Treadle brings."""
