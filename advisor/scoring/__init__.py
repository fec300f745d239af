"""Scoring: from predictions to a score per node."""
