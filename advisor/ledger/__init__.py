"""Ledger: what was billed, by month, in SQL: it only grows, and each entry sums to zero."""
