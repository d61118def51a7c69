"""The dynamic tools that Treadle itself brings."""
