"""The optimiser's problem: constraints, objective, validation. Kernels."""
