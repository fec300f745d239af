"""Capacity: what nodes can offer besides what runs on them, and what apps should request."""
