"""Pages for finance: bills, prices, quotes."""
