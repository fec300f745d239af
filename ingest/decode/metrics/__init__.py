"""Metric names of other exporters, and the columns and identities they map to."""
