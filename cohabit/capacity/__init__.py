"""Capacity: what nodes can offer and what apps should request, from a lake."""
