"""Commands for finance."""
