"""Pricing: what a pool's hours cost each container. Kernels."""
