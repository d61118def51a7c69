"""Named one-line changes of the source, each of which must turn a test red that names its id.

`scripts/break` makes them, one at a time, in a copy of `src`. `tests/unit/test_breakages.py` holds
that each still fits the source. Knows nothing of how tests are run.
"""
