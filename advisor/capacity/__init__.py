"""Capacity: what apps need and what nodes can offer, as recommendations for review. Kernels."""
