"""Pricing: what each team pays for what it reserved, used and did to others, to the last unit."""
