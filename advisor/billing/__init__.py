"""Billing: pricing, charge records, adjustments, ledger, budgets, quotes."""
