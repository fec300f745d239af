"""Contention: how hard containers of a node press on each other. Kernels."""
