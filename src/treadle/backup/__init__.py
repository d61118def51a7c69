"""A whole state directory, put aside while it is in use and brought back later."""
