"""Commands for ML engineers."""
