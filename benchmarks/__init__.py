"""Benchmarks: `python -m benchmarks NAME` measures one thing, beside its baselines."""
