"""Evaluation protocols, scorecard, parity and promotion gate."""
