"""End-to-end tests with the real programs of others; each has a command of its own and none runs in CI."""
