"""Budgets: limits, forecasts, status."""
