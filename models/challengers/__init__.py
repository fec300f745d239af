"""Challenger models and their comparison."""
