"""Remedies: what can be done for who suffers, what each costs and saves."""
