"""Command line, settings and long-running processes: the only place where everything is wired together."""
