"""Errors of the soak."""


class SoakFailed(Exception):
    """Something did not do what it has to; the message says what."""
