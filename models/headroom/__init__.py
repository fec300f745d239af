"""Peaks of nodes: what residents will use at most until a horizon."""
