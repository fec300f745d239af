"""Data sets, imputation and splits."""
