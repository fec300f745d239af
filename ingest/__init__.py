"""Bring metrics in; own their meaning and their place on disk."""
