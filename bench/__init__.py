"""Benchmarks: what Treadle adds to a turn, measured on real processes. Imported by no room."""
