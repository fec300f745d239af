"""App profiles: usage, sensitivity, priors for new apps. Kernels."""
