"""The server: workers, sockets, reload."""
