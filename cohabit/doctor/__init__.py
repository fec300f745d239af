"""Checks of a running deployment."""
