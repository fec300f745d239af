"""Metrics: errors, ranks, curves, noise floor, baselines."""
