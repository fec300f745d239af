"""Capacity: what nodes can offer, and what apps should request, from the tables of a lake."""
