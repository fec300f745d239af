"""Statements, FOCUS exports and explained charge records."""
