"""Bytes of one wire format to typed rows and reasoned rejects; one module a format."""
