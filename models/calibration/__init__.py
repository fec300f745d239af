"""Calibration: conformal margins and the link function. Kernels."""
