"""The runtime service behind a socket: frames, requests, the server, the client that attaches."""
