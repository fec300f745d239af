"""Forecasts of demand and of days to full: series, other forecasters and figures."""
