"""Floor 2: the app-server spoken purely, as bytes and JSON values. Does no I/O."""
