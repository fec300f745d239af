"""The command line, by reader."""
