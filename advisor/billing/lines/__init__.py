"""Charge records, money and FOCUS."""
