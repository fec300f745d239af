"""Placement advice: prioritizer, assumed pods, reservations, exploration."""
