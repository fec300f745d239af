"""The terminal: console, options, tables."""
