"""Training rows, as of each decision, and the same features online. Kernels."""
