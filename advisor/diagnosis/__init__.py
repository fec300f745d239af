"""Diagnosis: slowed containers, their antagonists with confidence, and slowdowns without one. Kernels."""
