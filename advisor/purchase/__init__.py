"""Purchases: which machines, how many of each, and how far their cost is from the least possible. Kernels."""
