"""Commands for SREs."""
