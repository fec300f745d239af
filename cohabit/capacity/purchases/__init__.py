"""Purchases: files in, orders by date out, and what changes would do."""
