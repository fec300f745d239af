"""Capacity: what nodes can offer and what apps need, as recommendations for review. Kernels."""
