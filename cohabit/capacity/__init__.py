"""Capacity: recommendations of requests from a lake, and the files that people review them in."""
