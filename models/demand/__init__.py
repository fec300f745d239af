"""Demand: what app classes will request and use, and when a pool is full."""
