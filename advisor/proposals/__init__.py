"""Proposals: what is put before people, what they decide, and what came of it."""
