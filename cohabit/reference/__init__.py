"""Reference: pages of documentation that are written from the code, so that they cannot be behind it."""
