"""Model forms: arithmetic of each part of a prediction. Kernels."""
