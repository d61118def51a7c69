"""Floor 3: the app-server as a child process and a connection; knows no session, engine, turn."""
