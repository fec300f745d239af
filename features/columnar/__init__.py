"""Columnar arithmetic: joins, keys, means, hashing, windows. Kernels."""
