"""Demand: what containers that are there, and apps, used in the past."""
