"""Interference adjustments: rebates and surcharges that sum to zero."""
