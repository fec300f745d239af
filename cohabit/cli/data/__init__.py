"""Commands for data engineers."""
