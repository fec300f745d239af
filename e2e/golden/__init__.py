"""Documented configurations of exporters, run on the exporters' own golden data."""
