"""Soak: a whole line under a live cluster for an hour: memory that stays, no errors, answers as fast at the end."""
